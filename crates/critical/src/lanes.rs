//! Threads that do the same thing one after the other count as one: a program that starts its workers anew for each
//! picture has as many at a time as one that keeps them, and a sample here and there of each says nothing.

use std::collections::BTreeMap;

use convoy_model::{GroupId, ThreadId};

use crate::view::View;

/// Each thread of a group is in the place of one that ended before it began, if there is one.
pub(crate) struct Lanes(BTreeMap<ThreadId, ThreadId>);

impl Lanes {
    pub(crate) fn of(view: &View) -> Self {
        let mut threads: Vec<_> = view.threads.values().collect();
        threads.sort_unstable_by_key(|th| (th.start_ns, th.thread));
        // Of each group the first thread of each lane, and when the last one there ended.
        let mut lanes: BTreeMap<GroupId, Vec<(ThreadId, u64)>> = BTreeMap::new();
        let mut first_of = BTreeMap::new();
        for th in threads {
            let lanes = lanes.entry(view.group(th.thread)).or_default();
            // An end that is not known is none.
            let end = th.end_ns.max(th.start_ns);
            let free = lanes.iter_mut().find(|(_, until)| *until <= th.start_ns);
            let first = match free {
                Some((first, until)) => {
                    *until = end;
                    *first
                }
                None => {
                    lanes.push((th.thread, end));
                    th.thread
                }
            };
            first_of.insert(th.thread, first);
        }
        Self(first_of)
    }

    /// The thread that stands for this one: the first in its lane.
    pub(crate) fn first(&self, id: ThreadId) -> ThreadId {
        self.0.get(&id).copied().unwrap_or(id)
    }

    /// Threads in the lane of each of these.
    pub(crate) fn members(&self, of: impl Fn(ThreadId) -> bool) -> Vec<ThreadId> {
        let members = self.0.iter().filter(|(_, first)| of(**first));
        members.map(|(&id, _)| id).collect()
    }
}
