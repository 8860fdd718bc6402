//! Which locks each section takes in the ULCP-free program (PerfPlay, CGO'15, rules 3 and 4).
//!
//! Rule 3 gives every section a lockset of auxiliary locks; rule 4: two sections exclude each other if and
//! only if their locksets intersect. (The paper prints "if the intersection is empty", a slip.)

use std::collections::BTreeMap;

use convoy_trace::ObjectIx;

use super::by_section::Finished;
use super::{by_data, by_section, lock_order};
use crate::sections::{SectionIx, Sections};
use crate::sets::NO_SAMPLE;
use crate::ulcp::Classifier;

/// Index into [`LockPlan::aux`].
pub type AuxIx = u32;

/// How locksets are made.
#[derive(Clone, Copy, Default)]
pub enum Scheme<'a> {
    /// One auxiliary lock for data on which sections conflict: a section takes those of the data that it
    /// touches, shared if it only reads them. Two sections then exclude each other if and only if they
    /// truly conflict, in whatever order a replay comes to them, and the locks are those that a developer
    /// would write.
    #[default]
    ByData,
    /// One auxiliary lock for each section with a causal edge to another, as in the paper: a section takes
    /// its own and those of its predecessors.
    BySection {
        /// The dynamic locking strategy: the lock of a predecessor that is over is not taken. `None` =
        /// all are taken.
        finished: Option<Finished<'a>>,
    },
}

impl std::fmt::Debug for Scheme<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ByData => "ByData",
            Self::BySection { finished: None } => "BySection",
            Self::BySection { finished: Some(_) } => "BySection, dynamic",
        })
    }
}

/// The locks that sections take instead of their recorded ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockPlan {
    /// By section: which list, or [`KEEP`].
    list_of: Vec<u32>,
    /// By list: its end in `uses`.
    ends: Vec<u32>,
    uses: Vec<AuxUse>,
    /// Auxiliary locks.
    pub aux: Vec<AuxLock>,
    /// Locks of which sections keep the recorded lock although their pairs are not all true contention.
    pub kept: Vec<Kept>,
}

const KEEP: u32 = u32::MAX;

/// An auxiliary lock in a section's lockset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AuxUse {
    /// Which.
    pub aux: AuxIx,
    /// Together with other readers.
    pub shared: bool,
}

/// An auxiliary lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AuxLock {
    /// The recorded lock that it stands for a part of.
    pub of: ObjectIx,
    /// Sections take it shared.
    pub has_readers: bool,
}

/// What a section takes instead of its recorded lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacement<'p> {
    /// The recorded lock.
    Recorded,
    /// These, ascending; none at all for a section that truly conflicts with nobody.
    Locks(&'p [AuxUse]),
}

/// Sections of a lock that keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// The lock.
    pub lock: ObjectIx,
    /// Its sections that keep it.
    pub sections: u64,
    /// Why.
    pub reason: KeptReason,
}

/// Why sections keep their recorded lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptReason {
    /// The lock guards a condition variable: whoever waits on it, signals it or conflicts keeps the lock.
    Condition,
    /// Threads take it and others in opposite orders, and it may be what keeps them from a deadlock.
    LockOrder,
    /// The sets of too many of its sections are not known.
    UnknownSets,
    /// The sets of these few sections are not known.
    UnknownSections,
}

impl LockPlan {
    /// Makes the plan for all locks of a recording.
    pub fn of(sections: &Sections, classifier: &mut Classifier<'_>, scheme: Scheme<'_>) -> Self {
        let mut plan = Self {
            list_of: vec![KEEP; sections.all.len()],
            ..Self::default()
        };
        let needed_for_order = lock_order::needed(sections);
        for (lock, of_lock) in sections.by_lock().iter() {
            if needed_for_order.contains(&lock) {
                plan.keep(lock, of_lock.len(), KeptReason::LockOrder);
                continue;
            }
            let of = |ix: &SectionIx| sections.get(*ix);
            let mut all = of_lock.iter().filter_map(of);
            if all.any(|section| section.uses_condition()) {
                plan.keep_conflicting(sections, classifier, lock, of_lock);
                continue;
            }
            match scheme {
                Scheme::ByData => by_data::plan(&mut plan, sections, classifier, lock, of_lock),
                Scheme::BySection { finished } => {
                    by_section::plan(&mut plan, sections, classifier, lock, of_lock, finished);
                }
            }
        }
        plan
    }

    /// What a section takes.
    pub fn replacement(&self, section: SectionIx) -> Replacement<'_> {
        let list = self.list_of.get(section as usize).copied().unwrap_or(KEEP);
        let Some(&end) = self.ends.get(list as usize) else {
            return Replacement::Recorded;
        };
        let begin = list
            .checked_sub(1)
            .map_or(0, |before| self.ends[before as usize]);
        Replacement::Locks(
            self.uses
                .get(begin as usize..end as usize)
                .unwrap_or_default(),
        )
    }

    /// Adds a list of locks; sections refer to it by its number.
    pub(super) fn add_list(&mut self, uses: impl IntoIterator<Item = AuxUse>) -> u32 {
        self.uses.extend(uses);
        self.ends.push(self.uses.len() as u32);
        self.ends.len() as u32 - 1
    }

    /// A section takes the locks of a list.
    pub(super) fn assign(&mut self, section: SectionIx, list: u32) {
        if let Some(of_section) = self.list_of.get_mut(section as usize) {
            *of_section = list;
        }
    }

    pub(super) fn keep(&mut self, lock: ObjectIx, sections: usize, reason: KeptReason) {
        self.kept.push(Kept {
            lock,
            sections: sections as u64,
            reason,
        });
    }

    /// Frees the sections that conflict with nobody and use no condition variable; the others keep the
    /// lock, which a condition wait needs.
    fn keep_conflicting(
        &mut self,
        sections: &Sections,
        classifier: &mut Classifier<'_>,
        lock: ObjectIx,
        of_lock: &[SectionIx],
    ) {
        classifier.focus(of_lock);
        let samples = classifier.samples().to_vec();
        let mut frees: BTreeMap<u32, bool> = BTreeMap::new();
        for &sample in &samples {
            let mut others = samples.iter();
            let is_free =
                others.all(|other| classifier.class_of_samples(sample, *other).is_unnecessary());
            frees.insert(sample, is_free);
        }
        let any_unknown = of_lock
            .iter()
            .any(|ix| classifier.sample_of(*ix) == NO_SAMPLE);
        let empty = self.add_list([]);
        let mut kept = 0;
        for &ix in of_lock {
            let uses_condition = sections.get(ix).is_none_or(|it| it.uses_condition());
            let is_free = frees
                .get(&classifier.sample_of(ix))
                .copied()
                .unwrap_or(false);
            match is_free && !uses_condition && !any_unknown {
                true => self.assign(ix, empty),
                false => kept += 1,
            }
        }
        self.keep(lock, kept, KeptReason::Condition);
    }
}
