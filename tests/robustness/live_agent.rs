//! The agent in running processes: it counts, and leaves every byte as it was, whatever happens
//! meanwhile.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use convoy_harness::case::{trial, Scratch};
use convoy_harness::needs::missing;
use convoy_harness::run::{run, start, End, Outcome, Running};
use convoy_harness::{check, compile, convoy, turn, Result};
use libtest_mimic::Trial;
use rustix::process::{kill_process, Pid, Signal};

use crate::table::{program, programs};

pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
pub(crate) const SHORT: Duration = Duration::from_millis(100);
/// Within this time the hooks of a convoy that was killed are out.
const NOTICED: Duration = Duration::from_secs(2);
/// A jump, which no function of the C library begins with.
const JUMP: u8 = 0xe9;

/// One test per way to come and go.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add = |name: &str, needs: &[&str], body: fn(&Scratch) -> Result| {
        let lacks = needs.iter().find_map(|need| missing(&[(*need).to_owned()]));
        trials.push(trial(name, lacks, body));
    };
    add("live-agent/names-locks", &["kernel"], names_locks);
    add("live-agent/comes-and-goes", &["kernel"], |s| {
        cycles(s, "works", 6)
    });
    add("live-agent/forks", &["kernel"], |s| cycles(s, "forks", 3));
    add("live-agent/sleeping-calls", &["kernel"], |s| {
        cycles(s, "sleeps", 3)
    });
    add("live-agent/convoy-is-killed", &["kernel"], convoy_is_killed);
    add("live-agent/target-ends", &["kernel"], target_ends);
    add(
        "live-agent/target-is-stopped",
        &["kernel"],
        target_is_stopped,
    );
    add("live-agent/two-at-once", &["kernel"], two_at_once);
    add("live-agent/refused", &["kernel"], refused);
    add("live-agent/switched-off", &["kernel"], switched_off);
    add("live-agent/container", &["kernel", "root"], container);
    // Some minutes: by name, with --ignored.
    let many = trial("live-agent/many-cycles", None, many_cycles);
    trials.push(many.with_ignored_flag(true));
    trials
}

fn target<'a>(scratch: &'a Scratch, way: &str) -> Result<Running<'a>> {
    let mut command = Command::new(program("attached.c")?);
    let mut running = start(command.arg(way), scratch.dir(), "target")?;
    running.wait_for("ready", TIMEOUT)?;
    std::thread::sleep(SHORT);
    Ok(running)
}

/// It has noticed nothing.
pub(crate) fn is_right(target: Running<'_>) -> Result {
    ends_right(target, TIMEOUT)
}

/// The same of a program that was started longer ago; `limit` is counted from its start.
fn ends_right(mut target: Running<'_>, limit: Duration) -> Result {
    check!(target.is_running(), "the program is gone");
    target.signal(Signal::INT)?;
    let outcome = target.finish(limit)?;
    check!(
        outcome.end == End::Status(6) && outcome.stdout == "ready\nright\n",
        "{:?}: {:?}: {}",
        outcome.end,
        outcome.stdout,
        outcome.stderr
    );
    Ok(())
}

/// Convoy, which tells what it does, with the agent.
pub(crate) fn recorder(file: &Path, pid: u32, time: Duration) -> Result<Command> {
    let mut command = Command::new(convoy::binary()?);
    command.arg("record").arg("-o").arg(file);
    command.args(["-p", &pid.to_string(), "--for"]);
    command.arg(format!("{}s", time.as_secs_f64()));
    Ok(command)
}

pub(crate) fn recorded(scratch: &Scratch, pid: u32, time: Duration) -> Result<Outcome> {
    let file = scratch.path("run.convoy");
    let outcome = run(
        &mut recorder(&file, pid, time)?,
        scratch.dir(),
        "convoy",
        TIMEOUT,
    )?;
    check!(
        outcome.end == End::Status(0),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    Ok(outcome)
}

/// The C library's code in a process, as it is now.
pub(crate) fn code(pid: u32) -> Result<Vec<u8>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|e| e.to_string())?;
    let is_code = |line: &&str| line.ends_with("libc.so.6") && line.contains(" r-xp ");
    let line = maps.lines().find(is_code).ok_or("no libc.so.6")?;
    let range = line.split(' ').next().and_then(|r| r.split_once('-'));
    let (lo, hi) = range.ok_or("an odd line in the map")?;
    let address = |text| u64::from_str_radix(text, 16).map_err(|e| e.to_string());
    let (lo, hi) = (address(lo)?, address(hi)?);
    let mut bytes = vec![0; (hi - lo) as usize];
    let memory = File::open(format!("/proc/{pid}/mem")).map_err(|e| e.to_string())?;
    memory
        .read_exact_at(&mut bytes, lo)
        .map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// Functions whose beginning is a jump now and was none before.
fn patched(before: &[u8], now: &[u8]) -> usize {
    let bytes = before.iter().zip(now);
    bytes
        .filter(|(old, new)| **new == JUMP && old != new)
        .count()
}

fn names_locks(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let target = target(scratch, "works")?;
    recorded(scratch, target.id(), Duration::from_millis(600))?;
    is_right(target)?;
    let profile = convoy::read(&scratch.path("run.convoy"))?;
    let process = profile.processes.first().ok_or("no process")?;
    check!(!process.without_agent, "the agent was not in it");
    let report = convoy::report(&scratch.path("run.convoy"), scratch.dir())?;
    let text = report.to_string();
    check!(text.contains("busy_section"), "the section is not named");
    check!(text.contains("busy_lock"), "the lock is not named");
    let names = process.threads.len();
    check!(names >= 8, "{names} threads of 8");
    Ok(())
}

fn cycles(scratch: &Scratch, way: &str, times: usize) -> Result {
    let _turn = turn::shared();
    let target = target(scratch, way)?;
    let before = code(target.id())?;
    for _ in 0..times {
        let outcome = recorded(scratch, target.id(), SHORT)?;
        check!(
            !outcome.stderr.contains("have no names"),
            "{}",
            outcome.stderr
        );
        check!(code(target.id())? == before, "bytes stay different");
    }
    is_right(target)
}

/// 8 busy threads that allocate and lock all the time, each byte of the C library compared after
/// each cycle: a death or a hang ends the test.
fn many_cycles(scratch: &Scratch) -> Result {
    const CYCLES: usize = 200;
    let _turn = turn::shared();
    let target = target(scratch, "works")?;
    let before = code(target.id())?;
    let (mut refusals, mut different) = (Vec::new(), 0);
    let began = Instant::now();
    for _ in 0..CYCLES {
        let outcome = recorded(scratch, target.id(), SHORT)?;
        if outcome.stderr.contains("have no names") {
            refusals.push(outcome.stderr);
        }
        let now = code(target.id())?;
        different += before.iter().zip(&now).filter(|(a, b)| a != b).count();
    }
    ends_right(target, began.elapsed() + TIMEOUT)?;
    println!(
        "{CYCLES} cycles in {:.0} s: no death, no hang, {different} bytes different, {} refused",
        began.elapsed().as_secs_f64(),
        refusals.len()
    );
    check!(different == 0, "{different} bytes stay different");
    check!(refusals.is_empty(), "{refusals:?}");
    Ok(())
}

/// At any moment of it: the hooks are out soon after.
fn convoy_is_killed(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let target = target(scratch, "works")?;
    let before = code(target.id())?;
    let file = scratch.path("run.convoy");
    // Once when they are surely in.
    for moment in [None, Some(150), Some(250), Some(350), Some(450), Some(700)] {
        let mut command = recorder(&file, target.id(), TIMEOUT)?;
        // What it leaves goes away with the test.
        command.arg("--session-dir").arg(scratch.dir());
        let recording = start(&mut command, scratch.dir(), "convoy")?;
        match moment {
            Some(ms) => std::thread::sleep(Duration::from_millis(ms)),
            None => hooks_are_in(&before, target.id())?,
        }
        recording.signal(Signal::KILL)?;
        recording.finish(TIMEOUT)?;
        let killed = Instant::now();
        let mut same_since = None;
        // It may be that the hooks were just about to go in.
        while same_since.is_none_or(|since: Instant| since.elapsed() < SHORT) {
            match code(target.id())? == before {
                true => same_since = same_since.or(Some(Instant::now())),
                false => same_since = None,
            }
            check!(killed.elapsed() < NOTICED, "the hooks are still in");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    is_right(target)
}

pub(crate) fn hooks_are_in(before: &[u8], pid: u32) -> Result {
    let began = Instant::now();
    while patched(before, &code(pid)?) < 40 {
        check!(began.elapsed() < TIMEOUT, "the hooks never came in");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// While the agent goes in, is in, or goes out.
fn target_ends(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    for moment in [250u64, 350, 450] {
        let target = target(scratch, "works")?;
        let file = scratch.path("run.convoy");
        let mut command = recorder(&file, target.id(), Duration::from_millis(450))?;
        let recording = start(&mut command, scratch.dir(), "convoy")?;
        std::thread::sleep(Duration::from_millis(moment));
        is_right(target)?;
        let outcome = recording.finish(TIMEOUT)?;
        let was_late = outcome.end == End::Status(125) && outcome.stderr.contains("has ended");
        check!(
            outcome.end == End::Status(0) || was_late,
            "{:?}: {}",
            outcome.end,
            outcome.stderr
        );
        check!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    }
    Ok(())
}

fn target_is_stopped(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let target = target(scratch, "works")?;
    target.signal(Signal::STOP)?;
    std::thread::sleep(SHORT);
    let outcome = recorded(scratch, target.id(), SHORT)?;
    told(&outcome, "is stopped")?;
    let status = fs::read_to_string(format!("/proc/{}/status", target.id()));
    let is_stopped = status.is_ok_and(|text| text.contains("(stopped)"));
    target.signal(Signal::CONT)?;
    check!(is_stopped, "it goes on");
    // Stopped while it is in, and until it is out.
    let file = scratch.path("run.convoy");
    let mut command = recorder(&file, target.id(), Duration::from_secs(1))?;
    let recording = start(&mut command, scratch.dir(), "convoy")?;
    std::thread::sleep(Duration::from_millis(700));
    target.signal(Signal::STOP)?;
    let outcome = recording.finish(TIMEOUT)?;
    target.signal(Signal::CONT)?;
    check!(
        outcome.end == End::Status(0),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    is_right(target)
}

/// It falls back to the scheduler, and says why.
pub(crate) fn told(outcome: &Outcome, why: &str) -> Result {
    check!(
        outcome.stderr.contains(why) && outcome.stderr.contains("have no names"),
        "no word of {why}: {}",
        outcome.stderr
    );
    check!(outcome.stderr.contains("fix: "), "{}", outcome.stderr);
    Ok(())
}

fn two_at_once(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let target = target(scratch, "works")?;
    let before = code(target.id())?;
    let first = scratch.path("first.convoy");
    let mut command = recorder(&first, target.id(), Duration::from_secs(2))?;
    let recording = start(&mut command, scratch.dir(), "first")?;
    hooks_are_in(&before, target.id())?;
    let second = recorded(scratch, target.id(), SHORT)?;
    told(&second, "another convoy")?;
    let outcome = recording.finish(TIMEOUT)?;
    check!(
        outcome.end == End::Status(0) && !outcome.stderr.contains("have no names"),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    check!(code(target.id())? == before, "bytes stay different");
    is_right(target)
}

fn refused(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let filtered = target(scratch, "filtered")?;
    told(&recorded(scratch, filtered.id(), SHORT)?, "seccomp")?;
    is_right(filtered)?;
    let source = programs().join("attached.c");
    let mut command = Command::new(compile::compile(&source, &["-static".into()])?);
    let mut linked = start(command.arg("works"), scratch.dir(), "target")?;
    linked.wait_for("ready", TIMEOUT)?;
    told(&recorded(scratch, linked.id(), SHORT)?, "no GNU C library")?;
    is_right(linked)
}

/// A process with thread numbers, a /proc and a /dev/shm of its own.
fn container(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let inside = "mount -t tmpfs none /dev/shm && exec \"$0\" works";
    let mut command = Command::new("unshare");
    command.args(["-pfm", "--mount-proc", "sh", "-c", inside]);
    command.arg(program("attached.c")?);
    let mut container = start(&mut command, scratch.dir(), "container")?;
    container.wait_for("ready", TIMEOUT)?;
    let pid = only_child(container.id())?;
    let before = code(pid)?;
    let recorded = recorded(scratch, pid, Duration::from_millis(600));
    let threads = tids(pid)?;
    let has_all_bytes = code(pid)? == before;
    let target = Pid::from_raw(pid as i32).ok_or("no pid")?;
    kill_process(target, Signal::INT).map_err(|e| e.to_string())?;
    let end = container.finish(TIMEOUT)?;
    check!(end.end == End::Status(6), "{end:?}");
    check!(end.stdout == "ready\nright\n", "{end:?}");
    check!(has_all_bytes, "bytes stay different");
    let said = recorded?.stderr;
    check!(!said.contains("have no names"), "{said}");
    let file = scratch.path("run.convoy");
    let report = convoy::report(&file, scratch.dir())?.to_string();
    check!(report.contains("busy_lock"), "the lock is not named");
    let profile = convoy::read(&file)?;
    let processes: Vec<u32> = profile.processes.iter().map(|p| p.pid).collect();
    check!(processes == [pid], "{processes:?}, not {pid}");
    let of_agent = profile.processes[0].threads.iter().map(|thread| thread.tid);
    let unknown: Vec<u32> = of_agent.filter(|tid| !threads.contains(tid)).collect();
    check!(unknown.is_empty(), "{unknown:?}, not of {threads:?}");
    Ok(())
}

fn only_child(pid: u32) -> Result<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.map_err(|e| e.to_string())?;
    let number = children.trim().parse();
    number.map_err(|_| format!("children: {children}"))
}

fn tids(pid: u32) -> Result<Vec<u32>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).map_err(|e| e.to_string())?;
    let names = tasks.flatten().map(|task| task.file_name());
    Ok(names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect())
}

fn switched_off(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let target = target(scratch, "works")?;
    let file = scratch.path("run.convoy");
    let mut command = recorder(&file, target.id(), SHORT)?;
    let outcome = run(command.arg("--agent=off"), scratch.dir(), "convoy", TIMEOUT)?;
    check!(
        !outcome.stderr.contains("have no names"),
        "{}",
        outcome.stderr
    );
    let maps = fs::read_to_string(format!("/proc/{}/maps", target.id()));
    check!(
        maps.is_ok_and(|maps| !maps.contains("libconvoy")),
        "the agent is in it"
    );
    is_right(target)
}
