//! Cache lines that several threads use, as samples found them.
//!
//! A sample tells which instruction a thread is at and what its registers hold, and so which memory that instruction
//! touches. Lines that only one thread was at, or that nobody writes, are not kept.

use serde::{Deserialize, Serialize};

use crate::{StackIx, ThreadIx};

/// Index into [`SharedLines::lines`].
pub type LineIx = u32;
/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;

/// All that is known of cache lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedLines {
    /// Samples whose instructions were read.
    pub samples: u64,
    /// Samples in user mode whose instructions could not be read.
    pub unread: u64,
    /// The lines.
    pub lines: Vec<SharedLine>,
    /// What was done to them.
    pub uses: Vec<LineUse>,
}

/// A cache line that several threads use and at least one writes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedLine {
    /// The process that has it.
    pub process: u32,
    /// The first of the bytes that most samples touched.
    pub address: u64,
    /// The variable that holds them: symbol and offset, e.g. "counters+0x10".
    pub symbol: Option<String>,
    /// Samples.
    pub samples: u64,
    /// Of them, those in a loop that waits for what is there.
    pub waits: u64,
    /// Samples of a thread that had been there before, after one of another thread.
    pub turns: u64,
}

/// What one thread did at one place to the same bytes of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineUse {
    /// Of which line.
    pub line: LineIx,
    /// Who, in the line's process.
    pub thread: ThreadIx,
    /// Where. 0 = unknown.
    pub stack: StackIx,
    /// First byte, from the beginning of the line: below [`LINE_BYTES`].
    pub offset: u8,
    /// Bytes.
    pub size: u8,
    /// In one step for all processors: an atomic read-modify-write.
    pub locked: bool,
    /// Reads it.
    pub reads: bool,
    /// Writes it.
    pub writes: bool,
    /// Samples.
    pub n: u64,
}
