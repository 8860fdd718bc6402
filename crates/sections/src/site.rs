//! What is kept for a place where sections begin.

use std::collections::{HashMap, HashSet};

use convoy_profile::{Op, SectionTotals};

use crate::distinct::Distinct;
use crate::random::{place, Random};
use crate::replayable::RawInput;
use crate::touches::RawTouch;

/// Whole sections that are kept of a site.
const SAMPLES: usize = 256;
/// Words of one section that are kept.
const TOUCHES: usize = 2048;
/// Words that are kept of an access.
pub(crate) const ACCESS_WORDS: usize = 16;

/// What tells sites apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SiteKey {
    pub(crate) process: u32,
    /// 0 = several, taken together.
    pub(crate) object: u64,
    pub(crate) stack: u32,
    pub(crate) ra: u64,
    pub(crate) op: Option<Op>,
}

/// A block as it ran in sections of a site.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) executions: u64,
    pub(crate) allocator: u64,
    /// Number of its first access among all of the site.
    pub(crate) first: u32,
}

/// An access of a block in sections of a site.
#[derive(Debug, Default)]
pub(crate) struct AccessRun {
    /// Outside of the allocator.
    pub(crate) n: u64,
    /// A uniform sample of the words of these.
    pub(crate) words: Vec<u64>,
}

impl AccessRun {
    pub(crate) fn add(&mut self, word: u64, random: &mut Random) {
        self.n += 1;
        match place(random, self.n, self.words.len(), ACCESS_WORDS) {
            Some(at) if at == self.words.len() => self.words.push(word),
            Some(at) => self.words[at] = word,
            None => {}
        }
    }
}

/// A block, and the call instruction of the section's own code that led to it: the block that ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RunKey {
    pub(crate) block: u32,
    /// 0 = none.
    pub(crate) from: u32,
}

/// A whole section that was kept.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) weight: u32,
    pub(crate) thread: u32,
    pub(crate) object: u64,
    pub(crate) begin_ns: u64,
    pub(crate) totals: SectionTotals,
    pub(crate) touches: Box<[RawTouch]>,
    pub(crate) untold: u64,
    pub(crate) ra: u64,
    pub(crate) stack_lo: u64,
    pub(crate) input: Option<RawInput>,
}

impl Kept {
    fn bytes(&self) -> usize {
        let input = self.input.as_ref().map_or(0, RawInput::bytes);
        size_of::<Self>() + size_of_val(&*self.touches) + input
    }

    pub(crate) fn of(
        section: &crate::Section<'_>,
        totals: SectionTotals,
        touches: &[RawTouch],
        untold: u64,
        input: Option<RawInput>,
    ) -> Self {
        let told = &touches[..touches.len().min(TOUCHES)];
        Self {
            weight: section.weight,
            thread: section.thread,
            object: section.object,
            begin_ns: section.begin_ns,
            totals,
            touches: told.into(),
            untold: untold + (touches.len() - told.len()) as u64,
            ra: section.ra,
            stack_lo: section.stack_lo,
            input,
        }
    }
}

/// Where in a section something is called, and what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CallKey {
    pub(crate) kind: RawCall,
    pub(crate) object: u64,
    /// Block whose last instruction called; 0 = unknown.
    pub(crate) block: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RawCall {
    Syscall(u32),
    Op(u32),
    /// The section's end.
    Release,
}

#[derive(Debug, Default)]
pub(crate) struct CallRun {
    pub(crate) n: u64,
    pub(crate) run: u64,
    pub(crate) sections: u64,
    /// The section, by number, that was counted last.
    last: u64,
    pub(crate) waits: u64,
    pub(crate) wait_ns: u64,
    pub(crate) wait_max_ns: u64,
}

/// Everything of one site.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) key: SiteKey,
    pub(crate) threads: HashSet<u32>,
    pub(crate) objects: HashSet<u64>,
    pub(crate) run: u64,
    pub(crate) waited: u64,
    pub(crate) ends: [u64; 9],
    pub(crate) whole: SectionTotals,
    pub(crate) largest: SectionTotals,
    pub(crate) distinct: Distinct,
    pub(crate) runs: HashMap<RunKey, Run>,
    pub(crate) accesses: Vec<AccessRun>,
    pub(crate) calls: HashMap<CallKey, CallRun>,
    pub(crate) samples: Vec<Kept>,
    room: usize,
    wholes: u64,
}

/// Threads and objects that are told apart when they are only counted.
const COUNTED: usize = 4096;

impl Site {
    pub(crate) fn new(key: SiteKey) -> Self {
        Self {
            key,
            threads: HashSet::new(),
            objects: HashSet::new(),
            run: 0,
            waited: 0,
            ends: [0; 9],
            whole: SectionTotals::default(),
            largest: SectionTotals::default(),
            distinct: Distinct::default(),
            runs: HashMap::new(),
            accesses: Vec::new(),
            calls: HashMap::new(),
            samples: Vec::new(),
            room: SAMPLES,
            wholes: 0,
        }
    }

    pub(crate) fn begin(&mut self, section: &crate::Section<'_>) {
        self.run += u64::from(section.weight.max(1));
        self.waited += u64::from(section.waited);
        if self.threads.len() < COUNTED {
            self.threads.insert(section.thread);
        }
        if self.objects.len() < COUNTED {
            self.objects.insert(section.object);
        }
    }

    /// Takes a whole section into the sums.
    pub(crate) fn sum(&mut self, totals: &SectionTotals) {
        add(&mut self.whole, totals, |sum, of| sum.saturating_add(of));
        add(&mut self.largest, totals, u64::max);
        self.wholes += 1;
    }

    /// Draws whether the section just summed is kept. How many bytes more there are now.
    pub(crate) fn keep(&mut self, random: &mut Random, section: impl FnOnce() -> Kept) -> isize {
        match place(random, self.wholes, self.samples.len(), self.room) {
            Some(at) if at == self.samples.len() => {
                let kept = section();
                let bytes = kept.bytes() as isize;
                self.samples.push(kept);
                bytes
            }
            Some(at) => {
                let kept = section();
                let bytes = kept.bytes() as isize - self.samples[at].bytes() as isize;
                self.samples[at] = kept;
                bytes
            }
            None => 0,
        }
    }

    /// Gives up half of the kept sections, at random. Bytes that are free now.
    pub(crate) fn halve(&mut self, random: &mut Random) -> usize {
        let keep = (self.samples.len() / 2).max(MIN_SAMPLES);
        self.room = self.room.min(keep.max(1));
        let mut free = 0;
        while self.samples.len() > keep {
            let at = random.below(self.samples.len() as u64) as usize;
            free += self.samples.swap_remove(at).bytes();
        }
        free
    }

    pub(crate) fn call(&mut self, key: CallKey, section: u64, weight: u32) {
        let call = self.calls.entry(key).or_default();
        call.n += 1;
        call.run += u64::from(weight.max(1));
        if call.last != section {
            call.last = section;
            call.sections += 1;
        }
    }

    pub(crate) fn call_waited(&mut self, key: CallKey, ns: u64) {
        if let Some(call) = self.calls.get_mut(&key) {
            call.waits += 1;
            call.wait_ns = call.wait_ns.saturating_add(ns);
            call.wait_max_ns = call.wait_max_ns.max(ns);
        }
    }
}

/// Fewer say nothing.
const MIN_SAMPLES: usize = 8;

fn add(to: &mut SectionTotals, of: &SectionTotals, with: fn(u64, u64) -> u64) {
    let SectionTotals {
        traced_ns,
        instructions,
        accesses,
        implicit,
        reads,
        writes,
        allocator,
        allocator_instructions,
        syscalls,
        words,
        bytes,
    } = to;
    for (sum, of) in [
        (traced_ns, of.traced_ns),
        (instructions, of.instructions),
        (accesses, of.accesses),
        (implicit, of.implicit),
        (reads, of.reads),
        (writes, of.writes),
        (allocator, of.allocator),
        (allocator_instructions, of.allocator_instructions),
        (syscalls, of.syscalls),
        (words, of.words),
        (bytes, of.bytes),
    ] {
        *sum = with(*sum, of);
    }
}
