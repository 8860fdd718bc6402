//! Locksets by data: one auxiliary lock for words on which sections truly conflict.

use std::collections::{BTreeMap, BTreeSet};

use convoy_trace::{ObjectIx, ThreadIx};
use rustc_hash::FxHashMap;

use super::plan::{AuxIx, AuxLock, AuxUse, KeptReason, LockPlan};
use crate::sections::{SectionIx, Sections};
use crate::sets::{Access, SampleIx, WordIx, NO_SAMPLE};
use crate::ulcp::{Classifier, Order};

/// A lock stays as it is if the sets of one in so many of its sections or more are not known.
const UNKNOWN_LIMIT: usize = 20;

/// Samples of which pairs are noted, at most: a byte a pair. With more, no pattern is spared.
const MAX_COMPARED: usize = 4096;

/// Number of a sample among those of the lock.
type Local = u32;

pub(super) fn plan(
    plan: &mut LockPlan,
    sections: &Sections,
    classifier: &mut Classifier<'_>,
    lock: ObjectIx,
    of_lock: &[SectionIx],
) {
    classifier.focus(of_lock);
    let conflicts = Conflicts::of(sections, classifier, of_lock);
    let unknown = of_lock.len() - conflicts.known;
    if unknown * UNKNOWN_LIMIT >= of_lock.len() && unknown > 0 {
        plan.keep(lock, of_lock.len(), KeptReason::UnknownSets);
        return;
    }
    if unknown > 0 {
        plan.keep(lock, unknown, KeptReason::UnknownSections);
    }
    let cover = conflicts.cover(classifier);
    let any_shared = of_lock
        .iter()
        .any(|ix| sections.get(*ix).is_some_and(|it| it.shared));
    let has_readers = |pattern: &Pattern| any_shared || pattern.iter().any(|(_, writes)| !writes);
    // A single lock that all take exclusively is the recorded one.
    let is_recorded = matches!(cover.as_slice(), [only] if !has_readers(only));
    let mut uses: BTreeMap<Local, Vec<AuxUse>> = BTreeMap::new();
    for pattern in &cover {
        let aux = plan.aux.len() as AuxIx;
        for (local, writes) in pattern {
            let shared = !writes;
            uses.entry(*local).or_default().push(AuxUse { aux, shared });
        }
        if !is_recorded {
            plan.aux.push(AuxLock {
                of: lock,
                has_readers: has_readers(pattern),
            });
        }
    }
    let mut lists: FxHashMap<SampleIx, u32> = FxHashMap::default();
    for (local, sample) in conflicts.samples.iter().enumerate() {
        let uses = uses.remove(&(local as Local)).unwrap_or_default();
        if uses.is_empty() || !is_recorded {
            lists.insert(*sample, plan.add_list(uses));
        }
    }
    for &ix in of_lock {
        if let Some(&list) = lists.get(&classifier.sample_of(ix)) {
            plan.assign(ix, list);
        }
    }
}

/// Samples that access a word, ascending, and whether they write it.
type Pattern = Vec<(Local, bool)>;

/// Who accesses what under one lock.
struct Conflicts {
    /// Samples whose sets are known whole.
    samples: Vec<SampleIx>,
    /// By sample: its only thread, or `None` if sections of several threads have its sets.
    threads: Vec<Option<ThreadIx>>,
    words: BTreeMap<WordIx, Vec<(Local, Access)>>,
    /// Sections whose sets are known whole.
    known: usize,
}

impl Conflicts {
    fn of(sections: &Sections, classifier: &Classifier<'_>, of_lock: &[SectionIx]) -> Self {
        let mut threads: FxHashMap<SampleIx, Option<ThreadIx>> = FxHashMap::default();
        let mut known = 0;
        for &ix in of_lock {
            let sample = classifier.sample_of(ix);
            let is_complete = classifier
                .sets()
                .sample(sample)
                .is_some_and(|it| it.complete);
            let Some(section) = sections.get(ix).filter(|_| is_complete) else {
                continue;
            };
            debug_assert_ne!(sample, NO_SAMPLE);
            known += 1;
            let only = threads.entry(sample).or_insert(Some(section.thread));
            if *only != Some(section.thread) {
                *only = None;
            }
        }
        let mut threads: Vec<(SampleIx, Option<ThreadIx>)> = threads.into_iter().collect();
        threads.sort_unstable();
        let (samples, threads): (Vec<SampleIx>, _) = threads.into_iter().unzip();
        let mut words: BTreeMap<WordIx, Vec<(Local, Access)>> = BTreeMap::new();
        for (local, sample) in samples.iter().enumerate() {
            let sample = classifier.sets().sample(*sample);
            for access in sample.into_iter().flat_map(|sample| &sample.accesses) {
                words
                    .entry(access.word)
                    .or_default()
                    .push((local as Local, *access));
            }
        }
        Self {
            samples,
            threads,
            words,
            known,
        }
    }

    /// Sections of different threads can have these two sets.
    fn can_meet(&self, a: Local, b: Local) -> bool {
        let (a, b) = (self.threads[a as usize], self.threads[b as usize]);
        a.is_none() || b.is_none() || a != b
    }

    /// Patterns of access that together cover all pairs that must exclude each other: the widest first,
    /// and no further one that adds nothing.
    fn cover(&self, classifier: &Classifier<'_>) -> Vec<Pattern> {
        let mut patterns: BTreeSet<Pattern> = BTreeSet::new();
        for accesses in self.words.values() {
            if self.must_exclude(classifier, accesses) {
                let pattern = accesses
                    .iter()
                    .map(|(local, access)| (*local, access.written));
                patterns.insert(pattern.collect());
            }
        }
        let mut patterns: Vec<Pattern> = patterns.into_iter().collect();
        let writers = |pattern: &Pattern| pattern.iter().filter(|(_, writes)| *writes).count();
        patterns.sort_by_key(|pattern| std::cmp::Reverse(writers(pattern) * pattern.len()));
        let n = self.samples.len();
        if n > MAX_COMPARED {
            return patterns;
        }
        let mut covered = vec![false; n * n];
        patterns.retain(|pattern| {
            let mut adds = false;
            for (a, _) in pattern.iter().filter(|(_, writes)| *writes) {
                for (b, _) in pattern {
                    if self.can_meet(*a, *b) {
                        let (a, b) = (*a as usize, *b as usize);
                        adds |= !covered[a * n + b];
                        covered[a * n + b] = true;
                        covered[b * n + a] = true;
                    }
                }
            }
            adds
        });
        patterns
    }

    /// Whether the order of any two accesses of a word matters, or may.
    fn must_exclude(&self, classifier: &Classifier<'_>, accesses: &[(Local, Access)]) -> bool {
        let oracle = classifier.oracle();
        let sample = |local: Local| self.samples[local as usize];
        let writers = accesses.iter().filter(|(_, access)| access.written);
        writers.clone().any(|(a, x)| {
            accesses.iter().any(|(b, y)| {
                self.can_meet(*a, *b)
                    && oracle.order(sample(*a), sample(*b), x, y) != Order::Irrelevant
            })
        })
    }
}
