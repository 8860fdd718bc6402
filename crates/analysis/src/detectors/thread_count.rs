//! Too many or too few threads for the CPUs.

use std::collections::BTreeSet;

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, percent, plural};
use convoy_model::{FindingId, OffReason, ThreadId};

use crate::estimate::saving::{Saving, NO_WORK, SWITCH_NS};
use crate::facts::lock_recognition::lets_go;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::words::{cause, evidence};

/// Threads that are at work for this share of the run use what they could use.
const ALL_BUSY: f64 = 0.9;
/// Threads that could run wait for this share of their active time.
const DELAYED: f64 = 0.3;
/// CPUs that other programs have, from which on it is said.
const OTHERS: f64 = 0.1;
/// More work can be spread over more threads; whether it scales is not known.
const EXPECTED: f64 = 0.5;

pub(crate) fn finding(cx: &RunFacts) -> Option<Finding> {
    too_few(cx).or_else(|| too_many(cx))
}

/// Threads that all work all the time, and CPUs without any.
fn too_few(cx: &RunFacts) -> Option<Finding> {
    let (view, p) = (cx.view, &cx.rows.parallelism);
    let threads = view.workers_at_once as f64;
    if !view.cpus.is_finite() || threads > view.cpus - 1.0 || p.working_mean < ALL_BUSY * threads {
        return None;
    }
    let most = view.wall * (1.0 - threads / view.cpus_left()).max(0.0);
    let saving = Saving {
        expected: EXPECTED * most,
        most,
        sure: 0.0,
        ..Saving::default()
    };
    Some(Finding {
        id: FindingId::TooFewThreads,
        subject: Subject::Run,
        title: format!(
            "{} are busy all the time, too few for {:.0} CPUs{}",
            plural(view.workers_at_once, "thread"),
            view.cpus,
            of_others(view)
        ),
        evidence: vec![evidence(
            "working_mean",
            p.working_mean,
            format!("{:.1} threads working on average", p.working_mean),
        )],
        causes: vec![cause(
            "too-few-threads",
            "all threads work all the time, and CPUs are idle",
            format!("{:.0} threads", view.cpus),
        )],
        undecided: String::new(),
        gain: saving.gain(
            view,
            "working threads over CPUs",
            "how well the work scales",
        ),
        share_of_thread_time: 1.0,
        caveats: vec!["whether the work scales to more threads is not known".into()],
    })
}

/// What of the CPUs is not to be had.
pub(crate) fn of_others(view: &RunView) -> String {
    match view.others_cpus() {
        had if had < OTHERS => String::new(),
        had => format!(", of which other programs have {had:.1}"),
    }
}

/// More threads than CPUs that take turns, woken by one another.
pub(crate) struct Turns {
    /// Switches that fewer threads would not make.
    switches: f64,
    /// CPU time that goes with them, expected and at most; and at best, with all that the threads run in functions that wait, wake and
    /// lock. Nanoseconds.
    pub(crate) cpu: (f64, f64),
    pub(crate) at_best: f64,
    /// Share of their active time that threads wait for a CPU.
    delayed: f64,
}

impl Turns {
    /// `None` if threads do not take turns.
    pub(crate) fn of(cx: &RunFacts) -> Option<Self> {
        let view = cx.view;
        let sum = |f: fn(&convoy_model::SchedThread) -> u64| {
            view.threads.values().map(|th| f(th) as f64).sum::<f64>()
        };
        let active = sum(|th| th.active_ns());
        let delayed = sum(|th| th.delayed_ns) + sum(|th| th.preempted_ns);
        // With fewer that could run on average than there are CPUs, it is how they take turns that costs, not that they are many.
        let want_more =
            view.workers_at_once as f64 > view.cpus && cx.rows.parallelism.active_mean > view.cpus;
        if !want_more || delayed < DELAYED * active {
            return None;
        }
        // Of the switches, those that fewer threads would not make: woken by one of their own process. That a thread is taken off
        // costs nothing to speak of at the end of its slice, of which there are hundreds a second; more often it gives way
        // (`sched_yield()`), or to somebody who is woken from elsewhere (the client of a server): two threads do that as well as four.
        let switches = own_wakes(cx) * (1.0 - view.cpus / view.workers_at_once as f64);
        let cpu = |each: f64| (switches * each).min(0.5 * view.cpu_work);
        Some(Self {
            switches,
            cpu: (cpu(SWITCH_NS.0), cpu(SWITCH_NS.1)),
            at_best: handing_over(view).min(NO_WORK * view.cpu_work),
            delayed: delayed / active.max(1.0),
        })
    }
}

/// Threads that take turns on the CPUs, at a price.
fn too_many(cx: &RunFacts) -> Option<Finding> {
    let (view, p) = (cx.view, &cx.rows.parallelism);
    let turns = Turns::of(cx)?;
    let (switches, delayed) = (turns.switches, turns.delayed);
    let (expected, most) = (turns.cpu.0 / view.cpus, turns.cpu.1 / view.cpus);
    // The work is not what is saved here, but what its switches cost: it may fall below the CPU time of today.
    if view.wall / (view.wall - most).max(1.0) < view.t.gain_mid {
        return None;
    }
    let ratio = |saved: f64| view.wall / (view.wall - saved).max(0.5 * view.wall);
    // The waits between go as well, at best: what is left is what they run outside of the functions that wait, wake and lock.
    let work = view.cpu_work - turns.at_best;
    let bound = match ratio(expected) >= view.t.gain_mid {
        true => view.wall / (work / view.cpus).clamp(0.1 * view.wall, view.wall),
        // Where few switches are due to them, most of that has other reasons.
        false => 1.0,
    };
    Some(Finding {
        id: FindingId::TooManyThreads,
        subject: Subject::Run,
        title: format!(
            "{} share {:.0} CPUs: fewer threads would save {} context switches a second",
            plural(view.workers_at_once, "thread"),
            view.cpus,
            count(switches / view.wall * 1e9)
        ),
        evidence: vec![
            evidence(
                "delayed_ratio",
                delayed,
                format!(
                    "threads that could run wait for a CPU {} of the time",
                    percent(delayed)
                ),
            ),
            evidence(
                "active_mean",
                p.active_mean,
                format!("{:.1} threads could run on average", p.active_mean),
            ),
        ],
        causes: vec![cause(
            "too-many-threads",
            "more threads want to run than there are CPUs",
            format!("{:.0} threads", view.cpus),
        )],
        undecided: String::new(),
        gain: convoy_model::finding::Gain {
            low: 1.0,
            mid: ratio(expected),
            high: ratio(most).max(bound),
            method: "switches at 5 to 10 us each; at most, all that the threads run in functions that wait, wake and lock".into(),
            limited_by: "CPUs".into(),
            estimates: Vec::new(),
        },
        share_of_thread_time: delayed,
        caveats: vec![
            "what a switch costs depends on the caches that its thread finds cold".into(),
        ],
    })
}

/// CPU time of the workers that samples show in functions that wait, wake and lock.
fn handing_over(view: &RunView) -> f64 {
    let shares = view.sync.shares(&view.workers, &BTreeSet::new());
    let of = |(id, (_, share)): (&ThreadId, &(f64, f64))| {
        view.threads
            .get(id)
            .map_or(0.0, |th| share * th.cpu_work_ns() as f64)
    };
    shares.iter().map(of).sum()
}

/// Times that a worker was woken by a thread of its own process, at a barrier or a queue. From a lock does not count: two threads
/// hand it over as often as four do.
fn own_wakes(cx: &RunFacts) -> f64 {
    let view = cx.view;
    let mut n = 0.0;
    for (wake, off, waker, site) in view.sched.ended_by_threads() {
        let worker = view.workers.contains(&off.thread) && off.reason == OffReason::Futex;
        if !worker || view.process(off.thread) != view.process(waker) {
            continue;
        }
        if !lets_go(view, off, site) {
            n += wake.n as f64;
        }
    }
    n
}
