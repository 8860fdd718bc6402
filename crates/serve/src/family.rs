//! The table of metric families: names in both formats, unit, type, meaning.
//!
//! Names follow OpenTelemetry's semantic conventions and its rules for Prometheus (dots become
//! underscores, the unit and `_total` are appended), except for the `process_*` names that
//! Prometheus' client libraries have in common.

/// A metric of which several series with different labels may exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// CPU time of the process.
    ProcessCpu,
    /// Resident memory of the process.
    ProcessResident,
    /// Address space of the process.
    ProcessVirtual,
    /// Open file descriptors of the process.
    ProcessDescriptors,
    /// Start of the process.
    ProcessStart,
    /// Processes by name.
    Processes,
    /// Threads by group and state.
    Threads,
    /// CPU time by thread group.
    ThreadCpu,
    /// Run-queue latency by thread group.
    ThreadRunQueue,
    /// Off-CPU time by thread group, without the run queue.
    ThreadBlocked,
    /// Acquisitions of locks.
    LockAcquisitions,
    /// Acquisitions of locks that had to wait.
    LockContentions,
    /// Wait time at locks.
    LockWait,
    /// Hold times of locks that were timed.
    LockHold,
    /// Calls of functions.
    FunctionCalls,
    /// Wall time in functions.
    FunctionWall,
    /// Wall time in functions, without other timed functions.
    FunctionWallExclusive,
    /// CPU time in functions.
    FunctionCpu,
    /// CPU time in functions, without other timed functions.
    FunctionCpuExclusive,
    /// Threads inside functions.
    FunctionInside,
    /// Wall times of calls.
    FunctionDuration,
    /// Cost of probes.
    ProbeCost,
    /// CPU time of convoy.
    ConvoyCpu,
    /// Label sets beyond the limit.
    FoldedSeries,
}

/// Type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A sum that never decreases.
    Counter,
    /// A value of the moment.
    Gauge,
    /// Count and sum of observations.
    Summary,
    /// Observations by size.
    Histogram,
}

/// Unit of a family's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A share from 0 to 1.
    Ratio,
    /// Things that are counted, in UCUM's annotation: `{call}`.
    Count(&'static str),
}

impl Unit {
    /// In UCUM, as OpenTelemetry writes units.
    pub fn ucum(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Bytes => "By",
            Self::Ratio => "1",
            Self::Count(annotation) => annotation,
        }
    }

    /// As the suffix of a name in Prometheus; empty = none.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::Ratio => "ratio",
            Self::Count(_) => "",
        }
    }
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Description {
    /// The family.
    pub family: Family,
    /// Name in OpenTelemetry.
    pub otel: &'static str,
    /// Name in Prometheus, without `_total`.
    pub prometheus: &'static str,
    /// Type.
    pub kind: Kind,
    /// Unit.
    pub unit: Unit,
    /// Whether its series have labels.
    pub has_labels: bool,
    /// Meaning, in a sentence.
    pub help: &'static str,
}

const fn row(
    family: Family,
    names: (&'static str, &'static str),
    kind: Kind,
    unit: Unit,
    has_labels: bool,
    help: &'static str,
) -> Description {
    Description {
        family,
        otel: names.0,
        prometheus: names.1,
        kind,
        unit,
        has_labels,
        help,
    }
}

const ACQUISITION: Unit = Unit::Count("{acquisition}");

/// All families, in the order in which they are written.
pub const FAMILIES: &[Description] = &[
    row(
        Family::ProcessCpu,
        ("process.cpu.time", "process_cpu_seconds"),
        Kind::Counter,
        Unit::Seconds,
        false,
        "CPU time of the process since its start, ended threads included.",
    ),
    row(
        Family::ProcessResident,
        ("process.memory.usage", "process_resident_memory_bytes"),
        Kind::Gauge,
        Unit::Bytes,
        false,
        "Resident memory of the process.",
    ),
    row(
        Family::ProcessVirtual,
        ("process.memory.virtual", "process_virtual_memory_bytes"),
        Kind::Gauge,
        Unit::Bytes,
        false,
        "Address space of the process.",
    ),
    row(
        Family::ProcessDescriptors,
        ("process.unix.file_descriptor.count", "process_open_fds"),
        Kind::Gauge,
        Unit::Count("{file_descriptor}"),
        false,
        "Open file descriptors of the process.",
    ),
    row(
        Family::ProcessStart,
        ("process.start_time", "process_start_time_seconds"),
        Kind::Gauge,
        Unit::Seconds,
        false,
        "Start of the process, seconds since the Unix epoch.",
    ),
    row(
        Family::Processes,
        ("convoy.process.count", "convoy_process_count"),
        Kind::Gauge,
        Unit::Count("{process}"),
        true,
        "Processes by name.",
    ),
    row(
        Family::Threads,
        ("convoy.thread.count", "convoy_thread_count"),
        Kind::Gauge,
        Unit::Count("{thread}"),
        true,
        "Threads by group (names without digits) and state.",
    ),
    row(
        Family::ThreadCpu,
        ("convoy.thread.cpu", "convoy_thread_cpu_seconds"),
        Kind::Counter,
        Unit::Seconds,
        true,
        "CPU time of threads; of ended threads up to their last reading.",
    ),
    row(
        Family::ThreadRunQueue,
        ("convoy.thread.run_queue", "convoy_thread_run_queue_seconds"),
        Kind::Counter,
        Unit::Seconds,
        true,
        "Time that threads were runnable without a CPU (run-queue latency).",
    ),
    row(
        Family::ThreadBlocked,
        ("convoy.thread.blocked", "convoy_thread_blocked_seconds"),
        Kind::Counter,
        Unit::Seconds,
        true,
        "Time that threads were neither on a CPU nor runnable.",
    ),
    row(
        Family::LockAcquisitions,
        ("convoy.lock.acquisitions", "convoy_lock_acquisitions"),
        Kind::Counter,
        ACQUISITION,
        true,
        "Acquisitions of locks and other objects that are waited for.",
    ),
    row(
        Family::LockContentions,
        ("convoy.lock.contentions", "convoy_lock_contentions"),
        Kind::Counter,
        ACQUISITION,
        true,
        "Acquisitions that had to wait.",
    ),
    row(
        Family::LockWait,
        ("convoy.lock.wait", "convoy_lock_wait_seconds"),
        Kind::Counter,
        Unit::Seconds,
        true,
        "Time that threads waited for locks and other objects.",
    ),
    row(
        Family::LockHold,
        (
            "convoy.lock.hold.duration",
            "convoy_lock_hold_duration_seconds",
        ),
        Kind::Summary,
        Unit::Seconds,
        true,
        "Time from acquisition to release, of a sample of the acquisitions.",
    ),
    row(
        Family::FunctionCalls,
        ("convoy.function.calls", "convoy_function_calls"),
        Kind::Counter,
        Unit::Count("{call}"),
        true,
        "Calls of the function.",
    ),
    row(
        Family::FunctionWall,
        ("convoy.function.wall", "convoy_function_wall_seconds"),
        Kind::Counter,
        Unit::Seconds,
        true,
        "Wall time in the function, callees included.",
    ),
    row(
        Family::FunctionWallExclusive,
        (
            "convoy.function.wall_exclusive",
            "convoy_function_wall_exclusive_seconds",
        ),
        Kind::Counter,
        Unit::Seconds,
        true,
        "Wall time in the function without that of other timed functions.",
    ),
    row(
        Family::FunctionCpu,
        ("convoy.function.cpu", "convoy_function_cpu_seconds"),
        Kind::Counter,
        Unit::Seconds,
        true,
        "CPU time in the function, callees included.",
    ),
    row(
        Family::FunctionCpuExclusive,
        (
            "convoy.function.cpu_exclusive",
            "convoy_function_cpu_exclusive_seconds",
        ),
        Kind::Counter,
        Unit::Seconds,
        true,
        "CPU time in the function without that of other timed functions.",
    ),
    row(
        Family::FunctionInside,
        ("convoy.function.inside", "convoy_function_inside"),
        Kind::Gauge,
        Unit::Count("{thread}"),
        true,
        "Threads inside the function at the last reading.",
    ),
    row(
        Family::FunctionDuration,
        (
            "convoy.function.duration",
            "convoy_function_duration_seconds",
        ),
        Kind::Histogram,
        Unit::Seconds,
        true,
        "Wall time of calls that returned.",
    ),
    row(
        Family::ProbeCost,
        ("convoy.probe.cost", "convoy_probe_cost_ratio"),
        Kind::Gauge,
        Unit::Ratio,
        false,
        "Cost of all probes as a share of the CPU time of the process.",
    ),
    row(
        Family::ConvoyCpu,
        ("convoy.cpu", "convoy_cpu_seconds"),
        Kind::Counter,
        Unit::Seconds,
        false,
        "CPU time of convoy and of the recordings that it makes.",
    ),
    row(
        Family::FoldedSeries,
        ("convoy.series.folded", "convoy_series_folded"),
        Kind::Gauge,
        Unit::Count("{series}"),
        false,
        "Label sets at the last reading that are added up in the series `other`.",
    ),
];

impl Family {
    /// Its row of the table.
    pub fn describe(self) -> &'static Description {
        let row = FAMILIES.iter().find(|row| row.family == self);
        row.unwrap_or(&FAMILIES[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_opentelemetry_for_prometheus() {
        for row in FAMILIES {
            assert_eq!(row.family.describe().otel, row.otel);
            let suffix = row.unit.suffix();
            assert!(row.prometheus.ends_with(suffix), "{row:?}");
            if row.otel.starts_with("convoy.") {
                let name = row.otel.replace('.', "_");
                let expected = match suffix {
                    "" => name,
                    suffix => format!("{name}_{suffix}"),
                };
                assert_eq!(row.prometheus, expected);
            }
        }
    }

    #[test]
    fn table_of_the_docs_is_this_one() {
        let docs = include_str!("../../../docs/serve.md");
        for row in FAMILIES {
            let (suffix, kind) = match row.kind {
                Kind::Counter => ("_total", "counter"),
                Kind::Gauge => ("", "gauge"),
                Kind::Summary => ("", "summary"),
                Kind::Histogram => ("", "histogram"),
            };
            let line = format!("| `{}{suffix}` | `{}` | {kind} |", row.prometheus, row.otel);
            assert!(docs.contains(&line), "docs/serve.md lacks {line}");
        }
        let rows = docs.lines().filter(|line| line.starts_with("| `convoy_"));
        let own = FAMILIES
            .iter()
            .filter(|row| row.otel.starts_with("convoy."));
        assert_eq!(rows.count(), own.count(), "docs/serve.md has other metrics");
    }

    #[test]
    fn every_name_is_used_once() {
        let mut names: Vec<&str> = FAMILIES
            .iter()
            .flat_map(|row| [row.otel, row.prometheus])
            .collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
