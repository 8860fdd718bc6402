//! The exits of all blocks by number, and the blocks by the program's address. Read without a lock.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::super::emit::ExitKind;
use super::region::Piece;
use super::sys;

const MOST_EXITS: usize = 1 << 20;

/// An exit of a block.
#[derive(Debug)]
pub struct Exit {
    pub kind: ExitKind,
    /// Instructions of the block that have been executed.
    pub executed: u16,
    /// The program's address that it leads to.
    pub ip: u64,
    pub piece: &'static Piece,
    /// Direct: of the displacement to patch. System: of the code that makes the call.
    pub patch: u64,
}

static EXITS: AtomicPtr<Exit> = AtomicPtr::new(core::ptr::null_mut());
static EXIT_COUNT: AtomicU32 = AtomicU32::new(0);

/// Memory for them; false = there is none. Again: forgets them all.
pub fn begin() -> bool {
    let old = EXITS.swap(core::ptr::null_mut(), Ordering::AcqRel);
    if !old.is_null() {
        // SAFETY: only the child of a fork comes here twice, in which nobody else runs.
        unsafe { sys::unmap(old as u64, MOST_EXITS * size_of::<Exit>()) };
    }
    let Some(memory) = sys::map(None, MOST_EXITS * size_of::<Exit>(), sys::READ_WRITE) else {
        return false;
    };
    EXITS.store(memory as *mut Exit, Ordering::Release);
    EXIT_COUNT.store(1, Ordering::Release); // 0 = none
    BLOCKS.store(core::ptr::null_mut(), Ordering::Release);
    grow(FIRST_BLOCKS)
}

/// Forgets all exits: their blocks are gone.
pub fn forget_exits() {
    EXIT_COUNT.store(1, Ordering::Release);
}

/// The number of the next exit; `None` = there is no room for so many more.
pub fn next_exit(more: usize) -> Option<u32> {
    let count = EXIT_COUNT.load(Ordering::Relaxed);
    (count as usize + more <= MOST_EXITS).then_some(count)
}

/// Enters one. The caller holds the lock and has asked [`next_exit`].
pub fn add_exit(exit: Exit) {
    let count = EXIT_COUNT.load(Ordering::Relaxed);
    // SAFETY: there is room, and nobody reads it before it is counted.
    unsafe {
        EXITS
            .load(Ordering::Relaxed)
            .add(count as usize)
            .write(exit)
    };
    EXIT_COUNT.store(count + 1, Ordering::Release);
}

pub fn exit(number: u64) -> Option<&'static Exit> {
    let count = u64::from(EXIT_COUNT.load(Ordering::Acquire));
    if number == 0 || number >= count {
        return None;
    }
    // SAFETY: so many have been written, and they stay.
    unsafe { EXITS.load(Ordering::Acquire).add(number as usize).as_ref() }
}

/// Open addressing; a power of two of pairs (address, piece).
struct Blocks {
    mask: usize,
    used: AtomicUsize,
    entries: *mut [AtomicU64; 2],
}

const FIRST_BLOCKS: usize = 1 << 13;
static BLOCKS: AtomicPtr<Blocks> = AtomicPtr::new(core::ptr::null_mut());

impl Blocks {
    fn entry(&self, index: usize) -> &[AtomicU64; 2] {
        // SAFETY: the mask keeps it within the memory, which stays.
        unsafe { &*self.entries.add(index & self.mask) }
    }

    fn slot(&self, ip: u64) -> usize {
        let mut index = (ip.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        loop {
            let key = self.entry(index)[0].load(Ordering::Acquire);
            if key == 0 || key == ip {
                return index;
            }
            index += 1;
        }
    }
}

fn grow(entries: usize) -> bool {
    let bytes = entries * 16 + 64;
    let Some(memory) = sys::map(None, bytes, sys::READ_WRITE) else {
        return false;
    };
    let header = memory as *mut Blocks;
    let blocks = Blocks {
        mask: entries - 1,
        used: AtomicUsize::new(0),
        entries: (memory + 64) as *mut [AtomicU64; 2],
    };
    // SAFETY: the memory is ours, aligned to a page, and large enough for the header.
    let blocks = unsafe {
        header.write(blocks);
        &*header
    };
    // SAFETY: tables stay once they are published; a smaller one is kept for those who are reading it.
    if let Some(old) = unsafe { BLOCKS.load(Ordering::Acquire).as_ref() } {
        for index in 0..=old.mask {
            let [key, value] = old.entry(index);
            if key.load(Ordering::Relaxed) != 0 {
                put(
                    blocks,
                    key.load(Ordering::Relaxed),
                    value.load(Ordering::Relaxed),
                );
            }
        }
    }
    BLOCKS.store(header, Ordering::Release);
    true
}

fn put(blocks: &Blocks, ip: u64, piece: u64) {
    let [key, value] = blocks.entry(blocks.slot(ip));
    value.store(piece, Ordering::Relaxed);
    if key.load(Ordering::Relaxed) == 0 {
        blocks.used.fetch_add(1, Ordering::Relaxed);
    }
    key.store(ip, Ordering::Release);
}

/// The translation of an address.
pub fn block(ip: u64) -> Option<&'static Piece> {
    if ip == 0 {
        return None;
    }
    // SAFETY: tables stay once they are published.
    let blocks = unsafe { BLOCKS.load(Ordering::Acquire).as_ref()? };
    let [key, value] = blocks.entry(blocks.slot(ip));
    if key.load(Ordering::Acquire) != ip {
        return None;
    }
    // SAFETY: what is entered is a piece, which stays; 0 where all have been given up.
    unsafe { (value.load(Ordering::Acquire) as *const Piece).as_ref() }
}

/// Enters a translation. The caller holds the lock. False = there is no memory.
pub fn add_block(piece: &'static Piece) -> bool {
    // SAFETY: as `block`.
    let Some(blocks) = (unsafe { BLOCKS.load(Ordering::Acquire).as_ref() }) else {
        return false;
    };
    if blocks.used.load(Ordering::Relaxed) * 2 > blocks.mask {
        if !grow((blocks.mask + 1) * 2) {
            return false;
        }
        return add_block(piece);
    }
    put(blocks, piece.ip, core::ptr::from_ref(piece) as u64);
    true
}

/// Gives up all translations; the keys stay, so that the table needs no second look at those who search it.
pub fn forget_blocks() {
    // SAFETY: as `block`.
    if let Some(blocks) = unsafe { BLOCKS.load(Ordering::Acquire).as_ref() } {
        for index in 0..=blocks.mask {
            blocks.entry(index)[1].store(0, Ordering::Release);
        }
    }
}
