//! Context switches and wake-ups, as the kernel's tracing would have written them.
//!
//! A profile does not say which processor a thread ran on. Processors are made up: a thread comes on the one
//! that it had before if that is free, else on the lowest free one. Who ran when, who woke whom and how long
//! anybody waited for a processor is as it was; this is what a critical path is made of.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{Model, OffReason, ThreadId};

use super::proto::{FtraceEvent, FtraceEventBundle, SchedSwitch, SchedWaking};
use crate::moments::{moments, timeline, Moment, State};
use crate::stacks;

/// States of a thread that leaves a processor, as the kernel's tracing numbers them.
const RUNNABLE: i64 = 0;
const SLEEPS: i64 = 1;
const DISK: i64 = 2;
const DEAD: i64 = 16;
const PREEMPTED: i64 = 256;

/// The priority of a thread with nice 0.
const PRIORITY: i32 = 120;

/// Events in one packet.
const BUNDLE: usize = 2000;

/// A thread on a processor.
#[derive(Debug, Clone, Copy)]
struct Run {
    thread: ThreadId,
    start_ns: u64,
    end_ns: u64,
    state_after: i64,
    cpu: u32,
}

/// A thread is woken.
#[derive(Debug, Clone, Copy)]
struct Waking {
    thread: ThreadId,
    /// Its wait began.
    since_ns: u64,
    at_ns: u64,
    /// `None`: an interrupt, or not known.
    waker: Option<ThreadId>,
}

/// All switches and wake-ups, by processor, in order of time.
pub fn bundles(model: &Model) -> Vec<FtraceEventBundle> {
    let (mut runs, wakings) = runs(model);
    until_they_wake(&mut runs, &wakings);
    runs.sort_by_key(|run| (run.start_ns, run.thread));
    place(&mut runs);
    let mut events: BTreeMap<u32, Vec<FtraceEvent>> = BTreeMap::new();
    let mut by_cpu: BTreeMap<u32, Vec<&Run>> = BTreeMap::new();
    let mut by_thread: BTreeMap<ThreadId, Vec<&Run>> = BTreeMap::new();
    for run in &runs {
        by_cpu.entry(run.cpu).or_default().push(run);
        by_thread.entry(run.thread).or_default().push(run);
    }
    for (cpu, runs) in &by_cpu {
        switches(model, runs, events.entry(*cpu).or_default());
    }
    for mut waking in wakings {
        let ran = |thread| ran_at(by_thread.get(&thread), waking.since_ns, waking.at_ns);
        let run = waking.waker.and_then(ran);
        match run {
            Some(run) => waking.at_ns = waking.at_ns.min(run.end_ns),
            None => waking.waker = None,
        }
        let on = run.map_or(0, |run| run.cpu);
        let next = by_thread.get(&waking.thread).and_then(|runs| {
            let after = runs.partition_point(|run| run.start_ns < waking.at_ns);
            runs.get(after)
        });
        let event = self::waking(model, &waking, next.map_or(0, |run| run.cpu));
        events.entry(on).or_default().push(event);
    }
    let mut bundles = Vec::new();
    for (cpu, mut events) in events {
        // A thread is woken before it comes on a processor.
        events.sort_by_key(|e| (e.timestamp, e.sched_waking.is_none()));
        bundles.extend(events.chunks(BUNDLE).map(|chunk| FtraceEventBundle {
            cpu: Some(cpu),
            event: chunk.to_vec(),
        }));
    }
    bundles
}

/// The timeline of a thread ends when its exit begins. What it still does is to wake those that join it: it
/// ran until then. A thread that has become another program has a timeline for each, and only the last one ends it.
fn until_they_wake(runs: &mut [Run], wakings: &[Waking]) {
    let mut wakes: BTreeMap<ThreadId, BTreeSet<u64>> = BTreeMap::new();
    for waking in wakings {
        if let Some(waker) = waking.waker {
            wakes.entry(waker).or_default().insert(waking.at_ns);
        }
    }
    let mut starts: BTreeMap<ThreadId, BTreeSet<u64>> = BTreeMap::new();
    for run in runs.iter() {
        starts.entry(run.thread).or_default().insert(run.start_ns);
    }
    for run in runs.iter_mut().filter(|run| run.state_after == DEAD) {
        let mut later = starts
            .get(&run.thread)
            .into_iter()
            .flat_map(|starts| starts.range(run.start_ns + 1..));
        let next = later.next().copied();
        let until = next.unwrap_or(u64::MAX);
        let mut wakes = wakes
            .get(&run.thread)
            .into_iter()
            .flat_map(|wakes| wakes.range(run.start_ns..until.max(run.start_ns)));
        run.end_ns = run.end_ns.max(wakes.next_back().copied().unwrap_or(0));
        if next.is_some() {
            run.state_after = RUNNABLE;
        }
    }
}

/// The run in which a thread ended a wait. Recorded is when the other one could run again; on another processor that
/// may be after the waker has left its own.
fn ran_at<'a>(runs: Option<&Vec<&'a Run>>, since_ns: u64, at_ns: u64) -> Option<&'a Run> {
    let runs = runs?;
    let after = runs.partition_point(|run| run.start_ns <= at_ns);
    let run = runs.get(after.checked_sub(1)?)?;
    (since_ns <= run.end_ns).then_some(run)
}

fn runs(model: &Model) -> (Vec<Run>, Vec<Waking>) {
    let (mut runs, mut wakings) = (Vec::new(), Vec::new());
    let Some((sched, timeline)) = timeline(model) else {
        return (runs, wakings);
    };
    for lane in &timeline.lanes {
        let mut open: Option<Run> = None;
        let mut last: Option<Moment<'_>> = None;
        for moment in moments(sched, lane) {
            if let Some(waiting) = last.take() {
                wakings.push(Waking {
                    thread: lane.thread,
                    since_ns: waiting.start_ns,
                    at_ns: waiting.end_ns,
                    waker: waiting.waker().map(|(thread, _)| thread),
                });
            }
            match moment.state {
                State::Running | State::Spinning => match &mut open {
                    // Another piece of code, the same run.
                    Some(run) if run.end_ns == moment.start_ns => run.end_ns = moment.end_ns,
                    _ => {
                        runs.extend(open.take());
                        open = Some(Run {
                            thread: lane.thread,
                            start_ns: moment.start_ns,
                            end_ns: moment.end_ns,
                            state_after: RUNNABLE,
                            cpu: 0,
                        });
                    }
                },
                State::Ready | State::Waiting | State::Blocked => {
                    if let Some(run) = open.take() {
                        let state_after = state_after(&moment);
                        runs.push(Run { state_after, ..run });
                    }
                    if moment.state != State::Ready {
                        last = Some(moment);
                    }
                }
            }
        }
        if let Some(run) = open {
            // It ran until it ended, or until the recording did.
            let ended = run.end_ns < sched.end_ns;
            let state_after = if ended { DEAD } else { RUNNABLE };
            runs.push(Run { state_after, ..run });
        }
    }
    (runs, wakings)
}

fn state_after(next: &Moment<'_>) -> i64 {
    match (next.state, next.off.map(|off| off.reason)) {
        (State::Ready, _) if next.preempted => PREEMPTED,
        (State::Ready, _) => RUNNABLE,
        (_, Some(OffReason::Disk | OffReason::Sync | OffReason::PageFault)) => DISK,
        _ => SLEEPS,
    }
}

/// Gives every run a processor on which no other one is. `runs`: in order of their begins.
fn place(runs: &mut [Run]) {
    let mut free: BTreeSet<u32> = BTreeSet::new();
    let mut busy: BTreeSet<(u64, u32)> = BTreeSet::new();
    let mut had: BTreeMap<ThreadId, u32> = BTreeMap::new();
    for run in runs {
        while let Some(&(end_ns, cpu)) = busy.first() {
            if end_ns > run.start_ns {
                break;
            }
            busy.pop_first();
            free.insert(cpu);
        }
        let again = had
            .get(&run.thread)
            .copied()
            .filter(|cpu| free.contains(cpu));
        let next = (free.len() + busy.len()) as u32;
        run.cpu = again.or_else(|| free.first().copied()).unwrap_or(next);
        free.remove(&run.cpu);
        busy.insert((run.end_ns, run.cpu));
        had.insert(run.thread, run.cpu);
    }
}

fn switches(model: &Model, runs: &[&Run], events: &mut Vec<FtraceEvent>) {
    let mut before: Option<&Run> = None;
    for &run in runs {
        match before {
            Some(ended) if ended.end_ns == run.start_ns => {
                events.push(switch(model, run.start_ns, Some(ended), Some(run)));
            }
            ended => {
                events.extend(ended.map(|e| switch(model, e.end_ns, Some(e), None)));
                events.push(switch(model, run.start_ns, None, Some(run)));
            }
        }
        before = Some(run);
    }
    events.extend(before.map(|e| switch(model, e.end_ns, Some(e), None)));
}

/// `None`: nothing runs, which the kernel calls thread 0.
fn switch(model: &Model, at_ns: u64, from: Option<&Run>, to: Option<&Run>) -> FtraceEvent {
    let (prev_pid, prev_comm) = name(model, from.map(|run| run.thread));
    let (next_pid, next_comm) = name(model, to.map(|run| run.thread));
    FtraceEvent {
        timestamp: at_ns,
        pid: Some(prev_pid as u32),
        sched_switch: Some(SchedSwitch {
            prev_comm: Some(prev_comm),
            prev_pid: Some(prev_pid),
            prev_prio: Some(PRIORITY),
            prev_state: Some(from.map_or(RUNNABLE, |run| run.state_after)),
            next_comm: Some(next_comm),
            next_pid: Some(next_pid),
            next_prio: Some(PRIORITY),
        }),
        sched_waking: None,
    }
}

fn waking(model: &Model, waking: &Waking, target_cpu: u32) -> FtraceEvent {
    let (pid, comm) = name(model, Some(waking.thread));
    let (waker, _) = name(model, waking.waker);
    FtraceEvent {
        timestamp: waking.at_ns,
        pid: Some(waker as u32),
        sched_switch: None,
        sched_waking: Some(SchedWaking {
            comm: Some(comm),
            pid: Some(pid),
            prio: Some(PRIORITY),
            success: Some(1),
            target_cpu: i32::try_from(target_cpu).ok(),
        }),
    }
}

fn name(model: &Model, thread: Option<ThreadId>) -> (i32, String) {
    match thread.and_then(|id| stacks::thread(model, id)) {
        Some(thread) => (super::number(thread.tid), thread.name.clone()),
        None => (0, "swapper".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_becomes_another_program_does_not_run_in_between() {
        let thread = ThreadId(0);
        let run = |start_ns, end_ns| Run {
            thread,
            start_ns,
            end_ns,
            state_after: DEAD,
            cpu: 0,
        };
        let wakes = |at_ns| Waking {
            thread: ThreadId(1),
            since_ns: 0,
            at_ns,
            waker: Some(thread),
        };
        let mut runs = [run(10, 20), run(50, 60)];
        until_they_wake(&mut runs, &[wakes(25), wakes(55), wakes(70)]);
        let ends = runs.map(|run| (run.end_ns, run.state_after));
        assert_eq!(ends, [(25, RUNNABLE), (70, DEAD)]);
    }
}
