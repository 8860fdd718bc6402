//! The rows of the report.

pub(crate) mod edges;
pub(crate) mod loops;
pub(crate) mod parallelism;
pub(crate) mod paths;
pub(crate) mod quality;
pub(crate) mod threads;
pub(crate) mod waits;
