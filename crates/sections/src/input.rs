//! What the accounting is told.

use std::ops::Range;

use convoy_profile::{FrameIx, ObjectIx, Op, SectionEnd, SectionSampling, StackIx, ThreadIx};

/// How to account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Which sections are traced; goes into the profile as it is.
    pub sampling: SectionSampling,
    /// Words of memory whose users are told apart, at most; what is accessed beyond counts as not known.
    pub words: usize,
    /// Bytes for the samples of whole sections.
    pub sample_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sampling: SectionSampling::default(),
            words: 32 << 20,
            sample_bytes: 24 << 20,
        }
    }
}

/// What a memory operand leaves in the record. Mirrors `enum cv_access_kind` of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// 1 word: the address.
    Plain,
    /// 2 words: lowest address, and how many times `size` bytes.
    Repeat,
    /// 2 words: the address, and a bit for each lane of `size` bytes.
    Masked,
    /// 1 word of bits for the lanes that are touched, and an address for each lane.
    Lanes,
    /// No access. 1 word: what the function returns that ends with this instruction.
    Result,
    /// No access. 1 word: what the access before it loads.
    Value,
}

/// A memory operand. Mirrors `struct cv_trace_access`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Its instruction: bytes behind the block's `ip`.
    pub at: u16,
    /// ... and that one's number in the block.
    pub instruction: u16,
    /// What it leaves in the record.
    pub kind: AccessKind,
    /// Read.
    pub reads: bool,
    /// Written.
    pub writes: bool,
    /// In one indivisible step.
    pub atomic: bool,
    /// Implicit: push, pop, call, return.
    pub implicit: bool,
    /// Of [`AccessKind::Lanes`].
    pub lanes: u8,
    /// Bytes: of the operand, of one repetition, or of one lane.
    pub size: u32,
    /// Its offset from the address in a register, where that is all that its address is made of.
    pub field: Option<i32>,
}

/// A piece of code that is executed from its first to its last instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Address of the first instruction.
    pub ip: u64,
    /// Bytes of all.
    pub code_bytes: u32,
    /// How many.
    pub instructions: u16,
    /// In the order of the words that they leave.
    pub accesses: Vec<Access>,
}

/// A section, whole or cut.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Section<'a> {
    /// The process: any number that [`Places`] understands, the same as for blocks.
    pub process: u32,
    /// Index of the thread's record in the arena.
    pub thread: u32,
    /// Address of the object.
    pub object: u64,
    /// Return address of the acquire.
    pub ra: u64,
    /// Lowest address of the thread's stack; 0 = unknown.
    pub stack_lo: u64,
    /// Call stack of the acquire, as the agent numbers it; 0 = unknown.
    pub stack: u32,
    /// What was called.
    pub op: Option<Op>,
    /// The acquire returned, monotonic.
    pub begin_ns: u64,
    /// The release was called, or the record was cut.
    pub end_ns: u64,
    /// Why the record ends.
    pub end: SectionEnd,
    /// Sections that it stands for, itself included.
    pub weight: u32,
    /// The acquire had to wait.
    pub waited: bool,
    /// The words of the record behind its header: events, as `abi/convoy_trace.h` describes them. Nothing is believed: what
    /// makes no sense ends the section there and is counted as dropped.
    pub events: &'a [u64],
}

/// Turns what the accounting knows by address into indices of the profile. Asked only by
/// [`crate::Accounting::finish`], once for each different question.
pub trait Places {
    /// Index of the process in the profile; `None` = it is not in it, and neither are its sections.
    fn process(&mut self, process: u32) -> Option<u32>;
    /// Frame of an instruction (`exact`).
    fn instruction(&mut self, process: u32, ip: u64) -> FrameIx;
    /// Frame of a return address.
    fn return_address(&mut self, process: u32, ra: u64) -> FrameIx;
    /// A call stack by the agent's number.
    fn stack(&mut self, process: u32, stack: u32) -> StackIx;
    /// The object at this address.
    fn object(&mut self, process: u32, address: u64) -> Option<ObjectIx>;
    /// A thread by the number of its record.
    fn thread(&mut self, process: u32, thread: u32) -> Option<ThreadIx>;
    /// An operation by the agent's number (`enum cv_op`).
    fn op(&mut self, op: u32) -> Option<Op>;
}

/// Where a thread's stack is mapped.
pub(crate) type StackRange = Range<u64>;
