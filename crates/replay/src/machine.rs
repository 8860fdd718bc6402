//! What operations cost on a machine: measured at the start and at the end of a replay, never shipped.

/// Costs of one machine, nanoseconds unless said otherwise. `convoy-replayer` measures them.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Processors.
    pub cpus: u32,
    /// A locked instruction on a cache line that this processor owns.
    pub atomic_local_ns: f64,
    /// The same on a line that another processor owns; what it adds to a program's own time, after
    /// out-of-order execution has hidden the rest.
    pub atomic_remote_ns: f64,
    /// Uncontended lock and unlock of a mutex.
    pub lock_pair_ns: f64,
    /// Uncontended read lock and unlock of a reader-writer lock.
    pub rdlock_pair_ns: f64,
    /// FUTEX_WAIT, from the call to the comparison of the word.
    pub futex_check_ns: f64,
    /// FUTEX_WAIT that found another value, the whole call.
    pub futex_eagain_ns: f64,
    /// FUTEX_WAIT, from the comparison until the thread is off the processor.
    pub futex_block_ns: f64,
    /// FUTEX_WAKE that found nobody, the whole call.
    pub futex_wake_none_ns: f64,
    /// FUTEX_WAKE, its cost to the waker when the woken thread's processor polls or is busy.
    pub futex_wake_ns: f64,
    /// The same when an idle processor has to be interrupted.
    pub futex_wake_ipi_ns: f64,
    /// A context switch.
    pub switch_ns: f64,
    /// Period of the scheduler's tick.
    pub tick_ns: f64,
    /// How long a thread runs before another runnable one of the same processor gets its turn.
    pub slice_ns: f64,
    /// How long a woken thread takes to run on an idle processor, by how long that had been idle;
    /// ascending in `idle_ns`.
    pub wake_latency: Vec<WakeLatency>,
    /// Creation of a thread, cost to its creator.
    pub spawn_ns: f64,
    /// Reading the cycle counter, as the recorder does twice a section.
    pub clock_ns: f64,
}

/// Latency of a wake-up on a processor that has been idle for some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WakeLatency {
    /// The processor had been idle for so long.
    pub idle_ns: f64,
    /// A tenth of the wake-ups took less.
    pub p10_ns: f64,
    /// Half of them.
    pub p50_ns: f64,
    /// Nine tenths.
    pub p90_ns: f64,
    /// Share of them that had to interrupt the processor (waker pays `futex_wake_ipi_ns`), 0..1.
    pub ipi_share: f64,
}
