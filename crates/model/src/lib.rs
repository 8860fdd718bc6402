//! The nouns that every collector fills and every analysis reads. Pure: no clock, no environment,
//! no I/O.

#![forbid(unsafe_code)]

mod bottleneck;
mod build;
mod chance;
pub mod finding;
mod goroutines;
mod kinds;
mod label;
mod languages;
mod lines;
mod near_sync;
mod nouns;
mod own_code;
mod path;
mod programs;
mod sched;
mod scripts;
mod sections;
mod semaphores;
mod sources;
mod sums;
mod sync_code;
mod syscall_wrappers;
mod timeline;
pub mod upper_bound;
pub mod words;
mod wrappers;

/// The innermost frame that says who wanted the lock, of frames with their inlined functions, leaf first.
/// A wrapper if there is nothing else; `None` without frames.
pub fn telling(frames: &[SiteFrame]) -> Option<&SiteFrame> {
    frames.get(build::shown(frames))
}

/// The frames of a process, leaf first, with the functions that were inlined there.
pub fn expand(
    process: &convoy_profile::Process,
    frames: &[convoy_profile::FrameIx],
) -> Vec<SiteFrame> {
    build::expand(process, frames)
}

/// Whether a frame only passes a call on: the C or C++ runtime, a language's library, a lock wrapper.
pub fn passes_on(frame: &SiteFrame) -> bool {
    wrappers::passes_on(frame)
}

/// The name of a function without what C libraries put around it: `__GI___mmap64` is `mmap`.
pub fn bare(function: &str) -> &str {
    syscall_wrappers::bare(function)
}

/// Whether the innermost code that was compiled as one belongs to a run-time library, a virtual machine or the agent: what
/// they share between threads is their own affair. What was inlined from a library into a program's code is the program's.
pub fn is_runtimes_own(frames: &[SiteFrame]) -> bool {
    let compiled = frames
        .iter()
        .find(|frame| !frame.inlined)
        .or(frames.first());
    compiled.is_some_and(languages::is_runtimes_own)
}

pub use bottleneck::{Bottleneck, FindingId};
pub use chance::differs_by_chance;
pub use goroutines::*;
pub use kinds::{is_blocking_acquire, is_lock_by_type, is_lock_kind, kind_of};
pub use lines::*;
pub use near_sync::BesideSync;
pub use nouns::*;
pub use programs::{runs, serves_a_machine, Runs};
pub use sched::*;
pub use sections::*;
pub use semaphores::{is_pythons_lock, semaphores_used_as_locks, tokens_are_given_back};
pub use sources::{kernel_share, BlindSpot, Remedy, Sources};
pub use sums::sum_by_key;
pub use sync_code::SyncCode;
pub use timeline::*;
