//! The agent in a running process, for those who read its tables themselves.

use std::ffi::OsString;

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
        let clock = Calibration::begin().end();
        let mut meta = Meta {
            start_ns: clock.now_ns(),
            ..Meta::default()
        };
        let mut warnings = Vec::new();
        let options = Options::default();
        let agents = agents(&options, command, &clock, &mut meta, &[pid], &mut warnings)?;
        let refused = || {
            let trouble = Trouble::new(
                format!("the agent cannot be put into process {pid}"),
                "its locks are not counted",
                "start the program under convoy: convoy live -- COMMAND",
            );
            Error::new(ErrorKind::Attach, warnings.pop().unwrap_or(trouble))
        };
        let agents = agents.ok_or_else(refused)?;
        Ok(Self { agents, pid })
    }

    /// Its tables.
    pub fn watch(&self) -> Watch {
        Watch::of_process_in(self.agents.session_dir().to_owned(), self.pid)
    }
}
