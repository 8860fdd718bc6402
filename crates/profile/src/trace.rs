//! Synchronization events in time order, as they are stored: tables in the clear, events as opaque
//! blocks, which `convoy-trace` encodes and decodes.

use serde::{Deserialize, Serialize};

use crate::{FrameIx, ObjectIx, ObjectKind, StackIx, ThreadIx};

/// The frame of a call site that is not known.
pub const NO_FRAME: FrameIx = u32::MAX;

/// The traces of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// Of the processes that have one, in their order.
    pub processes: Vec<ProcessTrace>,
}

/// The trace of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessTrace {
    /// Index into [`crate::Profile::processes`].
    pub process: u32,
    /// How it was recorded.
    pub mode: TraceMode,
    /// First event possible: the agent was ready.
    pub start_ns: u64,
    /// The process ended, or the recording did.
    pub end_ns: u64,
    /// Whether preemptions are among the events: the C library (glibc 2.35) and the kernel tell them.
    pub sees_preemptions: bool,
    /// Events that are missing: reason (stable kebab-case id), count.
    pub lost: Vec<(String, u64)>,
    /// Windows that were given up to bound the size of the recording.
    pub lost_windows: u64,
    /// Spans in which every event was recorded, in order, disjoint.
    pub windows: Vec<TraceWindow>,
    /// What events are about.
    pub objects: Vec<TraceObject>,
    /// Where operations are called.
    pub sites: Vec<TraceSite>,
    /// Threads by the numbers that events call them by.
    pub threads: Vec<TraceThread>,
    /// Events.
    pub blocks: Vec<TraceBlock>,
}

/// How a trace was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TraceMode {
    /// Every event.
    #[default]
    Full,
    /// Every event in windows; outside of them only operations that block.
    Windows,
    /// Every event of the last nanoseconds before the end.
    Last(u64),
}

/// A span of time in which every event was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceWindow {
    /// Begin, inclusive.
    pub start_ns: u64,
    /// End, exclusive.
    pub end_ns: u64,
}

/// What events are about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TraceObject {
    /// Its address; of a joined thread: its `pthread_t`.
    pub addr: u64,
    /// What it is.
    pub kind: ObjectKind,
    /// Bits of a mutex's or reader-writer lock's type, `u32::MAX` = not known.
    pub attr: u32,
    /// The same in the process's objects.
    pub object: Option<ObjectIx>,
}

/// Where an operation is called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TraceSite {
    /// Return address of the call.
    pub pc: u64,
    /// Its frame, or [`NO_FRAME`].
    pub frame: FrameIx,
    /// A call stack with which it was seen, 0 = unknown.
    pub stack: StackIx,
}

/// A thread by its number in events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceThread {
    /// As events call it.
    pub number: u32,
    /// In the process's threads.
    pub thread: ThreadIx,
}

/// Events of one thread, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceBlock {
    /// Whose they are.
    pub thread: ThreadIx,
    /// The first one.
    pub start_ns: u64,
    /// The last one.
    pub end_ns: u64,
    /// How many.
    pub events: u32,
    /// The events, see docs/trace-format.md.
    pub bytes: Vec<u8>,
}

impl ProcessTrace {
    /// Events of all blocks.
    pub fn event_count(&self) -> u64 {
        self.blocks
            .iter()
            .map(|block| u64::from(block.events))
            .sum()
    }
}
