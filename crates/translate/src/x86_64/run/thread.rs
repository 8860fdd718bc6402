//! `cv_tr`: the state that a thread, its translated code, the agent and the translator share.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

use super::super::regs::Slot;
use super::sys;

/// Entries of a thread's table of targets, of 16 bytes each.
pub const TABLE_BYTES: usize = 65536 * 16;
const STACK_BYTES: usize = 128 << 10;
const GUARD_BYTES: usize = 4096;
const ALL_BYTES: usize = TABLE_BYTES + GUARD_BYTES + STACK_BYTES;

/// `enum cv_tr_mode`.
pub const OFF: u32 = 0;
pub const INSIDE: u32 = 1;

/// The calling thread's `cv_tr`, or that of another thread, by its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread(pub u64);

impl Thread {
    pub fn current() -> Self {
        let address: u64;
        // SAFETY: the variable is in static thread-local storage; both words that are read always exist.
        unsafe {
            asm!(
                "mov {0}, qword ptr [rip + cv_tr@GOTTPOFF]",
                "add {0}, qword ptr fs:[0]",
                out(reg) address,
                options(nostack, readonly),
            );
        }
        Self(address)
    }

    /// Offset of `cv_tr` from the thread pointer, the same in all threads.
    pub fn offset() -> i32 {
        let offset: i64;
        // SAFETY: a word of the global offset table.
        unsafe {
            asm!(
                "mov {0}, qword ptr [rip + cv_tr@GOTTPOFF]",
                out(reg) offset,
                options(nostack, readonly, preserves_flags),
            );
        }
        offset as i32
    }

    fn word(self, slot: Slot) -> *mut u64 {
        (self.0 + slot as u64) as *mut u64
    }

    pub fn get(self, slot: Slot) -> u64 {
        // SAFETY: every slot lies within `struct cv_tr`; signals of the same thread are why it is volatile.
        unsafe { self.word(slot).read_volatile() }
    }

    pub fn set(self, slot: Slot, value: u64) {
        // SAFETY: as above.
        unsafe { self.word(slot).write_volatile(value) }
    }

    /// The word at an offset in bytes, as [`super::super::marks::Place::Slot`] gives it.
    pub fn at_offset(self, offset: u32) -> u64 {
        // SAFETY: the offset is that of a slot.
        unsafe { ((self.0 + u64::from(offset)) as *const u64).read_volatile() }
    }

    pub fn mode(self) -> u32 {
        // SAFETY: as `get`.
        unsafe { self.word(Slot::Mode).cast::<u32>().read_volatile() }
    }

    pub fn set_mode(self, mode: u32) {
        // SAFETY: as `set`.
        unsafe { self.word(Slot::Mode).cast::<u32>().write_volatile(mode) }
    }

    fn generation_word(self) -> *mut u32 {
        (self.0 + Slot::Generation as u64) as *mut u32
    }

    pub fn generation(self) -> u32 {
        // SAFETY: as `get`.
        unsafe { self.generation_word().read_volatile() }
    }

    pub fn set_generation(self, generation: u32) {
        // SAFETY: as `set`.
        unsafe { self.generation_word().write_volatile(generation) }
    }

    /// Its table and the translator's stack for it; false = there is no memory.
    pub fn equip(self) -> bool {
        if self.get(Slot::Table) != 0 {
            return true;
        }
        let Some(memory) = sys::map(None, ALL_BYTES, sys::READ_WRITE) else {
            return false;
        };
        let guard = memory + TABLE_BYTES as u64;
        // SAFETY: a page of the memory mapped just now.
        unsafe { sys::call(sys::MPROTECT, [guard, GUARD_BYTES as u64, 0, 0, 0, 0]) };
        self.set(Slot::Own, memory + ALL_BYTES as u64);
        self.set(Slot::Table, memory);
        let pointer: u64;
        // SAFETY: the thread pointer points to itself in every thread (System V ABI, thread-local storage).
        unsafe {
            asm!("mov {0}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags))
        };
        self.set(Slot::Fs, pointer);
        self.set(Slot::Gs, sys::gs_base());
        true
    }

    /// Gives them back.
    pub fn strip(self) {
        let memory = self.get(Slot::Table);
        if memory != 0 {
            self.set(Slot::Table, 0);
            self.set(Slot::Own, 0);
            self.set_generation(0);
            // SAFETY: `equip` mapped it, and the thread is not in translated code.
            unsafe { sys::unmap(memory, ALL_BYTES) };
        }
    }

    /// Forgets all targets: the calling thread only.
    pub fn forget(self) {
        let table = self.get(Slot::Table);
        if table != 0 {
            // SAFETY: the thread's own table, in which it is not looking now; an entry of zeros is an empty one.
            unsafe { sys::clear(table, TABLE_BYTES) };
        }
    }

    /// Makes a thread that may be running forget: keys only, because it may have read one and not yet its translation,
    /// which stays.
    pub fn forget_remotely(self) {
        let table = self.get(Slot::Table);
        if table == 0 {
            return;
        }
        // SAFETY: the table stays while the lock is held, which `strip` takes; its words are read and written whole.
        let keys =
            unsafe { core::slice::from_raw_parts(table as *const AtomicU64, TABLE_BYTES / 8) };
        for key in keys.iter().step_by(2) {
            if key.load(Ordering::Relaxed) != 0 {
                key.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Enters a target in the table.
    pub fn learn(self, target: u64, code: u64) {
        let table = self.get(Slot::Table);
        let entry = (table + (target & 0xffff) * 16) as *mut u64;
        if table == 0 {
            return;
        }
        // SAFETY: within the table. Only this thread reads entries: the key may go first out and last in.
        unsafe {
            entry.write_volatile(0);
            entry.add(1).write_volatile(code);
            entry.write_volatile(target.wrapping_neg());
        }
    }
}
