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
}

/// What all threads did in all rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// By row and thread.
    pub cells: Vec<Cell>,
    /// Calls, of any probed function, of threads for which the table had no room.
    pub lost_calls: u64,
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
        for (sum, n) in self.histogram.iter_mut().zip(other.histogram) {
            *sum = sum.wrapping_add(n);
        }
    }
}
