//! What can go wrong, always told as: the value found, its effect, and what to do.

use std::fmt;

/// A value that was found, its effect, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What was found, with the value: "/dev/shm has 3 MB free".
    pub found: String,
    /// What that means: "recording may stop before the program ends".
    pub effect: String,
    /// What to do; empty when there is nothing.
    pub fix: String,
}

impl Trouble {
    /// From its three parts.
    pub fn new(
        found: impl Into<String>,
        effect: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            found: found.into(),
            effect: effect.into(),
            fix: fix.into(),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.found, self.effect)?;
        if !self.fix.is_empty() {
            write!(f, " ({})", self.fix)?;
        }
        Ok(())
    }
}

/// Why something could not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    trouble: Trouble,
}

/// Kinds of errors, for exit codes and decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The command does not exist: shells exit with 127.
    NotFound,
    /// The command is a directory, has no permission, or the kernel refuses it: shells exit with 126.
    NotExecutable,
    /// The command can run, but not be recorded.
    Refused(Refusal),
    /// No place for the session directory, or it cannot be used.
    Session,
    /// The agent's library cannot be put where the program can load it.
    Agent,
    /// The process could not be started.
    Launch,
    /// Running processes cannot be recorded: not there, not allowed, or no means.
    Attach,
    /// The tables of a running program cannot be read: not there, not allowed, or it keeps none.
    Watch,
    /// A profile could not be written.
    Write,
}

/// Why a command that can run cannot be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// No dynamic loader that would load the agent.
    Static,
    /// Runs with other rights than ours, so the loader ignores preloads.
    Privileged,
    /// Go's runtime schedules and locks by itself.
    Go,
    /// Built for another processor or word size.
    Architecture,
    /// Another C library than glibc.
    CLibrary,
}

impl Error {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, trouble: Trouble) -> Self {
        Self { kind, trouble }
    }

    /// What kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The value found, its effect, and what to do.
    pub fn trouble(&self) -> &Trouble {
        &self.trouble
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.trouble.fmt(f)
    }
}

impl std::error::Error for Error {}

/// The text of an operating system error without Rust's "(os error 2)".
pub(crate) fn os_text(e: &std::io::Error) -> String {
    let text = e.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}
