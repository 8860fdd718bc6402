//! A fixture that is recorded from its middle: started bare, attached to, left alone.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use convoy_harness::case::Scratch;
use convoy_harness::run::{run, start, End, Running};
use convoy_harness::{check, convoy, turn, Result};
use rustix::process::Signal;

use crate::expect::Expect;
use crate::fixture::{number, ranked_first, truth, truth_of};
use crate::launch::{launch, Launch};

/// The program is made to run this long: its recording begins a while after it and ends before it.
const LENGTH: Duration = Duration::from_secs(3);
/// How long it is recorded.
const RECORDED: Duration = Duration::from_secs(1);
/// Launchers and runtimes take that long before the program is at work.
const WARM_UP: Duration = Duration::from_millis(800);
/// A program that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The kernel's side of a finding is there without the agent, and the program does not notice.
pub fn found(expect: &Expect, variant: &str, scratch: &Scratch) -> Result {
    let program = launch(expect, variant, false)?;
    let _turn = turn::alone();
    turn::retry(|| {
        let file = scratch.path("attached.convoy");
        let mut command = long(&program, scratch)?;
        let mut running = start(&mut command, scratch.dir(), "attached")?;
        let recorded = record(&mut running, &file, scratch);
        if recorded.is_err() {
            // It says why below, and nobody shall wait for the rest of the program.
            let _ = running.signal(Signal::KILL);
        }
        let outcome = running.finish(TIMEOUT)?;
        recorded?;
        let truth = truth_of(&outcome)?;
        let profile = convoy::read(&file)?;
        check!(profile.sched.is_some(), "nothing of the kernel's is in it");
        let report = convoy::report(&file, scratch.dir())?;
        ranked_first(expect, expect.attach.as_ref(), variant, &truth, &report)
    })
}

/// The program with as much work as takes it [`LENGTH`] on this machine, today.
fn long(program: &Launch, scratch: &Scratch) -> Result<Command> {
    let usual = number(&truth(&mut program.bare(), scratch, "bare")?, "wall_ns")?;
    let scale = (LENGTH.as_nanos() as f64 / usual.max(1) as f64).clamp(2.0, 64.0);
    let mut command = program.bare();
    command.env("CONVOY_FX_SCALE", format!("{scale:.1}"));
    Ok(command)
}

fn record(running: &mut Running<'_>, file: &Path, scratch: &Scratch) -> Result {
    is_parallel(running)?;
    std::thread::sleep(WARM_UP);
    let mut command = convoy::attach(file, running.id(), RECORDED)?;
    command.arg("--agent=off");
    let outcome = run(&mut command, scratch.dir(), "convoy", TIMEOUT)?;
    check!(
        outcome.end == End::Status(0),
        "{command:?}: {:?}: {}",
        outcome.end,
        outcome.stderr
    );
    check!(
        running.is_running(),
        "the program was over before its recording"
    );
    Ok(())
}

/// Waits until there are threads or child processes.
fn is_parallel(running: &mut Running<'_>) -> Result {
    let begin = Instant::now();
    let tasks = format!("/proc/{}/task", running.id());
    loop {
        let threads: Vec<_> = fs::read_dir(&tasks)
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        let has_child = |task: &fs::DirEntry| {
            fs::read_to_string(task.path().join("children")).is_ok_and(|c| !c.trim().is_empty())
        };
        if threads.len() > 1 || threads.iter().any(has_child) {
            return Ok(());
        }
        check!(
            running.is_running() && begin.elapsed() < TIMEOUT,
            "the program is over, or has neither threads nor children"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}
