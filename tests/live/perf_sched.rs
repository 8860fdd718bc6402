//! The histogram of running threads against `perf sched` on the same run: the same tracepoint, read by
//! somebody else.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{measured, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::needs::missing;
use convoy_harness::run::{run, End};
use convoy_harness::{check, convoy, root, turn, Result};
use convoy_profile::Profile;
use libtest_mimic::Trial;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Relative tolerance of a time.
const SLACK: f64 = 0.02;
/// Start and end of the program: perf sees it from its first switch to its last.
const SLACK_NS: f64 = 2e6;

/// One test.
pub fn trials() -> Vec<Trial> {
    let needs = missing(&["cpus-2", "kernel", "perf"].map(str::to_owned));
    vec![measured("phases/as-perf-sched-sees-them", needs, same)]
}

fn same(scratch: &Scratch) -> Result {
    let program = compile(&root().join("fixtures/known-phases/known_phases.c"), &[])?;
    let _turn = turn::alone();
    turn::retry(|| {
        let (profile, switches) = (scratch.path("both.convoy"), scratch.path("both.perf"));
        let recorded = convoy::record(&profile)?;
        let mut command = Command::new("perf");
        command.args(["sched", "record", "-o"]).arg(&switches);
        command
            .arg(recorded.get_program())
            .args(recorded.get_args());
        let outcome = run(command.arg(&program), scratch.dir(), "both", TIMEOUT)?;
        check!(outcome.end == End::Status(0), "{}", outcome.stderr);

        let profile = convoy::read(&profile)?;
        let sched = profile.sched.as_ref().ok_or("nothing of the kernel's")?;
        let text = script(&switches, scratch)?;
        let (known, unsure) = running(&text, &threads(&profile))?;
        check!(known.keys().any(|&n| n > 0), "perf saw no thread run");
        for (&n, &ns) in known.iter().filter(|(&n, _)| n > 0) {
            let found = sched.running.get(n).copied().unwrap_or(0);
            check!(
                found.abs_diff(ns) as f64 <= SLACK_NS + SLACK * ns as f64 + unsure as f64,
                "{n} threads running: {found} ns by the profile, {ns} ns by perf"
            );
        }
        Ok(())
    })
}

fn script(switches: &Path, scratch: &Scratch) -> Result<String> {
    let mut command = Command::new("perf");
    command.args(["script", "--ns", "-F", "time,event,trace", "-i"]);
    let outcome = run(command.arg(switches), scratch.dir(), "script", TIMEOUT)?;
    check!(outcome.end == End::Status(0), "{}", outcome.stderr);
    Ok(outcome.stdout)
}

fn threads(profile: &Profile) -> HashSet<u32> {
    let threads = profile.processes.iter().flat_map(|p| &p.threads);
    threads.map(|t| t.tid).filter(|&tid| tid != 0).collect()
}

/// Time with so many of these threads on processors; and how much of it perf does not know: it misses switches of
/// some programs, so that a thread leaves a processor on which it never came.
fn running(text: &str, of: &HashSet<u32>) -> Result<(BTreeMap<usize, u64>, u64)> {
    let (mut now, mut last) = (HashSet::new(), 0);
    let (mut seen, mut unsure) = (HashMap::new(), 0);
    let mut sums = BTreeMap::new();
    for line in text.lines() {
        let Some((time, switch)) = line.split_once("sched:sched_switch: ") else {
            continue;
        };
        let (prev, next) = switch.split_once(" ==> ").ok_or(line)?;
        let ts = nanoseconds(time).ok_or(line)?;
        *sums.entry(now.len()).or_default() += ts.saturating_sub(last);
        last = ts;
        let prev = number(prev, "prev_pid=").ok_or(line)?;
        if !now.remove(&prev) && of.contains(&prev) {
            unsure += ts.saturating_sub(seen.get(&prev).copied().unwrap_or(ts));
        }
        seen.insert(prev, ts);
        let next = number(next, "next_pid=").ok_or(line)?;
        if of.contains(&next) {
            now.insert(next);
        }
    }
    Ok((sums, unsure))
}

/// "28803.263354943:"
fn nanoseconds(time: &str) -> Option<u64> {
    let (seconds, rest) = time.trim().trim_end_matches(':').split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + rest.parse::<u64>().ok()?)
}

/// Names of threads come before their numbers, and may hold anything.
fn number(fields: &str, name: &str) -> Option<u32> {
    let (_, rest) = fields.rsplit_once(name)?;
    rest.split(' ').next()?.parse().ok()
}
