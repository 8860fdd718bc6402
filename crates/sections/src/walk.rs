//! One section, from its first event to its last.

use std::collections::HashMap;
use std::ops::Range;

use convoy_profile::{SectionEnd, SectionTotals};

use crate::allocator::Allocator;
use crate::events::{words_of, Blocks, Event, Events};
use crate::input::{Access, AccessKind, Block, Section, StackRange};
use crate::random::Random;
use crate::site::{AccessRun, CallKey, RawCall, Run, RunKey, Site};
use crate::touches::{Hit, Touches};
use crate::words::Words;

/// Words of one operand that are followed: of more, a section is about that one operand anyway.
const OPERAND_WORDS: u64 = 1 << 16;

/// What stays the same while walking.
pub(crate) struct Ground<'a> {
    pub(crate) section: &'a Section<'a>,
    /// Its number, from 1.
    pub(crate) number: u64,
    pub(crate) blocks: &'a Blocks,
    pub(crate) allocators: &'a HashMap<u64, Allocator>,
    pub(crate) linker: &'a [Range<u64>],
    pub(crate) stack: Option<StackRange>,
    /// No room for more accesses in the tables of all sites.
    pub(crate) code_full: bool,
}

/// A call that has not returned.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Where on the stack its return address is.
    slot: u64,
    /// The block that ends with it.
    block: u32,
}

pub(crate) struct Walk<'a> {
    ground: Ground<'a>,
    site: &'a mut Site,
    touches: &'a mut Touches,
    words: &'a mut Words,
    random: &'a mut Random,
    totals: SectionTotals,
    open: Vec<Open>,
    /// Inside an allocator's function until the return address here has been read.
    allocator: Option<u64>,
    /// That function hands out memory to this call instruction of the section's own code: the block that ends with it.
    handing_out: Option<u32>,
    /// The block is the dynamic linker's.
    linking: bool,
    block: u32,
    call: Option<CallKey>,
    /// Blocks that found no room.
    pub(crate) untold_blocks: u64,
    /// Addresses of memory that the section was given, and the calls that asked for it.
    pub(crate) handed_out: Vec<(u64, u32)>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        ground: Ground<'a>,
        site: &'a mut Site,
        touches: &'a mut Touches,
        words: &'a mut Words,
        random: &'a mut Random,
    ) -> Self {
        touches.clear();
        Self {
            ground,
            site,
            touches,
            words,
            random,
            totals: SectionTotals::default(),
            open: Vec::new(),
            allocator: None,
            handing_out: None,
            linking: false,
            block: 0,
            call: None,
            untold_blocks: 0,
            handed_out: Vec::new(),
        }
    }

    /// What it did; `Err` with what it did before something that is no event.
    pub(crate) fn run(&mut self) -> Result<SectionTotals, SectionTotals> {
        let section = self.ground.section;
        self.totals.traced_ns = section.end_ns.saturating_sub(section.begin_ns);
        let blocks = self.ground.blocks;
        let mut events = Events::new(section.events, blocks);
        loop {
            match events.next() {
                Ok(Some(event)) => self.event(event),
                Ok(None) => {
                    if section.end == SectionEnd::Released {
                        self.called(RawCall::Release, 0);
                    }
                    break;
                }
                Err(()) => return Err(self.totals),
            }
        }
        let touched = self.touches.list();
        self.totals.words = touched.len() as u64;
        self.totals.bytes = touched.iter().map(|touch| u64::from(touch.bytes)).sum();
        Ok(self.totals)
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Block {
                id,
                executed,
                words,
            } => {
                let blocks = self.ground.blocks;
                if let Some(block) = blocks.get(id) {
                    self.block(id, block, executed, words);
                }
            }
            Event::Syscall(nr) => {
                self.totals.syscalls += 1;
                self.called(RawCall::Syscall(nr), 0);
            }
            Event::Hook { op, object } => {
                self.called(RawCall::Op(op), object);
                // The hook has returned, with the last return address that was pushed.
                self.open.pop();
            }
            Event::HookWait(ns) => {
                if let Some(key) = self.call {
                    self.site.call_waited(key, ns);
                }
            }
            Event::Unlock => {
                self.open.pop();
            }
            Event::Registers(_) => {}
        }
    }

    /// Something was called by the block just before.
    fn called(&mut self, kind: RawCall, object: u64) {
        let block = self.open.first().map_or(self.block, |open| open.block);
        let key = CallKey {
            kind,
            object,
            block,
        };
        let weight = self.ground.section.weight;
        self.site.call(key, self.ground.number, weight);
        self.call = Some(key);
    }

    fn block(&mut self, id: u32, block: &Block, executed: u16, words: &[u64]) {
        self.block = id;
        if let (None, Some(does)) = (self.allocator, self.ground.allocators.get(&block.ip)) {
            self.allocator = Some(self.open.last().map_or(0, |open| open.slot));
            let from = self.open.first().map(|open| open.block);
            self.handing_out = from.filter(|_| *does == Allocator::HandsOut);
        }
        self.linking = self
            .ground
            .linker
            .iter()
            .any(|code| code.contains(&block.ip));
        let inside = self.is_inside();
        self.totals.instructions += u64::from(executed);
        if inside {
            self.totals.allocator_instructions += u64::from(executed);
        }
        let from = self.open.first().map_or(0, |open| open.block);
        let first = self.run_of(RunKey { block: id, from }, block, inside);
        let mut at = 0;
        for (access, number) in block.accesses.iter().zip(0..) {
            let n = words_of(access);
            let Some(words) = words.get(at..at + n) else {
                return;
            };
            at += n;
            if access.instruction >= executed {
                return;
            }
            if let (AccessKind::Result, &[result]) = (access.kind, words) {
                self.returned(result);
                continue;
            }
            if access.kind == AccessKind::Value {
                continue;
            }
            let by = first.map(|first| first + number);
            self.access(id, block, access, words, by);
        }
    }

    /// The number of the block's first access in this site; `None` if it found no room.
    fn run_of(&mut self, key: RunKey, block: &Block, inside: bool) -> Option<u32> {
        let accesses = &mut self.site.accesses;
        if self.ground.code_full && !self.site.runs.contains_key(&key) {
            self.untold_blocks += 1;
            return None;
        }
        let run = self.site.runs.entry(key).or_insert_with(|| {
            let first = accesses.len() as u32;
            accesses.extend(block.accesses.iter().map(|_| AccessRun::default()));
            Run {
                executions: 0,
                allocator: 0,
                first,
            }
        });
        run.executions += 1;
        run.allocator += u64::from(inside);
        Some(run.first)
    }

    fn access(&mut self, id: u32, block: &Block, access: &Access, words: &[u64], by: Option<u32>) {
        self.totals.accesses += 1;
        let inside = self.is_inside();
        self.totals.allocator += u64::from(inside);
        if access.implicit {
            self.totals.implicit += 1;
            if is_last(access, block) {
                self.call_or_return(id, access, words.first().copied().unwrap_or(0));
            }
            return;
        }
        self.totals.reads += u64::from(access.reads);
        self.totals.writes += u64::from(access.writes);
        match (access.kind, words) {
            (AccessKind::Plain, &[address]) => {
                self.touch(access, by, address, u64::from(access.size));
            }
            (AccessKind::Repeat, &[address, times]) => {
                let bytes = times.saturating_mul(u64::from(access.size));
                self.touch(access, by, address, bytes);
            }
            (AccessKind::Masked, &[address, lanes]) => {
                let size = u64::from(access.size);
                for lane in (0..64).filter(|lane| lanes >> lane & 1 != 0) {
                    self.touch(access, by, address.wrapping_add(lane * size), size);
                }
            }
            (AccessKind::Lanes, [lanes, addresses @ ..]) => {
                let touched = (0u32..64).zip(addresses);
                for (_, &address) in touched.filter(|(lane, _)| lanes >> lane & 1 != 0) {
                    self.touch(access, by, address, u64::from(access.size));
                }
            }
            _ => {}
        }
    }

    /// The implicit access of a block's last instruction.
    fn call_or_return(&mut self, id: u32, access: &Access, slot: u64) {
        // What lies below has been left: returned from, or thrown or jumped out of.
        while self.open.last().is_some_and(|open| open.slot <= slot) {
            self.open.pop();
        }
        if access.writes {
            self.open.push(Open { slot, block: id });
        } else if self.allocator.is_some_and(|until| slot >= until) {
            self.allocator = None;
        }
    }

    /// A function has returned this; the access of its return came before.
    fn returned(&mut self, result: u64) {
        if self.allocator.is_some() {
            return; // a function of the allocator's own
        }
        if let Some(from) = self.handing_out.take() {
            self.handed_out.push((result, from));
        }
    }

    /// In code that is not the section's doing: an allocator, the dynamic linker.
    fn is_inside(&self) -> bool {
        self.allocator.is_some() || self.linking
    }

    /// Memory from `address` on was accessed explicitly.
    fn touch(&mut self, access: &Access, by: Option<u32>, address: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let first = address >> 3;
        let last = address.saturating_add(bytes - 1) >> 3;
        if self.is_inside() {
            if access.writes {
                for word in first..=last.min(first + 7) {
                    self.words.hand_out(word);
                    self.touches.hand_out(word);
                }
            }
            return;
        }
        if let Some(run) = by.and_then(|by| self.site.accesses.get_mut(by as usize)) {
            run.add(first, self.random);
        }
        let hit = Hit {
            by: by.unwrap_or(crate::touches::NOBODY),
            bytes: bytes.min(8) as u8,
            reads: access.reads,
            writes: access.writes,
            atomic: access.atomic,
            own_stack: self
                .ground
                .stack
                .as_ref()
                .is_some_and(|s| s.contains(&address)),
        };
        for word in first..=last.min(first.saturating_add(OPERAND_WORDS)) {
            self.touches.add(word, &hit);
        }
    }
}

/// Whether an access is of the block's last instruction.
fn is_last(access: &Access, block: &Block) -> bool {
    access.instruction + 1 == block.instructions
}
