//! Runs Convoy on programs and asks whether it was right (`tests/live`), harmless
//! (`tests/robustness`), and whether the agent keeps its own rules (`tests/agent`).
//!
//! The programs are compiled into `target/fixtures` and run in a directory of their own, which is
//! kept when the case fails, with the command that repeats it.

#![forbid(unsafe_code)]

pub mod case;
pub mod compile;
pub mod convoy;
pub mod needs;
pub mod profile;
pub mod run;
pub mod turn;

use std::path::{Path, PathBuf};

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap_or_else(|_| PathBuf::from("."))
}

/// Cargo's target directory: the tests are in `<target>/<profile>/deps`.
pub fn target() -> PathBuf {
    profile_dir()
        .parent()
        .map_or_else(|| root().join("target"), Path::to_path_buf)
}

/// `<target>/<profile>`, where the binaries are.
pub(crate) fn profile_dir() -> PathBuf {
    std::env::current_exe()
        .ok()
        .and_then(|exe| exe.parent()?.parent().map(Path::to_path_buf))
        .unwrap_or_else(|| root().join("target/debug"))
}

/// Joins errors as the tests have them: text for a person.
pub type Result<T = ()> = std::result::Result<T, String>;

/// `Err(format!(...))` unless the condition holds.
#[macro_export]
macro_rules! check {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}
