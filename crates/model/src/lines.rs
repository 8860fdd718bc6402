//! Cache lines that several threads use. The words are those of [`convoy_profile::SharedLines`].

use crate::{ProcessId, SiteId, ThreadId};

/// All that is known of cache lines.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SharedLines {
    /// Samples whose instructions were read.
    pub samples: u64,
    /// Samples in user mode whose instructions could not be read.
    pub unread: u64,
    /// The lines.
    pub lines: Vec<SharedLine>,
}

/// A cache line that several threads use and at least one writes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SharedLine {
    /// The process that has it.
    pub process: ProcessId,
    /// The first of the bytes that most samples touched.
    pub address: u64,
    /// The variable that holds them, empty = not known (the heap).
    pub symbol: String,
    /// Samples.
    pub samples: u64,
    /// Of them, those in a loop that waits for what is there.
    pub waits: u64,
    /// Samples of a thread that had been there before, after one of another thread.
    pub turns: u64,
    /// What was done to it.
    pub uses: Vec<LineUse>,
}

impl SharedLine {
    /// The addresses of its bytes.
    pub fn bytes(&self) -> std::ops::Range<u64> {
        let first = self.address / convoy_profile::LINE_BYTES * convoy_profile::LINE_BYTES;
        first..first.saturating_add(convoy_profile::LINE_BYTES)
    }
}

/// What one thread did at one place to the same bytes of a line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LineUse {
    /// Who.
    pub thread: ThreadId,
    /// Where; `None` = unknown.
    pub site: Option<SiteId>,
    /// First byte, from the beginning of the line.
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
