//! Accounting of traced critical sections: what they execute and which memory they touch. Pure: blocks of
//! code and sections in, the tables of [`convoy_profile::Sections`] out.
//!
//! The caller (the recorder) does this:
//!
//! 1. [`Accounting::block`] for every block of a process's log before a section that names it;
//!    [`Accounting::stack`] when a thread is first seen, [`Accounting::allocator`] for every function of a loaded module
//!    whose name [`allocator`] knows;
//!    [`Accounting::linker`] for the dynamic linker's module ([`is_linker`]); both before the module's code is traced if that can be.
//! 2. [`Accounting::section`] for every section, with its events as they lie in the record. Who read what another thread
//!    wrote is told by the order of the calls: drain all chunks of all processes, sort what was found by
//!    `begin_ns`, and only then pass it on.
//! 3. [`Accounting::finish`] at the end, with a [`Places`] that turns addresses into indices of the profile.
//!
//! Memory: 64 MB, and 32 bytes for every distinct word of memory that was accessed explicitly.

#![forbid(unsafe_code)]

mod accounting;
mod allocator;
mod code;
mod distinct;
mod events;
mod finish;
mod input;
mod objects;
mod random;
mod replayable;
mod site;
mod touches;
mod walk;
mod words;

pub use accounting::Accounting;
pub use allocator::{allocator, is_linker, Allocator};
pub use input::{Access, AccessKind, Block, Options, Places, Section};
