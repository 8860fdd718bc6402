//! Native replay.
pub(crate) mod usage;
