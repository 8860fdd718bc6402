//! One list of findings: which of them explain, absorb or replace others.

mod cross_check;
pub(crate) mod dedup_processes;
pub(crate) mod explain;
mod merge;
mod overlap;
mod rules;

pub use cross_check::{cross_check, cross_check_with};
pub use merge::merge;
