//! The accounting against a program that knows by the clock how many of its threads were active when.

use std::process::Command;

use convoy_harness::case::{measured, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::needs::missing;
use convoy_harness::{check, root, turn, Result};
use convoy_profile::{Profile, Sched};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::fixture::{number, truth};

/// Threads of the timetable.
const THREADS: usize = 3;
/// Relative tolerance of a time.
const SLACK: f64 = 0.02;
/// Start and end of the program, which are not in its timetable, and threads that were woken late.
const SLACK_NS: f64 = 8e6;

/// One test.
pub fn trials() -> Vec<Trial> {
    let needs = missing(&["cpus-2".to_owned(), "kernel".to_owned()]);
    vec![measured("phases/as-the-program-knows", needs, phases)]
}

fn phases(scratch: &Scratch) -> Result {
    let program = compile(&root().join("fixtures/known-phases/known_phases.c"), &[])?;
    let _turn = turn::alone();
    turn::retry(|| {
        let file = scratch.path("phases.convoy");
        let mut command: Command = convoy_harness::convoy::record(&file)?;
        let truth = truth(command.arg(&program), scratch, "convoy")?;
        let profile = convoy_harness::convoy::read(&file)?;
        let sched = profile.sched.as_ref().ok_or("nothing of the kernel's")?;
        parallelism_is_known(sched, &truth)?;
        metric_is_known(&profile, sched, &truth)
    })
}

/// Time with one, two and three active threads.
fn parallelism_is_known(sched: &Sched, truth: &Value) -> Result {
    for active in 1..=THREADS {
        let known = number(truth, &format!("active{active}_ns"))?;
        let found = sched.active.get(active).copied().unwrap_or(0);
        near(&format!("{active} threads active"), found, known)?;
    }
    Ok(())
}

/// CMetric of each thread.
fn metric_is_known(profile: &Profile, sched: &Sched, truth: &Value) -> Result {
    for i in 0..THREADS {
        let name = format!("phase-{i}");
        let known = number(truth, &format!("cm{i}_ns"))?;
        let of_it = sched.threads.iter().filter(|t| {
            let process = profile.processes.get(t.thread.process as usize);
            let thread = process.and_then(|p| p.threads.get(t.thread.thread as usize));
            thread.is_some_and(|t| t.name == name)
        });
        let found: f64 = of_it.map(|t| t.cm_ns).sum();
        near(&format!("CMetric of {name}"), found as u64, known)?;
    }
    Ok(())
}

fn near(what: &str, found: u64, known: u64) -> Result {
    let apart = found.abs_diff(known) as f64;
    check!(
        apart <= SLACK_NS + SLACK * known as f64,
        "{what}: {found} ns by the profile, {known} ns by the program's own clock"
    );
    Ok(())
}
