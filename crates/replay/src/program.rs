//! A recorded program as replay runs it: per thread, work and operations in order, waits left out.
//!
//! A wait is a result, not an input: the simulator and the native replay produce waits anew. Work is
//! CPU time at the speed of the recording; time that a thread spent off the CPU for reasons outside of
//! the program's synchronization (I/O, timers) is [`Op::Sleep`].

/// Index into [`Program::locks`].
pub type LockIx = u32;
/// Index into [`Program::conds`].
pub type CondIx = u32;
/// Index into [`Program::barriers`].
pub type BarrierIx = u32;
/// Index into [`Program::semaphores`].
pub type SemIx = u32;
/// Index into [`Program::channels`].
pub type ChannelIx = u32;
/// Index into [`Program::threads`].
pub type ThreadIx = u32;
/// Number of a critical section, unique in the program; `u32::MAX` = none.
pub type SectionId = u32;

/// No critical section.
pub const NO_SECTION: SectionId = u32::MAX;

/// A program for replay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Program {
    /// Its threads.
    pub threads: Vec<Thread>,
    /// Its locks.
    pub locks: Vec<Lock>,
    /// Its condition variables.
    pub conds: Vec<Cond>,
    /// Its barriers.
    pub barriers: Vec<Barrier>,
    /// Its semaphores.
    pub semaphores: Vec<Semaphore>,
    /// What waits on condition variables wait for, see [`Op::Await`].
    pub channels: Vec<Channel>,
}

/// A thread of a program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thread {
    /// Index into the recording's threads.
    pub recorded: u32,
    /// It exists from the start; otherwise [`Op::Spawn`] of another thread starts it.
    pub at_start: bool,
    /// Delay of its first operation after the start of the program, nanoseconds. 0 for spawned ones.
    pub start_ns: f64,
    /// What it does.
    pub ops: Vec<Op>,
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    /// Runs on a CPU for this many nanoseconds.
    Work {
        /// Nanoseconds of CPU time.
        ns: f32,
    },
    /// Is off the CPU for this many nanoseconds: I/O, a timer. Nobody in the program can shorten it.
    Sleep {
        /// Nanoseconds.
        ns: f32,
    },
    /// Takes a lock, and waits for it as the lock's kind does.
    Acquire {
        /// Which.
        lock: LockIx,
        /// Together with other shared holders.
        shared: bool,
        /// The critical section that begins.
        section: SectionId,
    },
    /// A successful try: it must not wait. Replayed as an acquire if the lock is taken.
    TryAcquire {
        /// Which.
        lock: LockIx,
        /// The critical section that begins.
        section: SectionId,
    },
    /// A try that failed; costs a locked instruction at most.
    TryFail {
        /// Which.
        lock: LockIx,
    },
    /// Releases a lock.
    Release {
        /// Which.
        lock: LockIx,
    },
    /// Waits on a condition variable until its predicate holds. The lock is held. It does not wait at
    /// all if the predicate holds already, which a recorded wait may come to in another order.
    Await {
        /// On which condition variable.
        cond: CondIx,
        /// Given up meanwhile.
        lock: LockIx,
        /// Until what.
        need: Need,
    },
    /// Makes predicates true: adds one token to a channel. The lock is held; signals follow as
    /// operations of their own.
    Post {
        /// Which.
        channel: ChannelIx,
    },
    /// Wakes one waiter of a condition variable.
    Signal {
        /// Which.
        cond: CondIx,
    },
    /// Wakes all of them.
    Broadcast {
        /// Which.
        cond: CondIx,
    },
    /// Waits until all of a barrier's threads have arrived.
    Barrier {
        /// Which.
        barrier: BarrierIx,
    },
    /// Decrements a semaphore; waits while it is 0.
    SemWait {
        /// Which.
        sem: SemIx,
    },
    /// Increments it.
    SemPost {
        /// Which.
        sem: SemIx,
    },
    /// Starts a thread.
    Spawn {
        /// Which.
        thread: ThreadIx,
    },
    /// Waits until a thread has ended.
    Join {
        /// Which.
        thread: ThreadIx,
    },
}

/// What a wait on a condition variable waits for. The predicates of a program are not recorded; they are
/// inferred from who signalled whom, see `program::tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A token of this channel, which it takes: a queue's get, or a put into a bounded queue (the
    /// tokens of that channel are free places).
    Token(ChannelIx),
    /// At least so many tokens were ever posted to the channel; none is taken: phases, flags.
    Count(ChannelIx, u32),
}

/// A lock.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Lock {
    /// Index into the recording's objects.
    pub recorded: u32,
    /// How it waits.
    pub kind: LockKind,
    /// What it costs to take it over from another CPU; `None` = not measured: what an atomic
    /// operation on another CPU's cache line costs the machine.
    pub transfer: Option<Transfer>,
}

/// What a thread pays that acquires a lock which was last held on another CPU, nanoseconds more
/// than one whose own CPU held it last.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Transfer {
    /// Until it has the lock: the cache line of the lock's word, and what shares it.
    pub word_ns: f32,
    /// In the critical section: the cache lines of what the lock guards.
    pub data_ns: f32,
}

/// How threads wait for a lock.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum LockKind {
    /// glibc's default mutex: a futex, parks at once, barging.
    #[default]
    Mutex,
    /// The same, spins for so many nanoseconds before it parks.
    Adaptive {
        /// Nanoseconds.
        spin_ns: f32,
    },
    /// Spins, never parks.
    Spin,
    /// glibc's reader-writer lock, readers preferred.
    RwLock,
    /// Taken and released in order of arrival, parks.
    Ticket,
    /// Excludes nobody: what is left of a lock that was removed. Costs nothing.
    Absent,
}

/// A condition variable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cond {
    /// Index into the recording's objects.
    pub recorded: u32,
}

/// A barrier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Barrier {
    /// Index into the recording's objects.
    pub recorded: u32,
    /// Threads that meet at it.
    pub count: u32,
}

/// A semaphore.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Semaphore {
    /// Index into the recording's objects.
    pub recorded: u32,
    /// Value at the start.
    pub value: u32,
    /// Permits that it was made with; 0 = none, or nobody saw it.
    pub permits: u32,
}

/// Tokens that waits on condition variables need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Channel {
    /// Tokens at the start: items that a queue held, or its free places.
    pub tokens: u32,
}

impl Program {
    /// Operations of all threads.
    pub fn op_count(&self) -> usize {
        self.threads.iter().map(|thread| thread.ops.len()).sum()
    }
}
