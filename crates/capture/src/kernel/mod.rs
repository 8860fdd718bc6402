//! The kernel tier: scheduler events of the recorded processes, from eBPF or, with less privilege, from perf
//! events, made into [`convoy_profile::Sched`].
//!
//! A [`raw::EventSource`] delivers events in order of time; the `pipeline` looks up what they name and
//! feeds the accounting (`convoy_sched`), which keeps tables and a bounded timeline: an hour's recording takes
//! no more memory than a second's. At the end `join` puts the tables beside what the agents have written.

pub(crate) mod bpf;
mod code;
pub(crate) mod descriptors;
mod goroutines;
mod images;
mod join;
mod lines;
mod listener;
mod listener_priority;
mod load;
mod open;
mod operands;
pub(crate) mod perf;
mod pipeline;
pub(crate) mod raw;
mod reason;
mod spin_samples;
#[cfg(test)]
mod tests;
mod wait_set;
mod writes;

use join::join;
pub(crate) use join::OpenFiles;
pub(crate) use listener::Listener;
pub(crate) use open::Tier;
pub use open::{Scheduler, Sources};
pub(crate) use pipeline::Collected;

use convoy_profile::{Process, Sched};

use crate::allocator::release_freed_memory;
use crate::error::Trouble;

/// Ends listening at `end_ns`: what was heard. None if the listening thread has died, which is a bug of ours: the rest of
/// the recording is there all the same.
pub(crate) fn stop(
    listener: Listener,
    end_ns: u64,
    warnings: &mut Vec<Trouble>,
) -> Option<Collected> {
    let heard = listener.stop(end_ns);
    if heard.is_none() {
        warnings.push(Trouble::new(
            "convoy's own thread that takes scheduler events has failed",
            "the report has no part on the scheduler",
            "please report this, with what it printed",
        ));
    }
    // Tables of every thread became rows: what they took is wanted for what comes next.
    release_freed_memory();
    heard
}

/// Joins what was heard, if anything was, with what the agents have written.
pub(crate) fn tables(
    heard: Option<Collected>,
    processes: &mut Vec<Process>,
) -> (Option<Sched>, Vec<(u32, OpenFiles)>) {
    heard.map_or_else(Default::default, |heard| {
        let (sched, files) = join(heard, processes);
        (Some(sched), files)
    })
}
