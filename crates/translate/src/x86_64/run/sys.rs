//! System calls without the C library: no errno, no cancellation.

use core::arch::asm;

pub const MMAP: u64 = 9;
pub const MPROTECT: u64 = 10;
pub const MUNMAP: u64 = 11;
pub const RT_SIGPROCMASK: u64 = 14;
pub const RT_SIGRETURN: u64 = 15;
pub const SCHED_YIELD: u64 = 24;
pub const MREMAP: u64 = 25;
pub const MADVISE: u64 = 28;
pub const CLONE: u64 = 56;
pub const FORK: u64 = 57;
pub const VFORK: u64 = 58;
pub const EXECVE: u64 = 59;
pub const EXIT: u64 = 60;
pub const SHMDT: u64 = 67;
pub const ARCH_PRCTL: u64 = 158;
pub const REMAP_FILE_PAGES: u64 = 216;
pub const CLOCK_GETTIME: u64 = 228;
pub const EXIT_GROUP: u64 = 231;
pub const EXECVEAT: u64 = 322;
pub const PKEY_MPROTECT: u64 = 329;
pub const CLONE3: u64 = 435;
const OPEN: u64 = 2;
const READ: u64 = 0;
const CLOSE: u64 = 3;

/// A system call.
///
/// # Safety
/// As the call itself.
pub unsafe fn call(number: u64, arguments: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the caller answers for the call; rcx and r11 are what the instruction writes.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as i64 => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

pub const READ_WRITE: u64 = 3;
pub const READ_WRITE_EXECUTE: u64 = 7;
const PRIVATE_ANONYMOUS_NORESERVE: u64 = 0x4022;
const FIXED_NOREPLACE: u64 = 0x10_0000;

/// New private memory, at an address if one is given and nothing is there.
pub fn map(at: Option<u64>, bytes: usize, protection: u64) -> Option<u64> {
    let flags = PRIVATE_ANONYMOUS_NORESERVE | if at.is_some() { FIXED_NOREPLACE } else { 0 };
    let nowhere = u64::MAX;
    let arguments = [at.unwrap_or(0), bytes as u64, protection, flags, nowhere, 0];
    // SAFETY: new memory, nothing of the program's is replaced.
    let address = unsafe { call(MMAP, arguments) };
    let address = u64::try_from(address).ok()?;
    if at.is_some_and(|at| at != address) {
        // A kernel that takes the address for a hint.
        // SAFETY: it was mapped just now.
        unsafe { unmap(address, bytes) };
        return None;
    }
    Some(address)
}

/// Gives memory back.
///
/// # Safety
/// Nobody uses it.
pub unsafe fn unmap(address: u64, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { call(MUNMAP, [address, bytes as u64, 0, 0, 0, 0]) };
}

/// Makes private memory zeros again.
///
/// # Safety
/// Its contents are of no use.
pub unsafe fn clear(address: u64, bytes: usize) {
    const DONTNEED: u64 = 4;
    // SAFETY: the caller's promise.
    unsafe { call(MADVISE, [address, bytes as u64, DONTNEED, 0, 0, 0]) };
}

/// Blocks all signals of this thread; returns those that were blocked.
pub fn block_signals() -> u64 {
    let all = u64::MAX;
    let mut before = 0u64;
    let arguments = [2, &raw const all as u64, &raw mut before as u64, 8, 0, 0];
    // SAFETY: the kernel reads and writes the two numbers.
    unsafe { call(RT_SIGPROCMASK, arguments) };
    before
}

pub fn restore_signals(mask: u64) {
    // SAFETY: the kernel reads the number.
    unsafe { call(RT_SIGPROCMASK, [2, &raw const mask as u64, 0, 8, 0, 0]) };
}

/// Lets every thread of the process pass a memory barrier; false = the kernel cannot.
pub fn barrier() -> bool {
    const MEMBARRIER: u64 = 324;
    const PRIVATE_EXPEDITED: u64 = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: u64 = 1 << 4;
    [REGISTER_PRIVATE_EXPEDITED, PRIVATE_EXPEDITED]
        .into_iter()
        .all(|command| {
            // SAFETY: it has no effect on memory.
            unsafe { call(MEMBARRIER, [command, 0, 0, 0, 0, 0]) == 0 }
        })
}

pub fn yield_now() {
    // SAFETY: it has no effect on memory.
    unsafe { call(SCHED_YIELD, [0; 6]) };
}

/// CLOCK_MONOTONIC (ns).
pub fn now_ns() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: the kernel writes the two words.
    unsafe { call(CLOCK_GETTIME, [1, &raw mut time as u64, 0, 0, 0, 0]) };
    time[0].wrapping_mul(1_000_000_000).wrapping_add(time[1])
}

/// Base of GS.
pub fn gs_base() -> u64 {
    const GET_GS: u64 = 0x1004;
    let mut base = 0u64;
    // SAFETY: the kernel writes the word.
    unsafe { call(ARCH_PRCTL, [GET_GS, &raw mut base as u64, 0, 0, 0, 0]) };
    base
}

/// Whether the processor keeps a second stack of return addresses for this thread, which translated code would break.
pub fn has_shadow_stack() -> bool {
    const SHSTK_STATUS: u64 = 0x5005;
    let mut status = 0u64;
    // SAFETY: the kernel writes the word.
    let result = unsafe {
        call(
            ARCH_PRCTL,
            [SHSTK_STATUS, &raw mut status as u64, 0, 0, 0, 0],
        )
    };
    result == 0 && status & 1 != 0
}

/// Reads a file piece by piece; false = it cannot be read.
pub fn read_file(path: &core::ffi::CStr, buffer: &mut [u8], mut piece: impl FnMut(&[u8])) -> bool {
    const CLOEXEC: u64 = 0o2000000;
    // SAFETY: the path ends with 0, the buffer is ours.
    let file = unsafe { call(OPEN, [path.as_ptr() as u64, CLOEXEC, 0, 0, 0, 0]) };
    let Ok(file) = u64::try_from(file) else {
        return false;
    };
    let whole = loop {
        let arguments = [
            file,
            buffer.as_mut_ptr() as u64,
            buffer.len() as u64,
            0,
            0,
            0,
        ];
        // SAFETY: the kernel writes at most the length of the buffer.
        let got = unsafe { call(READ, arguments) };
        match usize::try_from(got).ok().and_then(|got| buffer.get(..got)) {
            Some([]) => break true,
            Some(bytes) => piece(bytes),
            None if got == -4 => {} // EINTR
            None => break false,
        }
    };
    // SAFETY: our descriptor.
    unsafe { call(CLOSE, [file, 0, 0, 0, 0, 0]) };
    whole
}
