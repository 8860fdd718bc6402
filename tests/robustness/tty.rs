//! Signals from outside: what a terminal does at Ctrl-C, and what a supervisor does to stop a service.

use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{trial, Scratch};
use convoy_harness::run::{start, Outcome};
use convoy_harness::{check, convoy, profile, turn, Result};
use convoy_profile::Op;
use libtest_mimic::Trial;
use rustix::process::Signal;

use crate::table::{program, same};

const TIMEOUT: Duration = Duration::from_secs(60);

/// One test per signal.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("interrupt/default", None, |s| {
            interrupted(s, "default", Signal::INT)
        }),
        trial("interrupt/handler", None, |s| {
            interrupted(s, "handler", Signal::INT)
        }),
        trial("interrupt/terminate", None, |s| {
            interrupted(s, "default", Signal::TERM)
        }),
    ]
}

/// The whole process group gets the signal, convoy included: the program ends as it would alone, and
/// what was recorded until then is reported.
fn interrupted(scratch: &Scratch, way: &str, signal: Signal) -> Result {
    let _turn = turn::shared();
    let waiter = program("waits_for_signal.c")?;
    let bare = interrupt(Command::new(&waiter).arg(way), scratch, "bare", signal)?;
    let file = scratch.path("run.convoy");
    let recorded = interrupt(
        convoy::record(&file)?.arg(&waiter).arg(way),
        scratch,
        "convoy",
        signal,
    )?;
    same(&bare, &recorded)?;
    let calls = profile::calls(&convoy::read(&file)?, "counted_section", Op::MutexLock);
    check!(calls.n == 401, "{} of 401 acquisitions recorded", calls.n);
    Ok(())
}

fn interrupt(
    command: &mut Command,
    scratch: &Scratch,
    tag: &str,
    signal: Signal,
) -> Result<Outcome> {
    let mut running = start(command, scratch.dir(), tag)?;
    running.wait_for("ready", TIMEOUT)?;
    running.signal(signal)?;
    running.finish(TIMEOUT)
}
