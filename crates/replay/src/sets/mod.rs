//! Read and write sets of critical sections, from a run that looked into a sample of them.
//!
//! The run that gave the sets (`convoy diagnose`) is another one than the recorded run. Both are joined by
//! the identity of locks and call sites ([`keys`]), never by address. A section of the recording gets the
//! set of a sampled section of the same lock, site and thread ([`assign`]); how sure that is, is counted.

pub mod assign;
pub mod from_profile;
mod kernel;
pub mod keys;
pub mod operations;

pub use assign::{Assignment, Basis, Coverage};
pub use keys::{CodePlace, LockKey, RunKeys};
pub use operations::{Operations, UnknownOperations};

use std::ops::Range;

use convoy_profile::SectionInput;

/// Index into [`SectionSets::words`].
pub type WordIx = u32;
/// Index into [`SectionSets::samples`].
pub type SampleIx = u32;
/// Index into [`SectionSets::classes`].
pub type ClassIx = u32;
/// Index into [`SectionSets::places`].
pub type PlaceIx = u32;

/// No sampled section.
pub const NO_SAMPLE: SampleIx = u32::MAX;
/// The instruction is not known.
pub const NO_PLACE: PlaceIx = u32::MAX;

/// Read and write sets of sampled critical sections of one process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SectionSets {
    /// Sections of one lock and acquire site.
    pub classes: Vec<SetClass>,
    /// Sampled sections, class by class.
    pub samples: Vec<SetSample>,
    /// Shared words: eight aligned bytes each.
    pub words: Vec<WordInfo>,
    /// Instructions that accessed them.
    pub places: Vec<CodePlace>,
    /// Names of the threads that ran the samples, by their numbers in that run.
    pub threads: Vec<String>,
}

/// Sections of one lock and acquire site.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SetClass {
    /// The lock; `None` = several locks of the site taken together.
    pub lock: Option<LockKey>,
    /// The acquire site.
    pub site: CodePlace,
    /// Sections that ran.
    pub run: u64,
    /// Its samples: a range of [`SectionSets::samples`].
    pub samples: Range<SampleIx>,
    /// Share of its sections that made system calls, 0..1.
    pub in_kernel: f64,
    /// Lines that ran in its sections, by file and line; called code counts for the line of the
    /// call.
    pub lines: Vec<CodeLine>,
}

/// A line of the source, in sections of one site.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CodeLine {
    /// Source file.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Instructions that it ran.
    pub instructions: u64,
    /// It touches data that several threads use and somebody writes.
    pub shared: bool,
}

/// What one sampled section accessed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SetSample {
    /// Its thread, by its number in that run.
    pub thread: u32,
    /// Address of the lock in that run: tells the locks of one class apart.
    pub lock_addr: u64,
    /// Sections that it stands for.
    pub weight: u64,
    /// Accesses of shared words, ascending by word, one each.
    pub accesses: Vec<Access>,
    /// Every access is in `accesses`.
    pub complete: bool,
    /// What it began with; `None` = it cannot be executed again.
    pub input: Option<Box<SectionInput>>,
}

/// Access of a section to a shared word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Access {
    /// Which.
    pub word: WordIx,
    /// The section reads it.
    pub read: bool,
    /// The section writes it.
    pub written: bool,
    /// How the section changes it.
    pub update: Update,
    /// First instruction that read it, or [`NO_PLACE`].
    pub read_at: PlaceIx,
    /// First instruction that wrote it, or [`NO_PLACE`].
    pub written_at: PlaceIx,
}

/// How a section changes a word. Masks are of the word's bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Update {
    /// Not known.
    #[default]
    Unknown,
    /// Stores a constant without having read the word.
    Store {
        /// In the bits of `mask`.
        value: u64,
        /// Bits that it stores.
        mask: u64,
    },
    /// Stores the value that is there already.
    Rewrite,
    /// Adds to it or subtracts from it, and uses the result for nothing else.
    Add,
    /// Sets these bits at most, and uses the result for nothing else.
    SetBits(u64),
    /// Clears these bits at most, and uses the result for nothing else.
    ClearBits(u64),
    /// One instruction reads, changes and writes it in another way.
    ReadModifyWrite,
}

/// A shared word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WordInfo {
    /// The variable and offset that hold it; `None` = allocated memory.
    pub name: Option<String>,
}

impl SetSample {
    /// Whether it reads no shared data and writes none.
    pub fn is_empty(&self) -> bool {
        self.accesses.is_empty()
    }

    /// Whether it writes shared data.
    pub fn writes(&self) -> bool {
        self.accesses.iter().any(|access| access.written)
    }

    /// The words that both access and one of the two writes, with both accesses.
    pub fn conflicts<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (Access, Access)> + 'a {
        let (mut mine, mut others) = (self.accesses.iter(), other.accesses.iter());
        let (mut a, mut b) = (mine.next(), others.next());
        std::iter::from_fn(move || loop {
            let (x, y) = (*a?, *b?);
            match x.word.cmp(&y.word) {
                std::cmp::Ordering::Less => a = mine.next(),
                std::cmp::Ordering::Greater => b = others.next(),
                std::cmp::Ordering::Equal => {
                    (a, b) = (mine.next(), others.next());
                    if x.written || y.written {
                        return Some((x, y));
                    }
                }
            }
        })
    }
}

impl SectionSets {
    /// A sampled section.
    pub fn sample(&self, ix: SampleIx) -> Option<&SetSample> {
        self.samples.get(ix as usize)
    }
}
