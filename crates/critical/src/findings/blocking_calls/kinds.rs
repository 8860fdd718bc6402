//! Threads that do the same: those of a role, or the first ones of processes that one process made to share its work.

use std::collections::BTreeMap;

use convoy_model::{GroupId, Process, ProcessId, ThreadId};

use crate::view::View;

/// The kind of each thread, called by one of its roles.
#[derive(Debug, Default)]
pub(super) struct Kinds(BTreeMap<ThreadId, GroupId>);

impl Kinds {
    pub(super) fn of(view: &View) -> Self {
        let mut first: BTreeMap<u32, GroupId> = BTreeMap::new();
        let kind = |id: ThreadId| {
            let role = view.role(id);
            let is_main = view.thread(id).is_some_and(|th| th.main);
            match maker(view, view.process(id)).filter(|_| is_main) {
                Some(maker) => *first.entry(maker.pid).or_insert(role),
                None => role,
            }
        };
        let mut kind = kind;
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

/// Who made a process, if it runs the same program.
pub(super) fn maker<'a>(view: &View<'a>, id: ProcessId) -> Option<&'a Process> {
    let processes = &view.model.processes;
    let process = processes.get(id.0 as usize)?;
    let mut others = processes.iter();
    others.find(|of| of.pid == process.ppid && of.program() == process.program())
}
