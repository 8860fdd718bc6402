//! The translator's own memory: it runs while the program may be in the midst of its allocator.
//!
//! Freed pieces are kept in lists by size. Only the holder of the translator's lock allocates.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr;

use super::sys;

const CHUNK_BYTES: usize = 1 << 20;
const CLASSES: usize = 32;

struct Lists {
    next: usize,
    end: usize,
    free: [*mut u8; CLASSES],
}

/// The global allocator of the static library.
pub struct Heap(UnsafeCell<Lists>);

impl core::fmt::Debug for Heap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Heap").finish_non_exhaustive()
    }
}

// SAFETY: whoever allocates holds the translator's lock (run/lock.rs) or is alone (cv_tr_init, the child of a fork).
unsafe impl Sync for Heap {}

impl Heap {
    pub const fn new() -> Self {
        Self(UnsafeCell::new(Lists {
            next: 0,
            end: 0,
            free: [ptr::null_mut(); CLASSES],
        }))
    }

    /// Forgets everything: another thread may have been in the midst of it when the process was copied.
    pub fn abandon(&self) {
        // SAFETY: nobody else runs.
        unsafe {
            *self.0.get() = Lists {
                next: 0,
                end: 0,
                free: [ptr::null_mut(); CLASSES],
            }
        };
    }
}

/// Sizes are powers of two: what is freed serves again.
fn class(layout: Layout) -> (usize, usize) {
    let bytes = layout
        .size()
        .max(layout.align())
        .max(16)
        .next_power_of_two();
    (bytes, bytes.trailing_zeros() as usize)
}

// SAFETY: pieces are aligned to their size (a power of two up to a page), and no piece is given out twice.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (bytes, class) = class(layout);
        // SAFETY: see `Sync`.
        let lists = unsafe { &mut *self.0.get() };
        let Some(free) = lists.free.get_mut(class) else {
            return ptr::null_mut();
        };
        if !free.is_null() {
            let piece = *free;
            // SAFETY: a free piece's first word is the next free one.
            *free = unsafe { piece.cast::<*mut u8>().read() };
            return piece;
        }
        let mut at = lists.next.next_multiple_of(bytes.min(4096));
        if lists.next == 0 || at + bytes > lists.end {
            let chunk = bytes.max(CHUNK_BYTES);
            let Some(memory) = sys::map(None, chunk, sys::READ_WRITE) else {
                return ptr::null_mut();
            };
            at = memory as usize;
            lists.end = at + chunk;
        }
        lists.next = at + bytes;
        at as *mut u8
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        let (_, class) = class(layout);
        // SAFETY: see `Sync`.
        let lists = unsafe { &mut *self.0.get() };
        if let Some(free) = lists.free.get_mut(class) {
            // SAFETY: the piece is at least 16 bytes and nobody's now.
            unsafe { piece.cast::<*mut u8>().write(*free) };
            *free = piece;
        }
    }
}
