//! Locks in a cache line. One that threads exclude one another with has findings of its own; one that a thread has for itself is data
//! like any other, and what lies beside it costs the same.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{LineUse, ObjectId, ProcessId, SharedLine, ThreadId};

use super::bytes;
use super::OF_THREAD;
use super::TAKES_PART;
use crate::facts::lanes::Lanes;
use crate::facts::run_view::RunView;

/// Share of a lock's samples, acquisitions, and of a thread's life that it waits for it, up to which others only come by.
const COMES_BY: f64 = 0.05;
/// No object is larger, bytes.
const LARGEST: u64 = 64;

/// Locks and what else threads wait for.
pub(super) struct Objects {
    /// Their bytes, and how often each lane took it and waited for it, nanoseconds.
    all: BTreeMap<(ProcessId, u64, u64), Used>,
}

/// Of each lane, how often it took a lock, and what it waited for it, nanoseconds.
#[derive(Debug, Default)]
struct Used {
    taken: BTreeMap<ThreadId, f64>,
    waited: BTreeMap<ThreadId, f64>,
}

impl Objects {
    pub(super) fn of(view: &RunView, lanes: &Lanes) -> Self {
        let mut taken: BTreeMap<ObjectId, BTreeMap<ThreadId, f64>> = BTreeMap::new();
        for used in &view.model.uses {
            let of = taken.entry(used.object).or_default();
            *of.entry(lanes.first(used.thread)).or_default() += used.calls as f64;
        }
        let mut all: BTreeMap<_, Used> = BTreeMap::new();
        let known = view.model.objects.iter().enumerate();
        for (ix, object) in known.filter(|(_, object)| object.addr != 0) {
            let range = object.bytes();
            let used = all
                .entry((object.process, range.start, range.end))
                .or_default();
            for (id, n) in taken.remove(&ObjectId(ix as u32)).into_iter().flatten() {
                *used.taken.entry(id).or_default() += n;
            }
        }
        for off in view.sched.offs.iter().filter(|off| off.address != 0) {
            let word = off.address;
            let key = (view.process(off.thread), word, word.saturating_add(4));
            let used = all.entry(key).or_default();
            *used.waited.entry(lanes.first(off.thread)).or_default() += off.sum_ns as f64;
        }
        Self { all }
    }

    /// Those that the bytes are part of.
    fn at(&self, line: &SharedLine, used: &LineUse) -> impl Iterator<Item = &Used> {
        let from = line.bytes().start + u64::from(used.offset);
        let to = from + u64::from(used.size);
        let first = (line.process, from.saturating_sub(LARGEST), 0);
        let last = (line.process, to, 0);
        let near = self.all.range(first..last);
        let meets =
            move |&((_, lo, hi), _): &(&(ProcessId, u64, u64), &Used)| *lo < to && *hi > from;
        near.filter(meets).map(|(_, used)| used)
    }

    /// Whether the bytes are part of one.
    pub(super) fn hold(&self, line: &SharedLine, used: &LineUse) -> bool {
        self.at(line, used).next().is_some()
    }
}

/// Whose locks are in a line.
pub(super) struct Owned<'a> {
    view: &'a RunView<'a>,
    line: &'a SharedLine,
    lanes: &'a Lanes,
    objects: &'a Objects,
    /// Lanes that take part in the line.
    parties: BTreeSet<ThreadId>,
}

impl<'a> Owned<'a> {
    pub(super) fn of(
        view: &'a RunView<'a>,
        line: &'a SharedLine,
        lanes: &'a Lanes,
        objects: &'a Objects,
    ) -> Self {
        let mut of_lane: BTreeMap<ThreadId, u64> = BTreeMap::new();
        for used in &line.uses {
            *of_lane.entry(lanes.first(used.thread)).or_default() += used.n;
        }
        let all: u64 = of_lane.values().sum();
        of_lane.retain(|_, n| *n >= OF_THREAD && *n as f64 >= TAKES_PART * all as f64);
        Self {
            view,
            line,
            lanes,
            objects,
            parties: of_lane.into_keys().collect(),
        }
    }

    /// Whether the lock that is used there is one that this thread has for itself, of those that take part: it has all but a few
    /// of the samples there, nobody waits for it, and no other takes it.
    pub(super) fn is_own(&self, used: &LineUse) -> bool {
        let lane = self.lanes.first(used.thread);
        let same_bytes = self
            .line
            .uses
            .iter()
            .filter(|at| bytes(at) & bytes(used) != 0);
        let (mut own, mut all) = (0, 0);
        for at in same_bytes {
            all += at.n;
            own += if self.lanes.first(at.thread) == lane {
                at.n
            } else {
                0
            };
        }
        let few = |part: f64, of: f64| part <= COMES_BY * of;
        few((all - own) as f64, all as f64)
            && self.objects.at(self.line, used).all(|lock| {
                let taken: f64 = lock.taken.values().sum();
                let by_others = lock.taken.iter().filter(|(id, _)| **id != lane);
                let by_parties = by_others.filter(|(id, _)| self.parties.contains(id));
                let mut waited = lock.waited.iter();
                few(by_parties.map(|(_, n)| n).sum(), taken)
                    && waited
                        .all(|(id, ns)| !self.parties.contains(id) || few(*ns, self.view.life(*id)))
            })
    }
}
