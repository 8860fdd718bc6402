//! What a program and a machine must satisfy to be simulated.

use std::fmt;

use super::Options;
use crate::machine::Machine;
use crate::program::Need;
use crate::program::Op;
use crate::program::Program;
use crate::program::ThreadIx;
use crate::program::NO_SECTION;

/// CPUs at most.
const MAX_CPUS: u32 = 4096;
/// Longest work or sleep, nanoseconds: a day.
const MAX_DURATION_NS: f64 = 86_400e9;

/// Why a program cannot be simulated.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SimError {
    /// No CPU, or more than can be simulated.
    Cpus(u32),
    /// A cost of the machine is negative or no number.
    Cost(&'static str),
    /// Work or a sleep that is negative, no number, or longer than a day.
    Duration {
        /// Of this thread.
        thread: ThreadIx,
        /// Index of the operation.
        op: usize,
    },
    /// An operation names an object or thread that the program does not have.
    UnknownObject {
        /// Of this thread.
        thread: ThreadIx,
        /// Index of the operation.
        op: usize,
    },
    /// A thread is started twice, or exists from the start and is started.
    StartedTwice(ThreadIx),
    /// More critical sections than acquisitions: numbers must be dense to be written down.
    SparseSections,
    /// Several runs were asked for, of no seed.
    NoSeed,
    /// MEM needs recorded accesses to shared memory.
    AccessesNotRecorded,
    /// MEM: the order names an operation that the program does not have.
    UnknownAccess {
        /// The thread named.
        thread: ThreadIx,
        /// The operation named.
        op: u32,
    },
    /// MEM: the order contradicts the order of this thread's own operations.
    AccessesOutOfOrder {
        /// The thread.
        thread: ThreadIx,
    },
    /// ELSC: the order is one of another program.
    OrderOfOtherLocks {
        /// Lists given.
        given: usize,
        /// Locks of the program.
        locks: usize,
    },
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpus(cpus) => write!(f, "cannot simulate {cpus} CPUs: 1 to {MAX_CPUS} can be"),
            Self::Cost(name) => {
                write!(
                    f,
                    "the machine's {name} is negative or no number: calibrate again"
                )
            }
            Self::Duration { thread, op } => {
                write!(
                    f,
                    "thread {thread}, operation {op}: the duration is not within a day"
                )
            }
            Self::UnknownObject { thread, op } => {
                write!(
                    f,
                    "thread {thread}, operation {op}: there is no such object"
                )
            }
            Self::StartedTwice(_) => write!(
                f,
                "one record stands for several threads, since more began than the recorder had \
                 records for: record with a larger --max-threads"
            ),
            Self::SparseSections => {
                write!(
                    f,
                    "the numbers of critical sections exceed the number of acquisitions"
                )
            }
            Self::NoSeed => write!(f, "no run: give at least one seed"),
            Self::AccessesNotRecorded => write!(
                f,
                "schedule MEM needs the accesses to shared memory, which this recording does \
                 not have: use ELSC"
            ),
            Self::UnknownAccess { thread, op } => {
                write!(f, "schedule MEM: thread {thread} has no operation {op}")
            }
            Self::AccessesOutOfOrder { thread } => write!(
                f,
                "schedule MEM: the accesses of thread {thread} are not in the order of its \
                 operations"
            ),
            Self::OrderOfOtherLocks { given, locks } => write!(
                f,
                "schedule ELSC: the order is that of {given} locks, the program has {locks}"
            ),
        }
    }
}

impl std::error::Error for SimError {}

/// Numbers of critical sections that a program may leave out: times of as many take 0.5 GB.
const SPARE_SECTIONS: usize = 1 << 24;

/// Checks everything that the simulation relies on. Gives the number of critical sections.
pub(super) fn check(
    program: &Program,
    machine: &Machine,
    options: &Options<'_>,
) -> Result<usize, SimError> {
    let cpus = options.cpus.unwrap_or(machine.cpus);
    if cpus == 0 || cpus > MAX_CPUS {
        return Err(SimError::Cpus(cpus));
    }
    check_machine(machine)?;
    let mut is_started: Vec<bool> = program.threads.iter().map(|t| t.at_start).collect();
    let (mut sections, mut acquisitions) = (0usize, 0usize);
    for (index, thread) in program.threads.iter().enumerate() {
        let index = index as ThreadIx;
        if !(0.0..=MAX_DURATION_NS).contains(&thread.start_ns) {
            return Err(SimError::Duration {
                thread: index,
                op: 0,
            });
        }
        for (op_index, op) in thread.ops.iter().enumerate() {
            if let Op::Work { ns } | Op::Sleep { ns } = *op {
                if !(0.0..=MAX_DURATION_NS).contains(&f64::from(ns)) {
                    return Err(SimError::Duration {
                        thread: index,
                        op: op_index,
                    });
                }
                continue;
            }
            if !is_known(program, op) {
                return Err(SimError::UnknownObject {
                    thread: index,
                    op: op_index,
                });
            }
            match *op {
                Op::Spawn { thread } => {
                    let twice = std::mem::replace(&mut is_started[thread as usize], true);
                    (!twice)
                        .then_some(())
                        .ok_or(SimError::StartedTwice(thread))?;
                }
                Op::Acquire { section, .. } | Op::TryAcquire { section, .. } => {
                    acquisitions += 1;
                    if section != NO_SECTION {
                        sections = sections.max(section as usize + 1);
                    }
                }
                _ => {}
            }
        }
    }
    // A program without some of its sections (a what-if) keeps their numbers, and so does a slice
    // of a long recording; a number out of the blue must not allocate gigabytes.
    if options.sections && sections > acquisitions.saturating_add(SPARE_SECTIONS) {
        return Err(SimError::SparseSections);
    }
    Ok(sections)
}

fn is_known(program: &Program, op: &Op) -> bool {
    let has = |index: u32, count: usize| (index as usize) < count;
    let locks = program.locks.len();
    match *op {
        Op::Work { .. } | Op::Sleep { .. } => true,
        Op::Acquire { lock, .. }
        | Op::TryAcquire { lock, .. }
        | Op::TryFail { lock }
        | Op::Release { lock } => has(lock, locks),
        Op::Await { cond, lock, need } => {
            let (Need::Token(channel) | Need::Count(channel, _)) = need;
            has(cond, program.conds.len())
                && has(lock, locks)
                && has(channel, program.channels.len())
        }
        Op::Post { channel } => has(channel, program.channels.len()),
        Op::Signal { cond } | Op::Broadcast { cond } => has(cond, program.conds.len()),
        Op::Barrier { barrier } => has(barrier, program.barriers.len()),
        Op::SemWait { sem } | Op::SemPost { sem } => has(sem, program.semaphores.len()),
        Op::Spawn { thread } | Op::Join { thread } => has(thread, program.threads.len()),
    }
}

fn check_machine(machine: &Machine) -> Result<(), SimError> {
    let costs = [
        ("atomic_local_ns", machine.atomic_local_ns),
        ("atomic_remote_ns", machine.atomic_remote_ns),
        ("lock_pair_ns", machine.lock_pair_ns),
        ("rdlock_pair_ns", machine.rdlock_pair_ns),
        ("futex_check_ns", machine.futex_check_ns),
        ("futex_eagain_ns", machine.futex_eagain_ns),
        ("futex_block_ns", machine.futex_block_ns),
        ("futex_wake_none_ns", machine.futex_wake_none_ns),
        ("futex_wake_ns", machine.futex_wake_ns),
        ("futex_wake_ipi_ns", machine.futex_wake_ipi_ns),
        ("switch_ns", machine.switch_ns),
        ("tick_ns", machine.tick_ns),
        ("slice_ns", machine.slice_ns),
        ("spawn_ns", machine.spawn_ns),
    ];
    let is_possible = |ns: f64| (0.0..=MAX_DURATION_NS).contains(&ns);
    if let Some((name, _)) = costs.iter().find(|(_, ns)| !is_possible(*ns)) {
        return Err(SimError::Cost(name));
    }
    let mut idle = 0.0;
    for row in &machine.wake_latency {
        let all = [row.idle_ns, row.p10_ns, row.p50_ns, row.p90_ns];
        if !all.into_iter().all(is_possible) || row.idle_ns < idle {
            return Err(SimError::Cost("wake_latency"));
        }
        idle = row.idle_ns;
    }
    Ok(())
}
