//! Goroutines that could run and wait for one of the processors that the runtime of Go gives them (GOMAXPROCS), while CPUs are
//! idle: no thread waits for a CPU, as there are no more threads than those.

use std::collections::BTreeSet;

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{bucket_floor, FindingId, GoProgram, GoState, GroupId};

use crate::detectors::goroutine_pool::are_idle;
use crate::estimate::saving::Saving;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::words::{cause, evidence};

/// Looks with a queue from which on it is worth a word.
const OFTEN: f64 = 0.1;
/// ... and that explain that few work.
const MOSTLY: f64 = 0.5;
/// Times that a goroutine which could run gives up its processor between two looks, from which on they hand over to one another, or
/// perhaps: with more processors that costs more. They are counted up to 255.
const TURNS: f64 = 100.0;
/// How well the work scales is not known, nor whether the limit is meant.
const EXPECTED: f64 = 0.9;
const SURE: f64 = 0.4;

pub(crate) fn findings(cx: &RunFacts) -> Vec<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let asked = |program: &&GoProgram| !cx.nobody_asks && !are_idle(view, program.process);
    let found = view.go_programs().filter(asked).filter_map(|program| {
        let finding = finding(view, program)?;
        let threads = view.of_process(program.process);
        let groups: BTreeSet<GroupId> = threads.map(|th| view.role(th.thread)).collect();
        Some((groups.into_iter().collect(), finding))
    });
    found.collect()
}

/// Whether that is why hardly more threads work than the runtime has processors.
pub(crate) fn explains(finding: &Finding) -> bool {
    finding.share_of_thread_time >= MOSTLY
}

fn finding(view: &RunView, program: &GoProgram) -> Option<Finding> {
    if !view.cpus.is_finite() {
        return None;
    }
    let limited = || program.states.iter().filter(|s| is_limited(view, s));
    let looks: u64 = limited().map(|s| s.n).sum();
    let often = looks as f64 / program.looks as f64;
    if often < OFTEN {
        return None;
    }
    let procs = limited().map(|s| s.procs).max()?;
    let queued = mean(limited(), looks, |s| {
        bucket_floor(s.runnable as usize) as f64
    });
    // With the CPUs that there are, each of those moments would have been so much shorter.
    let shorter = mean(limited(), looks, |s| {
        let runs = f64::from(s.running);
        let could = (runs + bucket_floor(s.runnable as usize) as f64).min(view.cpus);
        1.0 - runs / could.max(runs)
    });
    let life = view.life_of(program.process);
    // No goroutine runs on two at a time: the one that ran longest needs as long as it did.
    let longest = life * program.longest as f64 / program.looks as f64;
    let most = (often * life * shorter).min(life - longest);
    // Others may have the CPUs that are idle for this program.
    let (ran, spare) = (view.cpus_used() * view.wall, view.spare());
    let left = view.wall * spare / (ran + spare).max(1.0);
    let active = program
        .states
        .iter()
        .map(|s| s.n as f64 * (f64::from(s.running) + bucket_floor(s.runnable as usize) as f64));
    let turns = program.turns as f64 / active.sum::<f64>().max(1.0);
    if turns >= TURNS {
        return None;
    }
    let saving = Saving {
        expected: EXPECTED * most.min(left),
        most,
        sure: SURE,
        ..Saving::default()
    };
    if saving.bound(view) < view.t.gain_mid {
        return None;
    }
    Some(Finding {
        id: FindingId::KeptOffCpus,
        subject: Subject::Processes(vec![program.process]),
        title: format!(
            "runnable goroutines share {} of Go's (GOMAXPROCS) on {:.0} CPUs",
            plural(procs as usize, "processor"),
            view.cpus
        ),
        evidence: vec![
            evidence(
                "queued_goroutines",
                queued,
                format!("{queued:.1} goroutines that could run wait for one on average, at {} of {} looks", percent(often), program.looks),
            ),
            evidence(
                "idle_ratio",
                spare / view.wall,
                format!("{} of a CPU was idle over the run", percent(spare / view.wall)),
            ),
        ],
        causes: vec![cause(
            "kept-off-cpus",
            "the runtime of Go runs no more goroutines at once than GOMAXPROCS, and CPUs are idle",
            "a higher GOMAXPROCS: look for it in the environment, for runtime.GOMAXPROCS() in the code, and for a CPU limit of the \
             container, from which newer runtimes take it (cpu.max of the cgroup)",
        )],
        undecided: String::new(),
        gain: saving.gain(
            view,
            "goroutines that wait, on the CPUs that are idle",
            "how well the work scales",
        ),
        share_of_thread_time: often.min(1.0),
        caveats: vec!["whether the limit is meant is not known".into()],
    })
}

/// All processors of the runtime are in use, there are fewer than CPUs, and a goroutine waits for one.
fn is_limited(view: &RunView, state: &GoState) -> bool {
    let procs = f64::from(state.procs);
    procs >= 1.0 && procs < view.cpus && state.running >= state.procs && state.runnable > 0
}

fn mean<'a>(
    states: impl Iterator<Item = &'a GoState>,
    looks: u64,
    of: impl Fn(&GoState) -> f64,
) -> f64 {
    states.map(|s| s.n as f64 * of(s)).sum::<f64>() / (looks as f64).max(1.0)
}
