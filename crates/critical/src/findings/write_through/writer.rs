//! A thread that writes for the others, one piece after the other: a log's, a journal's. It hardly
//! ever has nothing to do, and they wait for it, be it in a queue without room. What its calls take is
//! what the run takes, also where those who wait are woken so often that they seem to be at work.

use std::collections::BTreeSet;

use convoy_model::{GroupId, OffReason, ThreadId};

use super::{is_of_a_commit, WriteThrough, IDLE};
use crate::view::View;

/// Share of the run that it is there for, and that somebody else has to wait for it.
const MOST_OF_RUN: f64 = 0.8;
const WAITED_FOR: f64 = 0.5;

/// The thread that limits the others by what it writes through.
#[derive(Debug)]
pub(super) struct Writer {
    /// Its kind.
    pub(super) group: GroupId,
    /// Its waits in calls that write through, and in all calls of a commit; nanoseconds.
    pub(super) sync: f64,
    pub(super) all: f64,
    /// What it runs, or could run.
    pub(super) active: f64,
    /// What the other workers waited for it, each of them on average.
    pub(super) waited_for: f64,
}

impl Writer {
    pub(super) fn of(view: &View, of: &WriteThrough) -> Option<Self> {
        let most = |a: &(&ThreadId, &f64), b: &(&ThreadId, &f64)| a.1.total_cmp(b.1);
        let (&id, &sync) = of.sync.in_it.iter().max_by(most)?;
        let thread = view.threads.get(&id)?;
        let offs = view.sched.offs.iter().filter(|off| off.thread == id);
        let all: f64 = offs
            .filter(|off| is_of_a_commit(off))
            .map(|off| off.sum_ns as f64)
            .sum();
        let writer = Self {
            group: view.role(id),
            sync,
            all,
            active: thread.active_ns() as f64,
            waited_for: waited_for(view, id),
        };
        let life = view.life(id);
        let is_busy = writer.active + all >= (1.0 - IDLE) * life;
        let limits = life >= MOST_OF_RUN * view.wall && writer.waited_for >= WAITED_FOR * view.wall;
        (is_busy && limits).then_some(writer)
    }

    /// Wall time that goes with these waits and this share of what it runs: no more than others wait for it.
    pub(super) fn saved(&self, waits: f64, cpu: f64) -> f64 {
        (waits + cpu * self.active).min(self.waited_for)
    }
}

/// Sums what workers of other kinds waited for the thread to wake them at a condition or a lock, and
/// divides it among them: what one of many waits for limits none of the others.
fn waited_for(view: &View, id: ThreadId) -> f64 {
    let is_other = |of: &ThreadId| view.role(*of) != view.role(id);
    let others: BTreeSet<ThreadId> = view.workers.iter().copied().filter(is_other).collect();
    let waits = view.sched.ended_by_threads().filter(|(_, off, waker, _)| {
        *waker == id && off.reason == OffReason::Futex && others.contains(&off.thread)
    });
    let all: f64 = waits.map(|(wake, ..)| wake.wait_ns as f64).sum();
    all / others.len().max(1) as f64
}
