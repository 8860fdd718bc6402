//! Transformations of programs: program in, program out.

mod by_data;
mod by_section;
mod lock_order;
pub(crate) mod matching;
mod plan;
#[cfg(test)]
mod tests;
mod ulcp_free;

pub use by_section::Finished;
pub use plan::{AuxLock, AuxUse, Kept, KeptReason, LockPlan, Replacement, Scheme};
pub use ulcp_free::ulcp_free;
