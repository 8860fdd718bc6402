//! The functions of glibc in which its own locks, and those of POSIX threads, are waited for and handed on. Distributions strip
//! their names, and where a thread sleeps tells a lock from anything else: so they are known by their instructions. x86-64.

use crate::elf::Image;
use crate::functions::Function;

/// glibc's names for them, in `sysdeps/nptl/lowlevellock.h`.
const WAIT: &str = "__lll_lock_wait";
const WAKE: &str = "__lll_lock_wake";

/// They are no longer than that, in bytes. What is longer and does the same does more than that.
const LONGEST: u64 = 128;
const LONGEST_WAKE: usize = 40;

/// The name of such a function.
pub(crate) fn name(image: &Image, function: Function) -> Option<&'static str> {
    if function.length > LONGEST {
        return None;
    }
    does(image.bytes_at(function.start, function.length)?)
}

/// What a function does that calls `futex()`: wait while the word is 2, which is a lock that others wait for as well; or
/// wake one thread. Whether processes share the word is a constant in one variant and an argument in the other.
fn does(code: &[u8]) -> Option<&'static str> {
    let has = |bytes: &[u8]| code.windows(bytes.len()).any(|window| window == bytes);
    // mov $202,%eax; syscall
    if !has(&[0xb8, 0xca, 0, 0, 0]) || !has(&[0x0f, 0x05]) {
        return None;
    }
    // mov $n,%edx; then mov $op,%esi or xor $op,%sil
    let calls = |n: u8, op: u8| {
        has(&[0xba, n, 0, 0, 0]) && (has(&[0xbe, op, 0, 0, 0]) || has(&[0x40, 0x80, 0xf6, op]))
    };
    const PRIVATE: u8 = libc::FUTEX_PRIVATE_FLAG as u8;
    if calls(2, libc::FUTEX_WAIT as u8 | PRIVATE) {
        Some(WAIT)
    } else if calls(1, libc::FUTEX_WAKE as u8 | PRIVATE) && code.len() <= LONGEST_WAKE {
        Some(WAKE)
    } else {
        None
    }
}
