//! Results of attaching and of leaving.

use std::time::Duration;

/// An agent that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// Functions that are hooked.
    pub hooks: usize,
    /// Those that are not, and why.
    pub left_out: Vec<String>,
    /// How long all threads stood still while the hooks went in.
    pub stopped: Duration,
}

/// How an attachment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detached {
    /// All hooks are out.
    Removed {
        /// No thread is inside the agent: its tables are not used any more.
        is_unused: bool,
    },
    /// The process has ended, or runs another program.
    Gone,
    /// Nothing of convoy's was in it.
    Nothing,
}
