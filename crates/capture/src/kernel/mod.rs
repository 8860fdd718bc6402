//! The kernel tier: scheduler events of the recorded processes, from eBPF or, with less privilege, from perf
//! events, made into [`convoy_profile::Sched`].

pub(crate) mod raw;
