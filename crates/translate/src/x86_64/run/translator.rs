//! Makes translations and leads branches from one to the other.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::super::access::Machine;
use super::super::asm::Asm;
use super::super::decode;
use super::super::emit::{emit, stubs, Environment, ExitKind};
use super::super::marks::{Ip, Marks, Record, State};
use super::super::regs::{Pair, Slot};
use super::lock::Lock;
use super::log::Log;
use super::maps::{Maps, Range};
use super::region::{self, Piece, Region};
use super::sys;
use super::tables::{self, Exit};
use super::thread::{self, Thread};

/// Why a block is not translated, and the section's record ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Code,
    NoRoom,
}

/// What a block lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// Instructions that can be run elsewhere.
    Code,
    Room,
    /// Room in the log of blocks.
    Log,
}

/// Everything that the lock protects.
#[derive(Debug)]
pub struct Translator {
    pub log: Log,
    maps: Maps,
    machine: Machine,
    tls: i32,
    slow: u64,
    /// Threads with tables.
    threads: Vec<Thread>,
    /// Code that leads from the pair of one block to a block with another.
    adaptors: Vec<(u64, Pair, u64)>,
}

pub static TRANSLATOR: Lock<Translator> = Lock::new();
/// Of the translations that threads may run.
pub static GENERATION: AtomicU32 = AtomicU32::new(1);

/// Executable memory that the translator has met: (lo and whether it made translations of it, hi).
static MET: [[AtomicU64; 2]; 512] = [const { [const { AtomicU64::new(0) }; 2] }; 512];
static MET_COUNT: AtomicU32 = AtomicU32::new(0);

/// What is known of [lo, hi): nothing of it was ever met, it was refused, or there are translations of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Met {
    Never,
    Refused,
    Translated,
}

pub fn met(lo: u64, hi: u64) -> Met {
    let count = MET_COUNT.load(Ordering::Acquire) as usize;
    if count > MET.len() {
        return Met::Translated; // more than there is room for
    }
    let mut found = Met::Never;
    for [a, b] in MET.iter().take(count) {
        let first = a.load(Ordering::Relaxed);
        if (first & !1) < hi && lo < b.load(Ordering::Relaxed) {
            found = found.max(if first & 1 != 0 {
                Met::Translated
            } else {
                Met::Refused
            });
        }
    }
    found
}

fn meet(range: &Range, translated: bool) {
    let first = range.lo | u64::from(translated);
    let count = MET_COUNT.load(Ordering::Relaxed) as usize;
    let known = MET
        .iter()
        .take(count)
        .any(|[a, b]| a.load(Ordering::Relaxed) == first && b.load(Ordering::Relaxed) == range.hi);
    if known || count > MET.len() {
        return;
    }
    if let Some([a, b]) = MET.get(count) {
        a.store(first, Ordering::Relaxed);
        b.store(range.hi, Ordering::Relaxed);
    }
    MET_COUNT.store(count as u32 + 1, Ordering::Release);
}

impl Translator {
    pub fn new(file: u64, machine: Machine, slow: u64) -> Self {
        Self {
            log: Log::new(file),
            maps: Maps::default(),
            machine,
            tls: Thread::offset(),
            slow,
            threads: Vec::new(),
            adaptors: Vec::new(),
        }
    }

    /// A region with its stubs; returns the offsets of enter, hook and tail in it.
    pub fn region(&mut self, lo: u64, hi: u64, first: u64) -> Option<(&'static Region, [u64; 3])> {
        let region = Region::new(lo, hi, first)?;
        let base = region.base;
        let generation = &raw const GENERATION as u64;
        let made = stubs::stubs(base, self.tls, self.slow, generation, self.machine.values);
        let piece = Piece::of_stubs(&made.marks);
        region.add(&made.code, piece)?;
        Some((
            region,
            [
                base + made.enter as u64,
                base + made.hook as u64,
                base + made.tail as u64,
            ],
        ))
    }

    /// The translation of a block; made if need be. `hint`: the pair of the block before it.
    pub fn translate(&mut self, ip: u64, hint: Option<Pair>) -> Result<&'static Piece, Refusal> {
        if let Some(piece) = tables::block(ip) {
            return Ok(piece);
        }
        let range = self.maps.find(ip).ok_or(Refusal::Code)?;
        meet(&range, range.stable);
        if !range.stable {
            return Err(Refusal::Code);
        }
        let bytes = (range.hi - ip).min(1024) as usize;
        // SAFETY: the mapping is readable, and the program is about to run it.
        let code = unsafe { core::slice::from_raw_parts(ip as *const u8, bytes) };
        let block = decode::decode(code, ip, self.machine).ok_or(Refusal::Code)?;
        match self.add(&block, &range, hint) {
            Err(Missing::Room) if self.reclaim() => self.add(&block, &range, hint),
            other => other,
        }
        .map_err(|missing| match missing {
            Missing::Code => Refusal::Code,
            Missing::Room | Missing::Log => {
                self.log.dropped(missing == Missing::Log);
                Refusal::NoRoom
            }
        })
    }

    /// Begins anew with empty caches, if no other thread is in them: they are full, most likely of what has been given up.
    fn reclaim(&mut self) -> bool {
        // So little would not be worth it: what lacks is an address near the code.
        const LITTLE_BYTES: u64 = 4 << 20;
        if region::CACHE_BYTES.load(Ordering::Relaxed) < LITTLE_BYTES {
            return false;
        }
        let this = Thread::current();
        self.invalidate(true);
        // A thread says that it is inside, then looks at the generation, without a barrier in between.
        if !sys::barrier()
            || self
                .threads
                .iter()
                .any(|thread| *thread != this && thread.mode() == thread::INSIDE)
        {
            return false;
        }
        tables::forget_exits();
        // SAFETY: this thread is here, no other one is inside, and whoever comes finds another generation and no table
        // that leads to what was there.
        unsafe { region::empty() };
        true
    }

    fn add(
        &mut self,
        block: &decode::Block,
        range: &Range,
        hint: Option<Pair>,
    ) -> Result<&'static Piece, Missing> {
        /// More than any block takes, but for those with very many lanes.
        const ROOM: usize = 64 << 10;
        let region = match Region::near(range.lo, range.hi, ROOM) {
            Some(region) => region,
            None => {
                let first = if range.vdso { 1 << 30 } else { 16 << 20 };
                let made = self.region(range.lo, range.hi, first);
                let Some((region, _)) = made else {
                    return Err(Missing::Room);
                };
                region
            }
        };
        let Some(first_exit) = tables::next_exit(4) else {
            return Err(Missing::Room);
        };
        let env = Environment {
            tls: self.tls,
            base: region.next(),
            id: self.log.add(block).ok_or(Missing::Log)?,
            first_exit,
            stubs: region.base,
        };
        let emitted = emit(block, env, hint).ok_or(Missing::Code)?;
        let piece = Piece {
            ip: block.ip,
            entry: env.base + u64::from(emitted.entry),
            entry_lent: env.base + u64::from(emitted.entry_lent),
            pair: emitted.pair,
            instructions: block.instructions.len() as u16,
            words: block.words,
            words_of: leak(words_of(block)),
            ..Piece::of_marks(emitted.marks)
        };
        let Some(piece) = region.add(&emitted.code, piece) else {
            return Err(Missing::Room);
        };
        for new in emitted.exits {
            tables::add_exit(Exit {
                kind: new.kind,
                executed: new.executed,
                ip: new.ip,
                piece,
                patch: env.base + u64::from(new.patch),
            });
        }
        self.log
            .set_cache_bytes(region::CACHE_BYTES.load(Ordering::Relaxed));
        if !tables::add_block(piece) {
            return Err(Missing::Room);
        }
        Ok(piece)
    }

    /// Lets an exit go straight to a translation from now on.
    pub fn link(&mut self, exit: &Exit, to: &'static Piece) {
        let lent = exit.kind == ExitKind::Direct;
        let target = if !lent {
            to.entry
        } else if exit.piece.pair == to.pair {
            to.entry_lent
        } else {
            match self.adaptor(exit, to) {
                Some(adaptor) => adaptor,
                None => return,
            }
        };
        let distance = target.wrapping_sub(exit.patch + 4) as i64;
        let Ok(distance) = i32::try_from(distance) else {
            return;
        };
        // SAFETY: the displacement of a branch in a cache, aligned to its size: other threads that run the branch find the
        // old or the new one.
        unsafe { AtomicU32::from_ptr(exit.patch as *mut u32) }
            .store(distance as u32, Ordering::Release);
    }

    /// From a block's end with its pair lent to a block that lends another.
    fn adaptor(&mut self, exit: &Exit, to: &'static Piece) -> Option<u64> {
        let pair = exit.piece.pair;
        let found = self
            .adaptors
            .iter()
            .find(|(entry, from, _)| *entry == to.entry && *from == pair);
        if let Some((_, _, address)) = found {
            return Some(*address);
        }
        let region = Region::near(exit.patch, to.entry, 4096)?;
        let mut asm = Asm::new(region.next(), self.tls);
        let mut marks = Marks::default();
        let state = State::lent(pair, Record::Whole).with_ip(Ip::Address(to.ip));
        marks.set(0, 0, 0, state);
        asm.store(Slot::At, pair.record);
        marks.set(asm.offset(), 0, 0, state.with_record(Record::Stored));
        asm.load(pair.record, Slot::Record);
        asm.load(pair.address, Slot::Address);
        asm.jump(to.entry);
        if asm.failed {
            return None;
        }
        let piece = region.add(&asm.bytes, Piece::of_marks(marks))?;
        if self.adaptors.len() >= 4096 {
            self.adaptors.clear();
        }
        self.adaptors.push((to.entry, pair, piece.start));
        Some(piece.start)
    }

    pub fn add_thread(&mut self, thread: Thread) {
        if !self.threads.contains(&thread) {
            self.threads.push(thread);
        }
    }

    pub fn remove_thread(&mut self, thread: Thread) {
        self.threads.retain(|other| *other != thread);
        thread.strip();
    }

    /// Gives up all translations, or only what is known of mappings.
    pub fn invalidate(&mut self, translations: bool) {
        self.maps.stale = true;
        if !translations {
            return;
        }
        GENERATION.fetch_add(1, Ordering::SeqCst);
        tables::forget_blocks();
        self.adaptors.clear();
        MET_COUNT.store(0, Ordering::Release);
        for thread in &self.threads {
            thread.forget_remotely();
        }
        self.log.flushed();
    }
}

fn leak<T>(items: Vec<T>) -> &'static [T] {
    Box::leak(items.into_boxed_slice())
}

fn words_of(block: &decode::Block) -> Vec<(u16, u16)> {
    block
        .accesses
        .iter()
        .map(|access| (access.instruction, access.word as u16))
        .collect()
}

impl Piece {
    /// A piece that is no block.
    fn of_marks(marks: Marks) -> Self {
        Self {
            start: 0,
            end: 0,
            ip: 0,
            entry: 0,
            entry_lent: 0,
            pair: Pair {
                record: super::super::regs::Reg(0),
                address: super::super::regs::Reg(0),
            },
            instructions: 0,
            words: 0,
            marks: leak(marks.marks),
            states: leak(marks.states),
            words_of: &[],
        }
    }

    fn of_stubs(marks: &Marks) -> Self {
        Self::of_marks(Marks {
            marks: marks.marks.clone(),
            states: marks.states.clone(),
        })
    }
}

/// Forgets what was met: in the child of a fork.
pub fn forget_met() {
    MET_COUNT.store(0, Ordering::Release);
}
