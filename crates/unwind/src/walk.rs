//! From a frame to its caller, by rules where a file has them, and by frame pointers elsewhere.

use std::ops::Range;
use std::sync::Arc;

use framehop::{
    CacheNative, FrameAddress, MayAllocateDuringUnwind, UnwindRegsNative, Unwinder as _,
    UnwinderNative,
};

use crate::Regs;

/// The copy of a stack: words at their addresses.
pub(crate) struct Copy<'a> {
    lo: u64,
    bytes: &'a [u8],
}

impl<'a> Copy<'a> {
    pub(crate) fn new(sp: u64, bytes: &'a [u8]) -> Self {
        Self { lo: sp, bytes }
    }

    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.lo)?).ok()?;
        let word = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    }

    fn holds(&self, address: u64) -> bool {
        address
            .checked_sub(self.lo)
            .is_some_and(|at| at <= self.bytes.len() as u64)
    }
}

/// Where a step from a frame led.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// To the instruction after the call that made the frame.
    Caller(u64),
    /// Nowhere: the thread began here, or the copy ends.
    End,
    /// Nowhere, for lack of rules.
    NoRule,
}

/// Where stacks can be: not in the first page, and below the kernel's half.
const USER: Range<u64> = 4096..1 << 63;

/// The rules of the executable mappings of one process.
pub(crate) struct Rules {
    unwinder: UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>,
    /// Rules by address, 509 in each: a power of two of them, or none before the first stack.
    caches: Vec<CacheNative<MayAllocateDuringUnwind>>,
}

/// Most caches of one process. With 4,000 rules.
const MAX_CACHES: usize = 8;
/// Rules that had to give way to others in one cache before there are more. Finding a rule again takes about a
/// microsecond, and a small program needs no more than one cache of 30 KB.
const CROWDED: u64 = 1024;

impl Rules {
    pub(crate) fn new() -> Self {
        Self {
            unwinder: UnwinderNative::new(),
            caches: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, module: framehop::Module<Arc<[u8]>>) {
        self.unwinder.add_module(module);
    }

    pub(crate) fn remove(&mut self, lo: u64) {
        self.unwinder.remove_module(lo);
    }

    /// Gives the caches back.
    pub(crate) fn rest(&mut self) {
        self.caches = Vec::new();
    }

    /// The caller of the frame at `pc`, which lies in a file with rules.
    pub(crate) fn step(
        &mut self,
        pc: u64,
        leaf: bool,
        regs: &mut UnwindRegsNative,
        copy: &Copy<'_>,
    ) -> Step {
        let before = regs.sp();
        let address = if leaf {
            Some(FrameAddress::from_instruction_pointer(pc))
        } else {
            FrameAddress::from_return_address(pc)
        };
        // Beyond the copy nothing can be read, and sums with a stack pointer must not overflow.
        let usable = USER.contains(&before) && copy.holds(before);
        let Some(address) = address.filter(|_| usable) else {
            return Step::End;
        };
        let mut read = |address| copy.word(address).ok_or(());
        if self.caches.is_empty() {
            self.caches.push(CacheNative::new());
        }
        let at = (pc >> 4) as usize & (self.caches.len() - 1);
        let cache = &mut self.caches[at];
        let caller = self.unwinder.unwind_frame(address, regs, cache, &mut read);
        if cache.stats().miss_wrong_address_count > CROWDED && self.caches.len() < MAX_CACHES {
            let more = 2 * self.caches.len();
            self.caches = (0..more).map(|_| CacheNative::new()).collect();
        }
        match caller {
            Ok(Some(caller)) if regs.sp() > before || (leaf && regs.sp() == before) => {
                Step::Caller(caller)
            }
            _ => Step::End,
        }
    }
}

/// The registers as the rules know them.
#[cfg(target_arch = "x86_64")]
pub(crate) fn native(regs: Regs) -> UnwindRegsNative {
    UnwindRegsNative::new(regs.ip, regs.sp, regs.fp)
}

/// The registers as the rules know them. Return addresses may be signed, in their upper 16 bits.
#[cfg(target_arch = "aarch64")]
pub(crate) fn native(regs: Regs) -> UnwindRegsNative {
    let mask = framehop::aarch64::PtrAuthMask(ADDRESS_BITS);
    UnwindRegsNative::new_with_ptr_auth_mask(mask, regs.lr, regs.sp, regs.fp)
}

/// Bits of an address of user mode.
#[cfg(target_arch = "aarch64")]
const ADDRESS_BITS: u64 = (1 << 48) - 1;
#[cfg(target_arch = "x86_64")]
const ADDRESS_BITS: u64 = u64::MAX;

#[cfg(target_arch = "x86_64")]
fn frame_pointer(regs: &UnwindRegsNative) -> u64 {
    regs.bp()
}

#[cfg(target_arch = "aarch64")]
fn frame_pointer(regs: &UnwindRegsNative) -> u64 {
    regs.fp()
}

/// Where a leaf without a frame of its own returns to, and the stack pointer then: on top of the stack, or in the link register.
#[cfg(target_arch = "x86_64")]
fn return_of_leaf(regs: &UnwindRegsNative, copy: &Copy<'_>) -> Option<(u64, u64)> {
    Some((copy.word(regs.sp())?, regs.sp().checked_add(8)?))
}

#[cfg(target_arch = "aarch64")]
fn return_of_leaf(regs: &UnwindRegsNative, _: &Copy<'_>) -> Option<(u64, u64)> {
    Some((regs.lr(), regs.sp()))
}

/// The caller of a frame that nothing is known about. On both machines the frame pointer points to the caller's one, and the
/// return address lies above it.
///
/// A leaf may not have made a frame yet, or be one that makes none (the system call stubs of Go): if what it would
/// return to is code, it is taken.
pub(crate) fn by_frame_pointer(
    leaf: bool,
    regs: &mut UnwindRegsNative,
    copy: &Copy<'_>,
    is_code: impl Fn(u64) -> bool,
) -> Step {
    let fp = frame_pointer(regs);
    if leaf {
        let found = return_of_leaf(regs, copy).filter(|(caller, _)| is_code(*caller));
        if let Some((caller, sp)) = found {
            *regs = native(Regs {
                ip: caller,
                sp,
                fp,
                lr: 0,
            });
            return Step::Caller(caller);
        }
    }
    if fp == 0 {
        return Step::End; // set so by the first function of a thread
    }
    if fp < regs.sp() || fp % 8 != 0 {
        return Step::NoRule; // it holds something else
    }
    let (Some(next), Some(caller)) = (copy.word(fp), copy.word(fp.saturating_add(8))) else {
        return Step::End;
    };
    let caller = caller & ADDRESS_BITS;
    if caller == 0 {
        return Step::End;
    }
    *regs = native(Regs {
        ip: caller,
        sp: fp.saturating_add(16),
        fp: next,
        lr: caller,
    });
    Step::Caller(caller)
}
