//! Puts the agent into a running process, and takes its hooks out again: docs/design/0008-attach.md.
//!
//! By ptrace: one thread at a safe point is borrowed to load the agent's library, from memory; then all
//! threads are stopped for a moment while the entries of the C library's functions are patched. The
//! process must not notice: it gets back every byte, register and signal.

mod attach;
mod call;
mod entry;
mod error;
mod hooks;
mod image;
mod memory;
mod process;
mod refusal;
mod safe_point;
mod signal_frame;
mod tracee;

pub use attach::{attach, detach, Attached, Detached, Owner};
pub use error::Refusal;
