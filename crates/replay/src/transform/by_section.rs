//! Locksets by section, as in the paper: its own auxiliary lock and those of its predecessors.

use std::collections::{BTreeMap, VecDeque};

use convoy_trace::ObjectIx;
use rustc_hash::FxHashMap;

use super::plan::{AuxIx, AuxLock, AuxUse, KeptReason, LockPlan};
use crate::sections::{SectionIx, Sections};
use crate::sets::NO_SAMPLE;
use crate::topology::Topology;
use crate::ulcp::Classifier;

/// Whether the first section, a predecessor of the second, is over before the second asks for its locks.
pub type Finished<'a> = &'a dyn Fn(SectionIx, SectionIx) -> bool;

/// Sections of the lock that pass before an auxiliary lock is used for another section: those that
/// shared it are long over by then.
const QUARANTINE: usize = 1024;

pub(super) fn plan(
    plan: &mut LockPlan,
    sections: &Sections,
    classifier: &mut Classifier<'_>,
    lock: ObjectIx,
    of_lock: &[SectionIx],
    finished: Option<Finished<'_>>,
) {
    let topology = Topology::of(sections, of_lock, classifier);
    if is_all_true_contention(classifier, of_lock) {
        return;
    }
    let is_unknown = |ix: &&SectionIx| classifier.sample_of(**ix) == NO_SAMPLE;
    let unknown = of_lock.iter().filter(is_unknown).count();
    if unknown == of_lock.len() {
        plan.keep(lock, unknown, KeptReason::UnknownSets);
        return;
    }
    let position: FxHashMap<SectionIx, usize> = of_lock
        .iter()
        .enumerate()
        .map(|(at, ix)| (*ix, at))
        .collect();
    let at = |ix: SectionIx| position.get(&ix).copied().unwrap_or(0);
    let is_needed = |from, to| finished.is_none_or(|finished| !finished(from, to));
    let mut predecessors: FxHashMap<SectionIx, Vec<SectionIx>> = FxHashMap::default();
    let mut last_successor: FxHashMap<SectionIx, usize> = FxHashMap::default();
    for edge in topology
        .edges
        .iter()
        .filter(|edge| is_needed(edge.from, edge.to))
    {
        predecessors.entry(edge.to).or_default().push(edge.from);
        let last = last_successor.entry(edge.from).or_default();
        *last = at(edge.to).max(*last);
    }
    let mut pool = AuxPool {
        lock,
        free: VecDeque::new(),
        returned_at: BTreeMap::new(),
    };
    let mut own: FxHashMap<SectionIx, AuxIx> = FxHashMap::default();
    for (at, ix) in of_lock.iter().enumerate() {
        pool.take_back(at);
        let mut uses: Vec<AuxUse> = Vec::new();
        for from in predecessors.get(ix).into_iter().flatten() {
            uses.extend(own.get(from).map(|aux| exclusive(*aux)));
        }
        if let Some(last) = last_successor.get(ix) {
            let aux = pool.hand_out(plan, *last);
            own.insert(*ix, aux);
            uses.push(exclusive(aux));
        }
        uses.sort_unstable();
        uses.dedup();
        let list = plan.add_list(uses);
        plan.assign(*ix, list);
    }
}

fn exclusive(aux: AuxIx) -> AuxUse {
    AuxUse { aux, shared: false }
}

/// No pair can be spared: the lock is its sections' lockset.
fn is_all_true_contention(classifier: &mut Classifier<'_>, of_lock: &[SectionIx]) -> bool {
    let samples = classifier.samples().to_vec();
    let is_known = of_lock
        .iter()
        .all(|ix| classifier.sample_of(*ix) != NO_SAMPLE);
    is_known
        && samples.iter().all(|a| {
            let mut others = samples.iter();
            others.all(|b| !classifier.class_of_samples(*a, *b).is_unnecessary())
        })
}

/// Auxiliary locks of one recorded lock, used again when their sections are over.
struct AuxPool {
    lock: ObjectIx,
    free: VecDeque<AuxIx>,
    /// By position of the last section that takes them.
    returned_at: BTreeMap<usize, Vec<AuxIx>>,
}

impl AuxPool {
    fn hand_out(&mut self, plan: &mut LockPlan, until: usize) -> AuxIx {
        let again = (self.free.len() > QUARANTINE)
            .then(|| self.free.pop_front())
            .flatten();
        let aux = again.unwrap_or_else(|| {
            plan.aux.push(AuxLock {
                of: self.lock,
                has_readers: false,
            });
            plan.aux.len() as AuxIx - 1
        });
        self.returned_at.entry(until).or_default().push(aux);
        aux
    }

    fn take_back(&mut self, at: usize) {
        while let Some(entry) = self.returned_at.first_entry() {
            if *entry.key() >= at {
                break;
            }
            self.free.extend(entry.remove());
        }
    }
}
