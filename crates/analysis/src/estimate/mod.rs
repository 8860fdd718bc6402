//! Gains: what is left of a run without a bottleneck.

pub(crate) mod queueing;
pub(crate) mod saving;
