//! Accounting of scheduler events: activity, CMetric, off-CPU time and wakers (GAPP, ICPE'20). Pure:
//! events in order of time in, the tables of [`convoy_profile::Sched`] out.

#![forbid(unsafe_code)]

mod accounting;
mod bins;
mod clock;
mod event;
mod history;
mod images;
mod offs;
pub mod reason;
mod slices;
mod table;
mod thread;
mod wakes;

pub use accounting::{Accounting, Output};
pub use event::{Event, Options, Out, Place, State, Tid, WakerIs};
pub use images::{Image, Life};
