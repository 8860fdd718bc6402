//! Who waits for what a pool does: calls that block cost nothing where nobody does.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{Doing, Lane, OffCpu, OffId, OffReason, ProcessId, ThreadId, Waker};

use super::super::interpreter_lock::is_for_interpreter;
use super::runners::awaits_result;
use super::Calls;
use crate::view::View;

/// Wake-ups of others a call from which on what was received is handed on...
const HANDED_ON: f64 = 0.5;
/// ... by somebody who does not send much himself: samples, and their share.
const SENDS: (f64, f64) = (3.0, 0.1);
/// Results that somebody waits for, one by one, for each sleep: so many are tasks of their own.
const RESULTS: f64 = 0.25;
/// Threads that run for so long after each sleep work; with less they look whether there is some, or keep a rate. Nanoseconds.
const WORK_NS: f64 = 30_000.0;

/// How long one thread outside of the pool waited for it; all its life if the program's first thread is in it, with whose end all
/// ends, or if it is an event loop's: other events wait. What the first one waits for at the end of a recording, nobody has seen:
/// it may be this pool. One that is woken about once a call is handed what was received: that is a stream, and not a request,
/// unless the pool sends about as often. And what only sleeps may keep a rate: then it must be a pool, to which others give work.
pub(super) fn awaited(view: &View, pool: &BTreeMap<ThreadId, Calls>) -> f64 {
    let sum = |f: &dyn Fn(&Calls) -> f64| pool.values().map(f).sum::<f64>();
    let blocked = sum(&|calls| calls.blocked);
    let n = sum(&|calls| calls.n as f64);
    let is_main = |id: ThreadId| view.thread(id).is_some_and(|th| th.main);
    let is_loop = 2.0 * sum(&|calls| calls.in_loop) > blocked;
    let sleeps = 2.0 * sum(&|calls| calls.slept) > blocked;
    let is_whole = |id: ThreadId| is_loop || (is_main(id) && !sleeps);
    if let Some(id) = pool.keys().find(|id| is_whole(**id)) {
        return view.life(*id);
    }
    let results = results_awaited(view, pool);
    if sleeps && results.0 < RESULTS * n && !is_given_work(view, pool) {
        return 0.0;
    }
    let mut waiters: BTreeMap<ThreadId, f64> = BTreeMap::new();
    let processes: BTreeSet<ProcessId> = pool.keys().map(|id| view.process(*id)).collect();
    let mut woken = 0.0;
    for wake in &view.sched.wakes {
        let by_pool = matches!(wake.waker, Waker::Thread(id, _) if pool.contains_key(&id));
        let Some(off) = view.sched.off(wake.off).filter(|_| by_pool) else {
            continue;
        };
        if off.reason == OffReason::Futex && !pool.contains_key(&off.thread) {
            *waiters.entry(off.thread).or_default() += wake.wait_ns as f64;
            woken += wake.n as f64;
        }
    }
    let (sends, samples) = (
        sum(&|calls| calls.sends as f64),
        sum(&|calls| calls.samples as f64),
    );
    let asks = sends >= SENDS.0 && sends >= SENDS.1 * samples;
    if !sleeps && woken >= HANDED_ON * n && !asks {
        return 0.0;
    }
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
fn results_awaited(view: &View, pool: &BTreeMap<ThreadId, Calls>) -> (f64, f64) {
    let mut waiters: BTreeMap<ThreadId, (f64, f64)> = BTreeMap::new();
    let awaits = |off: &&OffCpu| {
        let site = off.site.and_then(|site| view.model.site(site));
        off.reason == OffReason::Futex
            && !pool.contains_key(&off.thread)
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

/// Whether threads are a pool of workers: several of a kind, most of which waited for a thread of another kind between two sleeps or
/// after the last one, for work, and which work after each. How all threads are made to begin together comes before the first.
fn is_given_work(view: &View, pool: &BTreeMap<ThreadId, Calls>) -> bool {
    let ran = |id: &ThreadId| view.threads.get(id).map_or(0.0, |th| th.running_ns as f64);
    let sleeps: f64 = pool.values().map(|calls| calls.n as f64).sum();
    let works = pool.keys().map(ran).sum::<f64>() >= WORK_NS * sleeps;
    let lanes = view
        .sched
        .timeline
        .iter()
        .flat_map(|timeline| &timeline.lanes);
    let of_pool = lanes.filter(|lane| pool.contains_key(&lane.thread));
    let given: BTreeSet<ThreadId> = of_pool
        .filter(|lane| waits_for_work(view, lane, pool))
        .map(|lane| lane.thread)
        .collect();
    works && pool.len() > 1 && 2 * given.len() > pool.len()
}

/// Whether the thread sleeps, and later waits until a thread outside of the pool ends that.
fn waits_for_work(view: &View, lane: &Lane, pool: &BTreeMap<ThreadId, Calls>) -> bool {
    let mut slept = false;
    for interval in &lane.intervals {
        let Doing::Waiting(Some(off)) = interval.doing else {
            continue;
        };
        let Some(off) = view.sched.off(OffId(off)) else {
            continue;
        };
        slept |= off.reason == OffReason::Sleep;
        let wake = interval
            .wake
            .and_then(|ix| view.sched.wakes.get(ix as usize));
        let by_others = wake.is_some_and(
            |wake| matches!(wake.waker, Waker::Thread(by, _) if !pool.contains_key(&by)),
        );
        let of_interpreter = || {
            off.site
                .is_some_and(|site| is_for_interpreter(view.model, site))
        };
        if slept && off.reason == OffReason::Futex && by_others && !of_interpreter() {
            return true;
        }
    }
    false
}
