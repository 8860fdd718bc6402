//! What a simulated run took, and where its threads' time went.

use super::histogram::WaitHistogram;
use crate::program::LockIx;
use crate::program::SectionId;
use crate::program::ThreadIx;

/// A simulated run. Times are nanoseconds since its start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// End of the last thread, or of the last thing that happened before the threads were stuck.
    pub wall_ns: f64,
    /// By [`ThreadIx`].
    pub threads: Vec<ThreadOutcome>,
    /// By [`LockIx`].
    pub locks: Vec<LockOutcome>,
    /// System calls of the waits and wake-ups.
    pub futex: FutexCounts,
    /// Releases of locks that the thread did not hold: left out of the run.
    pub unmatched_releases: u64,
    /// By [`SectionId`], if [`super::Options::sections`] asked for them.
    pub sections: Vec<SectionTimes>,
    /// Whose acquisitions of locks, ends of waits on condition variables and decrements of
    /// semaphores came one after the other, if [`super::Options::order`] asked for it. Returns with
    /// the lock from a wait that goes on are left out.
    pub order: Vec<ThreadIx>,
    /// The program did not end.
    pub stuck: Option<Stuck>,
    /// Operations begun.
    pub ops: u64,
    /// The run was ended by [`super::Options::max_ops`].
    pub is_cut: bool,
    /// How often a thread had to wait for a CPU in a run queue. 0 = there was always an idle one,
    /// so that the scheduler's rules did not matter.
    pub queued: u64,
    /// Time in which some thread waited in a run queue.
    pub queued_ns: f64,
}

/// Where the time of a thread went. Its lifetime is the sum of work, protocol, runnable, waited and
/// slept: see [`ThreadOutcome::accounted_ns`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ThreadOutcome {
    /// It never started: its creator was stuck.
    pub is_missing: bool,
    /// Start.
    pub start_ns: f64,
    /// End; of a stuck thread, that of the run.
    pub end_ns: f64,
    /// The program's own work, as recorded.
    pub work_ns: f64,
    /// CPU time of synchronization outside of waits: atomic operations, wake-ups, creation of
    /// threads.
    pub protocol_ns: f64,
    /// Waited for a CPU, outside of waits for synchronization: preempted, or after a sleep.
    pub runnable_ns: f64,
    /// From the first failed attempt until the wait was over, by [`WaitKind`]; includes the CPU
    /// time of further attempts, and the time until the woken thread runs.
    pub waited_ns: [f64; WaitKind::COUNT],
    /// I/O and timers.
    pub slept_ns: f64,
    /// On a CPU: work, protocol, and the CPU time of waits.
    pub cpu_ns: f64,
    /// Context switches: it blocked.
    pub voluntary: u64,
    /// Context switches: it was preempted.
    pub involuntary: u64,
}

impl ThreadOutcome {
    /// Waits of all kinds.
    pub fn waited_total_ns(&self) -> f64 {
        self.waited_ns.iter().sum()
    }

    /// Everything that the lifetime consists of.
    pub fn accounted_ns(&self) -> f64 {
        self.work_ns + self.protocol_ns + self.runnable_ns + self.waited_total_ns() + self.slept_ns
    }
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum WaitKind {
    /// A lock; also the lock that a wait on a condition variable returns with.
    Lock,
    /// A condition variable, until it was signalled.
    Cond,
    /// A barrier.
    Barrier,
    /// A semaphore.
    Semaphore,
    /// The end of a thread.
    Join,
    /// Its turn in an enforced schedule.
    Turn,
}

impl WaitKind {
    /// How many there are.
    pub const COUNT: usize = 6;
    /// All of them, in the order of [`ThreadOutcome::waited_ns`].
    pub const ALL: [Self; Self::COUNT] = [
        Self::Lock,
        Self::Cond,
        Self::Barrier,
        Self::Semaphore,
        Self::Join,
        Self::Turn,
    ];
}

/// What happened to a lock.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LockOutcome {
    /// Calls that returned with the lock, without those that return from a condition variable.
    pub acquisitions: u64,
    /// Of these, those whose first attempt failed.
    pub contended: u64,
    /// From the first failed attempt until acquired, without reacquisitions.
    pub waited_ns: f64,
    /// From acquired until released, all holders, reacquisitions included.
    pub hold_ns: f64,
    /// Returns from waits on condition variables.
    pub reacquisitions: u64,
    /// What these waited for the lock.
    pub reacquire_waited_ns: f64,
    /// The waits of contended acquisitions; `None` where there were none.
    pub waits: Option<Box<WaitHistogram>>,
}

impl LockOutcome {
    /// The wait that this share (0..1) of the contended acquisitions did not exceed, nanoseconds; 0
    /// without contention.
    pub fn wait_quantile_ns(&self, share: f64) -> f64 {
        self.waits
            .as_ref()
            .map_or(0.0, |waits| waits.quantile_ns(share))
    }
}

/// System calls of the waits and wake-ups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FutexCounts {
    /// FUTEX_WAIT calls that found another value.
    pub eagain: u64,
    /// Threads woken.
    pub wakes: u64,
    /// FUTEX_WAKE calls that found nobody.
    pub wakes_nobody: u64,
    /// Wake-ups that had to interrupt an idle processor.
    pub ipis: u64,
}

/// When a critical section was run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SectionTimes {
    /// By which thread; `ThreadIx::MAX` = it was not reached.
    pub thread: ThreadIx,
    /// Of which lock.
    pub lock: LockIx,
    /// The call began.
    pub requested_ns: f64,
    /// It returned.
    pub acquired_ns: f64,
    /// The lock was free again; NaN = never released.
    pub released_ns: f64,
}

impl SectionTimes {
    /// A section that was not reached.
    pub const MISSING: Self = Self {
        thread: ThreadIx::MAX,
        lock: LockIx::MAX,
        requested_ns: f64::NAN,
        acquired_ns: f64::NAN,
        released_ns: f64::NAN,
    };

    /// It was run.
    pub fn is_reached(&self) -> bool {
        self.thread != ThreadIx::MAX
    }
}

/// Why a program did not end: every thread that is left waits, and nothing is pending. In replay
/// this means that the program's order depends on timing in a way that the recording does not show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stuck {
    /// Threads that wait, and the operation (index into [`crate::program::Thread::ops`]) at which.
    pub threads: Vec<(ThreadIx, u32)>,
}

impl Outcome {
    /// The order in which the sections of each lock were entered: input for ELSC.
    pub fn lock_orders(&self) -> Vec<Vec<SectionId>> {
        let mut orders = vec![Vec::new(); self.locks.len()];
        for (id, section) in self.sections.iter().enumerate() {
            if let Some(order) = orders.get_mut(section.lock as usize) {
                order.push(id as SectionId);
            }
        }
        let acquired = |id: &SectionId| self.sections[*id as usize].acquired_ns;
        for order in &mut orders {
            order.sort_by(|a, b| acquired(a).total_cmp(&acquired(b)));
        }
        orders
    }

    /// Context switches of all threads: voluntary, involuntary.
    pub fn switches(&self) -> (u64, u64) {
        self.threads
            .iter()
            .fold((0, 0), |(voluntary, involuntary), thread| {
                (
                    voluntary + thread.voluntary,
                    involuntary + thread.involuntary,
                )
            })
    }
}
