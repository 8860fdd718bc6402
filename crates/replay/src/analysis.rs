//! Everything that a replay of one recording says: the data of the report, the page and the JSON.
//!
//! Objects and sites are named, so that whoever shows them needs no profile.

use convoy_estimate::Method;
use convoy_trace::Mode;

use crate::caveat::Caveat;
use crate::predict::{Answer, Baseline};
use crate::tables::Analyzed;

/// What the replay of a process says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Analysis {
    /// The command and its arguments, as recorded; empty = not known.
    pub command: Vec<String>,
    /// The process.
    pub pid: u32,
    /// What was recorded.
    pub recorded: Recorded,
    /// How well each replay gives the recorded run back.
    pub baselines: Vec<Baseline>,
    /// Locks by waited time, most first.
    pub locks: Vec<LockRow>,
    /// Unnecessary contention; `None` = read and write sets are not known, and why.
    pub ulcp: Ulcp,
    /// The ULCP-free trace against the recorded one; `None` = there is none.
    pub ulcp_free: Option<Answer>,
    /// Code regions with unnecessary contention, largest P first (eq. 2).
    pub regions: Vec<Region>,
    /// What was asked.
    pub what_ifs: Vec<WhatIfRow>,
    /// In which order fixes pay.
    pub plan: Vec<PlanRow>,
    /// The program on other numbers of CPUs, if it was asked for.
    pub curve: Vec<CurvePoint>,
    /// This recording, and others of its program, for the tables of the paper.
    pub compared: Vec<Analyzed>,
    /// The two runs as lanes: recorded, and without unnecessary contention.
    pub lanes: Vec<Lanes>,
    /// Limits that the other fields do not show. [`crate::caveat::of`] has all of them, in order.
    pub caveats: Vec<Caveat>,
}

/// What was recorded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recorded {
    /// The run, nanoseconds.
    pub wall_ns: f64,
    /// How.
    pub mode: Mode,
    /// Windows that were replayed, of how many.
    pub windows: (usize, usize),
    /// Time in the replayed windows, nanoseconds.
    pub replayed_ns: f64,
    /// Events in them.
    pub events: usize,
    /// Critical sections in them.
    pub sections: usize,
    /// Threads with events.
    pub threads: usize,
    /// CPUs that the program was allowed to use.
    pub cpus: u32,
    /// Share of the threads' time whose length replay takes as given: raw futexes, order by timing.
    pub opaque_share: f64,
}

impl Recorded {
    /// Time in the replayed windows as a share of the run, 0 to 1.
    pub fn replayed_share(&self) -> f64 {
        (self.replayed_ns / self.wall_ns.max(1.0)).min(1.0)
    }
}

/// A lock of the recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LockRow {
    /// Its name.
    pub name: String,
    /// Address.
    pub addr: u64,
    /// Critical sections in the replayed windows.
    pub acquisitions: u64,
    /// Of them, contended.
    pub contended: u64,
    /// Waits for it, nanoseconds.
    pub waited_ns: f64,
    /// Held, nanoseconds.
    pub held_ns: f64,
    /// Threads that took it.
    pub threads: usize,
    /// Unnecessary contention at it.
    pub ulcp: Option<UlcpCounts>,
}

/// Unnecessary lock contention pairs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ulcp {
    /// By class.
    pub counts: UlcpCounts,
    /// Why read and write sets are not known, if they are not at all.
    pub unknown_because: Option<String>,
    /// Share of the pairs whose sets come from other sections of the same call path, 0..1.
    pub inferred_share: f64,
    /// Potential data races of the ULCP-free trace (theorem 1).
    pub races: Vec<Race>,
    /// Share of the accesses that was not observed, 0..1.
    pub unobserved_share: f64,
}

/// Two accesses to the same data that only removed locking ordered, at least one of them a write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Race {
    /// The data: name of a variable, or an address.
    pub data: String,
    /// Both accesses.
    pub accesses: [Access; 2],
}

/// One access of a race.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Where.
    pub place: Place,
    /// It writes.
    pub is_write: bool,
}

/// Pairs of critical sections by class. A pair: a section and, in another thread, the next section of the
/// same lock.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UlcpCounts {
    /// Critical sections.
    pub acquisitions: u64,
    /// One of the two touches no shared data.
    pub null_lock: u64,
    /// Both only read what they share.
    pub read_read: u64,
    /// They share nothing that either writes.
    pub disjoint_write: u64,
    /// They conflict, and either order gives the same.
    pub benign: u64,
    /// They conflict, and the order matters.
    pub true_contention: u64,
    /// Sets are not known, or whether their order matters is not.
    pub unknown: u64,
}

impl UlcpCounts {
    /// Unnecessary ones of all classes.
    pub fn unnecessary(&self) -> u64 {
        self.null_lock + self.read_read + self.disjoint_write + self.benign
    }

    /// All pairs.
    pub fn pairs(&self) -> u64 {
        self.unnecessary() + self.true_contention + self.unknown
    }
}

/// A place in the source.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Function; `module+0x1234` where there is no name.
    pub function: String,
    /// Source file as in the debug information, may be empty.
    pub file: String,
    /// Line, 0 = unknown.
    pub line: u32,
}

/// A code region with unnecessary contention: acquire to release, or several such that overlap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Region {
    /// The lock, or the outermost one.
    pub lock: String,
    /// Where it begins and ends.
    pub sites: Vec<Place>,
    /// The class of most of its pairs: stable kebab-case id.
    pub kind: &'static str,
    /// Unnecessary pairs in it.
    pub pairs: u64,
    /// Its share of all that unnecessary contention costs (eq. 2), 0..1.
    pub p: f64,
    /// What its fix saves.
    pub answer: Answer,
    /// The what-if that this is the answer to.
    pub query: String,
    /// The fix, for people; empty = the one of its class.
    pub fix: String,
    /// The section's source with what each line does, if it was found.
    pub source: Vec<SourceLine>,
}

/// A line of a critical section's source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceLine {
    /// File as it was found.
    pub file: String,
    /// Line number, from 1.
    pub line: u32,
    /// Its text; empty = the file is not there.
    pub text: String,
    /// Share of the section's instructions, 0..1.
    pub share: f64,
    /// It touches data that several threads use, and one of them writes.
    pub shared: bool,
}

/// A what-if and its answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WhatIfRow {
    /// In the query language (docs/replay.md).
    pub query: String,
    /// In words.
    pub title: String,
    /// What must be true for it to hold.
    pub assumption: String,
    /// What it saves.
    pub answer: Answer,
    /// The fix was made and measured.
    pub verified: Option<Verified>,
    /// Somebody asked for it: a row is shown whether or not there is an answer.
    pub is_asked: bool,
}

/// A fix that was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Verified {
    /// Share of the wall time that it saves: low, median, high of interleaved pairs.
    pub saved: crate::predict::Saved,
    /// Pairs.
    pub pairs: usize,
}

/// A step of the plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlanRow {
    /// The what-ifs that it adds.
    pub queries: Vec<String>,
    /// What all steps so far save together.
    pub answer: Answer,
    /// Share that its what-ifs save alone, each.
    pub alone: Vec<f64>,
    /// What limits before this step: the lock of most waits then.
    pub limited_by: String,
}

/// The program on another number of CPUs or threads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CurvePoint {
    /// CPUs.
    pub cpus: u32,
    /// Threads of the group that was asked about, if one was.
    pub threads: Option<u32>,
    /// Throughput over that of the recorded run: low, expected, high.
    pub speedup: (f64, f64, f64),
    /// The lock or stage that limits, and the share of the time that it is busy.
    pub limited_by: Option<(String, f64)>,
    /// More CPUs than this machine has: never seen, computed.
    pub extrapolated: bool,
}

/// What threads did, in one replay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lanes {
    /// "recorded", "replayed", "without unnecessary contention".
    pub title: String,
    /// Length, nanoseconds.
    pub length_ns: f64,
    /// By thread.
    pub threads: Vec<Lane>,
}

/// One thread's intervals, in order, disjoint; gaps are work outside of sections.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lane {
    /// Name of the thread.
    pub thread: String,
    /// Begin, end (nanoseconds from the lanes' start), and what.
    pub intervals: Vec<(f64, f64, Doing)>,
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Holds the lock of this index in [`Analysis::locks`].
    Section(u32),
    /// Waits for it.
    Waits(u32),
    /// Is off the CPU for other reasons.
    Off,
}

impl Analysis {
    /// Whether any replay gives the recorded run back, so that there are predictions.
    pub fn is_trusted(&self) -> bool {
        self.baselines.iter().any(|b| b.refused.is_none())
    }

    /// The baseline of a method.
    pub fn baseline(&self, method: Method) -> Option<&Baseline> {
        self.baselines.iter().find(|b| b.method == method)
    }
}
