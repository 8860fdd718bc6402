//! Context switches and wake-ups, as the kernel's tracing would have written them.
//!
//! A profile does not say which processor a thread ran on. Processors are made up: a thread comes on the one
//! that it had before if that is free, else on the lowest free one. Who ran when, who woke whom and how long
//! anybody waited for a processor is as it was; this is what a critical path is made of.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{Model, OffReason, ThreadId};

use super::proto::{FtraceEvent, FtraceEventBundle, SchedSwitch, SchedWaking};
use crate::moments::{moments, timeline, Moment, State};
use crate::{stacks, Error};

/// States of a thread that leaves a processor, as the kernel's tracing numbers them.
const RUNNABLE: i64 = 0;
const SLEEPS: i64 = 1;
const DISK: i64 = 2;
const DEAD: i64 = 16;
const PREEMPTED: i64 = 256;

/// The priority of a thread with nice 0.
const PRIORITY: i32 = 120;

/// What a thread that has ended is taken to run for when it wakes another one.
const WAKE_NS: u64 = 1_000;

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

/// What happened on a processor, by its place in the tables: one event of the format is many times as large.
#[derive(Debug, Clone, Copy)]
enum Event {
    Waking {
        waking: usize,
        target_cpu: u32,
    },
    Switch {
        from: Option<usize>,
        to: Option<usize>,
    },
}

/// Gives all switches and wake-ups, by processor, in order of time.
pub fn bundles(
    model: &Model,
    give: &mut dyn FnMut(FtraceEventBundle) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut runs, mut wakings) = runs(model);
    until_they_wake(&mut runs, &wakings);
    runs.sort_by_key(|run| (run.start_ns, run.thread));
    place(&mut runs);
    let mut by_cpu: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut by_thread: BTreeMap<ThreadId, Vec<&Run>> = BTreeMap::new();
    for (ix, run) in runs.iter().enumerate() {
        by_cpu.entry(run.cpu).or_default().push(ix);
        by_thread.entry(run.thread).or_default().push(run);
    }
    let mut events: BTreeMap<u32, Vec<(u64, Event)>> = BTreeMap::new();
    for (cpu, on_it) in by_cpu {
        switches(&runs, &on_it, events.entry(cpu).or_default());
    }
    for (ix, waking) in wakings.iter_mut().enumerate() {
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
        let event = Event::Waking {
            waking: ix,
            target_cpu: next.map_or(0, |run| run.cpu),
        };
        events.entry(on).or_default().push((waking.at_ns, event));
    }
    for (cpu, mut events) in events {
        // A thread is woken before it comes on a processor.
        events.sort_by_key(|(at_ns, event)| (*at_ns, matches!(event, Event::Switch { .. })));
        for chunk in events.chunks(BUNDLE) {
            let event = chunk.iter().map(|(at_ns, event)| match *event {
                Event::Waking { waking, target_cpu } => wakings
                    .get(waking)
                    .map(|w| self::waking(model, w, target_cpu)),
                Event::Switch { from, to } => {
                    let run = |ix: Option<usize>| runs.get(ix?);
                    Some(switch(model, *at_ns, run(from), run(to)))
                }
            });
            give(FtraceEventBundle {
                cpu: Some(cpu),
                event: event.flatten().collect(),
            })?;
        }
    }
    Ok(())
}

/// The timeline of a thread ends when its exit begins. What it still does is to wake those that join it: it ran
/// for a moment then. What it did between is not recorded, and may have been to wait for a processor. A thread that
/// has become another program has a timeline for each, and only the last one ends it.
fn until_they_wake(runs: &mut Vec<Run>, wakings: &[Waking]) {
    let wakes = wakings.iter().filter_map(|w| Some((w.waker?, w.at_ns)));
    let wakes = times_by_thread(wakes);
    let starts = times_by_thread(runs.iter().map(|run| (run.thread, run.start_ns)));
    let none = Vec::new();
    let mut ends = Vec::new();
    for run in runs.iter_mut().filter(|run| run.state_after == DEAD) {
        let starts = starts.get(&run.thread).unwrap_or(&none);
        let next = starts.get(starts.partition_point(|at| *at <= run.start_ns));
        let until = next.copied().unwrap_or(u64::MAX);
        if next.is_some() {
            run.state_after = RUNNABLE;
        }
        let wakes = wakes.get(&run.thread).unwrap_or(&none);
        let before = wakes.partition_point(|at| *at < until);
        let last = before.checked_sub(1).and_then(|ix| wakes.get(ix));
        // One from before the run is before its end as well.
        let Some(&last) = last.filter(|at| **at > run.end_ns) else {
            continue;
        };
        if last - run.end_ns <= WAKE_NS {
            run.end_ns = last;
            continue;
        }
        ends.push(Run {
            start_ns: last - WAKE_NS,
            end_ns: last,
            ..*run
        });
        run.state_after = RUNNABLE;
    }
    runs.append(&mut ends);
}

fn times_by_thread(times: impl Iterator<Item = (ThreadId, u64)>) -> BTreeMap<ThreadId, Vec<u64>> {
    let mut by_thread: BTreeMap<ThreadId, Vec<u64>> = BTreeMap::new();
    for (thread, at_ns) in times {
        by_thread.entry(thread).or_default().push(at_ns);
    }
    by_thread
        .values_mut()
        .for_each(|times| times.sort_unstable());
    by_thread
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

/// Of the runs of one processor, in order of time.
fn switches(runs: &[Run], on_it: &[usize], events: &mut Vec<(u64, Event)>) {
    let mut push = |at_ns, from, to| events.push((at_ns, Event::Switch { from, to }));
    let mut before: Option<(usize, u64)> = None;
    for &ix in on_it {
        let Some(run) = runs.get(ix) else { continue };
        match before {
            Some((ended, end_ns)) if end_ns == run.start_ns => {
                push(run.start_ns, Some(ended), Some(ix));
            }
            ended => {
                if let Some((ended, end_ns)) = ended {
                    push(end_ns, Some(ended), None);
                }
                push(run.start_ns, None, Some(ix));
            }
        }
        before = Some((ix, run.end_ns));
    }
    if let Some((ended, end_ns)) = before {
        push(end_ns, Some(ended), None);
    }
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
        let mut runs = vec![run(10_000, 20_000), run(50_000, 60_000)];
        until_they_wake(&mut runs, &[wakes(20_500), wakes(55_000), wakes(60_700)]);
        let ends: Vec<_> = runs.iter().map(|r| (r.end_ns, r.state_after)).collect();
        assert_eq!(ends, [(20_500, RUNNABLE), (60_700, DEAD)]);

        // Five milliseconds in its exit: it did not run all the while, or nobody knows.
        let mut runs = vec![run(10_000, 20_000)];
        until_they_wake(&mut runs, &[wakes(5_020_000)]);
        let all: Vec<_> = runs
            .iter()
            .map(|r| (r.start_ns, r.end_ns, r.state_after))
            .collect();
        assert_eq!(
            all,
            [(10_000, 20_000, RUNNABLE), (5_019_000, 5_020_000, DEAD)]
        );
    }
}
