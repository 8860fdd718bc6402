//! Accounting of scheduler events: activity, CMetric, off-CPU time and wakers (GAPP, ICPE'20). Pure:
//! events in order of time in, the tables of [`convoy_profile::Sched`] out.
//!
//! What the numbers mean where the events leave room:
//!
//! - A slice with samples is cut at them: what passed since the last one belongs to the next one's call stack, the
//!   rest at the end to the last one's. Without samples all of it belongs to the place where it ended.
//! - A thread waits in a loop from the first sample that says so until one that does not, or until it blocks;
//!   preemption does not end it. It did so before that first sample, too, for up to a sampling period: this
//!   counts in its own `spinning_ns`, but not in the number of working threads, which others have been measured by.
//! - A preempted thread is active: the time is in a row of [`convoy_profile::OffReason::Preempted`] *and* in its
//!   slice.
//! - Of a waker, what it did during a wait is known for its last 64 periods.
//! - In the timeline, time on a processor is cut at samples, and belongs to the code that the next sample found.
//! - From a source without wake-ups a thread becomes active when it comes on a processor.

#![forbid(unsafe_code)]

mod accounting;
mod bins;
mod clock;
mod event;
mod history;
mod history_rollup;
mod images;
mod lanes;
mod off_cpu;
pub mod reason;
mod slices;
mod table;
mod thread;
mod wakes;

pub use accounting::{Accounting, Output};
pub use event::{Event, Options, Out, Place, State, Tid, WakerIs};
pub use images::{Image, Life};
pub use table::{Fold, Map};
