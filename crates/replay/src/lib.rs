//! Replay of a recorded program with and without its unnecessary lock contention (PerfPlay, CGO'15). Pure.
//!
//! The stages, each a module:
//!
//! 1. [`program`]: the recording as a program for replay: what each thread computes and which
//!    operations it performs, without the time that it waited.
//! 2. `ulcp`: critical sections, their read and write sets, unnecessary lock contention pairs.
//! 3. `transform`: what-ifs and the ULCP-free trace, program in, program out.
//! 4. [`sim`]: a discrete-event simulation of a program on a [`machine::Machine`].
//! 5. [`fidelity`]: whether a replay gives back the recorded run.
//! 6. `cost`: what each pair and code region costs, ranked.
//!
//! The native replay, with real threads and real locks, is the crate `convoy-replayer`.

#![forbid(unsafe_code)]

pub mod analysis;
pub mod caveat;
pub mod compared;
pub mod compose;
pub mod cost;
pub mod extract;
pub mod fidelity;
pub mod fixes;
mod lanes;
mod limits;
pub mod machine;
mod parallel;
pub mod plan;
pub mod predict;
pub mod program;
pub mod races;
mod random;
pub mod reexecution;
mod rows;
pub mod sections;
pub mod sensitivity;
pub mod sets;
pub mod tables;
pub mod topology;
pub mod transform;
pub mod ulcp;
pub mod whatif;

pub mod sim;
pub mod simulated;
pub mod standstill;
pub mod study;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod testing_program;
#[cfg(test)]
mod testing_sets;
pub mod unnecessary;
mod waits;
