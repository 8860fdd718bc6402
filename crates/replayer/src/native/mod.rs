//! Native replay: a program's threads run for real, with the C library's own locks, condition
//! variables, barriers and semaphores, and a calibrated loop in place of their work.
//!
//! It needs no model of locks or of the scheduler, only what the machine does anyway. What it
//! cannot do: segments shorter than [`NativeOutcome::floor_ns`] (they take that long), the caches'
//! part of a program's work (every section touches one line of its lock), more processors than
//! there are. Work in a program excludes the cost of its operations: those are real here.
//!
//! The stages: [`plan`] turns a program into compact steps; [`objects`] holds what threads share;
//! [`interpreter`] is what each thread runs; [`run`] starts, watches and ends them.

mod check;
mod conds;
mod held;
mod histogram;
mod interpreter;
mod locks;
mod needs;
mod objects;
mod outcome;
mod plan;
mod rates;
mod run;
mod step;
mod turns;
pub(crate) mod usage;

use std::sync::Arc;
use std::time::Duration;

use convoy_replay::program::{Program, ThreadIx};
use serde::{Deserialize, Serialize};

pub use outcome::{
    LockOutcome, NativeError, NativeOutcome, Simplified, ThreadOutcome, WaitPercentiles,
};
pub use rates::Rates;

/// How to replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NativeOptions {
    /// A replay that takes longer hangs: it is ended with a reason. A wait that the recorded order
    /// satisfied may never be in another order.
    pub timeout: Duration,
    /// Who gets a lock.
    pub schedule: Schedule,
}

impl NativeOptions {
    /// Free order; ended after ten times the recorded run and a second.
    pub fn for_run_of(wall: Duration) -> Self {
        Self {
            timeout: wall * 10 + Duration::from_secs(1),
            schedule: Schedule::Free,
        }
    }

    /// The same, ended after this time at the latest.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self {
            timeout: self.timeout.min(limit),
            ..self
        }
    }
}

/// Order in which locks are acquired (PerfPlay, CGO'15, section 5).
///
/// An enforced order is for threads that fit the processors. Where more can run, a thread whose
/// turn it is may not be running, and everybody waits for the scheduler: 2 to 10 times slower than
/// the recorded run. Whoever asks for one has to know.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum Schedule {
    /// Whoever comes first (ORIG).
    #[default]
    Free,
    /// The order of the recording, enforced by a turn counter in each lock (ELSC): for each lock of
    /// the program the threads that acquired it, in order.
    Recorded(Vec<Vec<ThreadIx>>),
    /// One order of all acquisitions of locks, ends of waits on condition variables and decrements
    /// of semaphores: whose they are (SYNC, where the order is that of logical time). Each of them
    /// comes after the one before it, whatever the object.
    Total(Vec<ThreadIx>),
}

/// A program made ready for native replay, any number of times.
#[derive(Debug, Clone)]
pub struct Prepared(Arc<plan::Plan>);

impl Prepared {
    /// Compiles a program to steps; its operations are given free on the way, thread by thread.
    ///
    /// # Errors
    ///
    /// [`NativeError::Invalid`] for a program that contradicts itself or its schedule.
    pub fn new(program: Program, schedule: &Schedule) -> Result<Self, NativeError> {
        let rates = Rates::for_program(&program);
        Ok(Self(Arc::new(plan::compile(program, schedule, &rates)?)))
    }

    /// Replays it once. Threads that hang are left behind: use [`crate::child`] where that matters.
    ///
    /// # Errors
    ///
    /// [`NativeError::Hang`] after the timeout, [`NativeError::Threads`] if the machine refuses
    /// threads.
    pub fn run(&self, timeout: Duration) -> Result<NativeOutcome, NativeError> {
        run::run(&self.0, timeout)
    }
}

/// Replays a program once, in this process.
///
/// # Errors
///
/// As [`Prepared::new`] and [`Prepared::run`].
pub fn run(program: &Program, options: &NativeOptions) -> Result<NativeOutcome, NativeError> {
    Prepared::new(program.clone(), &options.schedule)?.run(options.timeout)
}

#[cfg(test)]
mod tests;
