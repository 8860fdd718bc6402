//! Whose fault waits are: the time that threads waited for a group, and for a wait of somebody else.

use std::collections::BTreeMap;

use convoy_model::{GroupId, OffId, OffReason, Process, ThreadId, Wake, Waker};

use crate::facts::run_view::RunView;
use crate::tables::waits::low_ns;

/// Time limits longer than this are a schedule. Nanoseconds.
const LIMIT_NS: f64 = 20e6;

/// Waits while parallelism was low, by who ended them.
pub(crate) struct WaitedFor {
    /// Group that was waited for, and by which thread: nanoseconds.
    by_group: BTreeMap<GroupId, BTreeMap<ThreadId, f64>>,
    /// Wait of a waker, and who waited meanwhile for it to end.
    by_off: BTreeMap<OffId, BTreeMap<ThreadId, f64>>,
    /// Of each wait, who ended which share of it.
    enders: BTreeMap<OffId, Vec<(GroupId, ThreadId, f64)>>,
    /// The share of a wait that ran out, of those that have a time limit.
    ran_out: BTreeMap<OffId, f64>,
}

impl WaitedFor {
    /// A waker that itself waited passes the blame on to whoever ended its wait, once.
    pub(crate) fn of(view: &RunView) -> Self {
        let mut this = Self {
            by_group: BTreeMap::new(),
            by_off: BTreeMap::new(),
            enders: BTreeMap::new(),
            ran_out: ran_out(view),
        };
        let enders = enders(view);
        let again = timed_out(view);
        for (wake, off, waker, _) in view.sched.ended_by_threads() {
            // Who started a process and waits for its end has nothing else to do.
            if off.reason == OffReason::Child {
                continue;
            }
            let low = (low_ns(view, off) / (off.sum_ns as f64).max(1.0)).min(1.0);
            let low = low * again.get(&wake.off).copied().unwrap_or(1.0);
            let mut own = wake.wait_ns as f64;
            for &(id, ns) in &wake.waker_off {
                let ns = ns as f64;
                let waiters = this.by_off.entry(id).or_default();
                *waiters.entry(off.thread).or_default() += ns * low;
                for &(group, ender, share) in enders.get(&id).into_iter().flatten() {
                    if ender != off.thread {
                        this.blame(group, off.thread, ns * share * low);
                        own -= ns * share;
                    }
                }
            }
            if waker != off.thread {
                this.blame(view.role(waker), off.thread, own.max(0.0) * low);
            }
        }
        this.enders = enders;
        this
    }

    fn blame(&mut self, group: GroupId, waiter: ThreadId, ns: f64) {
        let waiters = self.by_group.entry(group).or_default();
        *waiters.entry(waiter).or_default() += ns;
    }

    /// Most time that one thread waited for threads of the group.
    pub(crate) fn group(&self, group: GroupId) -> f64 {
        most(self.by_group.get(&group))
    }

    /// The same of threads that do real work, and are not in it.
    pub(crate) fn by_other_workers(&self, view: &RunView, group: GroupId) -> f64 {
        let waiters = self.by_group.get(&group).into_iter().flatten();
        let others =
            waiters.filter(|(id, _)| view.workers.contains(id) && view.role(**id) != group);
        others.map(|(_, ns)| *ns).fold(0.0, f64::max)
    }

    /// Whether all that do real work, and wait for a group to speak of, are servers, and the group is of a program that serves nobody: they
    /// wait for what it may ask, and not for what it does.
    pub(crate) fn only_by_servers(&self, view: &RunView, group: GroupId, at_least: f64) -> bool {
        let serves = |process: Option<&Process>| process.is_some_and(|process| process.listens);
        let waiters = self.by_group.get(&group).into_iter().flatten();
        let others = waiters.filter(|(id, ns)| {
            view.workers.contains(id) && view.role(**id) != group && **ns >= at_least
        });
        let mut servers = others.map(|(id, _)| serves(view.process_at(view.process(*id))));
        !serves(view.process_of(group)) && servers.next() == Some(true) && servers.all(|of| of)
    }

    /// Time that threads of the group waited for one another: while one works, all others wait.
    pub(crate) fn one_another(&self, group: GroupId, members: &[ThreadId]) -> f64 {
        let waiters = self.by_group.get(&group).into_iter().flatten();
        let own = waiters.filter(|(id, _)| members.contains(id));
        own.map(|(_, ns)| ns).sum::<f64>() / members.len().saturating_sub(1).max(1) as f64
    }

    /// Threads that waited for the group for a time to speak of.
    pub(crate) fn waiters(&self, group: GroupId, at_least: f64) -> usize {
        let waiters = self.by_group.get(&group);
        waiters.map_or(0, |w| w.values().filter(|&&ns| ns >= at_least).count())
    }

    /// Part of what a wake-up of `waiter` ended in which the waker itself waited for one of these threads, in nanoseconds. Who looks
    /// up now and then while he waits (for a bar of progress) waits on for the same ones, unless others end such waits, too.
    pub(crate) fn passed_on(
        &self,
        wake: &Wake,
        waiter: ThreadId,
        to: impl Fn(ThreadId) -> bool,
    ) -> f64 {
        let of = |&(id, ns): &(OffId, u64)| {
            let enders = self.enders.get(&id).into_iter().flatten();
            // What the waiter ended before is no wait during his own.
            let others = enders.filter(|(_, ender, _)| *ender != waiter);
            let (mut theirs, mut all) = (0.0, 0.0);
            for &(_, ender, share) in others {
                all += share;
                theirs += if to(ender) { share } else { 0.0 };
            }
            let ran_out = self
                .ran_out
                .get(&id)
                .filter(|_| theirs > 0.0 && theirs == all);
            ns as f64 * (theirs + ran_out.copied().unwrap_or(0.0)).min(1.0)
        };
        wake.waker_off.iter().map(of).sum()
    }

    /// Most time that one thread waited for somebody who was in one of these waits.
    pub(crate) fn offs(&self, offs: &[OffId]) -> f64 {
        let mut sums: BTreeMap<ThreadId, f64> = BTreeMap::new();
        for (thread, ns) in offs.iter().filter_map(|id| self.by_off.get(id)).flatten() {
            *sums.entry(*thread).or_default() += ns;
        }
        most(Some(&sums))
    }
}

/// A worker that waits with a time limit (for the lock of an interpreter) waits on after it: what ran out was for the
/// same ones as what was ended. Factors by which the latter is too short.
fn timed_out(view: &RunView) -> BTreeMap<OffId, f64> {
    let mut ended: BTreeMap<OffId, (f64, f64)> = BTreeMap::new();
    for wake in &view.sched.wakes {
        let (by_thread, by_timer) = ended.entry(wake.off).or_default();
        match wake.waker {
            Waker::Thread(..) => *by_thread += wake.wait_ns as f64,
            Waker::Interrupt => *by_timer += wake.wait_ns as f64,
            _ => {}
        }
    }
    let again = |(id, (by_thread, by_timer)): (OffId, (f64, f64))| {
        let off = view.sched.off(id)?;
        let polls = off.reason == OffReason::Futex
            && view.workers.contains(&off.thread)
            && off.sum_ns as f64 <= LIMIT_NS * off.n as f64;
        (polls && by_thread > 0.0).then(|| (id, 1.0 + by_timer / by_thread))
    };
    ended.into_iter().filter_map(again).collect()
}

fn most(waiters: Option<&BTreeMap<ThreadId, f64>>) -> f64 {
    waiters.map_or(0.0, |w| w.values().copied().fold(0.0, f64::max))
}

/// Of the waits for locks and conditions: which share of each nobody but a timer ended.
fn ran_out(view: &RunView) -> BTreeMap<OffId, f64> {
    let mut shares = BTreeMap::new();
    for wake in &view.sched.wakes {
        let Some(off) = view.sched.off(wake.off) else {
            continue;
        };
        if off.reason == OffReason::Futex && matches!(wake.waker, Waker::Interrupt) {
            let share = wake.wait_ns as f64 / (off.sum_ns as f64).max(1.0);
            *shares.entry(wake.off).or_default() += share;
        }
    }
    shares
}

/// Of each wait, who ended which share of it.
fn enders(view: &RunView) -> BTreeMap<OffId, Vec<(GroupId, ThreadId, f64)>> {
    let mut enders: BTreeMap<OffId, Vec<(GroupId, ThreadId, f64)>> = BTreeMap::new();
    for (wake, off, waker, _) in view.sched.ended_by_threads() {
        let share = (wake.wait_ns as f64 / (off.sum_ns as f64).max(1.0)).min(1.0);
        let list = enders.entry(wake.off).or_default();
        list.push((view.role(waker), waker, share));
    }
    enders
}
