//! What the accounting is told, in order of time.

use convoy_profile::{LoopIx, NameIx, OffReason, SchedSource, StackIx};

/// A kernel thread id. Ids are reused: a new life begins with [`Event::Fork`] after [`Event::Exit`].
pub type Tid = u32;

/// How to account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Where the events come from.
    pub source: SchedSource,
    /// Period of the samples, nanoseconds of CPU time; 0 = none are taken.
    pub sample_period_ns: u64,
    /// The run is cut into at most twice as many pieces ([`convoy_profile::Bins`]).
    pub bins: usize,
    /// Intervals of the timeline kept at most ([`convoy_profile::Timeline`]); 0 = none.
    pub intervals: usize,
}

/// Something that happened to a thread of the recording. Times are nanoseconds on the monotonic clock.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The thread left a processor.
    Out {
        /// When.
        ts: u64,
        /// Who.
        tid: Tid,
        /// Why, and where.
        how: Out,
    },
    /// The thread came on a processor.
    In {
        /// When.
        ts: u64,
        /// Who.
        tid: Tid,
    },
    /// The thread may run again (sched_wakeup).
    Wakeup {
        /// When.
        ts: u64,
        /// Who.
        tid: Tid,
        /// Who woke it.
        waker: WakerIs,
    },
    /// A thread was made. It becomes active by the [`Event::Wakeup`] that follows.
    Fork {
        /// When.
        ts: u64,
        /// Its id.
        tid: Tid,
        /// The process that it is in: for a new process, its own id.
        pid: u32,
        /// The thread that made it.
        parent: Tid,
    },
    /// The process runs another program from here on. Its only thread has the process's id.
    Exec {
        /// When.
        ts: u64,
        /// The process.
        pid: u32,
        /// The id that the thread had before: not `pid` if it was not the main thread.
        old_tid: Tid,
    },
    /// The thread ends. What it still does until its last [`Event::Out`] is nobody's concern.
    Exit {
        /// When.
        ts: u64,
        /// Who.
        tid: Tid,
    },
    /// A thread that was there when the recording began.
    Init {
        /// When it was looked at.
        ts: u64,
        /// Who.
        tid: Tid,
        /// Its process.
        pid: u32,
        /// What it was doing then.
        state: State,
    },
    /// The thread was found here by the sampler. It is on a processor.
    Sample {
        /// When.
        ts: u64,
        /// Who.
        tid: Tid,
        /// Where.
        stack: StackIx,
        /// The loop in which it waits, if it does.
        spin: Option<LoopIx>,
        /// In the kernel, which it had not called: in a page fault.
        fault: bool,
    },
    /// Events of this time are missing.
    Lost {
        /// After this...
        from: u64,
        /// ... and before this.
        to: u64,
        /// How many.
        n: u64,
        /// Stacks or samples, not switches: the states of threads are still right.
        stacks: bool,
    },
}

/// How a thread left a processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Out {
    /// It could have gone on: it was preempted, or gave way.
    Preempted(Place),
    /// It waits for something.
    Blocked(Place),
    /// It has ended.
    Dead,
}

/// Where and why a thread is off the processors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Call stack in its process, 0 = unknown.
    pub stack: StackIx,
    /// Why.
    pub reason: OffReason,
    /// System call number, -1 = none.
    pub nr: i16,
    /// Futex: address of the word.
    pub address: u64,
    /// File, pipe or socket.
    pub name: Option<NameIx>,
    /// An id that stands for the kernel's call stack, 0 = none was taken.
    pub kernel_stack: u32,
}

/// What a thread was doing when it was first looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// On a processor.
    Running,
    /// Runnable.
    Ready,
    /// Off the processors.
    Blocked(Place),
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum WakerIs {
    /// Nothing is known.
    #[default]
    Unknown,
    /// An interrupt or a kernel thread.
    Interrupt,
    /// A thread, with its call stack if it is one of the recording.
    Thread(Tid, StackIx),
}

impl Event {
    /// When it happened.
    pub fn ts(&self) -> u64 {
        match *self {
            Self::Out { ts, .. }
            | Self::In { ts, .. }
            | Self::Wakeup { ts, .. }
            | Self::Fork { ts, .. }
            | Self::Exec { ts, .. }
            | Self::Exit { ts, .. }
            | Self::Init { ts, .. }
            | Self::Sample { ts, .. } => ts,
            Self::Lost { to, .. } => to,
        }
    }
}
