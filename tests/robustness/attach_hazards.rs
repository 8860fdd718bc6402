//! The agent in programs that make it hard: exec from any thread, uninterruptible sleep, children
//! with a copy of the memory, allocators of their own, other convoys.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use convoy_harness::case::{trial, Scratch};
use convoy_harness::needs::missing;
use convoy_harness::run::{run, start, End, Running};
use convoy_harness::{check, convoy, turn, Result};
use libtest_mimic::Trial;
use rustix::process::Signal;

use crate::live_agent::{code, is_right, recorded, recorder, told, SHORT, TIMEOUT};
use crate::table::program;

/// One test per hazard.
pub fn trials() -> Vec<Trial> {
    let kernel = || missing(&["kernel".to_owned()]);
    let other_user = missing(&["other-user".to_owned()]);
    vec![
        trial("live-agent/exec-of-a-thread", kernel(), execs),
        trial("live-agent/uninterruptible-sleep", kernel(), sleeps),
        trial("live-agent/children", kernel(), children),
        trial("live-agent/handler-stack", kernel(), handler_stack),
        trial("live-agent/one-thread-filtered", kernel(), filtered),
        trial("live-agent/own-allocator", kernel(), own_allocator),
        trial("live-agent/two-at-the-same-moment", kernel(), two_at_once),
        trial("live-agent/same-user", other_user, same_user),
    ]
}

fn hazard<'a>(scratch: &'a Scratch, way: &str) -> Result<Running<'a>> {
    started(scratch, "attach_hazards.c", way)
}

fn started<'a>(scratch: &'a Scratch, source: &str, way: &str) -> Result<Running<'a>> {
    let mut command = Command::new(program(source)?);
    let mut running = start(command.arg(way), scratch.dir(), "target")?;
    running.wait_for("ready", TIMEOUT)?;
    Ok(running)
}

/// Neither hangs, whatever moment it is: an exec waits for threads that are traced, and blocks the
/// tracer meanwhile.
fn execs(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let target = hazard(scratch, "execs")?;
    for _ in 0..10 {
        recorded(scratch, target.id(), SHORT)?;
    }
    is_right(target)
}

/// It is refused, and the thread goes on when its sleep is over, though convoy still records.
fn sleeps(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let target = hazard(scratch, "vforks")?;
    let file = scratch.path("run.convoy");
    let mut command = recorder(&file, target.id(), TIMEOUT)?;
    let mut recording = start(&mut command, scratch.dir(), "convoy")?;
    let said = scratch.path("convoy.err");
    let began = Instant::now();
    while !fs::read_to_string(&said).is_ok_and(|text| text.contains("cannot be stopped")) {
        check!(began.elapsed() < TIMEOUT, "it is not refused");
        check!(recording.is_running(), "convoy has ended");
        std::thread::sleep(SHORT);
    }
    for task in fs::read_dir(format!("/proc/{}/task", target.id())).map_err(|e| e.to_string())? {
        let status = task.map(|task| fs::read_to_string(task.path().join("status")));
        let status = status.and_then(|s| s).map_err(|e| e.to_string())?;
        check!(status.contains("TracerPid:\t0\n"), "traced: {status}");
    }
    is_right(target)?;
    let outcome = recording.finish(TIMEOUT)?;
    check!(
        outcome.end == End::Status(0),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    told(&outcome, "cannot be stopped")
}

/// Children work as before, and what they do is not counted as their parent's.
fn children(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let target = hazard(scratch, "children")?;
    let before = code(target.id())?;
    for _ in 0..3 {
        let outcome = recorded(scratch, target.id(), Duration::from_millis(400))?;
        check!(
            !outcome.stderr.contains("have no names"),
            "{}",
            outcome.stderr
        );
        check!(code(target.id())? == before, "bytes stay different");
        let file = scratch.path("run.convoy");
        let report = convoy::report(&file, scratch.dir())?.to_string();
        check!(report.contains("busy_lock"), "the parent's lock is missing");
        check!(
            !report.contains("child_lock"),
            "a child has counted into its parent's tables"
        );
    }
    is_right(target)
}

/// The thread waits in a hook, under its handler: that copy of the agent is not used again.
fn handler_stack(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let mut target = hazard(scratch, "handlers")?;
    let file = scratch.path("run.convoy");
    let mut command = recorder(&file, target.id(), TIMEOUT)?;
    let recording = start(&mut command, scratch.dir(), "first")?;
    target.wait_for("handles", TIMEOUT)?;
    std::thread::sleep(SHORT);
    recording.signal(Signal::INT)?;
    let outcome = recording.finish(TIMEOUT)?;
    check!(
        outcome.end == End::Status(0),
        "{:?}: {}",
        outcome.end,
        outcome.stderr
    );
    let outcome = recorded(scratch, target.id(), SHORT)?;
    check!(
        !outcome.stderr.contains("have no names"),
        "{}",
        outcome.stderr
    );
    let maps = fs::read_to_string(format!("/proc/{}/maps", target.id()));
    let maps = maps.map_err(|e| e.to_string())?;
    let is_first = |line: &&str| line.contains("libconvoy") && line.contains(" 00000000 ");
    let copies = maps.lines().filter(is_first).count();
    check!(copies == 2, "{copies} copies of the agent: {maps}");
    target.signal(Signal::INT)?;
    let outcome = target.finish(TIMEOUT)?;
    check!(
        outcome.end == End::Status(6) && outcome.stdout == "ready\nhandles\nright\n",
        "{:?}: {:?}: {}",
        outcome.end,
        outcome.stdout,
        outcome.stderr
    );
    Ok(())
}

fn filtered(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let target = hazard(scratch, "filters")?;
    std::thread::sleep(SHORT);
    told(&recorded(scratch, target.id(), SHORT)?, "seccomp")?;
    is_right(target)
}

/// It must not be entered by a thread that is inside it, and it may be anywhere.
fn own_allocator(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let busy = started(scratch, "own_allocator.c", "busy")?;
    told(&recorded(scratch, busy.id(), SHORT)?, "no thread of")?;
    is_right(busy)?;
    let with_sleeper = started(scratch, "own_allocator.c", "sleeper")?;
    let outcome = recorded(scratch, with_sleeper.id(), SHORT)?;
    check!(
        !outcome.stderr.contains("have no names"),
        "{}",
        outcome.stderr
    );
    is_right(with_sleeper)
}

/// One of them has the agent, or both one after the other; none disturbs the other.
fn two_at_once(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let mut command = Command::new(program("attached.c")?);
    let mut target = start(command.arg("works"), scratch.dir(), "target")?;
    target.wait_for("ready", TIMEOUT)?;
    let before = code(target.id())?;
    for _ in 0..4 {
        let files = ["one", "two"].map(|name| scratch.path(&format!("{name}.convoy")));
        let mut commands = Vec::new();
        for file in &files {
            commands.push(recorder(file, target.id(), Duration::from_millis(300))?);
        }
        let mut running = Vec::new();
        for (command, tag) in commands.iter_mut().zip(["one", "two"]) {
            running.push(start(command, scratch.dir(), tag)?);
        }
        let mut with_agent = 0;
        for recording in running {
            let outcome = recording.finish(TIMEOUT)?;
            check!(
                outcome.end == End::Status(0),
                "{:?}: {}",
                outcome.end,
                outcome.stderr
            );
            match outcome.stderr.contains("have no names") {
                false => with_agent += 1,
                true => told(&outcome, "convoy")?,
            }
        }
        check!(with_agent > 0, "neither has the agent");
        check!(code(target.id())? == before, "bytes stay different");
    }
    is_right(target)
}

/// Without any rights but those over one's own processes.
fn same_user(scratch: &Scratch) -> Result {
    let _turn = turn::shared();
    let as_nobody = |program: &std::path::Path| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(program);
        command
    };
    // Where that user can write, and read the programs.
    let room = tempfile::tempdir_in("/dev/shm").map_err(|e| e.to_string())?;
    let copy = |from: &std::path::Path, name: &str| -> Result<std::path::PathBuf> {
        let to = room.path().join(name);
        fs::copy(from, &to).map_err(|e| format!("{}: {e}", from.display()))?;
        Ok(to)
    };
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(room.path(), everybody).map_err(|e| e.to_string())?;
    let target = copy(program("attached.c")?.as_path(), "target")?;
    let recorder = copy(convoy::binary()?.as_path(), "convoy")?;
    let file = room.path().join("run.convoy");

    let mut target = start(as_nobody(&target).arg("works"), scratch.dir(), "target")?;
    target.wait_for("ready", TIMEOUT)?;
    // Twice: the agent that is there is found, too.
    for _ in 0..2 {
        let mut command = as_nobody(&recorder);
        command.arg("record").arg("-o").arg(&file);
        command.args(["-p", &target.id().to_string(), "--for", "300ms"]);
        command.current_dir(room.path());
        let outcome = run(&mut command, scratch.dir(), "convoy", TIMEOUT)?;
        check!(
            outcome.end == End::Status(0) && !outcome.stderr.contains("have no names"),
            "{:?}: {}",
            outcome.end,
            outcome.stderr
        );
        let report = convoy::report(&file, scratch.dir())?.to_string();
        check!(report.contains("busy_lock"), "the lock is not named");
    }
    let maps = fs::read_to_string(format!("/proc/{}/maps", target.id()));
    let maps = maps.map_err(|e| e.to_string())?;
    let is_first = |line: &&str| line.contains("libconvoy") && line.contains(" 00000000 ");
    let copies = maps.lines().filter(is_first).count();
    check!(copies == 1, "{copies} copies of the agent");
    is_right(target)
}
