//! Threads that do the same: those of a role, or the first ones of processes that one process made to share its work.

use std::collections::BTreeMap;

use convoy_model::{GroupId, ProcessId, ThreadId};

use crate::facts::run_view::RunView;

/// The kind of each thread, called by one of its roles.
#[derive(Debug, Default)]
pub(super) struct Kinds(BTreeMap<ThreadId, GroupId>);

impl Kinds {
    pub(super) fn of(view: &RunView) -> Self {
        let mut first: BTreeMap<ProcessId, GroupId> = BTreeMap::new();
        let mut kind = |id: ThreadId| {
            let role = view.role(id);
            let is_main = view.thread(id).is_some_and(|th| th.main);
            match view.maker(view.process(id)).filter(|_| is_main) {
                Some(maker) => *first.entry(maker).or_insert(role),
                None => role,
            }
        };
        Self(view.threads.keys().map(|&id| (id, kind(id))).collect())
    }

    pub(super) fn of_thread(&self, id: ThreadId) -> GroupId {
        self.0.get(&id).copied().unwrap_or_default()
    }

    /// How many threads are of this kind.
    pub(super) fn members(&self, kind: GroupId) -> usize {
        self.0.values().filter(|of| **of == kind).count()
    }
}
