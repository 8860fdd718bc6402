//! Turns of convoys at a process: what they do to it, they do one after the other.

use std::fs::File;
use std::os::fd::AsRawFd;

use convoy_probes::Refusal;

/// The lock of a process's directory in `/proc`. Anybody may take it, so that leaving does not
/// depend on it.
#[derive(Debug)]
pub(crate) struct Turn {
    _locked: File,
}

impl Turn {
    /// The turn at a process, if no other convoy has it.
    pub fn take(pid: u32) -> Result<Self, Refusal> {
        let dir = File::open(format!("/proc/{pid}")).map_err(|_| Refusal::gone(pid))?;
        // SAFETY: an open descriptor.
        let r = unsafe { libc::flock(dir.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        match r {
            0 => Ok(Self { _locked: dir }),
            _ => Err(Refusal::passing(
                format!("another convoy attaches to process {pid}"),
                "wait until it has ended",
            )),
        }
    }
}
