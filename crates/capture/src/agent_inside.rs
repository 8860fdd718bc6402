//! The agent in a running process, for those who read its tables themselves.

use std::ffi::OsString;
use std::path::Path;

use convoy_profile::Meta;

use crate::attach::{agents, Agents};
use crate::clock::Calibration;
use crate::error::{Error, ErrorKind, Trouble};
use crate::recorder::Options;
use crate::watch::Watch;

/// The agent counts in a process until this is dropped.
#[derive(Debug)]
pub struct AgentInside {
    agents: Agents,
    pid: u32,
}

impl AgentInside {
    /// Puts the agent into a process. `command` is that of [`Options::injector`].
    ///
    /// # Errors
    /// It cannot go in, or its tables have no place.
    pub fn enter(command: &[OsString], pid: u32) -> Result<Self, Error> {
        let refused = |found, fix: &str| {
            let fix = match fix {
                "" => "start the program under convoy: convoy live -- COMMAND",
                fix => fix,
            };
            Trouble::new(found, "its locks are not counted", fix)
        };
        Self::with(Options::default(), command, pid, refused)
    }

    /// Puts the agent of [`crate::causal`] into a process, as [`Self::enter`] does.
    ///
    /// # Errors
    /// It cannot go in, or its tables have no place.
    pub fn experiment(options: Options, command: &[OsString], pid: u32) -> Result<Self, Error> {
        let refused = |found, fix: &str| {
            let fix = match fix {
                "" => "start the program under convoy: convoy causal -- COMMAND",
                fix => fix,
            };
            Trouble::new(found, "no experiment is made", fix)
        };
        // Experiments know threads by the agent's numbers and sample them by those here.
        if convoy_inject::Numbers::of(pid).differ() {
            let found = format!("process {pid} is in a PID namespace of its own");
            let trouble = refused(found, "run convoy in the same container");
            return Err(Error::new(ErrorKind::Attach, trouble));
        }
        let options = Options {
            causal: true,
            ..options
        };
        Self::with(options, command, pid, refused)
    }

    /// `refused`: the message for what was found and a fix, which may be empty.
    fn with(
        options: Options,
        command: &[OsString],
        pid: u32,
        refused: impl Fn(String, &str) -> Trouble,
    ) -> Result<Self, Error> {
        let clock = Calibration::begin().end();
        let mut meta = Meta {
            start_ns: clock.now_ns(),
            ..Meta::default()
        };
        let mut warnings = Vec::new();
        let agents = agents(&options, command, &clock, &mut meta, &[pid], &mut warnings)?;
        let agents = agents.ok_or_else(|| {
            let trouble = match warnings.pop() {
                Some(why) => refused(why.found, &why.fix),
                None => refused(format!("the agent cannot be put into process {pid}"), ""),
            };
            Error::new(ErrorKind::Attach, trouble)
        })?;
        Ok(Self { agents, pid })
    }

    /// The directory of its tables.
    pub fn session_dir(&self) -> &Path {
        self.agents.session_dir()
    }

    /// Takes the agent's hooks out, and says what has kept them in.
    pub fn leave(self) -> Vec<Trouble> {
        self.agents.leave()
    }

    /// Its tables.
    pub fn watch(&self) -> Watch {
        Watch::of_process_in(self.agents.session_dir().to_owned(), self.pid)
    }
}
