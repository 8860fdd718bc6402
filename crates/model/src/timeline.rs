//! What every thread did when. The intervals are those of the profile; here their rows are the model's.

pub use convoy_profile::{Doing, Interval, Mix, Times};

use crate::ThreadId;

/// What every thread did when. In its intervals [`Doing::Running`] and [`Doing::Spinning`] name a row of
/// [`crate::Sched::slices`], [`Doing::Preempted`] and [`Doing::Waiting`] one of [`crate::Sched::offs`], and
/// [`Interval::wake`] one of [`crate::Sched::wakes`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// Intervals that were to be kept at most.
    pub limit: u64,
    /// Intervals shorter than this were joined with their neighbours. 0 = all are as they were.
    pub merged_below_ns: u64,
    /// Threads that have no lane, because there were more threads than intervals to be kept.
    pub threads_left_out: u64,
    /// One per life of a thread: an exec begins another one.
    pub lanes: Vec<Lane>,
}

/// The life of a thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lane {
    /// Whose.
    pub thread: ThreadId,
    /// In order of time.
    pub intervals: Vec<Interval>,
}
