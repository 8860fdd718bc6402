//! A goroutine that is at work all the time while others wait for what it hands over. Which thread runs it changes all the
//! time, so that no thread is a stage: its samples are told by the function that it began in.

use std::collections::BTreeSet;

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, percent};
use convoy_model::{FindingId, GoWait, GroupId, ProcessId};
use convoy_profile::GO_IN_CALL;

use crate::detectors::goroutine_lock::{may_be_idle, woken_for, WokenFor};
use crate::estimate::saving::Saving;
use crate::facts::concurrency::all;
use crate::facts::goroutines::{began, is_own, Kinds, Started};
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::tables::paths::most;
use crate::words::{cause, evidence};

/// Share of the run that it works; more where threads wait for the network, which it may do as well.
const ALWAYS: (f64, f64) = (0.85, 0.9);
/// ... or this one, if looks at the goroutines have not seen it wait in so many of them: then it waits for a processor at most, and those
/// that hand it something are to blame for that.
const READY: (f64, f64) = (0.6, 0.9);
const ONE_AT_MOST: f64 = 1.2;
/// Share of the processors' time that other programs have from which on goroutines take turns for want of processors: several
/// look like one.
const OTHER_PROGRAMS: f64 = 0.15;
/// Share of what it runs that others run: less is no stage before or after it.
const OTHERS: f64 = 0.03;
/// Share of what the program runs in channels from which on it is them: goroutines that meet for each single item work in turns, and look
/// like one.
const MEETS: f64 = 0.15;
/// Idle threads that were woken for who was handed something: fewer are a start or an end.
const WOKEN: u64 = 10;
/// Samples from which on shares of them mean something.
const SAMPLES: u64 = 50;
/// What it does may be divided; what the first goroutine does perhaps not. As for threads.
const EXPECTED: (f64, f64) = (0.8, 0.5);
const METHOD: &str = "work of each goroutine, bounded by CPUs (asymptotic bound)";

pub(crate) fn findings(cx: &RunFacts) -> Vec<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let mut found = Vec::new();
    if view.others_share() >= OTHER_PROGRAMS {
        return found;
    }
    for (process, kinds) in &cx.goroutines {
        let busiest = kinds.values().max_by_key(|started| started.samples);
        found.extend(busiest.and_then(|one| finding(one, view, *process, kinds)));
    }
    found
}

/// For how long the only goroutine that began so was at work or ready to be, if that is all the time.
fn at_work(started: &Started, view: &RunView, process: ProcessId, kinds: &Kinds) -> Option<f64> {
    let always = match may_be_idle(view, process) {
        true => ALWAYS.1,
        false => ALWAYS.0,
    };
    let works = all(&started.by_working).min(view.wall);
    if works >= always * view.wall {
        return started.is_one(view).then_some(works);
    }
    let ready = ready(started, view, process).filter(|share| *share >= READY.1)?;
    // Threads that change hands all the time leave no time for samples.
    let told: f64 = kinds.values().map(|kind| all(&kind.by_working)).sum();
    let worked: f64 = view
        .of_process(process)
        .map(|th| th.working_ns() as f64)
        .sum();
    let works = works * (worked / told.max(1.0)).max(1.0);
    // Two that never wait would work twice as long as passes.
    let is_one = (READY.0..ONE_AT_MOST).contains(&(works / view.wall));
    is_one.then(|| works.max(ready * view.wall).min(view.wall))
}

/// The share of looks at which none that began so was seen to wait.
fn ready(started: &Started, view: &RunView, process: ProcessId) -> Option<f64> {
    let program = view.go_programs().find(|of| of.process == process)?;
    let name = &started.first?.function;
    let of_it = |wait: &&GoWait| {
        wait.reason != GO_IN_CALL && began(view, wait).is_some_and(|of| of.function == *name)
    };
    let waits = program.waits.iter().filter(of_it);
    let waits: u64 = waits.map(|wait| wait.n).sum();
    Some(1.0 - waits as f64 / program.looks as f64)
}

fn finding(
    started: &Started,
    view: &RunView,
    process: ProcessId,
    kinds: &Kinds,
) -> Option<(Vec<GroupId>, Finding)> {
    let first = started.first?;
    let sum = |all: &mut dyn Iterator<Item = u64>| all.fold(0u64, u64::saturating_add);
    let runs = sum(&mut kinds.values().map(|started| started.samples));
    let others = kinds
        .iter()
        .filter(|(name, _)| is_own(name) && **name != first.function);
    let others: Vec<u64> = others.map(|(_, started)| started.samples).collect();
    let of_runs = |n: u64| n as f64 / runs.max(1) as f64;
    let of_others = of_runs(sum(&mut others.iter().copied()));
    let hand_over = of_runs(sum(&mut kinds.values().map(|started| started.hands_over)));
    if started.samples < SAMPLES || of_others < OTHERS || hand_over >= MEETS {
        return None;
    }
    let at_work = at_work(started, view, process, kinds)?;
    let handed = handed_over(view, process);
    if handed < WOKEN || started.are_many(view, process) {
        return None;
    }
    let threads = || view.of_process(process);
    let running = view.ran(process);
    // Of the others nobody knows how many share their work: one, at most.
    let next = others.iter().map(|n| running * of_runs(*n));
    let next = next.fold(view.cpu_floor(), f64::max);
    let bound = (at_work - next).max(0.0);
    let expected = match started.is_first() {
        true => EXPECTED.1,
        false => EXPECTED.0,
    };
    let saving = Saving {
        expected: expected * bound,
        most: bound,
        ..Saving::default()
    };
    if saving.bound(view) < view.t.gain_mid {
        return None;
    }
    let name = started.name(view);
    let share = percent(at_work / view.wall);
    let site = most(started.sites.clone())?;
    let finding = Finding {
        id: FindingId::LimitingStage,
        subject: Subject::Code(site),
        title: format!("one goroutine of {name} is the pipeline's bottleneck: busy {share} of the run, and others wait for it"),
        evidence: vec![
            evidence(
                "busy_ratio",
                at_work / view.wall,
                format!(
                    "{name}: busy {share} of the run, one goroutine at a time; {} of the program's CPU time (samples)",
                    percent(of_runs(started.samples))
                ),
            ),
            evidence(
                "others_ratio",
                of_others,
                format!("all other goroutines: {} of the program's CPU time", percent(of_others)),
            ),
            evidence(
                "woken",
                handed as f64,
                format!("{} times a thread without work was woken for who was handed something", count(handed as f64)),
            ),
            evidence(
                "place_ratio",
                1.0,
                format!("most of its time at {}", view.place(Some(site))),
            ),
        ],
        causes: vec![cause(
            "limiting-stage",
            "one stage works all the time while those before and after it wait for it",
            format!("more goroutines for {name}, part of what it does for those that wait, or less work in it"),
        )],
        undecided: String::new(),
        gain: saving.gain(view, METHOD, "the next stage"),
        share_of_thread_time: at_work / view.wall,
        caveats: vec![
            "that it is one goroutine is inferred: on average it works once at a time (or several take turns, or phases); whether its work can be divided is not known".into(),
        ],
    };
    let groups: BTreeSet<GroupId> = threads().map(|th| view.role(th.thread)).collect();
    Some((groups.into_iter().collect(), finding))
}

/// Idle threads of a process that were woken for who was handed something through a channel; none where most of them were
/// woken for who waited for a lock.
fn handed_over(view: &RunView, process: ProcessId) -> u64 {
    let (mut handed, mut locks) = (0u64, 0u64);
    for wake in &view.sched.wakes {
        match woken_for(view, wake) {
            Some((of, WokenFor::Channel)) if of == process => {
                handed = handed.saturating_add(wake.n)
            }
            Some((of, WokenFor::Lock)) if of == process => locks = locks.saturating_add(wake.n),
            _ => {}
        }
    }
    if handed >= locks {
        handed
    } else {
        0
    }
}
