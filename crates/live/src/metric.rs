//! The table of metrics: name, unit, kind, what it can be measured of.
//!
//! The table of `docs/live.md` is compared with this one by a test.

use crate::focus::Key;
use crate::lock::Role;

/// A quantity that changes while a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Calls of a function.
    Calls,
    /// Wall time in a function, its callees included.
    Wall,
    /// Wall time in a function without that of other timed functions that it calls.
    WallExclusive,
    /// CPU time.
    Cpu,
    /// CPU time in a function without that of other timed functions that it calls.
    CpuExclusive,
    /// Mean wall time of a call.
    DurationMean,
    /// Median of the wall time of a call.
    DurationP50,
    /// 99th percentile of the wall time of a call.
    DurationP99,
    /// Threads inside a function.
    Inside,
    /// Acquisitions of a lock.
    Acquisitions,
    /// Acquisitions that had to wait.
    Contended,
    /// Time that threads wait for locks and other objects.
    Wait,
    /// Mean time from acquisition to release.
    Hold,
    /// Time that threads wait for conditions.
    ConditionWait,
    /// Time that threads wait at barriers.
    BarrierWait,
    /// Time that threads wait for semaphores.
    SemaphoreWait,
    /// Time that threads are runnable without a CPU.
    RunQueue,
    /// Mean time from runnable to running.
    RunQueueMean,
    /// Times that threads are given a CPU.
    Switches,
    /// Time that threads are neither running nor runnable.
    Blocked,
    /// Share of the time with active threads.
    CMetric,
    /// Bytes that system calls read.
    ReadBytes,
    /// Bytes that system calls write.
    WriteBytes,
    /// Time that threads are off the CPU in calls that read, write or sync.
    IoWait,
    /// Calls of the allocator.
    Allocations,
    /// Bytes that these ask for.
    AllocatedBytes,
    /// Exceptions thrown.
    Exceptions,
}

/// Unit of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Events per second.
    PerSecond,
    /// Threads' time per second: the mean number of threads that are there.
    SecondsPerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// Nanoseconds.
    Nanoseconds,
    /// Threads.
    Threads,
}

impl Unit {
    /// As in JSON and in the table.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::PerSecond => "1/s",
            Self::SecondsPerSecond => "s/s",
            Self::BytesPerSecond => "B/s",
            Self::Nanoseconds => "ns",
            Self::Threads => "threads",
        }
    }
}

/// How a value comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Every event is counted.
    Exact,
    /// Some events are measured, and stand for all.
    Sampled,
    /// It follows from other values, within bounds.
    Inferred,
}

impl Kind {
    /// As in JSON and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Sampled => "sampled",
            Self::Inferred => "inferred",
        }
    }
}

/// What a metric is measured of, and so where its values come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A function: probes at its entry and exits.
    Function,
    /// Some functions of libraries together, which [`Request::functions`](crate::Request) names.
    Program,
    /// Files and sockets: probes of the functions of the C library that read and write.
    File,
    /// A lock or another object that is waited for: the agent's tables.
    Lock,
    /// Threads: the kernel's figures.
    Thread,
}

impl Subject {
    /// Keys of a focus that narrow it down.
    pub fn keys(self) -> &'static [Key] {
        match self {
            Self::Function => &[
                Key::Function,
                Key::Module,
                Key::Caller,
                Key::In,
                Key::Holding,
                Key::Group,
                Key::Thread,
            ],
            Self::Program => &[Key::Caller, Key::In, Key::Holding, Key::Group, Key::Thread],
            Self::File => &[Key::File, Key::In, Key::Holding, Key::Group, Key::Thread],
            Self::Lock => &[Key::Lock, Key::Group, Key::Thread, Key::Process],
            Self::Thread => &[Key::Group, Key::Thread, Key::Process],
        }
    }

    /// Whether probes measure it.
    pub fn is_probed(self) -> bool {
        matches!(self, Self::Function | Self::Program | Self::File)
    }

    /// For people, in the singular.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Program => "program",
            Self::File => "file",
            Self::Lock => "lock",
            Self::Thread => "thread",
        }
    }
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Description {
    /// The metric.
    pub metric: Metric,
    /// Its name.
    pub name: &'static str,
    /// The unit of its values.
    pub unit: Unit,
    /// How they come about.
    pub kind: Kind,
    /// What it can be measured of. Without a function, lock or file in the focus, the last one.
    pub of: &'static [Subject],
    /// Its meaning, in a sentence.
    pub meaning: &'static str,
}

use Subject::{File, Function, Lock, Program, Thread};

const fn row(
    metric: Metric,
    name: &'static str,
    unit: Unit,
    kind: Kind,
    of: &'static [Subject],
    meaning: &'static str,
) -> Description {
    Description {
        metric,
        name,
        unit,
        kind,
        of,
        meaning,
    }
}

/// All metrics.
pub const METRICS: &[Description] = &[
    row(
        Metric::Calls,
        "calls",
        Unit::PerSecond,
        Kind::Exact,
        &[Function],
        "calls of the function",
    ),
    row(
        Metric::Wall,
        "wall",
        Unit::SecondsPerSecond,
        Kind::Exact,
        &[Function],
        "wall time, callees included",
    ),
    row(
        Metric::WallExclusive,
        "wall_exclusive",
        Unit::SecondsPerSecond,
        Kind::Exact,
        &[Function],
        "the same without other timed functions; counted at return",
    ),
    row(
        Metric::Cpu,
        "cpu",
        Unit::SecondsPerSecond,
        Kind::Exact,
        &[Function, Thread],
        "CPU time, callees included; or of the threads",
    ),
    row(
        Metric::CpuExclusive,
        "cpu_exclusive",
        Unit::SecondsPerSecond,
        Kind::Exact,
        &[Function],
        "CPU time without other timed functions; counted at return",
    ),
    row(
        Metric::DurationMean,
        "duration_mean",
        Unit::Nanoseconds,
        Kind::Exact,
        &[Function],
        "mean wall time of calls that returned, recursive ones too",
    ),
    row(
        Metric::DurationP50,
        "duration_p50",
        Unit::Nanoseconds,
        Kind::Inferred,
        &[Function],
        "median of the same, from bins by powers of two",
    ),
    row(
        Metric::DurationP99,
        "duration_p99",
        Unit::Nanoseconds,
        Kind::Inferred,
        &[Function],
        "99th percentile, from the same histogram",
    ),
    row(
        Metric::Inside,
        "inside",
        Unit::Threads,
        Kind::Exact,
        &[Function],
        "threads inside at the moment of the reading",
    ),
    row(
        Metric::Acquisitions,
        "acquisitions",
        Unit::PerSecond,
        Kind::Exact,
        &[Lock],
        "acquisitions of the lock; without a lock: of all locks",
    ),
    row(
        Metric::Contended,
        "contended",
        Unit::PerSecond,
        Kind::Exact,
        &[Lock],
        "acquisitions that had to wait",
    ),
    row(
        Metric::Wait,
        "wait",
        Unit::SecondsPerSecond,
        Kind::Exact,
        &[Lock],
        "time that threads wait for the lock; without a lock: for all locks",
    ),
    row(
        Metric::Hold,
        "hold",
        Unit::Nanoseconds,
        Kind::Sampled,
        &[Lock],
        "mean time from acquisition to release, where timed",
    ),
    row(
        Metric::ConditionWait,
        "condition_wait",
        Unit::SecondsPerSecond,
        Kind::Exact,
        &[Lock],
        "time that threads wait for a condition variable, or for all of them",
    ),
    row(
        Metric::BarrierWait,
        "barrier_wait",
        Unit::SecondsPerSecond,
        Kind::Exact,
        &[Lock],
        "time that threads wait at a barrier, or at all of them; OpenMP's, too",
    ),
    row(
        Metric::SemaphoreWait,
        "semaphore_wait",
        Unit::SecondsPerSecond,
        Kind::Exact,
        &[Lock],
        "time that threads wait for a semaphore, or for all of them",
    ),
    row(
        Metric::RunQueue,
        "run_queue",
        Unit::SecondsPerSecond,
        Kind::Exact,
        &[Thread],
        "runnable without a CPU (run-queue latency)",
    ),
    row(
        Metric::RunQueueMean,
        "run_queue_mean",
        Unit::Nanoseconds,
        Kind::Exact,
        &[Thread],
        "mean time from runnable (woken or preempted) to running",
    ),
    row(
        Metric::Switches,
        "switches",
        Unit::PerSecond,
        Kind::Exact,
        &[Thread],
        "times that the threads were given a CPU",
    ),
    row(
        Metric::Blocked,
        "blocked",
        Unit::SecondsPerSecond,
        Kind::Inferred,
        &[Thread],
        "neither on a CPU nor runnable: the rest of the time",
    ),
    row(
        Metric::CMetric,
        "cmetric",
        Unit::SecondsPerSecond,
        Kind::Sampled,
        &[Thread],
        "share of the time with active threads: 1/n of it while n are active",
    ),
    row(
        Metric::ReadBytes,
        "read_bytes",
        Unit::BytesPerSecond,
        Kind::Exact,
        &[File, Thread],
        "read by system calls from files, pipes and devices; sockets only by `read`",
    ),
    row(
        Metric::WriteBytes,
        "write_bytes",
        Unit::BytesPerSecond,
        Kind::Exact,
        &[File, Thread],
        "written by system calls to files, pipes and devices; sockets only by `write`",
    ),
    row(
        Metric::IoWait,
        "io_wait",
        Unit::SecondsPerSecond,
        Kind::Exact,
        &[File],
        "time off the CPU in calls of the C library that read, write or sync",
    ),
    row(
        Metric::Allocations,
        "allocations",
        Unit::PerSecond,
        Kind::Exact,
        &[Program],
        "calls of `malloc`, `calloc`, `realloc` and the aligned ones",
    ),
    row(
        Metric::AllocatedBytes,
        "allocated_bytes",
        Unit::BytesPerSecond,
        Kind::Exact,
        &[Program],
        "bytes that these calls ask for; what `realloc` keeps counts again",
    ),
    row(
        Metric::Exceptions,
        "exceptions",
        Unit::PerSecond,
        Kind::Exact,
        &[Program],
        "exceptions thrown: of C++, and panics of Rust",
    ),
];

impl Metric {
    /// Its row of the table.
    pub fn describe(self) -> &'static Description {
        let row = METRICS.iter().find(|row| row.metric == self);
        row.unwrap_or(&METRICS[0])
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        let row = METRICS.iter().find(|row| row.name == name)?;
        Some(row.metric)
    }

    /// Whether counting calls of a function is not enough for it.
    pub fn needs_timer(self) -> bool {
        self.describe().of.contains(&Function) && self != Self::Calls
    }

    /// The objects that it is of; `None` = any that threads wait for.
    pub fn role(self) -> Option<Role> {
        match self {
            Self::ConditionWait => Some(Role::Condition),
            Self::BarrierWait => Some(Role::Barrier),
            Self::SemaphoreWait => Some(Role::Semaphore),
            _ => None,
        }
    }

    /// Whether it needs what the kernel counts of the threads' I/O.
    pub fn needs_io(self) -> bool {
        matches!(self, Self::ReadBytes | Self::WriteBytes)
    }
}

impl std::fmt::Display for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.describe().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_one_row_and_one_name() {
        for row in METRICS {
            assert_eq!(Metric::named(row.name), Some(row.metric));
            assert_eq!(row.metric.describe().name, row.name);
            assert!(!row.of.is_empty());
        }
    }

    #[test]
    fn table_of_the_docs_is_this_one() {
        let docs = include_str!("../../../docs/live.md");
        for row in METRICS {
            let of: Vec<&str> = row.of.iter().map(|subject| subject.noun()).collect();
            let line = format!(
                "| `{}` | {} | {} | {} | {} |",
                row.name,
                row.unit.symbol(),
                row.kind.name(),
                of.join(", "),
                row.meaning
            );
            assert!(
                docs.lines().any(|l| l == line),
                "docs/live.md lacks\n{line}"
            );
        }
        let in_docs = docs.lines().filter(|l| {
            METRICS
                .iter()
                .any(|_| l.starts_with("| `") && l.contains(" | exact | "))
        });
        let exact = METRICS.iter().filter(|row| row.kind == Kind::Exact).count();
        assert_eq!(in_docs.count(), exact, "docs/live.md has other metrics");
    }
}
