//! Every finding that can be reported, with what it means, where it comes from and what it needs.
//! `convoy findings` and the table of docs/findings.md are printed from it.

use convoy_model::{Bottleneck, FindingId};

/// Where the rule behind a finding is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A paper, and the section in it.
    Paper(&'static str),
    /// Convoy's own; docs/findings.md says why.
    Own,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Paper(section) => section,
            Self::Own => "Convoy",
        })
    }
}

/// What must have been recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// The agent's counters: no privilege.
    Agent,
    /// Scheduler events: root, or `perf_event_paranoid`.
    Events,
    /// Scheduler events with call stack samples by eBPF: root.
    Samples,
}

impl Needs {
    /// For a column of a table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Events => "events",
            Self::Samples => "events, samples",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Stable id.
    pub id: FindingId,
    /// In a few words.
    pub summary: &'static str,
    /// Who published the rule.
    pub source: Source,
    /// What must have been recorded.
    pub needs: Needs,
    /// Files below `crates/analysis/src/detectors` that report it, without suffix.
    pub detectors: &'static [&'static str],
}

impl Entry {
    /// The bottleneck that it is a sign of.
    pub fn bottleneck(&self) -> Bottleneck {
        self.id.bottleneck()
    }
}

const fn entry(
    id: FindingId,
    detectors: &'static [&'static str],
    needs: Needs,
    source: Source,
    summary: &'static str,
) -> Entry {
    Entry {
        id,
        summary,
        source,
        needs,
        detectors,
    }
}

use FindingId as F;
use Needs::{Agent, Events, Samples};
use Source::{Own, Paper};

const PLANE: Source = Paper("SyncPerf 3.1");
const TRYLOCK: Source = Paper("SyncPerf 3.2.2");
const BALANCE: Source = Paper("SyncPerf 3.2.3");
const CMETRIC: Source = Paper("GAPP 3.1");
const PIPELINE: Source = Paper("GAPP 5.3");

/// All findings, by bottleneck.
#[rustfmt::skip]
pub const CATALOG: &[Entry] = &[
    entry(F::ContendedLock, &["lock_contention"], Agent, PLANE, "threads wait for a lock"),
    entry(F::AsymmetricContention, &["lock_contention"], Agent, PLANE,
          "a few of many locks of one kind get the waits"),
    entry(F::StarvedThread, &["starvation"], Agent, Own,
          "other threads keep a lock from the thread that the whole run waits for"),
    entry(F::ContendedFutex, &["contended_futex", "goroutine_lock", "goroutine_pool"], Events, Own,
          "threads wait for one another at a lock that the agent does not know"),
    entry(F::InterpreterLock, &["interpreter_lock"], Events, Own,
          "threads of Python or Ruby contend for the interpreter lock (GIL, GVL)"),
    entry(F::ContendedFileLock, &["file_lock"], Events, Own,
          "processes or threads wait for a lock on a file"),
    entry(F::MemoryLock, &["memory_management"], Events, Own,
          "threads wait for the lock of the address space (mmap_lock)"),
    entry(F::FrequentLock, &["lock_contention", "lock_overhead"], Agent, PLANE,
          "a lock costs CPU time although hardly anybody waits for it"),
    entry(F::HolderOffCpu, &["holder_off_cpu", "goroutine_pool"], Events, Own,
          "threads wait for a lock whose holder waits for something else"),
    entry(F::SerialCode, &["serial_code"], Events, CMETRIC,
          "code runs while few threads work, and others wait for it"),
    entry(F::SerialPhase, &["serial_phase"], Agent, Own,
          "the main thread works alone for much of the run"),
    entry(F::SerialJobs, &["serial_jobs"], Events, Own,
          "processes are started one after the other"),
    entry(F::Straggler, &["straggler"], Agent, BALANCE,
          "threads wait for one slow thread of their kind"),
    entry(F::BarrierImbalance, &["straggler"], Agent, BALANCE,
          "threads wait for the last one, another one each time"),
    entry(F::ThreadImbalance, &["load_imbalance"], Events, CMETRIC,
          "one thread or process has more work than the others of its kind"),
    entry(F::LoadImbalance, &["stage_imbalance"], Agent, BALANCE,
          "thread groups have the wrong number of threads"),
    entry(F::LimitingStage, &["limiting_stage", "goroutine_stage"], Events, PIPELINE,
          "one stage of a pipeline works all the time, the others wait for it"),
    entry(F::SlowStage, &["stage_imbalance"], Agent, BALANCE,
          "the same, told from counters"),
    entry(F::SmallPool, &["token_pool", "holder_off_cpu", "goroutine_pool"], Agent, Own,
          "more threads want a token, connection or permit than there are"),
    entry(F::BlockingCalls, &["blocking_calls", "serial_requests"], Events, Own,
          "all threads of a pool are in calls that block while work waits"),
    entry(F::BlockingIo, &["blocking_io", "write_through"], Events, Own,
          "threads wait for one that waits for a file"),
    entry(F::SmallWrites, &["small_io"], Events, Own,
          "threads read or write a few bytes per call"),
    entry(F::FineGrainedTasks,
          &["task_granularity", "pool_of_processes", "short_processes", "small_calls", "small_regions"],
          Samples, Own,
          "passing on a piece of work costs more than the piece"),
    entry(F::ShortLivedThreads, &["short_lived_threads"], Agent, Own,
          "a thread is made for every small piece of work"),
    entry(F::LockStep, &["handoff"], Events, Own,
          "two sides alternate: each waits for the other after every small piece"),
    entry(F::BusyWaiting, &["busy_waiting"], Samples, Own, "CPU time goes into a loop that waits"),
    entry(F::TrylockSpin, &["trylock_spin"], Agent, TRYLOCK,
          "CPU time goes into failed trylock calls"),
    entry(F::SleepPolling, &["sleep_polling", "goroutine_sleep"], Events, Own,
          "threads sleep for a fixed time between looks for work"),
    entry(F::ContendedAtomic, &["cache_contention"], Samples, Own,
          "threads change the same atomic variable"),
    entry(F::ContendedLine, &["cache_contention"], Samples, Own,
          "threads write and read the same bytes without an atomic"),
    entry(F::FalseSharing, &["cache_contention"], Samples, Own,
          "threads use neighbouring data in one cache line"),
    entry(F::PageFaults, &["memory_management"], Events, Own,
          "threads wait for one that is in page faults"),
    entry(F::GarbageCollection, &["gc_pressure"], Samples, Own,
          "garbage collection takes much of the CPU time (Go)"),
    entry(F::TooFewThreads, &["thread_count", "one_thread", "limiting_stage"], Events, Own,
          "CPUs are idle while threads have more than enough work"),
    entry(F::TooManyThreads, &["thread_count"], Events, Own,
          "more threads than CPUs take turns, at a price"),
    entry(F::KeptOffCpus, &["cpu_restriction", "go_processors"], Events, Own,
          "threads wait for a CPU while others are idle: affinity, quota, GOMAXPROCS"),
    entry(F::FutileWakeups, &["futile_wakeups"], Agent, Own,
          "threads are woken and find nothing to do"),
];

/// The entry of a finding.
pub fn of(id: FindingId) -> Option<&'static Entry> {
    CATALOG.iter().find(|entry| entry.id == id)
}

/// What each finding means, how it is decided, an example, and where it can be wrong.
const DOCUMENTATION: &str = include_str!("../../../docs/findings.md");

/// The section of docs/findings.md about a finding, in Markdown, without its heading.
pub fn documentation(id: FindingId) -> Option<&'static str> {
    let (_, section) = DOCUMENTATION.split_once(&format!("\n### {id}\n"))?;
    let ends = ["\n### ", "\n## "].map(|heading| section.find(heading));
    let end = ends.into_iter().flatten().min().unwrap_or(section.len());
    section.get(..end).map(str::trim)
}

/// The catalog as a table in Markdown.
pub fn markdown() -> String {
    let mut table = String::from(
        "| bottleneck | finding | in a few words | needs | source |\n|---|---|---|---|---|\n",
    );
    let mut last = None;
    for entry in CATALOG {
        let of = Some(entry.bottleneck()).filter(|of| last != Some(*of));
        last = Some(entry.bottleneck());
        table += &format!(
            "| {} | [{id}](#{id}) | {} | {} | {} |\n",
            of.map_or("", Bottleneck::as_str),
            entry.summary,
            entry.needs.as_str(),
            entry.source,
            id = entry.id,
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_is_documented() {
        for &id in FindingId::ALL {
            let text = documentation(id).unwrap_or_default();
            for part in ["**Means.**", "**Source.**"] {
                assert!(text.contains(part), "{id}: no {part}");
            }
            assert!(!text.contains("\n### "), "{id} ends with the next one");
        }
    }

    #[test]
    fn every_finding_has_one_entry_in_the_order_of_bottlenecks() {
        let ids: Vec<_> = CATALOG.iter().map(|entry| entry.id).collect();
        assert_eq!(ids, FindingId::ALL);
        let kinds: Vec<_> = CATALOG.iter().map(Entry::bottleneck).collect();
        assert!(kinds.is_sorted(), "{kinds:?}");
    }

    /// Text of a detector with its parts, tests apart.
    fn code(detector: &str) -> String {
        let at = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/detectors");
        let mut files = vec![at.join(detector).with_extension("rs")];
        let parts = std::fs::read_dir(at.join(detector));
        files.extend(
            parts
                .into_iter()
                .flatten()
                .map(|part| part.expect("a file").path()),
        );
        let read = |path| std::fs::read_to_string(path).expect("text");
        let own = |text: String| text.split("#[cfg(test)]").next().map(str::to_owned);
        files.into_iter().map(read).filter_map(own).collect()
    }

    #[test]
    fn entries_name_the_detectors_that_report_them() {
        let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/detectors");
        let files = std::fs::read_dir(src).expect("detectors");
        let names = files.map(|file| file.expect("a file").path());
        let names = names.filter(|path| path.is_file() && !path.ends_with("mod.rs"));
        for path in names {
            let name = path
                .file_stem()
                .and_then(|name| name.to_str())
                .expect("a name");
            let code = code(name);
            for entry in CATALOG {
                let reports = code.contains(&format!("id: FindingId::{:?},", entry.id));
                let is_named = entry.detectors.contains(&name);
                assert!(!reports || is_named, "{name} is missing at {}", entry.id);
                let mentions = code.contains(&format!("FindingId::{:?}", entry.id));
                assert!(!is_named || mentions, "{name} does not report {}", entry.id);
            }
        }
    }
}
