//! Requests that make no sense.

use std::fmt;

/// A request that cannot be met, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The value found.
    pub found: String,
    /// What to do; may be empty.
    pub fix: String,
}

impl Invalid {
    /// From its parts.
    pub fn new(found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            found: found.into(),
            fix: fix.into(),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fix.as_str() {
            "" => f.write_str(&self.found),
            fix => write!(f, "{}; {fix}", self.found),
        }
    }
}

impl std::error::Error for Invalid {}
