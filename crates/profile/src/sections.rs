//! What critical sections touched, where `convoy diagnose` looked into them (SyncPerf's second tool, EuroSys'17,
//! section 3.3).
//!
//! A *section* is what a thread executes from an acquire until it releases the same object. A *word* is eight
//! aligned bytes of memory: sharing is told by words. Sections are sampled; a traced one *stands for* itself and for
//! those of its site and thread that were passed over before it: its weight.

use serde::{Deserialize, Serialize};

use crate::{FrameIx, ObjectIx, Op, StackIx, ThreadIx};

/// Index into [`Sections::sites`].
pub type SectionSiteIx = u32;
/// Index into [`Sections::code`].
pub type CodeIx = u32;
/// Index into [`Sections::words`].
pub type WordIx = u32;

/// What was learnt from traced sections.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sections {
    /// Which sections were traced.
    pub sampling: SectionSampling,
    /// Where sections begin: one per process, object and call stack of the acquire.
    pub sites: Vec<SectionSite>,
    /// The code that ran in them, by site and address.
    pub code: Vec<SectionCode>,
    /// The words that the other tables speak of.
    pub words: Vec<SectionWord>,
    /// A random sample of the whole sections of each site.
    pub samples: Vec<SectionSample>,
    /// System calls, locks and other operations inside sections.
    pub calls: Vec<SectionCall>,
    /// Sections of one thread that followed one another on the same object.
    pub follows: Vec<SectionFollow>,
    /// What some of the samples began with, where values were recorded.
    pub inputs: Vec<SectionInput>,
    /// What was lost: reason (stable kebab-case id), count. Only non-zero ones.
    pub drops: Vec<(String, u64)>,
}

/// Which sections were traced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionSampling {
    /// Every acquire site was a target; otherwise only those that were asked for.
    pub all_sites: bool,
    /// Every section of a target was traced.
    pub every: bool,
    /// Sections of a site that were traced before sampling began.
    pub first: u32,
    /// Time that tracing was allowed to add, of the program's, in millionths.
    pub budget_ppm: u32,
}

/// Why the record of a section ends. Mirrors `enum cv_section_end` of the agent.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum SectionEnd {
    /// Whole: the object was released.
    #[default]
    Released,
    /// Whole: it gave the object up in a wait on a condition variable.
    Waited,
    /// Cut: too long.
    TooLong,
    /// Cut: a signal handler ran.
    Signal,
    /// Cut: fork, exec, a new thread.
    Process,
    /// Cut: code that cannot be followed (a JIT's, or not readable).
    Code,
    /// Cut: went on in the agent without the tracer.
    Left,
    /// Cut: no memory for the translation, or for the log.
    NoRoom,
    /// Cut: the thread or the recording ended.
    Thread,
}

impl SectionEnd {
    /// All of them, in the order of their numbers in a trace.
    pub const ALL: [Self; 9] = [
        Self::Released,
        Self::Waited,
        Self::TooLong,
        Self::Signal,
        Self::Process,
        Self::Code,
        Self::Left,
        Self::NoRoom,
        Self::Thread,
    ];

    /// Whether everything that the section executed is in its record.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Released | Self::Waited)
    }

    /// Of sections counted by their end, those with a whole record.
    pub fn count_whole(ends: &[u64; 9]) -> u64 {
        let whole = Self::ALL.iter().zip(ends).filter(|(end, _)| end.is_whole());
        whole.fold(0, |sum, (_, n)| sum.saturating_add(*n))
    }
}

/// Where sections begin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SectionSite {
    /// Index into [`crate::Profile::processes`].
    pub process: u32,
    /// What was acquired; `None` = one of the objects of this site beyond the first ones, taken together.
    pub object: Option<ObjectIx>,
    /// Call stack of the acquire. 0 = unknown.
    pub stack: StackIx,
    /// The acquire itself: its return address.
    pub frame: FrameIx,
    /// What was called.
    pub op: Option<Op>,
    /// Threads that ran them.
    pub threads: u32,
    /// Objects: 1, or how many are taken together.
    pub objects: u32,
    /// Sections that ran: the traced ones and those that they stand for.
    pub run: u64,
    /// Of the traced sections, those whose acquire had to wait.
    pub waited: u64,
    /// Traced sections by how their record ended: [`SectionEnd::ALL`].
    pub ends: [u64; 9],
    /// Sums over the whole ones.
    pub whole: SectionTotals,
    /// The largest of each.
    pub largest: SectionTotals,
    /// Distinct words over all sections: exact below 512, an estimate within 5 % from there.
    pub distinct_words: u64,
    /// All of them, or a uniform sample of 512.
    pub words: Vec<WordIx>,
}

/// What a section did, in numbers; or sums, or maxima of such.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionTotals {
    /// From the acquire to the release, tracing included, nanoseconds.
    pub traced_ns: u64,
    /// Instructions of the program.
    pub instructions: u64,
    /// Memory operands, those of call, return, push and pop (`implicit`) included.
    pub accesses: u64,
    /// Of `accesses`, call, return, push and pop.
    pub implicit: u64,
    /// Of `accesses` without the implicit ones, those that read.
    pub reads: u64,
    /// ... and those that wrote.
    pub writes: u64,
    /// Of `accesses`, those inside functions that hand out or take back memory.
    pub allocator: u64,
    /// Instructions inside such functions.
    pub allocator_instructions: u64,
    /// System calls.
    pub syscalls: u64,
    /// Distinct words, without the implicitly accessed ones and the allocator's.
    pub words: u64,
    /// Bytes accessed in these words, each counted once per word as the largest operand.
    pub bytes: u64,
}

/// An instruction that accessed memory in sections of one site, or the first one of others: of a few, or of all that one call led to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SectionCode {
    /// In sections of.
    pub site: SectionSiteIx,
    /// The instruction. `Frame::exact` is set.
    pub frame: FrameIx,
    /// Called, directly or not, by this call instruction of the code that the section itself is in; `None` = it is part of that code.
    pub from: Option<FrameIx>,
    /// Times that it ran.
    pub executions: u64,
    /// Instructions that it stands for: its own and those of the following ones without an access.
    pub instructions: u64,
    /// Of `executions`, inside functions that hand out or take back memory.
    pub allocator: u64,
    /// Of `executions`, those that accessed memory explicitly.
    pub accesses: u64,
    /// Bytes of the operand.
    pub size: u32,
    /// Its offset in the object that a register leads to: the displacement of an operand that has a base register, not the stack
    /// pointer, and no index.
    pub field: Option<i32>,
    /// Reads it.
    pub reads: bool,
    /// Writes it.
    pub writes: bool,
    /// In one indivisible step: lock prefix, or xchg.
    pub atomic: bool,
    /// Which words: a random sample of the accesses outside of the allocator.
    pub words: Vec<WordIx>,
}

/// Eight bytes of memory, and who touched them in traced sections of any site.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionWord {
    /// Index into [`crate::Profile::processes`].
    pub process: u32,
    /// Address of the first byte.
    pub address: u64,
    /// What is known of it.
    pub seen: WordSeen,
    /// The call instruction, of the code that a section itself is in, that asked for the object which it was reached in;
    /// `None` = it was not allocated in a traced section, or by several calls in turn. `Frame::exact` is set.
    pub allocated_by: Option<FrameIx>,
    /// The variable that holds it: symbol and offset, e.g. "cache+0x10".
    pub symbol: Option<String>,
}

/// Who touched a word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WordSeen {
    /// One thread, if it was only one.
    pub only: Option<ThreadIx>,
    /// Sections that touched it, 255 = that many or more.
    pub sections: u8,
    /// Was read.
    pub read: bool,
    /// Was written.
    pub written: bool,
    /// Written by two threads or more.
    pub writers: bool,
    /// A thread read what another had written last: the two do exchange data through it. Where a word is in the hands of several threads
    /// without that, it may just be memory that was given back and handed out again.
    pub flow: bool,
    /// Accessed by an indivisible instruction.
    pub atomic: bool,
    /// Accessed by a function that hands out or takes back memory.
    pub allocator: bool,
    /// It was on the stack of the thread that touched it, or of several one after another.
    pub own_stack: bool,
    /// Part of a lock or another object that the agent knows.
    pub object: bool,
}

/// One whole section.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SectionSample {
    /// Its site.
    pub site: SectionSiteIx,
    /// Who ran it.
    pub thread: ThreadIx,
    /// Address of the object, where the site stands for several.
    pub object: u64,
    /// Sections that it stands for.
    pub weight: u64,
    /// The acquire returned, monotonic.
    pub begin_ns: u64,
    /// What it did.
    pub totals: SectionTotals,
    /// Words that it accessed explicitly, outside of the allocator, in order of the first access; those on its own stack that no other thread
    /// ever touched are left out.
    pub touches: Vec<Touch>,
    /// Further words that found no room: the section is too large to tell all.
    pub untold: u64,
}

/// What a sampled section began with: all that its instructions depend on. A section that called
/// the agent or the system, or that loads what no general register can hold, may have none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionInput {
    /// Index into [`Sections::samples`].
    pub sample: u32,
    /// Address of the first instruction.
    pub resume: u64,
    /// Address of the object: the first argument of the release.
    pub object: u64,
    /// rax, rbx, rbp, rsp, r12 to r15, the thread pointer. Other registers are undefined behind a
    /// call.
    pub registers: [u64; 9],
    /// Lowest address of the thread's stack, 0 = unknown.
    pub stack_lo: u64,
    /// Instructions until the release was called.
    pub instructions: u64,
    /// Which code was executed: a hash of its blocks, however often each ran.
    pub path: u64,
    /// [`Self::digest`] of all loads of 1, 2, 4 and 8 bytes, and of both halves of 16, in order,
    /// from 0 on.
    pub loads: u64,
    /// Memory that was loaded before the section stored to it, ascending by address.
    pub found: Vec<FoundWord>,
}

/// Eight aligned bytes as a section found them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundWord {
    /// Of the first byte.
    pub address: u64,
    /// Zeros where bytes are not known.
    pub value: u64,
    /// A bit for each byte that is known, the lowest for the first.
    pub known: u8,
}

impl SectionInput {
    /// The digest of loads, one more included.
    pub fn digest(before: u64, address: u64, value: u64) -> u64 {
        /// Odd and without structure: the fractional part of the golden ratio (Knuth).
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mix = |sum: u64, item: u64| (sum.rotate_left(23) ^ item).wrapping_mul(FACTOR);
        mix(mix(before, address), value)
    }
}

/// A word in a section.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touch {
    /// Which.
    pub word: WordIx,
    /// Times read.
    pub reads: u32,
    /// Times written.
    pub writes: u32,
    /// The instruction that read it first.
    pub read_by: Option<CodeIx>,
    /// The instruction that wrote it first.
    pub written_by: Option<CodeIx>,
    /// The first access read it: what was there before mattered.
    pub read_first: bool,
}

/// What was called inside a section.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum CallKind {
    /// A system call, by number.
    Syscall(u32),
    /// An operation that the agent knows.
    Op(Op),
    /// Another function of the agent.
    #[default]
    Agent,
    /// The release that ended the section.
    Release,
}

/// Calls of one kind at one place in sections of one site.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SectionCall {
    /// In sections of.
    pub site: SectionSiteIx,
    /// What.
    pub kind: CallKind,
    /// On which object.
    pub object: Option<ObjectIx>,
    /// From where: the outermost call instruction since the section began that had not returned; or the calling
    /// instruction itself.
    pub frame: Option<FrameIx>,
    /// Calls.
    pub n: u64,
    /// Calls that they stand for.
    pub run: u64,
    /// Sections that had any.
    pub sections: u64,
    /// Calls that had to wait.
    pub waits: u64,
    /// Their waits, nanoseconds.
    pub wait_ns: u64,
    /// Longest.
    pub wait_max_ns: u64,
}

/// Sections of one thread on the same object, one right after the other, nothing passed over in between.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionFollow {
    /// Of this site ...
    pub first: SectionSiteIx,
    /// ... and then of this one.
    pub then: SectionSiteIx,
    /// Times.
    pub n: u64,
    /// Between the release and the next acquire, nanoseconds: the median of a random sample.
    pub gap_median_ns: u64,
}
