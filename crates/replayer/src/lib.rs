//! Calibration of a machine, native replay of programs on it, and measurement of finished fixes.
//!
//! * [`calibrate`]: what locks, futexes, wake-ups and context switches cost here, now.
//! * [`native`]: a replay with real threads and the C library's own locks.
//! * [`child`]: the same in a process of its own, so that a hang or crash stays there.
//! * [`verify`]: an original and a fixed command, measured in interleaved pairs.
//!
//! With `convoy-capture` the only crate that may use `unsafe`: for the C library's locks, which
//! have no safe interface, and for the loop that stands for a program's work.

#![deny(clippy::undocumented_unsafe_blocks)]

pub mod calibrate;
pub mod child;
pub mod clock;
mod codec;
pub mod cpus;
pub mod native;
pub mod paired;
pub mod stats;
pub mod verify;
pub mod work;

pub use child::spawn;
