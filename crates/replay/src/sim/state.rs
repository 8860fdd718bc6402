//! State of the simulated threads, CPUs and synchronization objects.

use std::collections::VecDeque;

use super::costs::Ps;
use super::costs::NEVER;
use super::events::Tid;
use super::futex::Word;
use super::histogram::WaitHistogram;
use super::outcome::WaitKind;
use super::thread::Step;
use crate::program::LockIx;
use crate::program::LockKind;
use crate::program::SectionId;
use crate::program::NO_SECTION;

/// No CPU: an object that nobody touched yet.
pub(super) const NO_CPU: u32 = u32::MAX;

/// What a thread's time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Work,
    Protocol,
    Sleep,
    Wait(WaitKind),
}

impl Class {
    pub(super) const RUNNABLE: usize = 3;
    pub(super) const FIRST_WAIT: usize = 4;
    pub(super) const COUNT: usize = Self::FIRST_WAIT + WaitKind::COUNT;

    pub(super) fn index(self) -> usize {
        match self {
            Self::Work => 0,
            Self::Protocol => 1,
            Self::Sleep => 2,
            Self::Wait(kind) => Self::FIRST_WAIT + kind as usize,
        }
    }
}

/// Where a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    NotStarted,
    /// On a CPU, or on its way to an idle one.
    Running,
    /// In a run queue.
    Queued,
    Blocked,
    Ended,
}

/// A lock that a thread holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) lock: LockIx,
    pub(super) section: SectionId,
    pub(super) shared: bool,
    pub(super) since: Ps,
}

/// The acquisition that a thread is in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acquisition {
    pub(super) lock: LockIx,
    pub(super) section: SectionId,
    pub(super) shared: bool,
    /// By a wait on a condition variable that returns.
    pub(super) is_reacquisition: bool,
    pub(super) is_contended: bool,
    /// A writer slept on the flag that other writers may share (rwlock).
    pub(super) shares_flag: bool,
    pub(super) requested: Ps,
    pub(super) wait_began: Ps,
    /// Until when it spins before it parks.
    pub(super) spin_until: Ps,
    /// Its place in the queue of a ticket lock.
    pub(super) ticket: u32,
}

#[derive(Debug)]
pub(super) struct Thread {
    /// What happens when its current delay is over.
    pub(super) step: Step,
    /// The operation that comes next.
    pub(super) pos: usize,
    /// The operation that it is in.
    pub(super) current_op: usize,
    /// When it first asked for its turn, if it has to wait for that.
    pub(super) turn_asked: Option<Ps>,
    pub(super) place: Place,
    pub(super) cpu: u32,
    /// What is left of the delay, while it is not on a CPU.
    pub(super) rest: Ps,
    pub(super) vruntime: Ps,
    /// Time up to here is accounted for. In the future while a switch to it is under way.
    pub(super) accounted: Ps,
    pub(super) class: Class,
    /// Since when it runs.
    pub(super) on_cpu_since: Ps,
    pub(super) cpu_time: Ps,
    pub(super) time: [Ps; Class::COUNT],
    /// Where a system call returns to.
    pub(super) after_call: Step,
    /// Where an acquisition or release returns to.
    pub(super) after_lock: Step,
    /// The futex word of the current call.
    pub(super) word: Word,
    /// Waiters that the current FUTEX_WAKE may still wake.
    pub(super) wakes_left: u32,
    /// It was woken before it was off the CPU.
    pub(super) is_woken: bool,
    /// The word on which others wait for its end is cleared.
    pub(super) is_exiting: bool,
    pub(super) acquisition: Acquisition,
    pub(super) held: Vec<Held>,
    /// The lock that it is releasing.
    pub(super) releasing: LockIx,
    /// The condition variable, barrier, semaphore or thread of its operation.
    pub(super) operand: u32,
    /// The group or round in which it waits.
    pub(super) round: u32,
    /// CPU time left of the work that it does in pieces (SYNC).
    pub(super) work_left: Ps,
    pub(super) start: Ps,
    pub(super) end: Ps,
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
}

impl Thread {
    pub(super) fn new() -> Self {
        Self {
            step: Step::NextOp,
            pos: 0,
            current_op: 0,
            turn_asked: None,
            place: Place::NotStarted,
            cpu: 0,
            rest: 0,
            vruntime: 0,
            accounted: 0,
            class: Class::Protocol,
            on_cpu_since: 0,
            cpu_time: 0,
            time: [0; Class::COUNT],
            after_call: Step::NextOp,
            after_lock: Step::NextOp,
            word: Word::None,
            wakes_left: 0,
            is_woken: false,
            is_exiting: false,
            acquisition: Acquisition {
                lock: 0,
                section: NO_SECTION,
                shared: false,
                is_reacquisition: false,
                is_contended: false,
                shares_flag: false,
                requested: 0,
                wait_began: 0,
                spin_until: NEVER,
                ticket: 0,
            },
            held: Vec::new(),
            releasing: 0,
            operand: 0,
            round: 0,
            work_left: 0,
            start: 0,
            end: 0,
            voluntary: 0,
            involuntary: 0,
        }
    }

    /// Accounts for the time until now, and says what the time from now on is spent on.
    pub(super) fn enter(&mut self, class: Class, now: Ps) {
        self.account(self.class.index(), now);
        self.class = class;
    }

    /// Time from the last account until `until` belongs to the class of this number.
    pub(super) fn account(&mut self, index: usize, until: Ps) {
        self.time[index] += until.saturating_sub(self.accounted);
        self.accounted = self.accounted.max(until);
    }

    /// What time in a run queue belongs to: the wait that the thread is in, or being runnable.
    pub(super) fn queued_class(&self) -> usize {
        match self.class {
            Class::Wait(_) => self.class.index(),
            _ => Class::RUNNABLE,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Cpu {
    pub(super) current: Option<Tid>,
    pub(super) queue: Vec<Tid>,
    pub(super) idle_since: Ps,
    /// Average length of its idle times, as the kernel keeps it: an eighth of the news.
    pub(super) average_idle: Ps,
    pub(super) slice_began: Ps,
    /// It looked for threads to take over then.
    pub(super) balanced: Ps,
    /// A woken thread preempts the current one when that leaves the kernel.
    pub(super) needs_switch: bool,
    /// The timer of its tick runs.
    pub(super) has_tick: bool,
}

/// A reader-writer lock as glibc keeps it (nptl/pthread_rwlock_common.c).
#[derive(Debug, Default)]
pub(super) struct RwState {
    /// Readers that hold the lock or are registered for the next read phase.
    pub(super) readers: u32,
    /// A primary writer exists.
    pub(super) write_locked: bool,
    /// Write phase: readers must wait.
    pub(super) write_phase: bool,
    /// `__wrphase_futex`: 1 in a write phase.
    pub(super) phase_futex: bool,
    /// Somebody may sleep on it.
    pub(super) phase_futex_used: bool,
    /// `__writers_futex`: 1 while there is a primary writer.
    pub(super) writers_futex: bool,
    /// Somebody may sleep on it.
    pub(super) writers_futex_used: bool,
}

#[derive(Debug)]
pub(super) struct LockState {
    pub(super) kind: LockKind,
    /// glibc's `__lock`: 0 free, 1 taken, 2 taken and maybe waited for.
    pub(super) word: u32,
    /// The CPU that has its cache line.
    pub(super) line: u32,
    /// The CPU that has the cache lines of what it guards.
    pub(super) data_line: u32,
    pub(super) exclusive: bool,
    pub(super) shared: u32,
    pub(super) next_ticket: u32,
    pub(super) serving: u32,
    pub(super) rw: RwState,
    pub(super) spinners: Vec<Tid>,
    pub(super) counts: LockCounts,
}

#[derive(Debug, Default)]
pub(super) struct LockCounts {
    pub(super) acquisitions: u64,
    pub(super) contended: u64,
    pub(super) waited: Ps,
    pub(super) hold: Ps,
    pub(super) reacquisitions: u64,
    pub(super) reacquire_waited: Ps,
    pub(super) waits: Option<Box<WaitHistogram>>,
}

impl LockState {
    pub(super) fn new(kind: LockKind) -> Self {
        Self {
            kind,
            word: 0,
            line: NO_CPU,
            data_line: NO_CPU,
            exclusive: false,
            shared: 0,
            next_ticket: 0,
            serving: 0,
            rw: RwState::default(),
            spinners: Vec::new(),
            counts: LockCounts::default(),
        }
    }
}

/// Waiters of a condition variable that may take the same signals: glibc's G1 and G2
/// (nptl/pthread_cond_wait.c).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Group {
    /// Waiters that were not signalled yet.
    pub(super) size: u32,
    /// Signals that nobody took yet.
    pub(super) signals: u32,
}

#[derive(Debug, Default)]
pub(super) struct CondState {
    /// G1 in the slot `first % 2`, G2 in the other.
    pub(super) groups: [Group; 2],
    /// Number of G1; waiters of an older group were all signalled.
    pub(super) first: u32,
    pub(super) line: u32,
}

#[derive(Debug)]
pub(super) struct BarrierState {
    pub(super) count: u32,
    pub(super) arrived: u32,
    pub(super) round: u32,
    pub(super) line: u32,
}

#[derive(Debug)]
pub(super) struct SemState {
    pub(super) value: u32,
    /// Threads that wait or are about to.
    pub(super) waiters: u32,
    pub(super) line: u32,
}

#[derive(Debug, Default)]
pub(super) struct ChannelState {
    pub(super) tokens: u64,
    pub(super) posted: u64,
}

/// Threads asleep on futex words, in the order in which they will be woken.
pub(super) type FutexQueue = VecDeque<Tid>;
