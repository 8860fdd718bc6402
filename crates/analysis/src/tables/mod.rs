//! The rows of the report.

pub(crate) mod counters;
pub(crate) mod edges;
pub(crate) mod groups;
pub(crate) mod locks;
pub(crate) mod loops;
pub(crate) mod parallelism;
pub(crate) mod paths;
pub(crate) mod quality;
pub(crate) mod scheduler;
pub(crate) mod threads;
pub(crate) mod waits;
