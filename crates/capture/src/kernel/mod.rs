//! The kernel tier: scheduler events of the recorded processes, from eBPF or, with less privilege, from perf
//! events, made into [`convoy_profile::Sched`].
//!
//! A [`raw::EventSource`] delivers events in order of time; the `pipeline` looks up what they name and
//! feeds the accounting (`convoy_sched`), which keeps tables and a bounded timeline: an hour's recording takes
//! no more memory than a second's. At the end `join` puts the tables beside what the agents have written.

pub(crate) mod bpf;
mod code;
mod descriptors;
mod images;
mod join;
mod listener;
mod open;
pub(crate) mod perf;
mod pipeline;
pub(crate) mod raw;
mod reason;
#[cfg(test)]
mod tests;
mod waiting;

use join::join;
pub(crate) use join::OpenFiles;
pub(crate) use listener::Listener;
pub(crate) use open::Tier;
pub use open::{Scheduler, Sources};

use convoy_profile::{Process, Sched};

use crate::error::Trouble;

/// Ends listening at `end_ns` and joins what was heard with what the agents have written. Without the tables if
/// the listening thread has died, which is a bug of ours: the rest of the recording is there all the same.
pub(crate) fn collect(
    listener: Listener,
    end_ns: u64,
    processes: &mut Vec<Process>,
    warnings: &mut Vec<Trouble>,
) -> (Option<Sched>, Vec<(u32, OpenFiles)>) {
    if let Some(collected) = listener.stop(end_ns) {
        let (sched, files) = join(collected, processes);
        return (Some(sched), files);
    }
    warnings.push(Trouble::new(
        "convoy's own thread that takes scheduler events has failed",
        "the report has no part on the scheduler",
        "please report this, with what it printed",
    ));
    (None, Vec::new())
}
