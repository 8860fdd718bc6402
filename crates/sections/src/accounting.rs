//! Where it all comes together.

use std::collections::HashMap;
use std::ops::Range;

use convoy_profile::Sections;

use crate::input::{Block, Options, Places, Section, StackRange};

/// What was learnt from the sections so far.
#[derive(Debug)]
pub struct Accounting {
    options: Options,
    blocks: HashMap<(u32, u32), Block>,
    allocators: HashMap<u32, Vec<u64>>,
    stacks: HashMap<(u32, u32), StackRange>,
    sections: u64,
}

impl Accounting {
    /// Nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            blocks: HashMap::new(),
            allocators: HashMap::new(),
            stacks: HashMap::new(),
            sections: 0,
        }
    }

    /// A block of the process's log, by its id.
    pub fn block(&mut self, process: u32, id: u32, block: Block) {
        self.blocks.insert((process, id), block);
    }

    /// A function that hands out or takes back memory begins here ([`crate::is_allocator`]).
    pub fn allocator(&mut self, process: u32, ip: u64) {
        self.allocators.entry(process).or_default().push(ip);
    }

    /// Where the stack of a thread is mapped. A record that is used by another thread later tells it again.
    pub fn stack(&mut self, process: u32, thread: u32, range: Range<u64>) {
        self.stacks.insert((process, thread), range);
    }

    /// A section. In order of their begin as far as that can be had.
    pub fn section(&mut self, section: &Section<'_>) {
        self.sections += u64::from(section.process < u32::MAX);
    }

    /// Records that were lost on the way here: reason (stable kebab-case id), count.
    pub fn dropped(&mut self, reason: &str, count: u64) {
        let _ = (reason, count);
    }

    /// Sections taken in so far.
    pub fn sections(&self) -> u64 {
        self.sections
    }

    /// The tables.
    pub fn finish(self, places: &mut dyn Places) -> Sections {
        let _ = places;
        Sections {
            sampling: self.options.sampling,
            ..Sections::default()
        }
    }
}
