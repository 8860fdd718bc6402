//! Puts the agent into a running process, and takes its hooks out again:
//! docs/design/0008-attach.md.
//!
//! By ptrace: one thread at a safe point is borrowed to load the agent's library, from memory; then
//! all threads are stopped for a moment while the entries of the C library's functions are patched.
//! The process must not notice: it gets back every byte, register and signal.

mod namespace;
mod outcome;
mod probes;

#[cfg(target_arch = "x86_64")]
mod all_stopped;
#[cfg(target_arch = "x86_64")]
mod attach;
#[cfg(target_arch = "x86_64")]
mod call;
#[cfg(target_arch = "x86_64")]
mod dynamic;
#[cfg(not(target_arch = "x86_64"))]
mod elsewhere;
#[cfg(target_arch = "x86_64")]
mod gadgets;
#[cfg(target_arch = "x86_64")]
mod hooks;
#[cfg(target_arch = "x86_64")]
mod image;
#[cfg(target_arch = "x86_64")]
mod load;
#[cfg(target_arch = "x86_64")]
mod memory;
#[cfg(target_arch = "x86_64")]
mod owner;
#[cfg(target_arch = "x86_64")]
mod process;
#[cfg(target_arch = "x86_64")]
mod refusal;
#[cfg(target_arch = "x86_64")]
mod restart;
#[cfg(target_arch = "x86_64")]
mod safe_point;
#[cfg(target_arch = "x86_64")]
mod session_dir;
#[cfg(target_arch = "x86_64")]
mod signal_frame;
#[cfg(target_arch = "x86_64")]
mod stacks;
#[cfg(target_arch = "x86_64")]
mod tracee;
#[cfg(target_arch = "x86_64")]
mod tracer;
#[cfg(target_arch = "x86_64")]
mod turn;

#[cfg(target_arch = "x86_64")]
pub use attach::{attach, detach};
pub use convoy_probes::{
    Also, Bytes, Cell, Counts, FileCell, Holding, Inserted, Io, Measure, Probe, Refusal, BUCKETS,
    ROWS,
};
#[cfg(not(target_arch = "x86_64"))]
pub use elsewhere::{attach, detach, is_stuck, Owner};
pub use namespace::Numbers;
pub use outcome::{Attached, Detached};
#[cfg(target_arch = "x86_64")]
pub use owner::Owner;
pub use probes::Probes;
#[cfg(target_arch = "x86_64")]
pub use tracer::is_stuck;
