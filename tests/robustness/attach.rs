//! Recording of running processes: they go on as if nothing was, whatever becomes of convoy, and what was
//! recorded until then is kept.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use convoy_harness::case::{trial, Scratch};
use convoy_harness::needs::missing;
use convoy_harness::run::{run, start, End, Outcome, Running};
use convoy_harness::{check, convoy, turn, Result};
use convoy_profile::Exit;
use libtest_mimic::Trial;
use rustix::process::Signal;

use crate::table::program;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(50);

/// Until a recording is under way on a busy machine; it may begin later, which a test must survive.
const A_WHILE: Duration = Duration::from_millis(1500);

/// One test per end, and per number that is no process to record.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add = |name: &str, body: fn(&Scratch) -> Result| {
        trials.push(trial(name, missing(&["kernel".to_owned()]), body));
    };
    add("attach/interrupt", |s| stopped(s, Signal::INT));
    add("attach/terminate", |s| stopped(s, Signal::TERM));
    add("attach/hang-up", |s| stopped(s, Signal::HUP));
    add("attach/kill", killed);
    add("attach/target-ends", target_ends);
    add("attach/target-killed", target_killed);
    add("attach/twice-at-once", twice);
    add("attach/full-disk", full_disk);
    add("attach/main-thread-first", main_thread_first);
    add("attach/no-rights", no_rights);
    add("attach/no-process", no_process);
    trials
}

/// A program that works until it is interrupted.
fn target<'a>(scratch: &'a Scratch) -> Result<Running<'a>> {
    let mut command = Command::new(program("waits_for_signal.c")?);
    let mut running = start(command.arg("handler"), scratch.dir(), "target")?;
    running.wait_for("ready", TIMEOUT)?;
    Ok(running)
}

/// It has noticed nothing.
fn goes_on(mut target: Running<'_>) -> Result {
    check!(target.is_running(), "the program is gone");
    target.signal(Signal::INT)?;
    let outcome = target.finish(TIMEOUT)?;
    check!(
        outcome.end == End::Status(6),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    check!(
        outcome.stdout == "ready\nasked by 2\n",
        "{:?}",
        outcome.stdout
    );
    Ok(())
}

/// `convoy record` of it, for as long as it takes.
fn recording<'a>(scratch: &'a Scratch, file: &Path, pid: u32, tag: &'a str) -> Result<Running<'a>> {
    let mut command = convoy::attach(file, pid, LONG)?;
    // What a convoy that is killed leaves goes away with the test.
    command.arg("--session-dir").arg(scratch.dir());
    start(&mut command, scratch.dir(), tag)
}

/// A good profile of a program that still ran.
fn is_good(file: &Path, ended: Outcome) -> Result {
    check!(
        ended.end == End::Status(0),
        "{:?}: {}",
        ended.end,
        ended.stderr
    );
    let data = convoy::read(file)?;
    check!(data.meta.exit == Exit::Running, "{:?}", data.meta.exit);
    let events = data.sched.as_ref().map_or(0, |sched| sched.events);
    check!(events > 0, "no events in the profile");
    Ok(())
}

fn stopped(scratch: &Scratch, signal: Signal) -> Result {
    let _turn = turn::shared();
    let target = target(scratch)?;
    let file = scratch.path("run.convoy");
    let recording = recording(scratch, &file, target.id(), "convoy")?;
    std::thread::sleep(A_WHILE);
    recording.signal(signal)?;
    let ended = recording.finish(TIMEOUT)?;
    goes_on(target)?;
    is_good(&file, ended)
}

fn killed(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let target = target(scratch)?;
    let file = scratch.path("run.convoy");
    let recording = recording(scratch, &file, target.id(), "convoy")?;
    std::thread::sleep(A_WHILE);
    recording.signal(Signal::KILL)?;
    recording.finish(TIMEOUT)?;
    check!(!file.exists(), "a profile of nothing");
    goes_on(target)
}

fn target_ends(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let target = target(scratch)?;
    let file = scratch.path("run.convoy");
    let recording = recording(scratch, &file, target.id(), "convoy")?;
    std::thread::sleep(A_WHILE);
    goes_on(target)?;
    is_good(&file, recording.finish(TIMEOUT)?)
}

fn target_killed(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let target = target(scratch)?;
    let file = scratch.path("run.convoy");
    let recording = recording(scratch, &file, target.id(), "convoy")?;
    std::thread::sleep(A_WHILE);
    target.signal(Signal::KILL)?;
    target.finish(TIMEOUT)?;
    is_good(&file, recording.finish(TIMEOUT)?)
}

fn twice(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let target = target(scratch)?;
    let files = [scratch.path("one.convoy"), scratch.path("two.convoy")];
    let one = recording(scratch, &files[0], target.id(), "one")?;
    let two = recording(scratch, &files[1], target.id(), "two")?;
    std::thread::sleep(A_WHILE);
    one.signal(Signal::INT)?;
    is_good(&files[0], one.finish(TIMEOUT)?)?;
    two.signal(Signal::INT)?;
    is_good(&files[1], two.finish(TIMEOUT)?)?;
    goes_on(target)
}

/// There is no session directory that it could be recovered from: the profile is put elsewhere.
fn full_disk(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let target = target(scratch)?;
    let mut command = convoy::attach(Path::new("/dev/full"), target.id(), A_WHILE)?;
    let outcome = run(
        command.env("TMPDIR", scratch.dir()),
        scratch.dir(),
        "convoy",
        TIMEOUT,
    )?;
    goes_on(target)?;
    check!(
        outcome.end == End::Status(125),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    let place = outcome
        .stderr
        .lines()
        .find_map(|line| line.split("nothing is lost: it is in ").nth(1));
    let place = Path::new(place.ok_or_else(|| format!("no place: {}", outcome.stderr))?);
    let data = convoy::read(place);
    let _ = std::fs::remove_file(place);
    check!(data?.sched.is_some(), "nothing of the scheduler in it");
    Ok(())
}

/// A zombie by its number, but its other thread goes on.
fn main_thread_first(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let mut target = Command::new(program("thread_goes_on.c")?)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let file = scratch.path("run.convoy");
    std::thread::sleep(Duration::from_millis(200));
    let recording = recording(scratch, &file, target.id(), "convoy")?;
    std::thread::sleep(A_WHILE);
    drop(target.stdin.take());
    let end = target.wait().map_err(|e| e.to_string())?;
    check!(end.code() == Some(7), "the program ended with {end:?}");
    is_good(&file, recording.finish(TIMEOUT)?)
}

/// Somebody else's process: refused with the reason, and it goes on.
fn no_rights(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let target = target(scratch)?;
    let recorder = convoy::attach(&scratch.path("run.convoy"), target.id(), A_WHILE)?;
    let mut command = Command::new("setpriv");
    // In a user namespace of its own nobody has rights over processes outside.
    command
        .args(["--bounding-set=-all", "--inh-caps=-all", "unshare", "-U"])
        .arg(recorder.get_program())
        .args(recorder.get_args());
    let outcome = run(&mut command, scratch.dir(), "convoy", TIMEOUT)?;
    goes_on(target)?;
    told(&outcome, "CAP_BPF")
}

fn told(outcome: &Outcome, why: &str) -> Result {
    check!(
        outcome.end == End::Status(125),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    check!(outcome.stderr.starts_with("convoy: "), "{}", outcome.stderr);
    check!(
        outcome.stderr.contains(why),
        "no word of {why}: {}",
        outcome.stderr
    );
    check!(
        outcome.stderr.contains("fix: "),
        "no way out: {}",
        outcome.stderr
    );
    check!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    Ok(())
}

/// Numbers that stand for nothing to record.
fn no_process(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let file = scratch.path("run.convoy");
    let of = |pid: u32| {
        run(
            &mut convoy::attach(&file, pid, A_WHILE)?,
            scratch.dir(),
            "convoy",
            TIMEOUT,
        )
    };
    told(&of(u32::MAX)?, "there is no process")?;
    told(&of(0)?, "there is no process")?;
    let target = target(scratch)?;
    let tasks =
        std::fs::read_dir(format!("/proc/{}/task", target.id())).map_err(|e| e.to_string())?;
    let tids = tasks
        .flatten()
        .filter_map(|task| task.file_name().to_str()?.parse::<u32>().ok());
    let tid = tids.max().ok_or("no threads")?;
    told(&of(tid)?, "is a thread of process")?;
    goes_on(target)?;
    let mut zombie = Command::new("true").spawn().map_err(|e| e.to_string())?;
    std::thread::sleep(Duration::from_millis(200));
    let outcome = of(zombie.id());
    let _ = zombie.wait();
    told(&outcome?, "has ended")?;
    let mut group = Command::new(convoy::binary()?);
    group
        .args(["record", "--cgroup", "no-such-group", "-o"])
        .arg(&file);
    told(
        &run(&mut group, scratch.dir(), "convoy", TIMEOUT)?,
        "no control group",
    )?;
    check!(!file.exists(), "a profile of nothing");
    Ok(())
}
