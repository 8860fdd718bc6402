//! What the analysis says, row by row.

use convoy_model::finding::{Cause, Evidence};
use convoy_model::{Called, ObjectId, Region, SectionSampling, Sharing, SiteFrame, SiteId};
use convoy_profile::Op;

use crate::stats::{Share, Spread};

/// Everything that traced sections say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Analysis {
    /// Which sections were traced.
    pub sampling: SectionSampling,
    /// Sections that were traced.
    pub traced: u64,
    /// Sections that ran.
    pub run: u64,
    /// By lock and place of the acquire, most sections first.
    pub sites: Vec<SiteRow>,
    /// Locks that are taken inside sections of others.
    pub inside: Vec<InsideRow>,
    /// What was lost: reason, count.
    pub drops: Vec<(String, u64)>,
}

/// Sections of one lock, or of several locks of one kind, that begin at one place.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SiteRow {
    /// The lock. Several: taken at the same place (one per bucket, row, connection).
    pub locks: Vec<ObjectId>,
    /// Locks, those included that are only counted.
    pub lock_count: u64,
    /// A call stack of the acquire that ends at the place.
    pub site: SiteId,
    /// What was called.
    pub op: Option<Op>,
    /// Threads that ran them, of the call stack with most.
    pub threads: u32,
    /// Sections that ran.
    pub run: u64,
    /// Sections that were traced.
    pub traced: u64,
    /// Of these, to their end.
    pub whole: u64,
    /// Of those, in the sample that shares and quantiles come from.
    pub sampled: u64,
    /// Of the traced ones, those whose acquire waited.
    pub waited: u64,
    /// Traced sections by how their record ended: [`convoy_model::SectionEnd::ALL`].
    pub ends: [u64; 9],
    /// Instructions of a section.
    pub instructions: Spread,
    /// Memory operands, those of calls, pushes and pops included.
    pub accesses: Spread,
    /// Explicit reads.
    pub reads: Spread,
    /// Explicit writes.
    pub writes: Spread,
    /// Explicit accesses of words that threads share and at least one writes.
    pub shared: Spread,
    /// Distinct words.
    pub words: Spread,
    /// Bytes in them that were accessed.
    pub bytes: Spread,
    /// Length of a traced section, tracing included, nanoseconds.
    pub traced_ns: Spread,
    /// Mean hold as the agent sampled it outside of tracing, nanoseconds.
    pub hold_ns: Option<f64>,
    /// Share of the instructions that hand out or take back memory.
    pub allocator: f64,
    /// Distinct words over all sections, and of those by how they are shared: local, read only, seen too
    /// rarely, overwritten, shared.
    pub distinct_words: u64,
    /// See `distinct_words`: shares of them.
    pub distinct_by_sharing: [f64; 5],
    /// Memory by kind.
    pub regions: Vec<RegionRow>,
    /// What memory it is, most accessed first.
    pub data: Vec<DataRow>,
    /// Lines of the section's own code, in order.
    pub lines: Vec<LineRow>,
    /// System calls, locks and others inside.
    pub calls: Vec<CallRow>,
    /// Sections that write nothing that others touch.
    pub read_only: Share,
    /// Sections whose shared data are one word that is read, written or both, once.
    pub one_word: Share,
    /// Sections that touch nothing shared.
    pub nothing_shared: Share,
    /// Sections that make a system call that may block, or wait for another lock or event.
    pub blocking: Share,
    /// Pairs of sections of different threads, of all places where the lock is taken, that touch the same word, one of
    /// them writing; `None` = too few to say.
    pub conflicts: Option<Share>,
    /// How the data fall apart, if they do.
    pub partition: Option<Partition>,
    /// Share of the instructions that belong to lines which touch nothing shared.
    pub movable: f64,
    /// What follows.
    pub verdict: Verdict,
}

/// Memory of one kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegionRow {
    /// Which.
    pub region: Region,
    /// Distinct words of a section, mean.
    pub words: f64,
    /// Reads of a section, mean.
    pub reads: f64,
    /// Writes of a section, mean.
    pub writes: f64,
    /// Of its words, the share that is shared.
    pub shared: f64,
}

/// A variable, or neighbouring words of no variable.
#[derive(Debug, Clone, PartialEq)]
pub struct DataRow {
    /// For people: "stats+0x10", "heap, 3 words".
    pub name: String,
    /// What memory it is in.
    pub region: Region,
    /// Words of it that the sample touched.
    pub words: u64,
    /// Share of the sample's sections that touched it.
    pub sections: f64,
    /// Accesses of a section, mean.
    pub accesses: f64,
    /// The most shared of its words.
    pub sharing: Sharing,
}

/// A line of the code that the section itself is in, with everything that it calls.
#[derive(Debug, Clone, PartialEq)]
pub struct LineRow {
    /// Function, file, line. Without a line, an address in the module.
    pub frame: SiteFrame,
    /// Times that it runs in a section, mean.
    pub executions: f64,
    /// Instructions of a section, mean, callees included.
    pub instructions: f64,
    /// Share of the section's instructions.
    pub share: f64,
    /// Explicit accesses of a section, mean.
    pub accesses: f64,
    /// Of these the share by how the words are shared: local, read only, seen too
    /// rarely, overwritten, shared.
    pub by_sharing: [f64; 5],
    /// It calls a lock, another operation of the agent, or the kernel.
    pub calls: bool,
    /// It touches nothing shared, and is no part of a loop over shared data: it may be moved out of the section.
    pub movable: bool,
}

/// Something that is called inside sections.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRow {
    /// What.
    pub what: Called,
    /// The line of the section's own code.
    pub frame: Option<SiteFrame>,
    /// Calls of a section, mean.
    pub per_section: f64,
    /// Share of the traced sections that have any.
    pub sections: f64,
    /// Calls that waited.
    pub waits: u64,
    /// Their waits, nanoseconds.
    pub wait_ns: u64,
    /// It may block.
    pub blocking: bool,
}

/// How the data under one lock fall into parts that sections do not use together.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// Parts that the sample shows.
    pub parts: usize,
    /// Share of the pairs of sections that use different parts: what a lock for each part lets run side by side.
    pub separated: f64,
    /// The largest ones.
    pub largest: Vec<Part>,
    /// Words that most sections touch and that would join the parts: counters, sizes.
    pub common: Vec<DataRow>,
    /// What tells the parts apart.
    pub by: PartitionBy,
}

/// What tells the parts apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionBy {
    /// The same lines use different elements.
    Element,
    /// The same lines use different allocated objects.
    Object,
    /// Different places use different data.
    Place,
    /// Different places use different fields of one object or variable.
    Field,
}

/// Data that sections use together.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// For people.
    pub name: String,
    /// Words.
    pub words: usize,
    /// Of its largest allocated object, from the first to the last byte that was touched; 0 = it has none.
    pub bytes: u64,
    /// Share of the sections that touch it.
    pub sections: f64,
    /// The acquire of most of these sections.
    pub at: Option<SiteId>,
}

/// A lock that is taken inside sections of another one.
#[derive(Debug, Clone, PartialEq)]
pub struct InsideRow {
    /// The inner lock.
    pub inner: ObjectId,
    /// The lock that is held then.
    pub outer: ObjectId,
    /// Where the outer one is acquired: the place with most.
    pub outer_site: SiteId,
    /// Acquisitions of the inner one inside, those included that were not traced.
    pub acquisitions: f64,
    /// Of all its acquisitions.
    pub share: f64,
    /// So nearly all that it is always inside.
    pub always: bool,
}

/// The row of Table 1 that the sections show, and what to do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// One = decided. Several = undecided between them.
    pub causes: Vec<Cause>,
    /// Why it is not decided, empty if it is.
    pub undecided: String,
    /// Numbers that support it.
    pub evidence: Vec<Evidence>,
    /// Lines to move, or the instruction to replace.
    pub lines: Vec<SiteFrame>,
    /// Share of the waits for the lock that the fix would take away at least; `None` = it cannot be said, and
    /// nothing is promised.
    pub waits_saved: Option<f64>,
}

impl Verdict {
    /// The one row, if it is decided.
    pub fn decided(&self) -> Option<&Cause> {
        match &self.causes[..] {
            [cause] if self.undecided.is_empty() => Some(cause),
            _ => None,
        }
    }
}
