//! What a change would buy: throughput after over throughput before.
//!
//! All findings are priced by the same question: some threads lose some waiting and some CPU
//! overhead; how much shorter is the run? `bounds` has what cannot be beaten, `queue` the
//! queueing that remains, `overhead` what a lock costs besides its waits, `locking` what samples say of
//! that. docs/detect.md derives it.

pub(crate) mod bounds;
mod locking;
pub(crate) mod overhead;
mod predict;
mod queue;
mod saving;

pub(crate) use bounds::{stations, Station};
pub(crate) use locking::LockCode;
pub(crate) use overhead::{kernel_share, LOCKING, PARK_NS};
pub(crate) use predict::{predict, Change};
pub(crate) use saving::Saving;
