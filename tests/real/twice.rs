//! Runs the same thing bare and recorded.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use convoy_harness::case::{measured, Scratch};
use convoy_harness::needs::{self, Missing};
use convoy_harness::run::{run, start, End, Outcome};
use convoy_harness::{check, convoy, turn, Result};
use libtest_mimic::Trial;

use crate::machine;
use crate::verdict::Verdict;

/// A program that takes longer hangs.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// How a command is to run.
#[derive(Debug, Clone)]
pub enum Mode {
    /// By itself.
    Bare,
    /// Under `convoy record`, into this profile.
    Recorded(PathBuf),
    /// Under `convoy diagnose`, into this profile.
    Diagnosed(PathBuf),
}

impl Mode {
    /// For the names of files.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Recorded(_) => "recorded",
            Self::Diagnosed(_) => "diagnosed",
        }
    }

    /// The command in this mode.
    pub fn wrap(&self, command: &Command) -> Result<Command> {
        let mut wrapped = match self {
            Self::Bare => return Ok(machine::as_is(command)),
            Self::Recorded(profile) => convoy::record(profile)?,
            Self::Diagnosed(profile) => convoy::diagnose(&[], profile)?,
        };
        machine::append(&mut wrapped, command);
        Ok(wrapped)
    }
}

/// A case that others may run beside.
pub fn beside(
    name: &'static str,
    missing: Option<Missing>,
    body: impl Fn(&Scratch) -> Result + Send + 'static,
) -> Trial {
    measured(name, missing, move |scratch| {
        let _turn = turn::shared();
        body(scratch)
    })
}

/// A case that has the machine to itself: it fills all processors.
pub fn alone(
    name: &'static str,
    missing: Option<Missing>,
    body: impl Fn(&Scratch) -> Result + Send + 'static,
) -> Trial {
    measured(name, missing, move |scratch| {
        let _turn = turn::alone();
        body(scratch)
    })
}

/// Does `body` in both modes and returns what it returned, and what convoy says.
pub fn twice<T>(scratch: &Scratch, body: impl Fn(&Mode) -> Result<T>) -> Result<(T, T, Verdict)> {
    let bare = body(&Mode::Bare).map_err(|e| format!("bare: {e}"))?;
    let profile = scratch.path("profile.convoy");
    let recorded = body(&Mode::Recorded(profile.clone())).map_err(|e| format!("recorded: {e}"))?;
    let verdict = Verdict::of(scratch, &profile)?;
    Ok((bare, recorded, verdict))
}

/// How long a running program is recorded: the loads take a second or two.
const ATTACHED: Duration = Duration::from_secs(3);
/// From the start of the recorder until it records, on a slow machine.
const ATTACHING: Duration = Duration::from_millis(500);

/// Records a running program and its children while `load` keeps them busy; returns what `load`
/// returned, and what convoy says.
pub fn attached<T>(
    scratch: &Scratch,
    pid: u32,
    load: impl FnOnce() -> Result<T>,
) -> Result<(T, Verdict)> {
    let profile = scratch.path("attached.convoy");
    let mut command = convoy::attach(&profile, pid, ATTACHED)?;
    let recorder = start(&mut command, scratch.dir(), "attached")?;
    std::thread::sleep(ATTACHING);
    let said = load();
    let outcome = recorder.finish(TIMEOUT)?;
    let said = said?;
    check!(
        outcome.end == End::Status(0),
        "{command:?}: {:?}: {}",
        outcome.end,
        outcome.stderr
    );
    Ok((said, Verdict::of(scratch, &profile)?))
}

/// What a case needs that records the kernel's events of a running program.
pub fn kernel(missing: Option<Missing>) -> Option<Missing> {
    missing.or_else(|| needs::missing(&["kernel".to_owned()]))
}

/// A command that ends by itself: must end and say the same both times.
pub fn same_output(scratch: &Scratch, command: &Command) -> Result<Verdict> {
    same_lines(scratch, command, usize::MAX)
}

/// The same for a command whose output has times in it, after so many lines.
pub fn same_lines(scratch: &Scratch, command: &Command, lines: usize) -> Result<Verdict> {
    let (bare, recorded, verdict) = twice(scratch, |mode| outcome(scratch, mode, command))?;
    check!(
        bare.end == End::Status(0),
        "bare: {:?}: {}",
        bare.end,
        bare.stderr
    );
    check!(
        recorded.end == bare.end,
        "bare {:?}, recorded {:?}: {}",
        bare.end,
        recorded.end,
        recorded.stderr
    );
    let (said, says) = (first(lines, &bare.stdout), first(lines, &recorded.stdout));
    check!(said == says, "bare it said {said:?}, recorded {says:?}");
    check!(
        recorded.stderr == bare.stderr,
        "bare it complained {:?}, recorded {:?}",
        bare.stderr,
        recorded.stderr
    );
    Ok(verdict)
}

fn first(lines: usize, text: &str) -> Vec<&str> {
    text.lines().take(lines).collect()
}

/// How a command ends in this mode.
pub fn outcome(scratch: &Scratch, mode: &Mode, command: &Command) -> Result<Outcome> {
    run(&mut mode.wrap(command)?, scratch.dir(), mode.tag(), TIMEOUT)
}
