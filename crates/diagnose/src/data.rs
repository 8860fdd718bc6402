//! Which memory sections touch.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{Region, SectionSample, SectionWord, Sharing};

use crate::objects::{fields, Object, Objects};
use crate::rows::{DataRow, RegionRow};
use crate::shares::SharingView;

/// Words of no variable that are nearer than this are one piece of memory.
const NEAR_BYTES: u64 = 64;
const ROWS: usize = 16;

/// By kind of memory, means of the sample.
pub(crate) fn regions(eyes: &SharingView<'_>, samples: &[&SectionSample]) -> Vec<RegionRow> {
    #[derive(Default)]
    struct Sum {
        words: f64,
        reads: f64,
        writes: f64,
        shared: f64,
    }
    let mut sums: BTreeMap<Region, Sum> = BTreeMap::new();
    let all: f64 = samples.iter().map(|sample| sample.weight as f64).sum();
    for sample in samples {
        let weight = sample.weight as f64 / all;
        for touch in &sample.touches {
            let Some(word) = eyes.word(touch.word) else {
                continue;
            };
            let sum = sums.entry(word.region).or_default();
            sum.words += weight;
            sum.reads += weight * f64::from(touch.reads);
            sum.writes += weight * f64::from(touch.writes);
            if eyes.is_shared(touch.word) {
                sum.shared += weight;
            }
        }
    }
    let row = |(region, sum): (Region, Sum)| RegionRow {
        region,
        words: sum.words,
        reads: sum.reads,
        writes: sum.writes,
        shared: if sum.words > 0.0 {
            sum.shared / sum.words
        } else {
            0.0
        },
    };
    sums.into_iter().map(row).collect()
}

/// Variables and pieces of memory, by the words of the samples that `of` picks, most accessed first.
pub(crate) fn data(
    eyes: &SharingView<'_>,
    samples: &[&SectionSample],
    of: impl Fn(u32) -> bool,
) -> Vec<DataRow> {
    let mut words: BTreeMap<u64, u32> = BTreeMap::new();
    for touch in samples.iter().flat_map(|sample| &sample.touches) {
        if let Some(word) = eyes.word(touch.word).filter(|_| of(touch.word)) {
            words.insert(word.address, touch.word);
        }
    }
    let objects = Objects::of(eyes, samples, &of);
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    let mut piece_of: BTreeMap<u32, usize> = BTreeMap::new();
    // Objects of the same line are one row.
    let mut of_line: BTreeMap<&str, usize> = BTreeMap::new();
    let mut before: Option<usize> = None;
    for (&address, &ix) in &words {
        let Some(word) = eyes.word(ix) else { continue };
        let variable = word.symbol.as_deref().map(variable);
        let object = objects.get(ix);
        let goes_on = |piece: &Piece<'_>| match (piece.variable, variable) {
            (Some(of), Some(variable)) => of == variable,
            (None, None) => piece.region == word.region && address - piece.end <= NEAR_BYTES,
            _ => false,
        };
        let known = match object {
            Some((_, object)) => of_line.get(object.from.as_str()).copied(),
            None => before.filter(|&at| goes_on(&pieces[at])),
        };
        let at = known.unwrap_or(pieces.len());
        if at == pieces.len() {
            pieces.push(Piece::new(word, address, variable));
        }
        pieces[at].add(word, address, eyes);
        piece_of.insert(ix, at);
        match object {
            Some((number, object)) => {
                pieces[at].add_object(number, object);
                of_line.insert(&object.from, at);
                before = None;
            }
            None => before = Some(at),
        }
    }
    let all: f64 = samples.iter().map(|sample| sample.weight as f64).sum();
    for sample in samples {
        let weight = sample.weight as f64 / all;
        let mut touched = Vec::new();
        for touch in &sample.touches {
            if let Some(&at) = piece_of.get(&touch.word) {
                pieces[at].accesses += weight * f64::from(touch.reads.saturating_add(touch.writes));
                touched.push(at);
            }
        }
        touched.sort_unstable();
        touched.dedup();
        for at in touched {
            pieces[at].sections += weight;
        }
    }
    pieces.sort_by(|a, b| b.accesses.total_cmp(&a.accesses));
    pieces.iter().take(ROWS).map(Piece::row).collect()
}

/// The variable of "name+0x10".
pub(crate) fn variable(symbol: &str) -> &str {
    symbol.rsplit_once("+0x").map_or(symbol, |(name, _)| name)
}

struct Piece<'a> {
    variable: Option<&'a str>,
    symbol: Option<&'a str>,
    region: Region,
    end: u64,
    words: u64,
    /// Which objects they are of: numbers, what their line is, and the first and last field of any.
    objects: BTreeSet<usize>,
    from: Option<&'a str>,
    fields: (i64, i64),
    sharing: Option<Sharing>,
    sections: f64,
    accesses: f64,
}

impl<'a> Piece<'a> {
    fn new(word: &'a SectionWord, address: u64, variable: Option<&'a str>) -> Self {
        Self {
            variable,
            symbol: word.symbol.as_deref(),
            region: word.region,
            end: address,
            words: 0,
            objects: BTreeSet::new(),
            from: None,
            fields: (i64::MAX, i64::MIN),
            sharing: None,
            sections: 0.0,
            accesses: 0.0,
        }
    }

    fn add(&mut self, word: &SectionWord, address: u64, eyes: &SharingView<'_>) {
        self.end = address + 8;
        self.words += 1;
        self.sharing = self.sharing.max(eyes.sharing(word));
    }

    fn add_object(&mut self, number: usize, object: &'a Object) {
        self.objects.insert(number);
        self.from = Some(&object.from);
        let (first, last) = object.fields;
        self.fields = (self.fields.0.min(first), self.fields.1.max(last));
    }

    /// "field +0x18 of 3 heap objects that get() cache.c:12 reaches"
    fn object_name(&self, from: &str) -> String {
        let fields = match self.fields {
            (first, last) if first == last => format!("field {}", fields(self.fields)),
            _ => fields(self.fields),
        };
        let objects = match self.objects.len() {
            1 => "the heap object".to_owned(),
            n => format!("{n} heap objects"),
        };
        format!("{fields} of {objects} {from}")
            .trim_end()
            .to_owned()
    }

    fn row(&self) -> DataRow {
        let words = match self.words {
            1 => "1 word".to_owned(),
            n => format!("{n} words"),
        };
        let memory = match self.region {
            Region::Heap => "heap",
            Region::Global => "global data",
            Region::Stack => "a thread's stack",
            Region::ThreadLocal => "thread-local data",
            Region::Lock => "the lock",
        };
        DataRow {
            name: match (self.from, self.variable, self.symbol) {
                (Some(from), ..) => self.object_name(from),
                (None, Some(_), Some(symbol)) if self.words == 1 => symbol.to_owned(),
                (None, Some(variable), _) => format!("{variable}, {words}"),
                (None, None, _) => format!("{memory}, {words}"),
            },
            region: self.region,
            words: self.words,
            sections: self.sections,
            accesses: self.accesses,
            sharing: self.sharing.unwrap_or(Sharing::Local),
        }
    }
}
