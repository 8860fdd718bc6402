//! Where it all comes together.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use convoy_profile::{SectionEnd, Sections};

use crate::allocator::Allocator;
use crate::events::Blocks;
use crate::finish;
use crate::input::{Block, Options, Places, Section, StackRange};
use crate::objects::Objects;
use crate::random::{place, Random};
use crate::replayable;
use crate::site::{Kept, Site, SiteKey};
use crate::touches::Touches;
use crate::walk::{Ground, Walk};
use crate::words::{Use, Words};

/// Objects of one call stack that have sites of their own.
const OBJECTS: u32 = 16;
/// Sites in all.
const SITES: usize = 8192;
/// Threads, and threads with an object, of which it is known what came before, in a process.
const FOLLOWED: usize = 16_384;
/// Accesses of blocks by site, in all: some 100 bytes each with their samples.
const ACCESSES: usize = 150_000;
/// Gaps that are kept of two sites that follow one another.
const GAPS: usize = 31;

/// Dynamic linkers of a process: one, and what a hostile list of modules may claim.
const LINKERS: usize = 8;

/// What was learnt from the sections so far.
#[derive(Debug)]
pub struct Accounting {
    options: Options,
    pub(crate) processes: BTreeMap<u32, Process>,
    pub(crate) sites: Vec<Site>,
    numbers: HashMap<SiteKey, u32>,
    /// Objects with a site of their own, by site without object.
    objects: HashMap<SiteKey, u32>,
    pub(crate) follows: HashMap<(u32, u32), Follow>,
    pub(crate) drops: BTreeMap<String, u64>,
    touches: Touches,
    random: Random,
    sections: u64,
    accesses: usize,
    sample_bytes: usize,
    words: usize,
}

/// What is known of a process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) blocks: Blocks,
    allocators: HashMap<u64, Allocator>,
    linker: Vec<Range<u64>>,
    stacks: HashMap<u32, StackRange>,
    pub(crate) words: Words,
    pub(crate) objects: Objects,
    /// The last section of a thread on an object.
    last: HashMap<(u32, u64), Last>,
    /// Threads of which sections were passed over.
    passed: HashSet<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    site: u32,
    end_ns: u64,
}

/// Sections of one site right after those of another.
#[derive(Debug, Default)]
pub(crate) struct Follow {
    pub(crate) n: u64,
    /// A uniform sample of the gaps.
    gaps: Vec<u64>,
}

impl Follow {
    fn add(&mut self, gap_ns: u64, random: &mut Random) {
        self.n += 1;
        match place(random, self.n, self.gaps.len(), GAPS) {
            Some(at) if at == self.gaps.len() => self.gaps.push(gap_ns),
            Some(at) => self.gaps[at] = gap_ns,
            None => {}
        }
    }

    /// The median: a thread that was preempted once between two sections makes a thousand short gaps long on average.
    pub(crate) fn median_ns(&self) -> u64 {
        let mut gaps = self.gaps.clone();
        gaps.sort_unstable();
        gaps.get(gaps.len() / 2).copied().unwrap_or(0)
    }
}

impl Process {
    fn new() -> Self {
        Self {
            blocks: Blocks::default(),
            allocators: HashMap::new(),
            linker: Vec::new(),
            stacks: HashMap::new(),
            words: Words::new(),
            objects: Objects::default(),
            last: HashMap::new(),
            passed: HashSet::new(),
        }
    }
}

impl Accounting {
    /// Nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            processes: BTreeMap::new(),
            sites: Vec::new(),
            numbers: HashMap::new(),
            objects: HashMap::new(),
            follows: HashMap::new(),
            drops: BTreeMap::new(),
            touches: Touches::new(),
            random: Random::new(),
            sections: 0,
            accesses: 0,
            sample_bytes: 0,
            words: 0,
        }
    }

    fn process(&mut self, process: u32) -> &mut Process {
        self.processes.entry(process).or_insert_with(Process::new)
    }

    /// A block of the process's log, by its id.
    pub fn block(&mut self, process: u32, id: u32, block: Block) {
        self.process(process).blocks.insert(id, block);
    }

    /// A function that hands out or takes back memory begins here ([`crate::allocator`]).
    pub fn allocator(&mut self, process: u32, ip: u64, does: Allocator) {
        self.process(process).allocators.insert(ip, does);
    }

    /// The dynamic linker's code ([`crate::is_linker`]): what it does counts as the allocator's doings do.
    pub fn linker(&mut self, process: u32, range: Range<u64>) {
        let known = &mut self.process(process).linker;
        if !known.contains(&range) && known.len() < LINKERS {
            known.push(range);
        }
    }

    /// Where the stack of a thread is mapped. A record that is used by another thread later tells it again.
    pub fn stack(&mut self, process: u32, thread: u32, range: Range<u64>) {
        self.process(process).stacks.insert(thread, range);
    }

    /// Records that were lost on the way here: reason (stable kebab-case id), count.
    pub fn dropped(&mut self, reason: &str, count: u64) {
        if count > 0 {
            *self.drops.entry(reason.to_owned()).or_default() += count;
        }
    }

    /// Sections taken in so far.
    pub fn sections(&self) -> u64 {
        self.sections
    }

    /// A section. In order of their begin as far as that can be had.
    pub fn section(&mut self, section: &Section<'_>) {
        let Some(number) = self.site(section) else {
            self.dropped("site-table-full", 1);
            return;
        };
        self.sections += 1;
        self.process(section.process);
        self.follow(section, number);
        let code_full = self.accesses >= ACCESSES;
        let (Some(process), Some(site)) = (
            self.processes.get_mut(&section.process),
            self.sites.get_mut(number as usize),
        ) else {
            return;
        };
        site.begin(section);
        let known = site.accesses.len();
        let stack = process.stacks.get(&section.thread).cloned();
        let ground = Ground {
            section,
            number: self.sections,
            blocks: &process.blocks,
            allocators: &process.allocators,
            linker: &process.linker,
            stack,
            code_full,
        };
        let words = &mut process.words;
        let mut walk = Walk::new(ground, site, &mut self.touches, words, &mut self.random);
        let walked = walk.run();
        let untold_blocks = walk.untold_blocks;
        for (address, from) in std::mem::take(&mut walk.handed_out) {
            process.objects.add(address, from);
        }
        self.accesses += site.accesses.len() - known;

        let before = process.words.len();
        let mut lost = 0;
        for touch in self.touches.list() {
            let by = Use {
                thread: section.thread,
                read_first: touch.read_first,
                read: touch.reads > 0,
                written: touch.writes > 0,
                atomic: touch.atomic,
                own_stack: touch.own_stack,
            };
            let room = self.words + (process.words.len() - before) < self.options.words;
            lost += u64::from(!process.words.add(touch.word, &by, room));
            if touch.handed_out {
                process.words.hand_out(touch.word);
            }
            site.distinct.add(touch.word);
        }
        self.words += process.words.len() - before;

        let end = match walked {
            Ok(_) => section.end,
            Err(_) => SectionEnd::Left,
        };
        site.ends[end as usize] += 1;
        if let (true, Ok(totals)) = (end.is_whole(), walked) {
            site.sum(&totals);
            let (touches, blocks) = (&self.touches, &process.blocks);
            let more = site.keep(&mut self.random, || {
                let input = replayable::input(section, blocks);
                Kept::of(section, totals, touches.list(), touches.untold(), input)
            });
            self.sample_bytes = self.sample_bytes.saturating_add_signed(more);
        }
        if walked.is_err() {
            self.dropped("malformed-section", 1);
        }
        self.dropped("word-table-full", lost);
        self.dropped("code-table-full", untold_blocks);
        self.make_room();
    }

    /// The section's site; `None` if there is no room for another.
    fn site(&mut self, section: &Section<'_>) -> Option<u32> {
        let mut key = SiteKey {
            process: section.process,
            object: section.object,
            stack: section.stack,
            ra: section.ra,
            op: section.op,
        };
        if let Some(&number) = self.numbers.get(&key) {
            return Some(number);
        }
        let together = SiteKey { object: 0, ..key };
        if self.objects.get(&together).is_some_and(|&n| n >= OBJECTS) {
            key = together;
            if let Some(&number) = self.numbers.get(&key) {
                return Some(number);
            }
        }
        if self.sites.len() >= SITES {
            return None;
        }
        *self.objects.entry(together).or_default() += 1;
        let number = self.sites.len() as u32;
        self.sites.push(Site::new(key));
        self.numbers.insert(key, number);
        Some(number)
    }

    /// After which section of its thread on the same object it came. Only as long as none of its thread was passed over:
    /// later, what came between is not known.
    fn follow(&mut self, section: &Section<'_>, site: u32) {
        let process = self.process(section.process);
        if process.passed.len() >= FOLLOWED || process.passed.contains(&section.thread) {
            return;
        }
        if section.weight > 1 {
            process.passed.insert(section.thread);
            return;
        }
        if process.last.len() >= FOLLOWED {
            process.last.clear();
        }
        let last = Last {
            site,
            end_ns: section.end_ns,
        };
        let before = process.last.insert((section.thread, section.object), last);
        let Some(before) = before else { return };
        if let Some(gap) = section.begin_ns.checked_sub(before.end_ns) {
            let follow = self.follows.entry((before.site, site)).or_default();
            follow.add(gap, &mut self.random);
        }
    }

    /// Keeps the samples within their bounds: every site gives half, so that none has to give all.
    fn make_room(&mut self) {
        if self.sample_bytes <= self.options.sample_bytes {
            return;
        }
        for site in &mut self.sites {
            let free = site.halve(&mut self.random);
            self.sample_bytes = self.sample_bytes.saturating_sub(free);
        }
    }

    /// The tables.
    pub fn finish(self, places: &mut dyn Places) -> Sections {
        let sampling = self.options.sampling;
        finish::finish(self, sampling, places)
    }
}
