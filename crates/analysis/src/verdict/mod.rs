//! The sentence at the head of the report.

pub(crate) mod counters;
pub(crate) mod scheduler;
