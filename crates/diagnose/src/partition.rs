//! Whether sections under one lock use the same data: pairs of sections that conflict, and the parts into which the data
//! fall.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{Region, SectionSample, Touch};

use crate::data::{data, variable};
use crate::objects::Objects;
use crate::rows::{Part, Partition, PartitionBy};
use crate::shares::SharingView;
use crate::stats::Share;

/// Sections that are compared with one another, at most.
const COMPARED: usize = 192;
/// Pairs that are needed.
const MIN_PAIRS: u64 = 30;
/// A word that this share of the sections touches joins parts that are apart otherwise: a counter, a size. If there is
/// one, those that are touched nearly as often belong to it: the ends of a list.
const COMMON: f64 = 0.5;
/// No less than this share, though, and no more of them that are written: one of four elements is a part.
const COMMON_LEAST: f64 = 0.3;
const COMMON_WORDS: usize = 8;
const PARTS: usize = 5;

/// What the sections of one lock have in common.
#[derive(Debug, Clone, Default)]
pub(crate) struct Together {
    pub(crate) conflicts: Option<Share>,
    /// Without the words that most sections touch, if there are few of them.
    pub(crate) apart_from_common: Option<Share>,
    /// Of the accesses of shared words, those of the words that most sections touch.
    pub(crate) common_accesses: f64,
    pub(crate) partition: Option<Partition>,
}

/// Samples of one lock, of all places where it is taken.
pub(crate) fn together(eyes: &SharingView<'_>, samples: &[&SectionSample]) -> Together {
    // The two that hold a family's different locks exclude nobody.
    let some = spread(samples);
    let sets: Vec<Vec<(u32, bool)>> = some.iter().map(|sample| shared_set(eyes, sample)).collect();
    let common = common_words(&some, &sets);
    let none = BTreeSet::new();
    let conflicts = pairs(&some, &sets, &none);
    let words = sets.iter().flatten();
    let written = words.filter(|(word, written)| *written && common.contains(word));
    let written: BTreeSet<u32> = written.map(|(word, _)| *word).collect();
    let apart = (!common.is_empty() && written.len() <= COMMON_WORDS)
        .then(|| pairs(&some, &sets, &common))
        .flatten();
    let without = if apart.is_some() { &common } else { &none };
    Together {
        conflicts,
        apart_from_common: apart,
        common_accesses: common_accesses(eyes, &some, &common),
        partition: partition(eyes, &some, &sets, without),
    }
}

/// So many of them, from everywhere: multiples of the golden ratio fill a circle evenly (Weyl). Every second one of threads that
/// take turns would be one thread's.
fn spread<'s>(samples: &[&'s SectionSample]) -> Vec<&'s SectionSample> {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let on_circle = |ix: &u64| ix.wrapping_mul(GOLDEN);
    let mut order: Vec<u64> = (0..samples.len() as u64).collect();
    order.sort_by_key(on_circle);
    order.truncate(COMPARED);
    order.sort_unstable();
    let picked = order.iter().filter_map(|&ix| samples.get(ix as usize));
    picked.copied().collect()
}

/// Shared words and whether they are written, by word.
fn shared_set(eyes: &SharingView<'_>, sample: &SectionSample) -> Vec<(u32, bool)> {
    let of = |touch: &Touch| (touch.word, touch.writes > 0);
    let mut set: Vec<(u32, bool)> = eyes.shared(sample).map(of).collect();
    set.sort_unstable();
    set
}

/// The words that most sections touch: in order of how many do, those before the largest step down.
fn common_words(samples: &[&SectionSample], sets: &[Vec<(u32, bool)>]) -> BTreeSet<u32> {
    let all: f64 = samples.iter().map(|sample| sample.weight as f64).sum();
    let mut touched: BTreeMap<u32, f64> = BTreeMap::new();
    for (sample, set) in samples.iter().zip(sets) {
        for (word, _) in set {
            *touched.entry(*word).or_default() += sample.weight as f64 / all;
        }
    }
    let mut words: Vec<(u32, f64)> = touched.into_iter().collect();
    words.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let certain = words.partition_point(|(_, share)| *share >= COMMON);
    let possible = words.partition_point(|(_, share)| *share >= COMMON_LEAST);
    if certain == 0 {
        return BTreeSet::new();
    }
    let share = |ix: usize| words.get(ix).map_or(0.0, |(_, share)| *share);
    // One section of those that were compared is the smallest step that there is.
    let least = 1.0 / samples.len().max(1) as f64;
    let step = |end: &usize| share(end - 1) / share(*end).max(least);
    let end = (certain..=possible).max_by(|a, b| step(a).total_cmp(&step(b)));
    let common = words.into_iter().take(end.unwrap_or(certain));
    common.map(|(word, _)| word).collect()
}

fn common_accesses(
    eyes: &SharingView<'_>,
    samples: &[&SectionSample],
    common: &BTreeSet<u32>,
) -> f64 {
    let (mut all, mut of_common) = (0.0, 0.0);
    for sample in samples {
        for touch in eyes.shared(sample) {
            let accesses = f64::from(touch.reads) + f64::from(touch.writes);
            all += accesses * sample.weight as f64;
            if common.contains(&touch.word) {
                of_common += accesses * sample.weight as f64;
            }
        }
    }
    if all > 0.0 {
        of_common / all
    } else {
        0.0
    }
}

/// Of the pairs of sections of different threads on the same lock, those that touch one word, one of them writing.
fn pairs(
    samples: &[&SectionSample],
    sets: &[Vec<(u32, bool)>],
    without: &BTreeSet<u32>,
) -> Option<Share> {
    let mut items = Vec::new();
    for (i, (a, a_set)) in samples.iter().zip(sets).enumerate() {
        for (b, b_set) in samples.iter().zip(sets).skip(i + 1) {
            if a.thread != b.thread && a.object == b.object {
                let weight = a.weight.saturating_mul(b.weight).max(1);
                items.push((conflict(a_set, b_set, without), weight));
            }
        }
    }
    if (items.len() as u64) < MIN_PAIRS {
        return None;
    }
    let mut share = Share::of(items.iter().copied());
    // Pairs are not independent of one another: the interval is that of the sections.
    let single = Share::of(samples.iter().enumerate().map(|(ix, sample)| {
        let yes = (ix as f64 + 0.5) / samples.len() as f64 <= share.share;
        (yes, sample.weight)
    }));
    share.low = share.low.min(single.low).min(share.share);
    share.high = share.high.max(single.high).max(share.share);
    Some(share)
}

fn conflict(a: &[(u32, bool)], b: &[(u32, bool)], without: &BTreeSet<u32>) -> bool {
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        match x.0.cmp(&y.0) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                if (x.1 || y.1) && !without.contains(&x.0) {
                    return true;
                }
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    false
}

/// The parts, over all words; if memory that is handed out again joins them, over those of variables.
fn partition(
    eyes: &SharingView<'_>,
    samples: &[&SectionSample],
    sets: &[Vec<(u32, bool)>],
    without: &BTreeSet<u32>,
) -> Option<Partition> {
    parts(eyes, samples, sets, without).or_else(|| {
        let of_variable = |word: &u32| {
            eyes.word(*word)
                .is_some_and(|word| word.region == Region::Global)
        };
        let keep = |set: &Vec<(u32, bool)>| {
            set.iter()
                .copied()
                .filter(|(word, _)| of_variable(word))
                .collect()
        };
        let fewer: Vec<Vec<(u32, bool)>> = sets.iter().map(keep).collect();
        eyes.allocates
            .then(|| parts(eyes, samples, &fewer, without))?
    })
}

/// Words that are in one section are in one part.
fn parts(
    eyes: &SharingView<'_>,
    samples: &[&SectionSample],
    sets: &[Vec<(u32, bool)>],
    without: &BTreeSet<u32>,
) -> Option<Partition> {
    let mut parent: BTreeMap<u32, u32> = BTreeMap::new();
    for set in sets {
        let mut words = set
            .iter()
            .map(|(word, _)| *word)
            .filter(|word| !without.contains(word));
        let Some(first) = words.next() else { continue };
        let root = find(&mut parent, first);
        for word in words {
            let other = find(&mut parent, word);
            parent.insert(other, root);
        }
    }
    let members: Vec<u32> = parent.keys().copied().collect();
    let mut parts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    // In order of the words, so that they can be searched.
    for word in members {
        let root = find(&mut parent, word);
        parts.entry(root).or_default().push(word);
    }
    if parts.len() < 2 {
        return None;
    }
    let all: f64 = samples.iter().map(|sample| sample.weight as f64).sum();
    let mut places: BTreeMap<u32, BTreeMap<u32, f64>> = BTreeMap::new();
    let mut weights: BTreeMap<u32, f64> = BTreeMap::new();
    for (sample, set) in samples.iter().zip(sets) {
        let word = set
            .iter()
            .map(|(word, _)| *word)
            .find(|word| !without.contains(word));
        if let Some(word) = word {
            let root = find(&mut parent, word);
            let weight = sample.weight as f64 / all;
            *weights.entry(root).or_default() += weight;
            let of_root = places.entry(root).or_default();
            *of_root.entry(sample.site).or_default() += weight;
        }
    }
    // Of two sections, those that no part has both of: what touches nothing of a part is in nobody's way.
    let together: f64 = weights.values().map(|weight| weight * weight).sum();
    let mut largest: Vec<(&u32, &Vec<u32>)> = parts.iter().collect();
    let weight = |root: &u32| weights.get(root).copied().unwrap_or(0.0);
    largest.sort_by(|a, b| weight(b.0).total_cmp(&weight(a.0)).then(a.0.cmp(b.0)));
    let of_several: BTreeSet<&u32> = places.values().flat_map(BTreeMap::keys).collect();
    let own_places = places.values().map(BTreeMap::len).sum::<usize>() == of_several.len();
    let objects = Objects::of(eyes, samples, |word| parent.contains_key(&word));
    let most_at = |root: &u32| {
        let places = places.get(root).into_iter().flatten();
        let most = places.max_by(|a, b| a.1.total_cmp(b.1));
        let site = eyes.sections.sites.get(*most?.0 as usize)?;
        Some(site.site)
    };
    let name = |words: &Vec<u32>| {
        let rows = data(eyes, samples, |word| words.binary_search(&word).is_ok());
        rows.first()
            .map_or_else(String::new, |row| row.name.clone())
    };
    Some(Partition {
        parts: parts.len(),
        separated: 1.0 - together,
        largest: largest
            .iter()
            .take(PARTS)
            .map(|(root, words)| Part {
                name: name(words),
                words: words.len(),
                bytes: bytes(&objects, words),
                sections: weight(root),
                at: most_at(root),
            })
            .collect(),
        common: data(eyes, samples, |word| without.contains(&word)),
        by: by(eyes, &objects, &parts, own_places),
    })
}

/// What tells the parts apart. `own_places`: each is of places that use no other one.
fn by(
    eyes: &SharingView<'_>,
    objects: &Objects,
    parts: &BTreeMap<u32, Vec<u32>>,
    own_places: bool,
) -> PartitionBy {
    // Which object or variable each word is of.
    let whose = |word: &u32| {
        let symbol = eyes.word(*word).and_then(|word| word.symbol.as_deref());
        let object = objects.get(*word).map(|(number, _)| number);
        (object.is_some() || symbol.is_some()).then(|| (object, symbol.map(variable)))
    };
    let of_part = |words: &Vec<u32>| words.iter().map(whose).collect::<Option<BTreeSet<_>>>();
    let sets: Option<Vec<_>> = parts.values().map(of_part).collect();
    let sets = sets.unwrap_or_default();
    let different: BTreeSet<_> = sets.iter().flatten().collect();
    let apart = sets.iter().map(BTreeSet::len).sum::<usize>() == different.len();
    let allocated = different.iter().all(|(object, _)| object.is_some());
    match own_places {
        true if different.len() == 1 => PartitionBy::Field,
        true => PartitionBy::Place,
        false if apart && allocated && !different.is_empty() => PartitionBy::Object,
        false => PartitionBy::Element,
    }
}

/// Of the largest object among these words; 0 = there is none.
fn bytes(objects: &Objects, words: &[u32]) -> u64 {
    let of = |word: &u32| Some(objects.get(*word)?.1.bytes());
    words.iter().filter_map(of).max().unwrap_or(0)
}

/// The one that a word is united with.
pub(crate) fn find(parent: &mut BTreeMap<u32, u32>, word: u32) -> u32 {
    let mut at = word;
    loop {
        let up = *parent.entry(at).or_insert(at);
        if up == at {
            break;
        }
        at = up;
    }
    parent.insert(word, at);
    at
}
