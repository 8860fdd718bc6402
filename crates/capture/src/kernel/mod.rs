//! The kernel tier: scheduler events of the recorded processes, from eBPF or, with less privilege, from perf
//! events, made into [`convoy_profile::Sched`].
//!
//! A [`raw::EventSource`] delivers events in order of time; the `pipeline` looks up what they name and
//! feeds the accounting (`convoy_sched`), which keeps tables and no events: an hour's recording takes
//! no more memory than a second's. At the end `join` puts the tables beside what the agents have written.

pub(crate) mod bpf;
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

pub(crate) use join::{join, OpenFiles};
pub(crate) use listener::Listener;
pub(crate) use open::Tier;
pub use open::{Scheduler, Sources};

use crate::error::Trouble;

/// What to tell when the thread that takes the events has died: that is a bug of ours.
pub(crate) fn listener_failed() -> Trouble {
    Trouble::new(
        "convoy's own thread that takes scheduler events has failed",
        "the report has no part on the scheduler",
        "please report this, with what it printed",
    )
}
