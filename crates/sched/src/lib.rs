//! Accounting of scheduler events: activity, CMetric, off-CPU time and wakers (GAPP, ICPE'20). Pure:
//! events in order of time in, the tables of [`convoy_profile::Sched`] out.

#![forbid(unsafe_code)]

mod event;

pub use event::{Event, Options, Out, Place, State, Tid, WakerIs};
