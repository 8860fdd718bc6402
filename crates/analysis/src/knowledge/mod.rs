//! What functions, programs and locks of known software mean.

pub(crate) mod database_locks;
pub(crate) mod library_calls;
pub(crate) mod programs;
