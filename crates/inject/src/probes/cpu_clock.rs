//! CPU time of threads without a system call, by restartable sequences.
//!
//! `rseq_cs` of a thread points to a sequence that is never executed. The kernel sets it to 0 when
//! it takes the processor from the thread outside of that sequence (include/uapi/linux/rseq.h): as
//! long as it has not, CPU time goes like the clock. The sequence is in a page that is never
//! unmapped and that children made by fork have, too: the kernel ends a thread whose `rseq_cs`
//! cannot be read.

use std::arch::asm;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::borrow::with_thread;
use super::thread_pointer::Rseq;
use crate::call::{Borrowed, Gadgets};
use crate::memory::{code_pages, regions, Memory, PAGE};
use crate::safe_point::refused;
use convoy_probes::Refusal;

const MAGIC: u64 = 0x6b63_6f6c_6370_766f;
/// `rseq_cs` in `struct rseq`.
const SEQUENCE_AT: i64 = 8;

/// The page; the kernel reads the sequence and the signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Page {
    magic: u64,
    never_executed: u64,
    reserved: [u64; 2],
    sequence: Sequence,
    reserved_2: u32,
    signature: u32,
    aborted: u64,
}

/// `struct rseq_cs`, aligned to 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Sequence {
    version: u32,
    flags: u32,
    start: u64,
    bytes: u64,
    abort: u64,
}

const SEQUENCE_IN_PAGE: u64 = std::mem::offset_of!(Page, sequence) as u64;

impl Page {
    /// For this address.
    fn new(at: u64, signature: u32) -> Self {
        Self {
            magic: MAGIC,
            never_executed: 0,
            reserved: [0; 2],
            sequence: Sequence {
                version: 0,
                flags: 0,
                start: at + std::mem::offset_of!(Self, never_executed) as u64,
                bytes: 1,
                abort: at + std::mem::offset_of!(Self, aborted) as u64,
            },
            reserved_2: 0,
            signature,
            aborted: 0,
        }
    }
}

/// The address for `rseq_cs`; `None` = CPU time cannot be had like this.
pub(super) fn prepare(
    pid: u32,
    memory: &Memory,
    gadgets: Gadgets,
    rseq: Option<Rseq>,
) -> Result<Option<u64>, Refusal> {
    let Some(rseq) = rseq.filter(|_| kernel_resets()) else {
        return Ok(None);
    };
    let all = regions(pid).map_err(|_| Refusal::gone(pid))?;
    let is_known = |at: u64| {
        memory
            .get::<Page>(at)
            .is_ok_and(|p| p == Page::new(at, rseq.signature))
    };
    if let Some(at) = code_pages(pid, &all).into_iter().find(|at| is_known(*at)) {
        return Ok(Some(at + SEQUENCE_IN_PAGE));
    }
    let protection = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let arguments = [0, PAGE, protection, flags, u64::MAX, 0];
    let map = move |thread: &mut Borrowed| thread.system_call(libc::SYS_mmap, arguments);
    let at = with_thread(pid, gadgets, map)?;
    let written = memory.put(at, &Page::new(at, rseq.signature));
    written.map_err(|e| refused(pid, e.into()))?;
    Ok(Some(at + SEQUENCE_IN_PAGE))
}

/// Whether this is the sequence of a CPU clock, which is never executed.
pub(crate) fn is_cpu_clock(memory: &Memory, at: u64) -> bool {
    let page = at.wrapping_sub(SEQUENCE_IN_PAGE);
    memory.get::<u64>(page).is_ok_and(|magic| magic == MAGIC)
}

/// CPU time of a thread as the kernel has it, ns: `sum_exec_runtime`.
pub(super) fn of_thread(pid: u32, tid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Whether this kernel does what the clock relies on, tried in this thread.
fn kernel_resets() -> bool {
    // SAFETY: names of the C library (2.35 and later), or null.
    let symbol = |name: &std::ffi::CStr| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    let (offset, size) = (symbol(c"__rseq_offset"), symbol(c"__rseq_size"));
    if offset.is_null() || size.is_null() {
        return false;
    }
    // SAFETY: `ptrdiff_t __rseq_offset` and `unsigned int __rseq_size`, constant.
    let (offset, size) = unsafe { (*offset.cast::<i64>(), *size.cast::<u32>()) };
    if size == 0 {
        return false;
    }
    // glibc registers this signature on x86-64 (sysdeps/unix/sysv/linux/x86/bits/rseq.h); with
    // another one the kernel would end this process, which holds nothing yet.
    const SIGNATURE: u32 = 0x5305_3053;
    let page: &'static mut Page = Box::leak(Box::new(Page::new(0, 0)));
    *page = Page::new(&raw const *page as u64, SIGNATURE);
    let sequence = &raw const page.sequence as u64;
    let pointer: u64;
    // SAFETY: the first word behind the thread pointer is the pointer itself (x86-64 ABI).
    unsafe { asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly)) };
    let field = pointer.wrapping_add_signed(offset + SEQUENCE_AT) as *const AtomicU64;
    // SAFETY: the C library's area of this thread, in which user code may set this field.
    let field = unsafe { &*field };
    field.store(sequence, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(1));
    let is_reset = field.load(Ordering::SeqCst) == 0;
    field.store(0, Ordering::SeqCst);
    is_reset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn self_test_leaves_the_thread_usable() {
        let first = kernel_resets();
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(kernel_resets(), first);
    }

    #[test]
    fn sequence_is_aligned_and_its_signature_is_before_the_handler() {
        let page = Page::new(0x1000, 7);
        assert_eq!(SEQUENCE_IN_PAGE % 32, 0);
        assert_eq!(
            std::mem::offset_of!(Page, signature) + 4,
            std::mem::offset_of!(Page, aborted)
        );
        assert!(page.sequence.abort - page.sequence.start >= page.sequence.bytes);
    }
}
