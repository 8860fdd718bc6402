//! A thread that writes for the others, one piece after the other: a log's, a journal's. It hardly
//! ever has nothing to do, and they wait for it, be it in a queue without room. What its calls take is
//! what the run takes, also where those who wait are woken so often that they seem to be at work.

use std::collections::BTreeSet;

use convoy_model::{GroupId, OffReason, ThreadId};

use super::is_of_a_commit;
use super::WriteThrough;
use super::IDLE;
use crate::estimate::saving::NO_WORK;
use crate::facts::run_view::RunView;

/// Share of the run that it is there for, and that the others lose by waiting for it.
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
    /// What each of the other workers loses on average, and how many they are.
    others: Loss,
    n_others: f64,
    /// What they run.
    others_run: f64,
}

/// What one thread loses by waiting for another one; nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Loss {
    waited: f64,
    /// Waits for a processor after that.
    delayed: f64,
    /// Times that it waited.
    n: f64,
}

impl Writer {
    pub(super) fn of(view: &RunView, of: &WriteThrough) -> Option<Self> {
        let most = |a: &(&ThreadId, &f64), b: &(&ThreadId, &f64)| a.1.total_cmp(b.1);
        let (&id, &sync) = of.sync.in_it.iter().max_by(most)?;
        let thread = view.threads.get(&id)?;
        let offs = view.sched.offs.iter().filter(|off| off.thread == id);
        let all: f64 = offs
            .filter(|off| is_of_a_commit(off))
            .map(|off| off.sum_ns as f64)
            .sum();
        let is_other = |of: &ThreadId| view.role(*of) != view.role(id);
        let others: BTreeSet<ThreadId> = view.workers.iter().copied().filter(is_other).collect();
        let rows = others.iter().filter_map(|id| view.threads.get(id));
        let writer = Self {
            group: view.role(id),
            sync,
            all,
            active: thread.active_ns() as f64,
            others: Loss::of(view, id, &others),
            n_others: others.len() as f64,
            others_run: rows.map(|th| th.cpu_work_ns() as f64).sum(),
        };
        let life = view.life(id);
        let is_busy = writer.active + all >= (1.0 - IDLE) * life;
        let lost = writer.others.waited + writer.others.delayed;
        let limits = life >= MOST_OF_RUN * view.wall && lost >= WAITED_FOR * view.wall;
        (is_busy && limits).then_some(writer)
    }

    /// Wall time that goes with these waits and this share of what it runs, if it takes the others
    /// so long, nanoseconds, to wait for it once: no more than they lose by it.
    pub(super) fn saved(&self, waits: f64, cpu: f64, switch_ns: f64) -> f64 {
        let Loss { waited, delayed, n } = self.others;
        (waits + cpu * self.active).min(waited + delayed + n * switch_ns)
    }

    /// CPU time of the others' switches to wait for it, at so many nanoseconds each.
    pub(super) fn switching(&self, switch_ns: f64) -> f64 {
        (self.n_others * self.others.n * switch_ns).min(NO_WORK * self.others_run)
    }
}

impl Loss {
    /// Sums what these threads lose until the writer wakes them at a condition or a lock, and
    /// divides it among them: what one of many waits for limits none of the others. Whoever is
    /// woken for one place in a queue together with others finds it taken, and waits again: that is
    /// part of it.
    fn of(view: &RunView, writer: ThreadId, threads: &BTreeSet<ThreadId>) -> Self {
        let each = 1.0 / threads.len().max(1) as f64;
        let waits = view.sched.ended_by_threads().filter(|(_, off, waker, _)| {
            *waker == writer && off.reason == OffReason::Futex && threads.contains(&off.thread)
        });
        waits.fold(Self::default(), |sum, (wake, off, ..)| Self {
            waited: sum.waited + each * wake.wait_ns as f64,
            delayed: sum.delayed + each * view.back_on_cpu(off.thread, wake.n as f64),
            n: sum.n + each * wake.n as f64,
        })
    }
}
