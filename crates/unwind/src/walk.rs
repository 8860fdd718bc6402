//! From a frame to its caller, by rules where a file has them, and by frame pointers elsewhere.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use framehop::{
    CacheNative, FrameAddress, MayAllocateDuringUnwind, UnwindRegsNative, Unwinder as _,
    UnwinderNative,
};

use crate::hotspot::{Blob, Kind};
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

/// Bytes of arguments and locals of a method that is interpreted, at most.
const MOST_ARGUMENTS: u64 = 64 << 10;

/// Where stacks can be: not in the first page, and below the kernel's half.
const USER: Range<u64> = 4096..1 << 63;

/// The rules of the executable mappings of one process.
pub(crate) struct Rules {
    unwinder: UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>,
    /// Where the modules of `unwinder` begin.
    begins: BTreeSet<u64>,
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
            begins: BTreeSet::new(),
            caches: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, module: framehop::Module<Arc<[u8]>>) {
        self.begins.insert(module.avma_range().start);
        self.unwinder.add_module(module);
    }

    /// Takes away what there is of code in this range.
    pub(crate) fn remove(&mut self, code: Range<u64>) {
        let gone: Vec<u64> = self.begins.range(code).copied().collect();
        for lo in gone {
            self.begins.remove(&lo);
            self.unwinder.remove_module(lo);
        }
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

/// Frames of HotSpot's stubs (mathematics, copies of arrays) are smaller: bytes.
const FRAME_OF_STUB: u64 = 512;

/// The method that HotSpot's interpreter is in, in a frame of its own: three words below where the frame pointer leads.
pub(crate) fn interpreted_method(regs: &UnwindRegsNative, copy: &Copy<'_>) -> Option<u64> {
    copy.word(frame_pointer(regs).checked_sub(24)?)
}

/// The caller of a frame of generated code that is known. As its machine does it (openjdk: frame_x86.cpp, frame_aarch64.cpp), the
/// return address is the last word of a frame, and the caller's frame pointer the one before.
pub(crate) fn by_blob(
    leaf: bool,
    blob: &Blob,
    regs: &mut UnwindRegsNative,
    copy: &Copy<'_>,
    is_code: impl Fn(u64) -> bool,
) -> Step {
    let fp = frame_pointer(regs);
    // Before its frame is there, and when it is gone again.
    let without = |regs: &UnwindRegsNative| {
        let found = return_of_leaf(regs, copy).filter(|(caller, _)| leaf && is_code(*caller));
        found.map(|(caller, sp)| (caller, sp, fp))
    };
    let found = match blob.kind {
        Kind::Stub => {
            // What is on top of the stack may be left over from a call before.
            let above = copy.word(fp.saturating_add(8));
            let has_frame = (regs.sp()..regs.sp().saturating_add(FRAME_OF_STUB)).contains(&fp)
                && fp % 8 == 0
                && above.is_some_and(|above| is_code(above & ADDRESS_BITS));
            return by_frame_pointer(leaf && !has_frame, regs, copy, is_code);
        }
        Kind::Other => return by_frame_pointer(leaf, regs, copy, is_code),
        Kind::Fixed(_) if leaf && regs.ip() < blob.complete => without(regs),
        Kind::Fixed(bytes) => {
            let Some(end) = regs.sp().checked_add(bytes) else {
                return Step::NoRule;
            };
            let (Some(caller), Some(next)) = (copy.word(end - 8), copy.word(end - 16)) else {
                return Step::End;
            };
            let caller = caller & ADDRESS_BITS;
            match is_code(caller) {
                true => Some((caller, end, next)),
                false => without(regs),
            }
        }
        Kind::Interpreter => {
            let caller = by_frame_pointer(false, regs, copy, is_code);
            let Step::Caller(caller) = caller else {
                return caller;
            };
            // Its caller's arguments became a part of its frame: it knows where the stack was before.
            let before = fp.checked_sub(8).and_then(|at| copy.word(at));
            let above = fp..fp.saturating_add(MOST_ARGUMENTS);
            let end = before.filter(|end| above.contains(end) && end % 8 == 0);
            Some((caller, end.unwrap_or(regs.sp()), frame_pointer(regs)))
        }
    };
    let Some((ip, sp, fp)) = found else {
        return Step::NoRule;
    };
    let lr = ip;
    *regs = native(Regs { ip, sp, fp, lr });
    Step::Caller(ip)
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    const SP: u64 = 0x7000_0000;
    /// A method and the interpreter; whatever is in 0x4000..0x5000 is code.
    const METHOD: Blob = Blob {
        lo: 0x4000,
        hi: 0x4100,
        complete: 0x4020,
        kind: Kind::Fixed(32),
    };
    const STUB: Blob = Blob {
        kind: Kind::Stub,
        ..METHOD
    };
    const GLUE: Blob = Blob {
        kind: Kind::Other,
        ..METHOD
    };
    const INTERPRETER: Blob = Blob {
        kind: Kind::Interpreter,
        ..METHOD
    };

    /// Where a step from `ip` leads: return address, stack pointer, frame pointer; or why it does not.
    fn step(blob: &Blob, ip: u64, leaf: bool, fp: u64, stack: &[u64]) -> Result<[u64; 3], Step> {
        let bytes: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
        let sp = SP;
        let mut regs = native(Regs { ip, sp, fp, lr: 0 });
        let is_code = |address| (0x4000..0x5000).contains(&address);
        match by_blob(leaf, blob, &mut regs, &Copy::new(SP, &bytes), is_code) {
            Step::Caller(caller) => Ok([caller, regs.sp(), regs.bp()]),
            step => Err(step),
        }
    }

    #[test]
    fn a_compiled_method_returns_from_where_its_frame_ends() {
        // Two words of its own, the caller's frame pointer, the return address.
        let stack = [1, 2, 0x77, 0x4500, 3];
        for leaf in [false, true] {
            let found = step(&METHOD, 0x4050, leaf, 9, &stack);
            assert_eq!(found, Ok([0x4500, SP + 32, 0x77]));
        }
        let cut = step(&METHOD, 0x4050, false, 9, &stack[..3]);
        assert_eq!(cut, Err(Step::End));
        let wrong = step(&METHOD, 0x4050, false, 9, &[1, 2, 0x77, 0x9999]);
        assert_eq!(wrong, Err(Step::NoRule));
    }

    #[test]
    fn a_method_that_begins_or_ends_has_no_frame() {
        let stack = [0x4600, 2, 0x77, 0x9999];
        let begins = step(&METHOD, 0x4010, true, 9, &stack);
        assert_eq!(begins, Ok([0x4600, SP + 8, 9]));
        let ends = step(&METHOD, 0x40ff, true, 9, &stack);
        assert_eq!(ends, Ok([0x4600, SP + 8, 9]));
        // Of a caller the frame is there, whatever its address.
        let stack = [0x4600, 2, 0x77, 0x4500];
        let calls = step(&METHOD, 0x4010, false, 9, &stack);
        assert_eq!(calls, Ok([0x4500, SP + 32, 0x77]));
    }

    #[test]
    fn a_stub_with_a_frame_returns_from_there_whatever_lies_on_top_of_the_stack() {
        // Left over from a call before; its own; saved frame pointer and return address.
        let stack = [0x4600, 2, 0x77, 0x4500, 3];
        let stub = |fp| step(&STUB, 0x4050, true, fp, &stack);
        assert_eq!(stub(SP + 16), Ok([0x4500, SP + 32, 0x77]));
        // None of its own, or not made yet: the caller's may be anything.
        for fp in [9, SP + 8, SP + 24, SP + 32, SP - 16] {
            assert_eq!(stub(fp), Ok([0x4600, SP + 8, fp]));
        }
        // An adapter between two methods makes no frame: it is the caller's that the frame pointer leads to.
        let glue = step(&GLUE, 0x4050, true, SP + 16, &stack);
        assert_eq!(glue, Ok([0x4600, SP + 8, SP + 16]));
    }

    #[test]
    fn the_interpreter_knows_where_its_caller_s_stack_ended() {
        // Its own; the stack before; saved frame pointer and return address; arguments.
        let fp = SP + 16;
        let stack = [1, SP + 48, 0x77, 0x4700, 5, 6];
        let found = step(&INTERPRETER, 0x4050, false, fp, &stack);
        assert_eq!(found, Ok([0x4700, SP + 48, 0x77]));
        let odd = [1, 12, 0x77, 0x4700, 5, 6];
        let found = step(&INTERPRETER, 0x4050, false, fp, &odd);
        assert_eq!(found, Ok([0x4700, SP + 32, 0x77]));
    }
}
