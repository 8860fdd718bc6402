//! Threads that do the same thing one after the other count as one: a program that starts its workers anew for each
//! picture has as many at a time as one that keeps them, and a sample here and there of each says nothing.

use std::cmp::Reverse;
use std::collections::binary_heap::{BinaryHeap, PeekMut};
use std::collections::BTreeMap;

use convoy_model::{GroupId, ThreadId};

use crate::facts::run_view::RunView;

/// Each thread of a group is in the place of one that ended before it began, if there is one. It stands for the lane.
pub(crate) struct Lanes(BTreeMap<ThreadId, ThreadId>);

impl Lanes {
    pub(crate) fn of(view: &RunView) -> Self {
        let mut threads: Vec<_> = view.threads.values().collect();
        threads.sort_unstable_by_key(|th| (th.start_ns, th.thread));
        // Of each group's lanes, when the last thread there ended, and the first one; earliest end first.
        let mut lanes: BTreeMap<GroupId, BinaryHeap<Reverse<(u64, ThreadId)>>> = BTreeMap::new();
        let mut first_of = BTreeMap::new();
        for th in threads {
            let lanes = lanes.entry(view.group(th.thread)).or_default();
            let first = match lanes.peek_mut() {
                Some(free) if free.0 .0 <= th.start_ns => PeekMut::pop(free).0 .1,
                _ => th.thread,
            };
            lanes.push(Reverse((th.end_ns, first)));
            first_of.insert(th.thread, first);
        }
        Self(first_of)
    }

    /// The thread that stands for this one: the first in its lane.
    pub(crate) fn first(&self, id: ThreadId) -> ThreadId {
        self.0.get(&id).copied().unwrap_or(id)
    }

    /// Number of threads in the lanes of these.
    pub(crate) fn members(&self, is_first: impl Fn(ThreadId) -> bool) -> usize {
        self.0.values().filter(|first| is_first(**first)).count()
    }
}
