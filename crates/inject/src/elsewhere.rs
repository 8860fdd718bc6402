//! Machines that nobody has written an injector for: nothing can be attached to.

use std::time::Duration;

use crate::error::Refusal;

/// A process of convoy that holds attachments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner;

impl Owner {
    /// This process.
    pub fn this() -> Self {
        Self
    }
}

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

/// Refuses.
///
/// # Errors
/// Always.
pub fn attach(_: u32, _: &[u8], _: &str, _: Owner) -> Result<Attached, Refusal> {
    Err(Refusal::new(
        "the agent can be put into running programs on x86-64 only",
        "start it under convoy: convoy -- COMMAND",
    ))
}

/// There is nothing to take out.
///
/// # Errors
/// None.
pub fn detach(_: u32, _: Owner) -> Result<Detached, Refusal> {
    Ok(Detached::Nothing)
}
