//! Stand-in for the injector on processors other than x86-64: it refuses.

use std::path::Path;

use crate::outcome::{Attached, Detached};
use convoy_probes::Refusal;

/// A process of convoy that holds attachments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner;

impl Owner {
    /// This process.
    pub fn this() -> Self {
        Self
    }
}

/// Refuses.
///
/// # Errors
/// Always.
pub fn attach(_: u32, _: &[u8], _: &Path, _: Owner) -> Result<Attached, Refusal> {
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

/// Nothing is traced.
pub fn is_stuck() -> bool {
    false
}
