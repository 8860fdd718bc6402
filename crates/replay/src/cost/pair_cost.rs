//! Equation 1: what one unnecessary pair costs.
//!
//! The paper takes the difference between the times that a pair takes in the two replays, the original and
//! the ULCP-free one. Read literally this counts a delay once for every pair that shares it: a section is in
//! a pair with each other thread. Here a pair gets its part of the wait that the removal saves:
//!
//! ```text
//!   dT(a, b) = (W(b) - W'(b)) * O(a, b) / sum over all holders h of O(h, b)
//! ```
//!
//! with W and W' the wait of b in the original and in the ULCP-free replay, and O(h, b) the time that h held
//! the lock while b waited. The sum over all pairs, true contention included, is thus the wait saved. The
//! exact form of the paper's equation 1 is not reproduced.

use std::collections::BTreeMap;

use convoy_trace::{ObjectIx, SiteIx};

use super::{ReplayTimes, SectionSpan};
use crate::sections::{Section, SectionIx, Sections};
use crate::ulcp::{Class, Classifier};

/// Holders before a waiter that are looked at, at most. Those of a mutex end when its wait begins;
/// readers of one lock overlap.
const MAX_HOLDERS: usize = 256;

/// Code of a section: its acquire and its release site.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Where it begins.
    pub acquire: SiteIx,
    /// Where it ends.
    pub release: SiteIx,
}

/// Two pieces of code whose sections contend for one lock; the smaller one first, whichever waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanPair {
    /// The lock.
    pub lock: ObjectIx,
    /// One.
    pub first: Span,
    /// The other.
    pub second: Span,
}

/// What the unnecessary pairs of two pieces of code cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SpanCost {
    /// Pairs of which one waited for the other.
    pub pairs: u64,
    /// Sum of dT over them, nanoseconds.
    pub saved_ns: f64,
    /// The same by class: null-lock, read-read, disjoint-write, benign.
    pub by_class: [f64; 4],
}

impl SpanCost {
    /// The class that costs most.
    pub fn kind(&self) -> Class {
        let of = |(class, ns): (Class, f64)| (class, ns);
        let costs = CLASSES.into_iter().zip(self.by_class).map(of);
        let most = costs.max_by(|a, b| a.1.total_cmp(&b.1));
        most.map_or(Class::Unknown, |(class, _)| class)
    }

    /// Adds another cost.
    pub fn merge(&mut self, other: &Self) {
        self.pairs += other.pairs;
        self.saved_ns += other.saved_ns;
        for (sum, of) in self.by_class.iter_mut().zip(other.by_class) {
            *sum += of;
        }
    }
}

const CLASSES: [Class; 4] = [
    Class::NullLock,
    Class::ReadRead,
    Class::DisjointWrite,
    Class::Benign,
];

/// The cost of all unnecessary pairs, by code.
pub fn pair_costs(
    sections: &Sections,
    classifier: &mut Classifier<'_>,
    original: &ReplayTimes,
    free: &ReplayTimes,
) -> BTreeMap<SpanPair, SpanCost> {
    let mut costs = BTreeMap::new();
    for (lock, of_lock) in sections.by_lock().iter() {
        classifier.focus(of_lock);
        let time = |ix: &SectionIx| original.sections.get(*ix as usize).copied();
        let reached = of_lock.iter().filter_map(|ix| {
            let times = time(ix).filter(SectionSpan::is_reached)?;
            Some((*ix, sections.get(*ix)?, times))
        });
        let mut reached: Vec<(SectionIx, &Section, SectionSpan)> = reached.collect();
        reached.sort_by(|a, b| a.2.acquired_ns.total_cmp(&b.2.acquired_ns));
        for (at, waiter) in reached.iter().enumerate() {
            if waiter.2.wait_ns() > 0.0 {
                let before = reached.get(..at).unwrap_or_default();
                let saved_ns = saved_wait(free, waiter);
                charge(&mut costs, classifier, lock, before, waiter, saved_ns);
            }
        }
    }
    costs
}

type Ran<'s> = (SectionIx, &'s Section, SectionSpan);

/// W(b) - W'(b); a section that the free replay does not reach saves nothing.
fn saved_wait(free: &ReplayTimes, waiter: &Ran<'_>) -> f64 {
    let times = free.sections.get(waiter.0 as usize);
    let times = times.filter(|times| times.is_reached());
    times.map_or(0.0, |times| waiter.2.wait_ns() - times.wait_ns())
}

fn charge(
    costs: &mut BTreeMap<SpanPair, SpanCost>,
    classifier: &mut Classifier<'_>,
    lock: ObjectIx,
    before: &[Ran<'_>],
    waiter: &Ran<'_>,
    saved_ns: f64,
) {
    let (number, section, times) = waiter;
    let mut holders: Vec<(&Ran<'_>, f64)> = Vec::new();
    for holder in before.iter().rev().take(MAX_HOLDERS) {
        let is_reader = holder.1.shared && section.shared;
        let begin = holder.2.acquired_ns.max(times.requested_ns);
        let overlap = holder.2.released_ns.min(times.acquired_ns) - begin;
        if overlap > 0.0 && holder.1.thread != section.thread && !is_reader {
            holders.push((holder, overlap));
        } else if holder.2.released_ns <= times.requested_ns && !holder.1.shared {
            // Whoever held the lock before was over even earlier.
            break;
        }
    }
    let all: f64 = holders.iter().map(|(_, overlap)| overlap).sum();
    for (holder, overlap) in holders {
        let class = classifier.class(holder.0, *number);
        let Some(at) = CLASSES.iter().position(|it| *it == class) else {
            continue;
        };
        let (a, b) = (span(holder.1), span(section));
        let cost = costs.entry(SpanPair {
            lock,
            first: a.min(b),
            second: a.max(b),
        });
        let cost = cost.or_default();
        let part_ns = saved_ns * overlap / all;
        cost.pairs += 1;
        cost.saved_ns += part_ns;
        cost.by_class[at] += part_ns;
    }
}

fn span(section: &Section) -> Span {
    Span {
        acquire: section.acquire_site,
        release: section.release_site,
    }
}
