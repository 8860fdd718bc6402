//! Potential data races of the ULCP-free program (PerfPlay, CGO'15, theorem 1).
//!
//! Theorem 1, as read here: the ULCP-free trace computes what the original one does, unless two conflicting
//! accesses have no order any more. A lock orders more than its own sections: what one thread does before it
//! releases the lock comes before what another does after it acquires it. Taking edges away takes that order
//! away as well.
//!
//! Both orders are computed as vector clocks over the recording: with the recorded locks, and with those of the
//! plan. Conflicting accesses that only the former orders are reported. Accesses are those of the read and
//! write sets: what threads do outside of sections is not observed.

mod clocks;
#[cfg(test)]
mod tests;
mod walk;

use convoy_trace::{Recording, SiteIx};

use crate::sections::Sections;
use crate::sets::{PlaceIx, WordIx};
use crate::transform::LockPlan;
use crate::ulcp::Classifier;

/// Threads that are looked at, at most: a vector clock has an entry for each.
pub const MAX_THREADS: usize = 256;
/// Sections that are looked at, at most: the first ones.
pub const MAX_SECTIONS: u64 = 1 << 20;

/// Potential data races, and how much was looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Races {
    /// Most frequent first.
    pub races: Vec<Race>,
    /// Sections of the recording.
    pub sections: u64,
    /// Of these, those that were looked at.
    pub looked_at: u64,
    /// Of those, sections whose accesses are not known, or not all of them.
    pub unobserved: u64,
}

impl Races {
    /// Share of the sections whose accesses were observed or inferred, 0..1. Accesses outside of sections
    /// are never observed.
    pub fn observed_share(&self) -> f64 {
        let observed = self.looked_at.saturating_sub(self.unobserved);
        observed as f64 / self.sections.max(1) as f64
    }
}

/// Two conflicting accesses that only removed edges order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Race {
    /// The word.
    pub word: WordIx,
    /// The access that came first in the recording.
    pub first: RaceSide,
    /// The other.
    pub second: RaceSide,
    /// Why it is none in the recorded program.
    pub kind: RaceKind,
    /// Pairs of sections that were seen to have it.
    pub times: u64,
}

/// One of the accesses of a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RaceSide {
    /// Acquire site of its section.
    pub site: SiteIx,
    /// The instruction, or [`crate::sets::NO_PLACE`].
    pub place: PlaceIx,
    /// It writes.
    pub writes: bool,
}

/// Why two accesses are ordered in the recorded program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RaceKind {
    /// Their sections exclude each other, and their order changes nothing: the access has to become
    /// atomic.
    Benign,
    /// A lock that is taken between them orders them, although its own sections do not conflict.
    Ordered,
}

/// Finds potential data races of a plan.
pub fn races(
    recording: &Recording,
    sections: &Sections,
    classifier: &mut Classifier<'_>,
    plan: &LockPlan,
) -> Races {
    walk::Walk::new(recording, sections, classifier, plan).run()
}
