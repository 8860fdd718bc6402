//! A decoded block to the code that runs it.

mod block;
mod exits;
mod lanes;
mod record;
mod string;
pub mod stubs;

#[cfg(feature = "agent")]
pub use block::{emit, Environment, ExitKind};
