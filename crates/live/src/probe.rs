//! Function probes as `live` sees them: what is put in, what is read, what may be refused.

use std::fmt;
use std::ops::Range;

/// Rows of the table that probes count into, exclusive.
pub const ROWS: u32 = 1024;

/// Bins of a histogram: bin `i` counts durations of [2^i, 2^(i+1)) ns.
pub const BINS: usize = 64;

/// What a probe measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Measure {
    /// Calls.
    Calls,
    /// Calls, wall and CPU time, inclusive and exclusive.
    Time,
}

/// A probe to put in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Row that it counts into; unique.
    pub row: u32,
    /// Addresses of the function in the process.
    pub function: Range<u64>,
    /// What it measures.
    pub measure: Measure,
    /// Counts only while the thread is inside the function of that row.
    pub within: Option<u32>,
}

/// What became of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserted {
    /// It measures what was asked for.
    Whole,
    /// It counts calls, and cannot time them.
    CallsOnly {
        /// The reason.
        why: String,
    },
    /// It is not in.
    No {
        /// The reason.
        why: String,
    },
}

/// What one thread did in one row since the probe was put in. Threads that have ended keep theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The thread.
    pub tid: u32,
    /// The row.
    pub row: u32,
    /// Calls.
    pub calls: u64,
    /// Wall time of the calls that returned, nanoseconds.
    pub wall_ns: u64,
    /// The same without that of other timed functions.
    pub own_wall_ns: u64,
    /// CPU time of the calls that returned, nanoseconds; `None` = there is no clock for it.
    pub cpu_ns: Option<u64>,
    /// The same without that of other timed functions.
    pub own_cpu_ns: Option<u64>,
    /// Calls that have not returned.
    pub inside: u32,
    /// Calls that were not counted: of a signal handler inside a probe, or for want of room.
    pub skipped: u64,
    /// Wall times of calls.
    pub histogram: [u32; BINS],
}

impl Cell {
    /// Nothing counted yet.
    pub fn empty(tid: u32, row: u32) -> Self {
        Self {
            tid,
            row,
            calls: 0,
            wall_ns: 0,
            own_wall_ns: 0,
            cpu_ns: Some(0),
            own_cpu_ns: Some(0),
            inside: 0,
            skipped: 0,
            histogram: [0; BINS],
        }
    }
}

/// Why probes could not be put in, taken out or read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The value found.
    pub found: String,
    /// What to do; may be empty.
    pub fix: String,
    /// The process is gone: nothing is wrong.
    pub is_gone: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.found)
    }
}

impl std::error::Error for Refusal {}

/// Puts probes into a process. Its end takes all of them out.
pub trait Probes {
    /// Puts probes in, all in one stop of the process; one answer for each.
    ///
    /// # Errors
    /// None of them is in.
    fn insert(&mut self, probes: &[Probe]) -> Result<Vec<Inserted>, Refusal>;

    /// Takes probes out.
    ///
    /// # Errors
    /// They may still be in.
    fn remove(&mut self, rows: &[u32]) -> Result<(), Refusal>;

    /// Reads all rows of all threads; the process goes on meanwhile.
    ///
    /// # Errors
    /// The process is gone, or whoever serves it.
    fn read(&mut self) -> Result<Vec<Cell>, Refusal>;
}
