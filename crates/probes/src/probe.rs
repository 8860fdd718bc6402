//! Function probes as their users see them: requests, results and values.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Rows of the table: a [`Probe`] has a lower number.
pub const ROWS: u32 = 1024;

/// Buckets of a histogram: of 2^n to 2^(n+1) ns.
pub const BUCKETS: usize = 64;

/// What a probe measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Measure {
    /// Calls: the entry is patched.
    Calls,
    /// Calls, wall and CPU time, inclusive and exclusive: entry and exits are patched.
    Time,
}

/// A lock that the agent watches: where it keeps, for each thread, how many of it that thread holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holding {
    /// Of the agent's counts, from a thread's thread pointer.
    pub offset: i64,
    /// Counts of another epoch are out of date.
    pub epoch: u32,
    /// Which of the counts.
    pub slot: u8,
}

/// Bytes that a call asks for, by its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Bytes {
    /// The first argument.
    First = 1,
    /// The second one.
    Second = 2,
    /// The third one.
    Third = 3,
    /// The first times the second one.
    Product = 4,
    /// The second one; none where the first one, a pointer, is 0: the call makes another one then.
    More = 5,
}

/// What a call does to the file descriptor that is its first argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Io {
    /// It reads, and returns how many bytes.
    Read = 1,
    /// It writes, and returns how many bytes.
    Write = 2,
    /// It waits.
    Other = 3,
}

/// What a row counts besides calls and time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Also {
    /// Nothing.
    #[default]
    Nothing,
    /// The bytes that calls ask for.
    Bytes(Bytes),
    /// What timed calls do to files. Rows of one group, below [`crate::table::IO_GROUPS`], count
    /// into the same files.
    Io(Io, u8),
}

/// Instrumentation of one metric-focus pair: a row of the table (SICMD; Xu, Miller and Naim,
/// PPoPP 1999).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Chosen by the caller, below [`ROWS`]. Probes of several functions may share a row, which
    /// then stands for all of them.
    pub row: u32,
    /// Addresses in the process, from its call frame information.
    pub function: Range<u64>,
    /// What is measured.
    pub measure: Measure,
    /// Counted only while the thread is inside a function of that row, which must measure time.
    pub within: Option<u32>,
    /// Counted only if the call returns to one of these addresses.
    pub caller: Option<Range<u64>>,
    /// Counted only while the thread holds such a lock.
    pub holding: Option<Holding>,
    /// What else is counted.
    pub also: Also,
}

impl Probe {
    /// A probe that counts all calls.
    pub fn new(row: u32, function: Range<u64>, measure: Measure) -> Self {
        Self {
            row,
            function,
            measure,
            within: None,
            caller: None,
            holding: None,
            also: Also::Nothing,
        }
    }

    /// Whether some calls are not counted.
    pub fn is_gated(&self) -> bool {
        self.within.is_some() || self.caller.is_some() || self.holding.is_some()
    }
}

/// What became of a [`Probe`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Inserted {
    /// It measures what was asked for.
    Whole,
    /// Calls are counted; an exit cannot be patched.
    CallsOnly {
        /// Which, and why.
        why: String,
    },
    /// Nothing is patched; the kernel counts calls, of all threads together.
    Uprobe {
        /// What stands in the way of a probe.
        why: String,
        /// What a call costs, nanoseconds.
        call_ns: u64,
    },
    /// Nothing is patched.
    No {
        /// What stands in the way.
        why: String,
    },
}

/// What one thread did in one row since that was put in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The thread.
    pub tid: u32,
    /// The row of its [`Probe`].
    pub row: u32,
    /// Entries.
    pub calls: u64,
    /// Wall time inside, nanoseconds; of recursive calls the outermost.
    pub wall_ns: u64,
    /// The same without the functions of other timed rows that were called from there.
    pub own_wall_ns: u64,
    /// CPU time inside, nanoseconds; `None` = cannot be read without a system call here.
    pub cpu_ns: Option<u64>,
    /// The same without the functions of other timed rows.
    pub own_cpu_ns: Option<u64>,
    /// How often the thread is inside right now.
    pub inside: u32,
    /// Calls that were not measured: in a signal handler that interrupted a probe, or nested too
    /// deeply.
    pub skipped: u64,
    /// Wall time of all calls that have returned, nanoseconds: those of recursive calls overlap.
    pub returned_ns: u64,
    /// The same calls by wall time: bucket n has those of 2^n to 2^(n+1) ns.
    pub histogram: [u32; BUCKETS],
    /// Bytes that calls have asked for, where the probe counts them.
    pub bytes: u64,
}

/// What one thread did to one file descriptor in the rows of a group since the first of them was
/// put in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCell {
    /// The thread.
    pub tid: u32,
    /// The group of [`Also::Io`].
    pub group: u8,
    /// The file descriptor.
    pub descriptor: u32,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub write_bytes: u64,
    /// Time in calls without the CPU, that of open ones included, nanoseconds; without a CPU clock
    /// all time in calls.
    pub wait_ns: u64,
}

/// What all threads did in all rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// By row and thread.
    pub cells: Vec<Cell>,
    /// By group, thread and file descriptor.
    pub files: Vec<FileCell>,
    /// Calls, of any probed function, of threads for which the table had no room.
    pub lost_calls: u64,
    /// Calls on file descriptors, of threads that use more of them than there was room for.
    pub lost_files: u64,
}

impl Cell {
    /// A thread that has not called anything yet.
    pub fn new(tid: u32, row: u32) -> Self {
        Self {
            tid,
            row,
            calls: 0,
            wall_ns: 0,
            own_wall_ns: 0,
            cpu_ns: None,
            own_cpu_ns: None,
            inside: 0,
            skipped: 0,
            returned_ns: 0,
            histogram: [0; BUCKETS],
            bytes: 0,
        }
    }

    /// Adds what was counted apart: in another column, or by an earlier probe.
    pub fn add(&mut self, other: &Self) {
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        self.calls = self.calls.saturating_add(other.calls);
        self.wall_ns = self.wall_ns.saturating_add(other.wall_ns);
        self.own_wall_ns = self.own_wall_ns.saturating_add(other.own_wall_ns);
        self.cpu_ns = both(self.cpu_ns, other.cpu_ns);
        self.own_cpu_ns = both(self.own_cpu_ns, other.own_cpu_ns);
        self.inside = self.inside.saturating_add(other.inside);
        self.returned_ns = self.returned_ns.saturating_add(other.returned_ns);
        self.skipped = self.skipped.saturating_add(other.skipped);
        self.bytes = self.bytes.saturating_add(other.bytes);
        for (sum, n) in self.histogram.iter_mut().zip(other.histogram) {
            *sum = sum.wrapping_add(n);
        }
    }
}
