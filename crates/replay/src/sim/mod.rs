//! A discrete-event simulation of a program on a machine.
//!
//! Threads run the literal protocols of glibc 2.36 for mutexes, reader-writer locks, condition
//! variables, barriers and semaphores, atomic operation by atomic operation and system call by
//! system call, on CPUs with run queues and time slices. What contention costs follows from that:
//! failed waits, wake-ups without a waiter, interrupted idle processors, preempted lock holders. A
//! model that knows only "park, then wake up" misses the cliffs that futex locks have.
//!
//! | file | |
//! |---|---|
//! | [`mod@self`] | [`run`], and what it needs |
//! | `engine`, `state`, `events` | the state of a run, and its loop over events |
//! | `thread` | operations, and the steps they consist of |
//! | `scheduler`, `rules`, `costs` | CPUs, run queues, slices, wake-ups and their latency |
//! | `futex`, `lock`, `mutex`, `spin`, `rwlock`, `cond`, `barrier` | the protocols |
//! | `schedule`, `logical_time` | enforced orders: ELSC, SYNC, MEM |
//! | `ensemble`, `calibrate` | several runs: spread, error bars, choice of rules |
//! | `outcome`, `histogram` | results |

mod barrier;
mod calibrate;
mod check;
mod cond;
mod costs;
mod engine;
mod ensemble;
mod events;
mod futex;
mod histogram;
mod lock;
mod logical_time;
mod mutex;
mod outcome;
mod result;
mod rng;
mod rules;
mod rwlock;
mod schedule;
mod scheduler;
mod spin;
mod state;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod thread;

use crate::machine::Machine;
use crate::program::Program;

pub use calibrate::calibrate_rules;
pub use calibrate::Calibration;
pub use check::SimError;
pub use ensemble::run_many;
pub use ensemble::saved_range;
pub use ensemble::varied_walls;
pub use ensemble::wall_range;
pub use ensemble::Range;
pub use ensemble::Runs;
pub use histogram::WaitHistogram;
pub use outcome::FutexCounts;
pub use outcome::LockOutcome;
pub use outcome::Outcome;
pub use outcome::SectionTimes;
pub use outcome::Stuck;
pub use outcome::ThreadOutcome;
pub use outcome::WaitKind;
pub use rules::Rules;
pub use schedule::Access;
pub use schedule::Schedule;

/// How to run a program.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Options<'a> {
    /// Which interleavings are allowed.
    pub schedule: Schedule<'a>,
    /// The same seed gives the same outcome, bit by bit.
    pub seed: u64,
    /// Rules of the scheduler.
    pub rules: Rules,
    /// CPUs, instead of the machine's.
    pub cpus: Option<u32>,
    /// Keep the times of every critical section: 40 bytes each.
    pub sections: bool,
    /// Keep the order in which threads acquire locks, end waits on condition variables and
    /// decrement semaphores: 4 bytes each.
    pub order: bool,
    /// End the run after so many operations: see [`Outcome::is_cut`].
    pub max_ops: Option<u64>,
}

/// Runs a program on a machine.
///
/// Takes some 0.1 us for an uncontended critical section (`examples/sim_speed.rs`); memory beyond
/// the program's own grows with the threads, objects and, if asked for, sections, not with the
/// operations.
///
/// # Errors
///
/// The program names objects that it does not have or contains impossible durations, the machine
/// has no CPU, or the schedule cannot be enforced: see [`SimError`]. A program that comes to a
/// standstill is not an error but an [`Outcome`] with [`Outcome::stuck`].
pub fn run(
    program: &Program,
    machine: &Machine,
    options: &Options<'_>,
) -> Result<Outcome, SimError> {
    let sections = check::check(program, machine, options)?;
    let turns = schedule::Turns::new(options.schedule, program)?;
    let sections = if options.sections { sections } else { 0 };
    let mut sim = engine::Sim::new(program, machine, options, turns, sections);
    sim.run();
    Ok(sim.into_outcome())
}
