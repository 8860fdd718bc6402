//! Threads that ran, numbered over all processes.

use std::collections::{BTreeSet, HashSet};

use convoy_profile::{Process, ThreadIx};

use crate::{ProcessId, Thread, ThreadId};

/// The threads of one process in the model.
pub(super) struct Threads {
    ids: Vec<Option<ThreadId>>,
}

impl Threads {
    /// Adds the process's threads to `threads`. One that never ran is left out, unless something was
    /// recorded of it: no count may be lost for a start that was not noted.
    pub(super) fn add(
        process: &Process,
        id: ProcessId,
        mentioned: &BTreeSet<ThreadIx>,
        threads: &mut Vec<Thread>,
    ) -> Self {
        let active = active(process);
        let mut ids = Vec::with_capacity(process.threads.len());
        let first = threads.len();
        for (ix, thread) in process.threads.iter().enumerate() {
            let ran = thread.tid != 0 && thread.start_ns != 0;
            let ix = ix as ThreadIx;
            if !ran && !active.contains(&ix) && !mentioned.contains(&ix) {
                ids.push(None);
                continue;
            }
            ids.push(Some(ThreadId(threads.len() as u32)));
            threads.push(Thread {
                process: id,
                tid: thread.tid,
                name: thread.name.clone(),
                main: ix == 0,
                start_ns: if thread.start_ns == 0 {
                    process.start_ns
                } else {
                    thread.start_ns
                },
                end_ns: if thread.end_ns == 0 {
                    process.end_ns
                } else {
                    thread.end_ns
                },
                cpu_ns: thread.cpu_ns,
                sys_ns: thread.sys_ns,
                run_delay_ns: thread.run_delay_ns,
                voluntary_switches: thread.voluntary_switches,
                involuntary_switches: thread.involuntary_switches,
                lives: thread.lives,
                ..Thread::default()
            });
        }
        if let Some(own) = threads.get_mut(first..) {
            count_once(own);
        }
        Self { ids }
    }

    /// The thread of a record, `None` if it never ran.
    pub(super) fn id(&self, ix: ThreadIx) -> Option<ThreadId> {
        self.ids.get(ix as usize).copied().flatten()
    }

    /// Threads by index of their records.
    pub(super) fn into_ids(self) -> Vec<Option<ThreadId>> {
        self.ids
    }

    /// Records and threads, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, ThreadId)> + '_ {
        self.ids
            .iter()
            .enumerate()
            .filter_map(|(ix, id)| id.map(|id| (ix, id)))
    }
}

/// Threads that shared a row are in the kernel's rows as well: their CPU time is taken off the row that they shared.
fn count_once(threads: &mut [Thread]) {
    let shared = |th: &&mut Thread| th.lives > 1;
    let seen: u64 = threads
        .iter()
        .filter(|th| th.lives == 0)
        .map(|th| th.cpu_ns)
        .sum();
    let all: u64 = threads.iter_mut().filter(shared).map(|th| th.cpu_ns).sum();
    let keep = 1.0 - (seen as f64 / (all as f64).max(1.0)).min(1.0);
    for thread in threads.iter_mut().filter(shared) {
        thread.cpu_ns = (thread.cpu_ns as f64 * keep) as u64;
        thread.sys_ns = thread.sys_ns.min(thread.cpu_ns);
    }
}

fn active(process: &Process) -> HashSet<ThreadIx> {
    let counts = process.counts.iter().map(|row| row.thread);
    let unattributed = process.unattributed.iter().map(|row| row.thread);
    let details = process.details.iter().map(|row| row.thread);
    let pairs = process.pairs.iter().map(|row| row.thread);
    counts
        .chain(unattributed)
        .chain(details)
        .chain(pairs)
        .collect()
}
