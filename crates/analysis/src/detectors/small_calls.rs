//! Processes that call another one of their program for every small thing, and wait for each answer: objects that a Manager of
//! Python's multiprocessing keeps for all.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, duration, percent};
use convoy_model::{runs, FindingId, OffReason, ProcessId, Runs, ThreadId};

use crate::estimate::saving::Saving;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::words::{cause, evidence, time};

/// Calls of all together from which on they are a habit.
const CALLS: u64 = 1000;
/// Who calls for less than this part of what the busiest one does only begins and ends so.
const OF_MOST: f64 = 0.05;
/// Of a call, the wait for its answer and what the callee runs for it, nanoseconds: with more, something is done for it.
const ANSWER_NS: f64 = 500_000.0;
const WORK_NS: f64 = 100_000.0;
/// The callee waits for the next call so many times for each answer.
const IN_TURNS: f64 = 0.3;
/// Share of the callers' lives that waits and calls take.
const WORTH: f64 = 0.2;
/// Part of what calls cost that goes with few large ones instead.
const EXPECTED: f64 = 0.8;
const METHOD: &str = "calls, with what both sides run for them, gone";

/// One process that calls.
#[derive(Default)]
struct Calls {
    n: u64,
    ns: f64,
    /// Waits of the callee for it.
    next: u64,
    /// Its threads that call.
    threads: BTreeSet<ThreadId>,
}

/// Those that call one.
type Callers = BTreeMap<ProcessId, Calls>;

pub(crate) fn findings(cx: &RunFacts) -> Vec<Finding> {
    let view = cx.view;
    let mut callees: BTreeMap<ProcessId, Callers> = BTreeMap::new();
    for (wake, off, waker, _) in view.sched.ended_by_threads() {
        let talks = matches!(
            off.reason,
            OffReason::Socket | OffReason::Pipe | OffReason::Poll
        );
        if !talks {
            continue;
        }
        let (waits, ends) = (view.process(off.thread), view.process(waker));
        if calls(view, waits, ends) {
            let calls = callees.entry(ends).or_default().entry(waits).or_default();
            calls.n += wake.n;
            calls.ns += wake.wait_ns as f64;
            calls.threads.insert(off.thread);
        } else if calls(view, ends, waits) {
            let calls = callees.entry(waits).or_default().entry(ends).or_default();
            calls.next += wake.n;
        }
    }
    let found = callees.into_iter().filter_map(|(callee, mut callers)| {
        let most = callers.values().map(|calls| calls.n).max()?;
        callers.retain(|_, calls| calls.n as f64 >= OF_MOST * most as f64);
        said(view, callee, &callers)
    });
    found.collect()
}

/// Whether one can call the other: both are of one program, and the other one accepts connections.
fn calls(view: &RunView, caller: ProcessId, callee: ProcessId) -> bool {
    let both = view.process_at(caller).zip(view.process_at(callee));
    both.is_some_and(|(caller, callee)| {
        let interpreted = runs(&callee.name) == Some(Runs::OneAtATime);
        interpreted && callee.listens && !caller.listens && !caller.runs_other_code(callee)
    })
}

fn said(view: &RunView, callee: ProcessId, callers: &Callers) -> Option<Finding> {
    let works = |id| view.of_process(id).map(|th| th.cpu_work_ns() as f64).sum();
    let sum = |of: fn(&Calls) -> u64| callers.values().map(of).sum::<u64>();
    let (n, next) = (sum(|calls| calls.n), sum(|calls| calls.next));
    let waited: f64 = callers.values().map(|calls| calls.ns).sum();
    let served: f64 = works(callee);
    let each = |ns: f64| ns / n.max(1) as f64;
    let small = each(waited) <= ANSWER_NS && each(served) <= WORK_NS;
    if n < CALLS || !small || (next as f64) < IN_TURNS * n as f64 {
        return None;
    }
    // To write a call down and read its answer takes the caller what the reverse takes the callee.
    let of_caller = |(&id, calls): (&ProcessId, &Calls)| {
        let made = (calls.n as f64 * each(served)).min(works(id));
        // Each of its threads waits for its own calls.
        let of_one = (calls.ns + made) / calls.threads.len().max(1) as f64;
        (of_one, made, view.life_of(id))
    };
    let each_caller: Vec<(f64, f64, f64)> = callers.iter().map(of_caller).collect();
    let lives: f64 = each_caller.iter().map(|(.., life)| life).sum();
    let cost: f64 = each_caller.iter().map(|(cost, ..)| cost).sum();
    let most = each_caller.iter().map(|(cost, ..)| *cost);
    let most = most.fold(0.0, f64::max).min(view.wall);
    let cpu = served + each_caller.iter().map(|(_, made, _)| made).sum::<f64>();
    let share = (cost / lives.max(1.0)).min(1.0);
    let saving = Saving {
        expected: EXPECTED * most,
        most,
        sure: 0.0,
        cpu: (EXPECTED * cpu, cpu),
    };
    if share < WORTH || saving.bound(view) < view.t.gain_mid {
        return None;
    }
    let of = view.process_at(callee)?;
    let rate = n as f64 / (view.wall / 1e9);
    Some(Finding {
        id: FindingId::FineGrainedTasks,
        subject: Subject::Processes(callers.keys().copied().collect()),
        title: format!(
            "{} of {} ask process {} for small things, {} times a second, and wait {} for each answer",
            match callers.len() {
                1 => "1 process".to_owned(),
                n => format!("{n} processes"),
            },
            of.title(),
            of.pid,
            count(rate),
            duration(each(waited))
        ),
        evidence: vec![
            evidence(
                "hand_over_ratio",
                share,
                format!(
                    "calls are {} of their time: waits, and as much to make a call as the other side runs for it, {}",
                    percent(share),
                    duration(each(served))
                ),
            ),
            time("calls_ns", waited, "in waits for answers"),
        ],
        causes: vec![cause(
            "fine-grained-tasks",
            "what is shared is in another process: each access is a message there and one back",
            "results of their own in each process, merged at the end or after each chunk; or one call for many items (update() of a Manager's dict \
             with all of them); or memory that is shared (multiprocessing.Array, shared_memory)",
        )],
        undecided: String::new(),
        gain: saving.gain(view, METHOD, "the work itself"),
        share_of_thread_time: share,
        caveats: Vec::new(),
    })
}
