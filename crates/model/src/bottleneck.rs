//! Identity of findings: the bottleneck, and the symptom by which it was recognized.

use serde::{Serialize, Serializer};

/// Declares an enum whose variants have stable kebab-case names.
macro_rules! named {
    ($(#[$doc:meta])* $type:ident { $($(#[$of:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type { $($(#[$of])* $variant,)* }

        impl $type {
            /// All of them, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The stable name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The one of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == name)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }
    };
}

named! {
    /// What limits a program, whatever source of data shows it.
    Bottleneck {
        /// Threads wait for a lock: mutex, monitor, interpreter, file, address space, database row.
        LockContention = "lock-contention",
        /// Taking a lock costs CPU time although hardly anybody waits for it.
        LockOverhead = "lock-overhead",
        /// The lock holder waits for something else.
        BlockedHolder = "blocked-holder",
        /// Few threads run, and the others wait for them (Amdahl).
        SerialSection = "serial-section",
        /// Threads of one kind have different amounts of work, or groups the wrong number of threads.
        LoadImbalance = "load-imbalance",
        /// One stage of a pipeline is busy, the others wait for it.
        PipelineBottleneck = "pipeline-bottleneck",
        /// All members of a pool are taken while work waits.
        PoolExhausted = "pool-exhausted",
        /// Threads wait for files, pipes or sockets on the critical path.
        BlockingIo = "blocking-io",
        /// Passing on a piece of work costs about as much as the piece.
        TooFineGranularity = "too-fine-granularity",
        /// Two sides alternate: each waits for the other after every small piece.
        HandoffBound = "handoff-bound",
        /// CPU time goes into loops that wait.
        BusyWaiting = "busy-waiting",
        /// Threads sleep for a fixed time between looks for work.
        Polling = "polling",
        /// A cache line moves between CPUs.
        CacheContention = "cache-contention",
        /// Page faults or garbage collection.
        MemoryManagement = "memory-management",
        /// Too few or too many threads for the CPUs.
        ThreadCount = "thread-count",
        /// Affinity, a quota or a runtime's setting keeps threads off idle CPUs.
        CpuRestriction = "cpu-restriction",
        /// Threads are woken and find nothing to do.
        FutileWakeups = "futile-wakeups",
    }
}

named! {
    /// How a bottleneck was recognized: one entry of the catalog (`convoy findings`), which says what
    /// each means.
    #[allow(missing_docs)]
    FindingId {
        ContendedLock = "contended-lock",
        AsymmetricContention = "asymmetric-contention",
        StarvedThread = "starved-thread",
        ContendedFutex = "contended-futex",
        InterpreterLock = "interpreter-lock",
        ContendedFileLock = "contended-file-lock",
        MemoryLock = "memory-lock",
        FrequentLock = "frequent-lock",
        HolderOffCpu = "holder-off-cpu",
        SerialCode = "serial-code",
        SerialPhase = "serial-phase",
        SerialJobs = "serial-jobs",
        Straggler = "straggler",
        BarrierImbalance = "barrier-imbalance",
        ThreadImbalance = "thread-imbalance",
        LoadImbalance = "load-imbalance",
        LimitingStage = "limiting-stage",
        SlowStage = "slow-stage",
        SmallPool = "small-pool",
        BlockingCalls = "blocking-calls",
        BlockingIo = "blocking-io",
        SmallWrites = "small-writes",
        FineGrainedTasks = "fine-grained-tasks",
        ShortLivedThreads = "short-lived-threads",
        LockStep = "lock-step",
        BusyWaiting = "busy-waiting",
        TrylockSpin = "trylock-spin",
        SleepPolling = "sleep-polling",
        ContendedAtomic = "contended-atomic",
        ContendedLine = "contended-line",
        FalseSharing = "false-sharing",
        PageFaults = "page-faults",
        GarbageCollection = "garbage-collection",
        TooFewThreads = "too-few-threads",
        TooManyThreads = "too-many-threads",
        KeptOffCpus = "kept-off-cpus",
        FutileWakeups = "futile-wakeups",
    }
}

impl FindingId {
    /// The bottleneck that it is a sign of.
    pub const fn bottleneck(self) -> Bottleneck {
        match self {
            Self::ContendedLock
            | Self::AsymmetricContention
            | Self::StarvedThread
            | Self::ContendedFutex
            | Self::InterpreterLock
            | Self::ContendedFileLock
            | Self::MemoryLock => Bottleneck::LockContention,
            Self::FrequentLock => Bottleneck::LockOverhead,
            Self::HolderOffCpu => Bottleneck::BlockedHolder,
            Self::SerialCode | Self::SerialPhase | Self::SerialJobs => Bottleneck::SerialSection,
            Self::Straggler
            | Self::BarrierImbalance
            | Self::ThreadImbalance
            | Self::LoadImbalance => Bottleneck::LoadImbalance,
            Self::LimitingStage | Self::SlowStage => Bottleneck::PipelineBottleneck,
            Self::SmallPool | Self::BlockingCalls => Bottleneck::PoolExhausted,
            Self::BlockingIo | Self::SmallWrites => Bottleneck::BlockingIo,
            Self::FineGrainedTasks | Self::ShortLivedThreads => Bottleneck::TooFineGranularity,
            Self::LockStep => Bottleneck::HandoffBound,
            Self::BusyWaiting | Self::TrylockSpin => Bottleneck::BusyWaiting,
            Self::SleepPolling => Bottleneck::Polling,
            Self::ContendedAtomic | Self::ContendedLine | Self::FalseSharing => {
                Bottleneck::CacheContention
            }
            Self::PageFaults | Self::GarbageCollection => Bottleneck::MemoryManagement,
            Self::TooFewThreads | Self::TooManyThreads => Bottleneck::ThreadCount,
            Self::KeptOffCpus => Bottleneck::CpuRestriction,
            Self::FutileWakeups => Bottleneck::FutileWakeups,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_ids() {
        for &id in FindingId::ALL {
            assert_eq!(FindingId::from_name(id.as_str()), Some(id));
        }
        assert_eq!(FindingId::from_name("contended"), None);
    }

    #[test]
    fn every_bottleneck_has_a_finding() {
        for &bottleneck in Bottleneck::ALL {
            let mut ids = FindingId::ALL.iter();
            assert!(ids.any(|id| id.bottleneck() == bottleneck), "{bottleneck}");
        }
    }
}
