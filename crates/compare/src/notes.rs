//! The remarks at the foot: what limits the comparison.

use std::collections::BTreeSet;

use convoy_profile::Exit;

use crate::change::MIN_RUNS;
use crate::compare::{Comparison, RunFacts};
use crate::identity;
use crate::summary::Summary;

/// A process was attached to.
pub const RUNNING: &str =
    "a running process was recorded for a while: its run time says nothing about its speed";

/// Some runs have scheduler events.
pub const PARTLY_LISTENED: &str =
    "the scheduler was listened to in only some of the runs: findings that need it come and go for that alone";

/// Some runs carried the agent.
pub const PARTLY_LOCKED: &str =
    "locks were recorded in only some of the runs: they come and go for that alone";

/// The recorder ended before the program did.
pub fn end_not_seen(name: &str) -> String {
    format!("{name}: its end was not seen, its run time is that of the recording")
}

/// A file that was cut or damaged.
pub fn not_whole(name: &str, lost: &[String]) -> String {
    format!(
        "{name} is not whole ({}): its counts are of a part of the run",
        lost.join("; ")
    )
}

/// What was recorded in only some of these runs.
pub fn partly_recorded(runs: &[&RunFacts]) -> Vec<&'static str> {
    let differs =
        |of: fn(&RunFacts) -> bool| runs.iter().any(|r| of(r)) && !runs.iter().all(|r| of(r));
    let listened = differs(|run| run.listened).then_some(PARTLY_LISTENED);
    let locked = differs(|run| run.locks_seen).then_some(PARTLY_LOCKED);
    listened.into_iter().chain(locked).collect()
}

/// What limits the comparison `c` of these runs.
pub fn remarks(c: &Comparison, before: &[Summary], after: &[Summary]) -> Vec<String> {
    let all = || before.iter().chain(after);
    let mut remarks = Vec::new();
    if before.len() < MIN_RUNS || after.len() < MIN_RUNS {
        remarks.push(format!(
            "{} and {}: how far chance could make a difference is not known; with {MIN_RUNS} or more a side there are intervals",
            number(before.len(), "before"),
            number(after.len(), "after"),
        ));
    }
    for run in all().filter(|run| !run.lost.is_empty()) {
        remarks.push(format!(
            "{}, and findings and locks come, go and change for that alone",
            not_whole(&run.name, &run.lost)
        ));
    }
    if let Some([was, is]) = &c.different {
        remarks.push(format!(
            "not the same program by name, build or code: {was} before, {is} after: what differs is no change, and nothing is its cause"
        ));
    } else if let Some([was, is]) = identity::names(before, after) {
        remarks.push(format!(
            "not the same program by name, but by build or code: {was} before, {is} after"
        ));
    }
    let machines: BTreeSet<_> = all().map(|run| run.machine.as_str()).collect();
    if machines.len() > 1 {
        let machines: Vec<_> = machines.into_iter().collect();
        remarks.push(format!("not the same machine: {}", machines.join("; ")));
    }
    let runs: Vec<_> = c.runs().collect();
    remarks.extend(partly_recorded(&runs).into_iter().map(str::to_owned));
    if all().any(|run| run.exit == Exit::Running) {
        remarks.push(RUNNING.into());
    }
    for run in all() {
        match run.exit {
            Exit::Status(0) | Exit::Running => {}
            Exit::Status(status) => {
                remarks.push(format!("{}: ended with status {status}", run.name))
            }
            Exit::Signal(signal) => remarks.push(format!("{}: signal {signal} ended it", run.name)),
            Exit::Unknown => remarks.push(end_not_seen(&run.name)),
        }
    }
    remarks
}

fn number(n: usize, side: &str) -> String {
    let noun = if n == 1 { "run" } else { "runs" };
    format!("{n} {noun} {side}")
}
