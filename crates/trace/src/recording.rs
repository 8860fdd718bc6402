//! The decoded trace of one process.

use std::ops::Range;

/// Index into [`Recording::objects`].
pub type ObjectIx = u32;
/// Index into [`Recording::sites`].
pub type SiteIx = u32;
/// Index into [`Recording::threads`].
pub type ThreadIx = u32;

/// The event concerns no object.
pub const NO_OBJECT: ObjectIx = u32::MAX;
/// The call site is not known.
pub const NO_SITE: SiteIx = u32::MAX;
/// The processor is not known (no rseq area).
pub const NO_CPU: u16 = u16::MAX;

/// What one process did, in time order.
///
/// Times are CLOCK_MONOTONIC nanoseconds, those of the profile.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// Index into the profile's processes.
    pub process: u32,
    /// First event possible: the agent was ready.
    pub start_ns: u64,
    /// The process ended, or the recording did.
    pub end_ns: u64,
    /// Processors that the process was allowed to use.
    pub cpus: u32,
    /// How it was recorded.
    pub mode: Mode,
    /// Spans in which every event was recorded, in order, disjoint. One, of the whole run, where the
    /// recording is complete.
    pub windows: Vec<Window>,
    /// Everything that events speak of.
    pub objects: Vec<Object>,
    /// Call sites of operations.
    pub sites: Vec<Site>,
    /// In the order of the agent's thread records; 0 is the main thread.
    pub threads: Vec<Thread>,
    /// What is missing, and why.
    pub losses: Losses,
}

/// How a trace was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Every event of the run.
    #[default]
    Full,
    /// Every event in windows; outside of them only operations that block.
    Windows,
    /// Every event of the last nanoseconds before the end.
    Last(u64),
}

/// A span of time in which every event was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// Begin, inclusive.
    pub start_ns: u64,
    /// End, exclusive.
    pub end_ns: u64,
}

/// What events speak of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Object {
    /// Address; of a joined thread its `pthread_t`.
    pub addr: u64,
    /// What it is.
    pub kind: ObjectKind,
    /// Index into the process's objects in the profile; `None` = it has none there.
    pub profile_object: Option<u32>,
    /// Mutex: bits of `__kind` (type, protocol). Barrier: count of threads. Semaphore: first value.
    pub attr: u32,
}

/// Kinds of objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum ObjectKind {
    #[default]
    Unknown,
    Mutex,
    RwLock,
    Spin,
    Cond,
    Barrier,
    Sem,
    Thread,
    Once,
    Futex,
    /// An OpenMP lock or critical region.
    OmpLock,
    /// An OpenMP barrier, explicit or at the end of a construct.
    OmpBarrier,
}

/// A call site of an operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// The return address of the call.
    pub pc: u64,
    /// Index into the process's frames in the profile.
    pub frame: u32,
    /// Index into the process's stacks in the profile: a call stack with which this site was seen;
    /// 0 = unknown.
    pub stack: u32,
}

/// One thread and its events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thread {
    /// Index into the process's threads in the profile.
    pub profile_thread: u32,
    /// Kernel thread id.
    pub tid: u32,
    /// Name at its end.
    pub name: String,
    /// Its events, in the order in which it made them; `at_ns` never falls.
    pub events: Vec<Event>,
}

/// One step of one thread. 32 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Event {
    /// When, nanoseconds.
    pub at_ns: u64,
    /// Depends on the kind, see there.
    pub arg: u64,
    /// What it was done to, or [`NO_OBJECT`].
    pub object: ObjectIx,
    /// From where it was called, or [`NO_SITE`].
    pub site: SiteIx,
    /// What happened.
    pub kind: Kind,
    /// The processor it ran on, or [`NO_CPU`].
    pub cpu: u16,
}

/// Steps of operations.
///
/// A blocking acquire is either one event, [`Kind::Acquired`], when the lock was free, or
/// [`Kind::Request`] followed by [`Kind::AcquiredAfterWait`] or [`Kind::TimedOut`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A lock was taken exclusively, at the first attempt. `at_ns` is just after it.
    #[default]
    Acquired,
    /// A reader lock was taken, at the first attempt.
    AcquiredShared,
    /// The lock is not free: the thread is about to wait for exclusive access.
    Request,
    /// The same for shared access.
    RequestShared,
    /// The wait that began with the latest [`Kind::Request`] or [`Kind::RequestShared`] ended with the
    /// lock.
    AcquiredAfterWait,
    /// A try took the lock (exclusively; shared: `arg` = 1).
    TryAcquired,
    /// Tries that failed, in a row at one site: `arg` = how many. `at_ns` is that of the first.
    TryFailed,
    /// A timed operation ended without the object.
    TimedOut,
    /// The lock is about to be released. `at_ns` is just before it.
    Released,
    /// The release, signal, broadcast or post just before had to wake waiters: `at_ns` is after the
    /// system call, which is the protocol's own time and no part of the program's.
    Woke,
    /// A wait on a condition variable begins; `arg` is the [`ObjectIx`] of the mutex, which is given up.
    CondWait,
    /// The wait ended and the mutex is held again; `arg` as before. A timeout: [`Kind::TimedOut`] just
    /// before it, on the condition variable.
    CondWoken,
    /// One waiter was signalled.
    Signal,
    /// All waiters were.
    Broadcast,
    /// Arrived at a barrier.
    BarrierArrive,
    /// Left it; `arg` = 1: came last and released the others.
    BarrierLeave,
    /// A semaphore is 0: the thread is about to wait.
    SemRequest,
    /// The semaphore was decremented (with or without a wait before).
    SemAcquired,
    /// The semaphore was incremented.
    SemPost,
    /// The thread is about to run, or to wait for, a once-initialisation; not recorded where it was
    /// done long ago.
    OnceBegin,
    /// The once-initialisation is done.
    OnceEnd,
    /// A raw futex wait begins.
    FutexWait,
    /// It ended.
    FutexWoken,
    /// A raw futex wake; `arg` = waiters that it asked for.
    FutexWake,
    /// A thread was created; `arg` = its [`ThreadIx`].
    Create,
    /// Waiting for a thread to end; `arg` = its [`ThreadIx`], `u64::MAX` = unknown.
    JoinBegin,
    /// It ended.
    JoinEnd,
    /// The thread began to run.
    Start,
    /// The thread ended.
    End,
    /// Since the thread's event before this one the kernel took it off the processor at least once,
    /// and since the latest reading of its CPU clock it has not left the processor by itself; `arg`
    /// = nanoseconds of CPU time that the thread has used so far. Thus, between two such events,
    /// wall time minus CPU time is the time off the processor.
    Preempted,
    /// Events of this thread are missing before this one; `arg` = how many, 0 = unknown.
    Lost,
    /// `arg` as with [`Kind::Preempted`], read after a wait: the thread need not have been preempted
    /// since the event before.
    CpuTime,
    /// As [`Kind::Preempted`], but since the latest reading the thread has also left the processor
    /// by itself: it has slept, or waited.
    OffCpu,
}

impl Kind {
    /// Whether it is a reading of the thread's CPU clock, and no operation.
    pub fn is_reading(self) -> bool {
        matches!(self, Self::Preempted | Self::CpuTime | Self::OffCpu)
    }
}

/// What is missing in a trace, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    /// Reason (stable kebab-case id), events.
    pub events: Vec<(String, u64)>,
    /// Windows that were given up to bound the size of the recording.
    pub windows: u64,
}

impl Thread {
    /// Indices of the events in a window.
    pub fn in_window(&self, window: Window) -> Range<usize> {
        let before = |ns: u64| self.events.partition_point(|e| e.at_ns < ns);
        let begin = before(window.start_ns);
        begin..before(window.end_ns).max(begin)
    }
}

impl Recording {
    /// Events of all threads.
    pub fn event_count(&self) -> usize {
        self.threads.iter().map(|thread| thread.events.len()).sum()
    }

    /// Time in windows, nanoseconds.
    pub fn covered_ns(&self) -> u64 {
        let windows = self.windows.iter();
        windows.map(|w| w.end_ns.saturating_sub(w.start_ns)).sum()
    }
}
