//! Allocated memory, word by word, as objects.
//!
//! An instruction reaches a field of an object by the address in a register and a displacement. Words that the same address
//! leads to are one object: of what type it is, and how large, is not known. Words that are reached in other ways, such as
//! elements of an array by their index, are of no object.

use std::collections::BTreeMap;

use convoy_model::{ProcessId, Region, SectionSample, Touch};

use crate::partition::find;
use crate::shares::SharingView;
use crate::text::frame;

/// Displacements of fields. Beyond them they are addresses of arrays, and the register has an index.
const FIELDS: std::ops::Range<i32> = -0x1000..0x1_0000;

/// Objects in the words of some sections.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    all: Vec<Object>,
    of_word: BTreeMap<u32, usize>,
}

/// Allocated memory that sections reach by one address, or by a few that lie in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    /// "allocated at LINE" or "that LINE reaches".
    pub(crate) from: String,
    /// The first and the last word that was touched, as offsets (bytes).
    pub(crate) fields: (i64, i64),
}

impl Objects {
    /// The objects of the words that `of` picks.
    pub(crate) fn of(
        eyes: &SharingView<'_>,
        samples: &[&SectionSample],
        of: impl Fn(u32) -> bool,
    ) -> Self {
        let mut found = Found::default();
        for sample in samples {
            for touch in sample.touches.iter().filter(|touch| of(touch.word)) {
                found.add(eyes, touch, sample.weight);
            }
        }
        found.join()
    }

    /// The object that a word is of.
    pub(crate) fn get(&self, word: u32) -> Option<(usize, &Object)> {
        let at = *self.of_word.get(&word)?;
        Some((at, self.all.get(at)?))
    }
}

impl Object {
    /// From the first to the last byte that was touched, in whole words.
    pub(crate) fn bytes(&self) -> u64 {
        self.fields.1.saturating_sub(self.fields.0).unsigned_abs() + 8
    }
}

/// "+0x18", or "+0x8..+0x18".
pub(crate) fn fields((first, last): (i64, i64)) -> String {
    let one = |field: i64| match field {
        0.. => format!("+{field:#x}"),
        _ => format!("-{:#x}", field.unsigned_abs()),
    };
    match first == last {
        true => one(first),
        false => format!("{}..{}", one(first), one(last)),
    }
}

/// Words with what is known of them.
#[derive(Debug, Default)]
struct Found {
    /// Words that are of one object lead to the same one in the end.
    parents: BTreeMap<u32, u32>,
    addresses: BTreeMap<u32, u64>,
    /// The first word that was reached from an address.
    begins: BTreeMap<(ProcessId, u64), u32>,
    /// Who asked for the object, or else who reaches the word, with how many accesses.
    asked: BTreeMap<u32, String>,
    reached: BTreeMap<u32, BTreeMap<u32, f64>>,
    lines: BTreeMap<u32, String>,
}

impl Found {
    fn add(&mut self, eyes: &SharingView<'_>, touch: &Touch, weight: u64) {
        let word = eyes.word(touch.word);
        let Some(word) = word.filter(|word| word.region == Region::Heap) else {
            return;
        };
        let by = [
            (touch.read_by, touch.reads),
            (touch.written_by, touch.writes),
        ];
        for (ix, accesses) in by {
            let row = ix.and_then(|ix| Some((ix, eyes.sections.code.get(ix as usize)?)));
            let Some((ix, row)) = row else { continue };
            let Some(field) = row.field.filter(|field| FIELDS.contains(field)) else {
                continue;
            };
            // Operands may begin within their word; what is allocated begins with one.
            let begin = word.address.wrapping_sub(i64::from(field & !7) as u64);
            let first = *self
                .begins
                .entry((word.process, begin))
                .or_insert(touch.word);
            let (own, other) = (
                find(&mut self.parents, touch.word),
                find(&mut self.parents, first),
            );
            self.parents.insert(own, other);
            self.addresses.insert(touch.word, word.address);
            let reached = self.reached.entry(touch.word).or_default();
            *reached.entry(ix).or_default() += f64::from(accesses) * weight as f64;
            self.lines.entry(ix).or_insert_with(|| {
                let line = eyes.sections.telling(row);
                line.map_or_else(String::new, frame)
            });
        }
        if let Some(line) = word
            .allocated_by
            .and_then(|ix| eyes.sections.telling_of(ix))
        {
            self.asked.entry(touch.word).or_insert_with(|| frame(line));
        }
    }

    fn join(mut self) -> Objects {
        let words: Vec<u32> = self.addresses.keys().copied().collect();
        let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for word in words {
            groups
                .entry(find(&mut self.parents, word))
                .or_default()
                .push(word);
        }
        // Where an object has several addresses, some of them lie within it.
        let mut begins: BTreeMap<u32, u64> = BTreeMap::new();
        for ((_, begin), word) in std::mem::take(&mut self.begins) {
            begins.entry(find(&mut self.parents, word)).or_insert(begin);
        }
        let of = |(root, words): (u32, Vec<u32>)| {
            let begin = begins.get(&root).copied().unwrap_or(0);
            let at = words.iter().filter_map(|word| self.addresses.get(word));
            let field =
                |address: Option<&u64>| address.map_or(0, |at| at.wrapping_sub(begin) as i64);
            let object = Object {
                from: self.from(&words),
                fields: (field(at.clone().min()), field(at.max())),
            };
            (begin, object, words)
        };
        let mut found: Vec<(u64, Object, Vec<u32>)> = groups.into_iter().map(of).collect();
        found.sort_by_key(|(begin, ..)| *begin);
        let mut objects = Objects::default();
        let mut end = None;
        for (begin, object, words) in found {
            let behind = begin.wrapping_add_signed(object.fields.1).wrapping_add(8);
            // A pointer that walks over an array leads to each element of it.
            let walked = objects.all.last_mut().filter(|last| {
                end == Some(begin) && object.fields.0 == 0 && last.from == object.from
            });
            match walked {
                Some(last) => last.fields.1 += object.fields.1 + 8,
                None => objects.all.push(object),
            }
            let number = objects.all.len() - 1;
            objects
                .of_word
                .extend(words.iter().map(|word| (*word, number)));
            end = Some(behind);
        }
        objects
    }

    fn from(&self, words: &[u32]) -> String {
        if let Some(line) = words.iter().find_map(|word| self.asked.get(word)) {
            return format!("allocated at {line}");
        }
        let mut lines: BTreeMap<&str, f64> = BTreeMap::new();
        for (ix, accesses) in words
            .iter()
            .filter_map(|word| self.reached.get(word))
            .flatten()
        {
            let line = self.lines.get(ix).map_or("", String::as_str);
            *lines.entry(line).or_default() += accesses;
        }
        let most = lines.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        match most.map_or("", |(line, _)| line) {
            "" => String::new(),
            line => format!("that {line} reaches"),
        }
    }
}
