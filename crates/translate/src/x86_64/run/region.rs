//! Memory for translated code, within reach of what it was made from; and what each piece of it is.
//!
//! A signal handler looks pieces up while other threads make new ones: everything here is only ever appended to,
//! and counted after it is written.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use alloc::boxed::Box;

use super::super::marks::{Mark, State};
use super::super::regs::Pair;
use super::{maps, sys};

const REGION_BYTES: usize = 8 << 20;
/// All of them together.
const MOST_REGIONS: usize = 8;
const MOST_PIECES: usize = 128 << 10;
/// What a displacement of 32 bits reaches, less the regions themselves.
const REACH: u64 = 0x7000_0000;

/// A piece of code in a cache.
#[derive(Debug)]
pub struct Piece {
    pub start: u64,
    pub end: u64,
    /// The program's; 0 = a region's stubs.
    pub ip: u64,
    pub entry: u64,
    pub entry_lent: u64,
    pub pair: Pair,
    pub instructions: u16,
    pub words: u32,
    pub marks: &'static [Mark],
    pub states: &'static [State],
    /// Instructions that leave words, and the first word of each.
    pub words_of: &'static [(u16, u16)],
}

/// A region.
#[derive(Debug)]
pub struct Region {
    pub base: u64,
    used: AtomicUsize,
    pieces: AtomicPtr<Piece>,
    count: AtomicU32,
}

static REGIONS: [AtomicPtr<Region>; MOST_REGIONS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MOST_REGIONS];
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Bytes of code in all of them.
pub static CACHE_BYTES: AtomicU64 = AtomicU64::new(0);

fn all() -> impl Iterator<Item = &'static Region> {
    let count = COUNT.load(Ordering::Acquire).min(MOST_REGIONS);
    REGIONS.iter().take(count).filter_map(|region| {
        // SAFETY: a region is leaked before it is entered.
        unsafe { region.load(Ordering::Acquire).as_ref() }
    })
}

/// The piece that an address is in.
pub fn find(pc: u64) -> Option<&'static Piece> {
    let region = all().find(|region| pc.wrapping_sub(region.base) < REGION_BYTES as u64)?;
    let count = region.count.load(Ordering::Acquire) as usize;
    // SAFETY: so many pieces have been written, and they stay.
    let pieces =
        unsafe { core::slice::from_raw_parts(region.pieces.load(Ordering::Acquire), count) };
    let behind = pieces.partition_point(|piece| piece.start <= pc);
    pieces
        .get(behind.checked_sub(1)?)
        .filter(|piece| pc < piece.end)
}

/// Whether an address is in a region.
pub fn has(pc: u64) -> bool {
    all().any(|region| pc.wrapping_sub(region.base) < REGION_BYTES as u64)
}

impl Region {
    /// A region that reaches all of [lo, hi), with room for so many bytes.
    pub fn near(lo: u64, hi: u64, bytes: usize) -> Option<&'static Self> {
        all().find(|region| {
            let reaches = region.base.abs_diff(lo) < REACH && region.base.abs_diff(hi) < REACH;
            reaches && region.room() >= bytes
        })
    }

    /// A new one; `first` is how far below `lo` the search for a place begins. The caller holds the lock.
    pub fn new(lo: u64, hi: u64, first: u64) -> Option<&'static Self> {
        let count = COUNT.load(Ordering::Relaxed);
        let place = REGIONS.get(count)?;
        let pieces_bytes = MOST_PIECES * size_of::<Piece>();
        let base = Self::place(lo, hi, first)?;
        let Some(pieces) = sys::map(None, pieces_bytes, sys::READ_WRITE) else {
            // SAFETY: mapped just now.
            unsafe { sys::unmap(base, REGION_BYTES) };
            return None;
        };
        let region: &'static Self = Box::leak(Box::new(Self {
            base,
            used: AtomicUsize::new(0),
            pieces: AtomicPtr::new(pieces as *mut Piece),
            count: AtomicU32::new(0),
        }));
        place.store(core::ptr::from_ref(region).cast_mut(), Ordering::Release);
        COUNT.store(count + 1, Ordering::Release);
        Some(region)
    }

    fn place(lo: u64, hi: u64, first: u64) -> Option<u64> {
        let bytes = REGION_BYTES as u64;
        // What is free may be taken by another thread in between.
        maps::gaps(lo, hi, first, REACH, bytes)
            .into_iter()
            .take(32)
            .find_map(|address| sys::map(Some(address), REGION_BYTES, sys::READ_WRITE_EXECUTE))
    }

    fn room(&self) -> usize {
        let full = self.count.load(Ordering::Relaxed) as usize >= MOST_PIECES;
        if full {
            0
        } else {
            REGION_BYTES - self.used.load(Ordering::Relaxed)
        }
    }

    /// Where the next piece will be.
    pub fn next(&self) -> u64 {
        self.base + self.used.load(Ordering::Relaxed) as u64
    }

    /// Copies code to [`Region::next`] and enters it. The caller holds the lock. `piece.start` and `end` are set here.
    pub fn add(&self, code: &[u8], mut piece: Piece) -> Option<&'static Piece> {
        if self.room() < code.len() + 64 {
            return None;
        }
        let start = self.next();
        piece.start = start;
        piece.end = start + code.len() as u64;
        let count = self.count.load(Ordering::Relaxed);
        // SAFETY: the bytes behind `used` are nobody's yet, and there is room; the same of the pieces.
        let piece = unsafe {
            core::ptr::copy_nonoverlapping(code.as_ptr(), start as *mut u8, code.len());
            let place = self.pieces.load(Ordering::Relaxed).add(count as usize);
            place.write(piece);
            &*place
        };
        self.count.store(count + 1, Ordering::Release);
        let used = (self.used.load(Ordering::Relaxed) + code.len()).next_multiple_of(16);
        self.used.store(used, Ordering::Relaxed);
        CACHE_BYTES.fetch_add(code.len() as u64, Ordering::Relaxed);
        Some(piece)
    }
}

/// Empties all regions but for their stubs.
///
/// # Safety
/// No thread is in translated code or can come to what was there, and nobody is looking a piece up.
pub unsafe fn empty() {
    let mut bytes = 0;
    for region in all() {
        let count = region.count.swap(1, Ordering::AcqRel) as usize;
        // SAFETY: so many pieces have been written.
        let pieces =
            unsafe { core::slice::from_raw_parts(region.pieces.load(Ordering::Relaxed), count) };
        let Some((stubs, others)) = pieces.split_first() else {
            continue;
        };
        for piece in others {
            // SAFETY: each was leaked from a box of its own, and nobody has it any more.
            unsafe {
                drop(Box::from_raw(core::ptr::from_ref(piece.marks).cast_mut()));
                drop(Box::from_raw(core::ptr::from_ref(piece.states).cast_mut()));
                drop(Box::from_raw(
                    core::ptr::from_ref(piece.words_of).cast_mut(),
                ));
            }
        }
        let used = (stubs.end - region.base) as usize;
        region
            .used
            .store(used.next_multiple_of(16), Ordering::Relaxed);
        bytes += stubs.end - stubs.start;
    }
    CACHE_BYTES.store(bytes, Ordering::Relaxed);
}

/// Gives all regions back.
///
/// # Safety
/// No thread is in translated code or will be, and nobody is looking a piece up.
pub unsafe fn abandon() {
    let count = COUNT.swap(0, Ordering::AcqRel).min(MOST_REGIONS);
    for region in REGIONS.iter().take(count) {
        // SAFETY: as in `all`; the memory of code and pieces is this region's.
        unsafe {
            if let Some(region) = region
                .swap(core::ptr::null_mut(), Ordering::AcqRel)
                .as_ref()
            {
                sys::unmap(region.base, REGION_BYTES);
                sys::unmap(
                    region.pieces.load(Ordering::Relaxed) as u64,
                    MOST_PIECES * size_of::<Piece>(),
                );
            }
        }
    }
    CACHE_BYTES.store(0, Ordering::Relaxed);
}
