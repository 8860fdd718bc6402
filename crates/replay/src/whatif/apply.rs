//! Application of what-ifs to a program.

use std::collections::BTreeMap;

use super::{balance, locks, permits, sections, shards, threads, Target, WhatIf};
use crate::machine::Machine;
use crate::program::{LockIx, Program, SectionId};
use crate::sets::{Assignment, SectionSets};

/// What is known of the program besides its operations.
#[derive(Debug, Clone, Copy)]
pub struct Knowledge<'a> {
    /// Costs of the machine that the result is replayed on.
    pub machine: &'a Machine,
    /// Read and write sets of its sections; `None` = nobody looked into any.
    pub sets: Option<(&'a SectionSets, &'a Assignment)>,
    /// Draws that are left to chance.
    pub seed: u64,
}

impl<'a> Knowledge<'a> {
    /// The sets of a section, if they are known whole.
    pub(super) fn sample(&self, section: SectionId) -> Option<&'a crate::sets::SetSample> {
        let (sets, assignment) = self.sets?;
        let sample = assignment.samples.get(section as usize)?;
        sets.sample(*sample).filter(|sample| sample.complete)
    }
}

/// A program as it would be.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The program.
    pub program: Program,
    /// CPUs to replay it on, if that was asked for.
    pub cpus: Option<u32>,
    /// What the reader has to know.
    pub notes: Vec<Note>,
}

/// Something that limits a what-if.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// So many sections stay as they are, since they contain other operations.
    SectionsStay(u64),
    /// So many sections stay exclusive, since their sets are not known.
    SetsUnknown(u64),
    /// Sections fall on the shards by chance: their data are not known.
    ShardsByChance,
    /// The data fall into one part: sharding would have to split what all sections touch.
    OnePart,
    /// The lock guards a condition variable, which the change has to keep in order.
    GuardsCondition,
    /// The program of the answer is a model, see [`WhatIf::is_model`].
    Model,
}

/// A what-if cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It needs read and write sets.
    #[error(
        "a reader-writer lock for `{0}` needs to know which sections only read: run `convoy replay -- \
         CMD`, which looks into them, or `convoy diagnose`"
    )]
    NeedsSets(String),
    /// It would make too many locks.
    #[error("`{0}` names so many locks that they cannot be divided further: divide one of them")]
    TooManyLocks(String),
    /// Work cannot be spread over the threads of a barrier.
    #[error("the work before `{barrier}` cannot be balanced: {reason}")]
    Balance {
        /// Which.
        barrier: String,
        /// Why.
        reason: &'static str,
    },
    /// A semaphore starts with no permit, or its start was not seen.
    #[error("`{0}` hands out no permits of its own: threads post what others wait for")]
    NoPermits(String),
    /// Threads of a group cannot share their work out.
    #[error("the number of threads of `{group}` cannot be changed: {reason}")]
    Threads {
        /// Which.
        group: String,
        /// Why.
        reason: &'static str,
    },
}

/// Applies what-ifs from left to right.
pub fn apply(
    program: &Program,
    what_ifs: &[WhatIf],
    knowledge: &Knowledge<'_>,
) -> Result<Applied, Refusal> {
    let mut change = Change {
        program: program.clone(),
        shards: BTreeMap::new(),
        cpus: None,
        notes: Vec::new(),
    };
    for what_if in what_ifs {
        change.apply(what_if, knowledge)?;
        if what_if.is_model() {
            change.note(Note::Model);
        }
    }
    Ok(Applied {
        program: change.program,
        cpus: change.cpus,
        notes: change.notes,
    })
}

/// A program in change.
pub(super) struct Change {
    pub(super) program: Program,
    /// By lock: those that it was divided into, itself included.
    pub(super) shards: BTreeMap<LockIx, Vec<LockIx>>,
    cpus: Option<u32>,
    notes: Vec<Note>,
}

impl Change {
    pub(super) fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The locks of a target, with their shards.
    pub(super) fn locks_of(&self, target: &Target) -> Vec<LockIx> {
        let all = target
            .locks
            .iter()
            .flat_map(|lock| match self.shards.get(lock) {
                Some(shards) => shards.clone(),
                None => vec![*lock],
            });
        all.collect()
    }

    fn apply(&mut self, what_if: &WhatIf, knowledge: &Knowledge<'_>) -> Result<(), Refusal> {
        match what_if {
            WhatIf::Remove(target) => locks::remove(self, target),
            WhatIf::RemoveSections(target) => {
                sections::scale_work(self, target, sections::Where::Inside, 0.0);
                locks::remove(self, target);
            }
            WhatIf::Shard { target, ways } => shards::shard(self, target, *ways, knowledge)?,
            WhatIf::RwLock(target) => locks::make_rwlock(self, target, knowledge)?,
            WhatIf::ShortenHold { target, share } => {
                sections::scale_work(self, target, sections::Where::Inside, 1.0 - share);
            }
            WhatIf::ShortenGap { target, share } => {
                sections::scale_work(self, target, sections::Where::Between, 1.0 - share);
            }
            WhatIf::Adaptive { target, spin_ns } => {
                locks::make_adaptive(self, target, *spin_ns, knowledge.machine);
            }
            WhatIf::Spin(target) => locks::make_spin(self, target),
            WhatIf::Atomic(target) => sections::make_atomic(self, target, knowledge.machine),
            WhatIf::Blocking(target) => sections::make_blocking(self, target),
            WhatIf::Batch { target, size } => sections::batch(self, target, *size),
            WhatIf::Balance(target) => balance::balance(self, target)?,
            WhatIf::Permits { target, count } => permits::permits(self, target, *count)?,
            WhatIf::Cpus(n) => self.cpus = Some(*n),
            WhatIf::Threads { group, count } => threads::resize(self, group, *count)?,
        }
        Ok(())
    }
}
