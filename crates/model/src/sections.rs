//! What critical sections touched, where they were looked into. The words are those of [`convoy_profile::Sections`];
//! here its rows point into the model.

pub use convoy_profile::{SectionEnd, SectionSampling, SectionTotals, WordSeen};

use convoy_profile::Op;

use crate::build::shown_loop;
use crate::{ObjectId, ProcessId, SiteFrame, SiteId, ThreadId};

/// What was learnt from traced sections.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sections {
    /// Which sections were traced.
    pub sampling: SectionSampling,
    /// Where sections begin: one per object and call stack of the acquire.
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
    /// Code addresses with the functions inlined there, innermost first.
    pub places: Vec<Vec<SiteFrame>>,
    /// What was lost: reason, count.
    pub drops: Vec<(String, u64)>,
}

impl Sections {
    /// The line of an instruction that says most: its own, or where that has no line the one that called it. Functions of
    /// the language, which are inlined anywhere, say nothing.
    pub fn telling(&self, code: &SectionCode) -> Option<&SiteFrame> {
        let places = [Some(code.place), code.from].into_iter().flatten();
        let mut frames = places.filter_map(|place| self.telling_of(place));
        let first = frames.next();
        let with_line = |frame: &&SiteFrame| frame.line > 0;
        first
            .filter(with_line)
            .or_else(|| frames.find(with_line))
            .or(first)
    }

    /// The same of a place: an index into [`Sections::places`].
    pub fn telling_of(&self, place: u32) -> Option<&SiteFrame> {
        let frames = self.places.get(place as usize)?;
        frames.get(shown_loop(frames))
    }
}

/// Where sections begin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SectionSite {
    /// The process.
    pub process: ProcessId,
    /// What was acquired; `None` = several objects beyond the first ones of this call stack.
    pub object: Option<ObjectId>,
    /// Call stack of the acquire.
    pub site: SiteId,
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
    /// All of them, or a uniform sample: indices into [`Sections::words`].
    pub words: Vec<u32>,
}

impl SectionSite {
    /// Sections that were traced, cut ones included.
    pub fn traced(&self) -> u64 {
        self.ends.iter().sum()
    }

    /// Of these, those that were traced from their begin to their end.
    pub fn whole(&self) -> u64 {
        SectionEnd::count_whole(&self.ends)
    }
}

/// An instruction that accessed memory in sections of one site, or the first one of a few others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SectionCode {
    /// Index into [`Sections::sites`].
    pub site: u32,
    /// The instruction: index into [`Sections::places`].
    pub place: u32,
    /// The call instruction of the section's own code that led to it; `None` = it is part of that code.
    pub from: Option<u32>,
    /// Times that it ran.
    pub executions: u64,
    /// Instructions that it stands for.
    pub instructions: u64,
    /// Of `executions`, inside functions that hand out or take back memory.
    pub allocator: u64,
    /// Of `executions`, those that accessed memory explicitly.
    pub accesses: u64,
    /// Bytes of the operand.
    pub size: u32,
    /// Its offset in the object that a register leads to, if that is how it is reached.
    pub field: Option<i32>,
    /// Reads it.
    pub reads: bool,
    /// Writes it.
    pub writes: bool,
    /// In one indivisible step.
    pub atomic: bool,
    /// Which words: a random sample of the accesses.
    pub words: Vec<u32>,
}

/// Eight bytes of memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SectionWord {
    /// The process.
    pub process: ProcessId,
    /// Address of the first byte.
    pub address: u64,
    /// Who touched it in traced sections. `seen.only` is an index into the process's records: see `only`.
    pub seen: WordSeen,
    /// One thread, if it was only one.
    pub only: Option<ThreadId>,
    /// What was seen of the memory around it is that thread's as well.
    pub amid_own: bool,
    /// What memory it is in.
    pub region: Region,
    /// The line of a section's own code that asked for the object which it was reached in: index into [`Sections::places`].
    pub allocated_by: Option<u32>,
    /// The variable that holds it, "cache+0x10".
    pub symbol: Option<String>,
}

/// What memory a word is in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Region {
    /// Elsewhere: allocated, or a mapping.
    #[default]
    Heap,
    /// Data of a module.
    Global,
    /// A thread's stack.
    Stack,
    /// A thread's own variables, above its stack.
    ThreadLocal,
    /// A lock or another object that the agent knows.
    Lock,
}

/// How the threads that touched a word in traced sections share it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sharing {
    /// One thread alone.
    Local,
    /// Several, and none wrote.
    ReadOnly,
    /// One thread alone, but in so few of the traced sections that others may well use it.
    Rare,
    /// Several wrote or one wrote and others read, but none ever read what another had written last: memory that was given
    /// back and handed out again looks so, and so does data that is only read outside of sections.
    Overwritten,
    /// One reads what another wrote.
    #[default]
    Shared,
}

/// Sections of one thread from which on a word is taken for that thread's own: of two threads that use it at random the
/// same one would come so often in a row one time in eight.
const TELLING: u8 = 4;

impl SectionWord {
    /// Seen often enough to say that nobody else uses it.
    pub(crate) fn is_told(&self) -> bool {
        self.seen.sections >= TELLING || self.seen.own_stack
    }

    /// How it is shared.
    pub fn sharing(&self) -> Sharing {
        if self.seen.flow {
            Sharing::Shared
        } else if self.only.is_some() {
            let told = self.is_told() || self.amid_own;
            match told || matches!(self.region, Region::Stack | Region::ThreadLocal) {
                true => Sharing::Local,
                false => Sharing::Rare,
            }
        } else if !self.seen.written {
            Sharing::ReadOnly
        } else {
            Sharing::Overwritten
        }
    }
}

/// One whole section.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SectionSample {
    /// Index into [`Sections::sites`].
    pub site: u32,
    /// Who ran it.
    pub thread: ThreadId,
    /// Address of the object.
    pub object: u64,
    /// Sections that it stands for.
    pub weight: u64,
    /// The acquire returned, monotonic.
    pub begin_ns: u64,
    /// What it did.
    pub totals: SectionTotals,
    /// Words that it accessed, in order of the first access.
    pub touches: Vec<Touch>,
    /// Further words that are not told.
    pub untold: u64,
}

/// A word in a section.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Touch {
    /// Index into [`Sections::words`].
    pub word: u32,
    /// Times read.
    pub reads: u32,
    /// Times written.
    pub writes: u32,
    /// The row of code that read it first.
    pub read_by: Option<u32>,
    /// The row of code that wrote it first.
    pub written_by: Option<u32>,
    /// The first access read it.
    pub read_first: bool,
}

/// What was called inside a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Called {
    /// A system call, by number.
    Syscall(u32),
    /// An operation on an object.
    Op(Op, Option<ObjectId>),
    /// Another function that the agent wraps.
    Agent,
    /// The release that ended the section.
    Release,
}

/// Calls of one kind at one place in sections of one site.
#[derive(Debug, Clone, PartialEq)]
pub struct SectionCall {
    /// Index into [`Sections::sites`].
    pub site: u32,
    /// What.
    pub what: Called,
    /// From where in the section's own code: index into [`Sections::places`].
    pub place: Option<u32>,
    /// Calls.
    pub n: u64,
    /// Calls that they stand for.
    pub run: u64,
    /// Sections that had any.
    pub sections: u64,
    /// Calls that had to wait.
    pub waits: u64,
    /// Their waits.
    pub wait_ns: u64,
    /// Longest.
    pub wait_max_ns: u64,
}

/// Sections of one thread on the same object, one right after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionFollow {
    /// Index into [`Sections::sites`] ...
    pub first: u32,
    /// ... and of the one that came then.
    pub then: u32,
    /// Times.
    pub n: u64,
    /// Between the release and the next acquire: the median of a random sample.
    pub gap_median_ns: u64,
}
