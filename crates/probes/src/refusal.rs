//! Reasons for which nothing can be put into a process, or taken out of it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What stands in the way, and what to do instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// With the value that was found: "process 12 is traced by process 34".
    pub found: String,
    /// What to do; empty when there is nothing.
    pub fix: String,
    /// There is no such process any more.
    pub is_gone: bool,
    /// Another attempt may succeed: a thread could not be stopped in time, or was traced by another
    /// process.
    pub is_passing: bool,
}

impl Refusal {
    /// From its two parts.
    pub fn new(found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            found: found.into(),
            fix: fix.into(),
            is_gone: false,
            is_passing: false,
        }
    }

    /// The same, of something that may pass.
    pub fn passing(found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            is_passing: true,
            ..Self::new(found, fix)
        }
    }

    /// The process has ended, or runs another program now.
    pub fn gone(pid: u32) -> Self {
        Self {
            is_gone: true,
            ..Self::new(
                format!("process {pid} has ended, or runs another program now"),
                "",
            )
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.found)
    }
}

impl std::error::Error for Refusal {}
