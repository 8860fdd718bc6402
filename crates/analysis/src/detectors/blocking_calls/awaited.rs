//! Who waits for what a pool does: calls that block cost nothing where nobody does.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{Lane, OffCpu, OffReason, ProcessId, ThreadId, Waker};

use super::runners::awaits_result;
use super::Pool;
use crate::detectors::interpreter_lock::is_for_interpreter;
use crate::detectors::sleep_polling::WORK_NS;
use crate::facts::run_view::RunView;

/// Wake-ups of others a call from which on what was received is handed on...
const HANDED_ON: f64 = 0.5;
/// ... by somebody who does not send much himself: samples, and their share.
const SENDS: (f64, f64) = (3.0, 0.1);
/// Results that somebody waits for, one by one, for each sleep: so many are tasks of their own.
const RESULTS: f64 = 0.25;

impl Pool {
    /// How long one thread outside of the pool waited for it; all its life if the program's first thread is in it, with whose end all
    /// ends, or if it is an event loop's: other events wait. What the first one waits for at the end of a recording, nobody has seen:
    /// it may be this pool. One that is woken about once a call is handed what was received: that is a stream, and not a request,
    /// unless the pool sends about as often. And what only sleeps may keep a rate: then it must be a pool, to which others give work.
    pub(super) fn awaited(&self, view: &RunView) -> f64 {
        let n = self.sum(|calls| calls.n as f64);
        let is_main = |id: ThreadId| view.thread(id).is_some_and(|th| th.main);
        let sleeps = self.is_mostly(|calls| calls.slept);
        let is_whole = |id: ThreadId| self.is_of_a_loop() || (is_main(id) && !sleeps);
        if let Some(id) = self.0.keys().find(|id| is_whole(**id)) {
            return view.life(*id);
        }
        let results = self.results_awaited(view);
        if sleeps && results.0 < RESULTS * n && !self.is_given_work(view) {
            return 0.0;
        }
        let mut waiters: BTreeMap<ThreadId, f64> = BTreeMap::new();
        let mut woken = 0.0;
        for (wake, off, waker, _) in view.sched.ended_by_threads() {
            if off.reason == OffReason::Futex && self.has(waker) && !self.has(off.thread) {
                *waiters.entry(off.thread).or_default() += wake.wait_ns as f64;
                woken += wake.n as f64;
            }
        }
        let sends = self.directions().sends() as f64;
        let asks = sends >= SENDS.0 && sends >= SENDS.1 * self.sum(|calls| calls.samples as f64);
        if !sleeps && woken >= HANDED_ON * n && !asks {
            return 0.0;
        }
        let processes: BTreeSet<ProcessId> = self.0.keys().map(|id| view.process(*id)).collect();
        let first = |off: &&OffCpu| {
            let waits = off.reason == OffReason::Futex && off.unfinished_ns > 0;
            waits && is_main(off.thread) && processes.contains(&view.process(off.thread))
        };
        for off in view.sched.offs.iter().filter(first) {
            *waiters.entry(off.thread).or_default() += off.unfinished_ns as f64;
        }
        waiters.into_values().fold(results.1, f64::max)
    }

    /// How often and how long one thread waits for results of tasks.
    fn results_awaited(&self, view: &RunView) -> (f64, f64) {
        let mut waiters: BTreeMap<ThreadId, (f64, f64)> = BTreeMap::new();
        let awaits = |off: &&OffCpu| {
            let site = off.site.and_then(|site| view.model.site(site));
            off.reason == OffReason::Futex
                && !self.has(off.thread)
                && site.is_some_and(awaits_result)
        };
        for off in view.sched.offs.iter().filter(awaits) {
            let waiter = waiters.entry(off.thread).or_default();
            waiter.0 += off.n as f64;
            waiter.1 += off.sum_ns as f64;
        }
        let longest = waiters.into_values().max_by(|a, b| a.1.total_cmp(&b.1));
        longest.unwrap_or_default()
    }

    /// Whether threads are a pool of workers: several of a kind, most of which waited for a thread of another kind between two
    /// sleeps or after the last one, for work, and which work after each. How all threads are made to begin together comes before
    /// the first.
    fn is_given_work(&self, view: &RunView) -> bool {
        let ran = |id: &ThreadId| view.threads.get(id).map_or(0.0, |th| th.running_ns as f64);
        let works =
            self.0.keys().map(ran).sum::<f64>() >= WORK_NS * self.sum(|calls| calls.n as f64);
        let lanes = view
            .sched
            .timeline
            .iter()
            .flat_map(|timeline| &timeline.lanes);
        let given = lanes.filter(|lane| self.has(lane.thread) && self.waits_for_work(view, lane));
        let given: BTreeSet<ThreadId> = given.map(|lane| lane.thread).collect();
        works && self.0.len() > 1 && 2 * given.len() > self.0.len()
    }

    /// Whether a thread of the pool sleeps, and later waits until one outside of it ends that.
    fn waits_for_work(&self, view: &RunView, lane: &Lane) -> bool {
        let waits = lane
            .intervals
            .iter()
            .filter_map(|interval| Some((view.waits(&interval.doing)?, interval.wake)));
        let mut after = waits.skip_while(|(off, _)| off.reason != OffReason::Sleep);
        after.any(|(off, wake)| {
            let wake = wake.and_then(|ix| view.sched.wakes.get(ix as usize));
            let by_others = wake
                .is_some_and(|wake| matches!(wake.waker, Waker::Thread(by, _) if !self.has(by)));
            let of_interpreter = || {
                off.site
                    .is_some_and(|site| is_for_interpreter(view.model, site))
            };
            off.reason == OffReason::Futex && by_others && !of_interpreter()
        })
    }
}
