//! Requests of other programs that queue for the one thread of a server: that there are several at a time shows in who waits for it.

use std::collections::BTreeMap;

use convoy_model::finding::Evidence;
use convoy_model::words::plural;
use convoy_model::{GroupId, OffReason, Process, ProcessId, ThreadId};

use super::Context;
use crate::text::evidence;
use crate::view::View;

/// Threads that wait for its answers for a time to speak of, and the share of the run that is one.
const ASKERS: (usize, f64) = (2, 0.05);
/// Requests that wait on average beside the one that is served, from which on there are enough for a second server.
const WAITING: f64 = 0.5;
/// Part of the work that is expected to be divided among servers: with two instead of one, three servers on two processors
/// were 1.6 to 2 times as fast, of the 1.9 to 2 that their processors allowed.
pub(super) const EXPECTED: f64 = 0.8;
pub(super) const WHY: &str = "it serves one request after the other, and others wait meanwhile";
pub(super) const CAVEAT: &str =
    "whether requests can be served beside one another is not known: they may need the same data";

/// How long threads waited for a group of another program, each of them, in nanoseconds.
#[derive(Default)]
pub(crate) struct Askers(BTreeMap<GroupId, BTreeMap<ThreadId, f64>>);

impl Askers {
    pub(super) fn of(view: &View) -> Self {
        let process = |id: ProcessId| view.process_at(id);
        let mut this = Self::default();
        for (wake, off, waker, _) in view.sched.ended_by_threads() {
            let both = process(view.process(off.thread)).zip(process(view.process(waker)));
            // Who started a process and waits for its end asks for nothing.
            if both.is_some_and(|(asks, serves)| asks.runs_other_code(serves))
                && off.reason != OffReason::Child
            {
                let group = this.0.entry(view.role(waker)).or_default();
                *group.entry(off.thread).or_default() += wake.wait_ns as f64;
            }
        }
        this
    }
}

/// Requests that wait for a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue {
    threads: usize,
    /// On average, the one that is served included.
    length: f64,
}

impl Queue {
    /// Of a group of one thread that works for so long; `None` if those who wait are no other programs', or too few.
    pub(super) fn of(cx: &Context, group: GroupId, works: f64) -> Option<Self> {
        let view = cx.view;
        let waits = cx.askers.0.get(&group)?;
        let threads = waits.values().filter(|ns| **ns >= ASKERS.1 * view.wall);
        let (threads, length) = (threads.count(), waits.values().sum::<f64>() / view.wall);
        let several = threads >= ASKERS.0 && length - works / view.wall >= WAITING;
        (several && view.members(group).len() == 1).then_some(Self { threads, length })
    }

    pub(super) fn evidence(&self) -> Evidence {
        evidence("requests_waiting", self.length, self.seen())
    }

    pub(super) fn seen(&self) -> String {
        format!(
            "{} of other programs ask it, and {:.1} wait for its answer at a time",
            plural(self.threads, "thread"),
            self.length
        )
    }
}

/// What to do about it, with so many processors.
pub(super) fn fix(process: &Process, cpus: f64) -> String {
    format!(
        "{cpus:.0} processes or threads of {} that serve requests (worker_processes of nginx, --workers of gunicorn, several instances with \
         a part of the data each), or less work for a request",
        process.name
    )
}
