//! The translator's lock. Whoever holds it has all signals blocked, so that no handler of the same thread waits for it.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use super::sys;

/// Something that one thread at a time may use.
#[derive(Debug)]
pub struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is reached by the holder of the lock only.
unsafe impl<T> Sync for Lock<T> {}

/// The translator failed in the midst of its work (run/panic.rs): what the lock protects is not to be trusted.
pub static BROKEN: AtomicBool = AtomicBool::new(false);

impl<T> Lock<T> {
    pub const fn new() -> Self {
        Self {
            held: AtomicBool::new(false),
            value: UnsafeCell::new(None),
        }
    }

    /// Uses the value with all signals blocked; `None` = there is none, or it is broken.
    pub fn with<R>(&self, use_it: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mask = sys::block_signals();
        let mut turns = 0u32;
        while self.held.swap(true, Ordering::Acquire) {
            if BROKEN.load(Ordering::Relaxed) {
                sys::restore_signals(mask);
                return None;
            }
            turns += 1;
            if turns % 64 == 0 {
                sys::yield_now();
            } else {
                core::hint::spin_loop();
            }
        }
        // SAFETY: the lock is held.
        let value = unsafe { &mut *self.value.get() };
        let result = if BROKEN.load(Ordering::Relaxed) {
            None
        } else {
            value.as_mut().map(use_it)
        };
        self.held.store(false, Ordering::Release);
        sys::restore_signals(mask);
        result
    }

    /// Puts a new value in without looking at the old one or the lock.
    ///
    /// # Safety
    /// Nobody else runs: before the first thread, or in the child of a fork.
    pub unsafe fn replace(&self, value: T) {
        // SAFETY: the caller's promise. The old value may be torn: it is not dropped.
        unsafe { self.value.get().write(Some(value)) };
        self.held.store(false, Ordering::Release);
    }
}
