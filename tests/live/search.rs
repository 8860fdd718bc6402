//! `convoy live --search` on a running program: the function, or the lock and its holder, behind
//! the time of a thread group.

use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{measured, Scratch};
use convoy_harness::compile::compile;
use convoy_harness::needs::missing;
use convoy_harness::run::{run, start, End};
use convoy_harness::{check, convoy, root, turn, Result};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(240);

/// The tests.
pub fn trials() -> Vec<Trial> {
    let root = || missing(&["root".to_owned()]);
    vec![
        measured("live/search/function", root(), a_slow_function_is_found),
        measured("live/search/lock", root(), a_hot_lock_is_found),
    ]
}

/// The outcomes of a search in a program of three threads that do one thing.
fn search(scratch: &Scratch, job: &str) -> Result<Vec<Value>> {
    let program = compile(&root().join("tests/live/programs/slow_server.c"), &[])?;
    let mut running = start(Command::new(program).arg(job), scratch.dir(), "program")?;
    running.wait_for("ready", TIMEOUT)?;
    let mut command = Command::new(convoy::binary()?);
    command.args(["live", &running.id().to_string(), "--search"]);
    command.args(["--format", "json", "--budget", "100%"]);
    let outcome = run(&mut command, scratch.dir(), "search", TIMEOUT)?;
    running.signal(Signal::TERM)?;
    let own = running.finish(TIMEOUT)?;
    check!(own.end == End::Signal(15), "the program: {own:?}");
    check!(outcome.end == End::Status(0), "{outcome:?}");
    let lines = outcome.stdout.lines();
    let json = |line| serde_json::from_str(line).map_err(|e| format!("{line}: {e}"));
    lines.map(json).collect()
}

/// The verdict on a hypothesis about a focus.
fn verdict(all: &[Value], hypothesis: &str, resource: &str, label: &str) -> Result<String> {
    let is_it = |line: &&Value| {
        let name = line["label"].as_str().unwrap_or_default();
        line["hypothesis"] == hypothesis && line["resource"] == resource && name.contains(label)
    };
    let found = all.iter().find(is_it);
    let found = found.ok_or(format!("no {resource} {label} for {hypothesis}: {all:#?}"))?;
    Ok(found["verdict"].as_str().unwrap_or_default().to_owned())
}

fn a_slow_function_is_found(scratch: &Scratch) -> Result {
    let _turn = turn::alone();
    turn::retry(|| slow_is_blamed(&search(scratch, "compute")?))
}

fn slow_is_blamed(all: &[Value]) -> Result {
    for (resource, label) in [
        ("program", ""),
        ("group", "worker-#"),
        // At once where samples see it first, or below the function that calls it.
        ("function", "slow"),
    ] {
        let verdict = verdict(all, "cpu_bound", resource, label)?;
        check!(verdict == "true", "{resource} {label}: {verdict}: {all:#?}");
    }
    let locks = verdict(all, "waits_for_locks", "program", "")?;
    check!(locks == "false", "nobody takes a lock: {locks}");
    Ok(())
}

fn a_hot_lock_is_found(scratch: &Scratch) -> Result {
    let _turn = turn::alone();
    turn::retry(|| cache_lock_is_blamed(&search(scratch, "lock")?))
}

/// Now and then a thread keeps the mutex for as long as the search looks: then no wait ends, and
/// its holder is not known.
fn cache_lock_is_blamed(all: &[Value]) -> Result {
    for (resource, label) in [
        ("program", ""),
        ("group", "worker-#"),
        ("lock", "cache_lock"),
        ("holder", "put"),
    ] {
        let verdict = verdict(all, "waits_for_locks", resource, label)?;
        check!(verdict == "true", "{resource} {label}: {verdict}: {all:#?}");
    }
    Ok(())
}
