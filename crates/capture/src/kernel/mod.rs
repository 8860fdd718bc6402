//! The kernel tier: scheduler events of the recorded processes, from eBPF or, with less privilege, from perf
//! events, made into [`convoy_profile::Sched`].
//!
//! A [`raw::EventSource`] delivers events in order of time; the `pipeline` looks up what they name and
//! feeds the accounting (`convoy_sched`), which keeps tables and no events: an hour's recording takes
//! no more memory than a second's. At the end `join` puts the tables beside what the agents have written.

pub(crate) mod bpf;
pub(crate) mod perf;
pub(crate) mod raw;
