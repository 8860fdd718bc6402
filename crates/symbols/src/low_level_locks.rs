//! The functions of glibc in which its own locks, and those of POSIX threads, are waited for and handed on. Distributions strip
//! their names, and where a thread sleeps tells a lock from anything else: so they are known by their instructions. x86-64.

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};

use crate::elf::Image;

/// glibc's names for them, in `sysdeps/nptl/lowlevellock.h`.
const WAIT: &str = "__lll_lock_wait";
const WAKE: &str = "__lll_lock_wake";

/// They are no longer than that, in bytes. What is longer and does the same does more than that.
const LONGEST: u64 = 128;
const LONGEST_WAKE: usize = 40;

/// The name of the function at each of `addresses` (ascending).
pub(crate) fn names(image: &Image, addresses: &[u64]) -> Vec<Option<&'static str>> {
    let mut names = vec![None; addresses.len()];
    let Some(at) = image.section_address(".eh_frame") else {
        return names;
    };
    let bytes = image.section(".eh_frame").unwrap_or_default();
    let bases = BaseAddresses::default().set_eh_frame(at);
    let section = EhFrame::new(bytes, LittleEndian);
    let mut entries = section.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(function) = partial.parse(EhFrame::cie_from_offset) else {
            continue;
        };
        let (start, length) = (function.initial_address(), function.len());
        let first = addresses.partition_point(|&a| a < start);
        let inside = addresses.partition_point(|&a| a < start.saturating_add(length));
        if length <= LONGEST && first < inside {
            let code = image.bytes_at(start, length).unwrap_or_default();
            names[first..inside].fill(name(code));
        }
    }
    names
}

/// What a function does that calls `futex()`: wait while the word is 2, which is a lock that others wait for as well; or
/// wake one thread. Whether processes share the word is a constant in one variant and an argument in the other.
fn name(code: &[u8]) -> Option<&'static str> {
    let has = |bytes: &[u8]| code.windows(bytes.len()).any(|window| window == bytes);
    // mov $202,%eax; syscall
    if !has(&[0xb8, 0xca, 0, 0, 0]) || !has(&[0x0f, 0x05]) {
        return None;
    }
    // mov $n,%edx; then mov $op,%esi or xor $op,%sil
    let does = |n: u8, op: u8| {
        has(&[0xba, n, 0, 0, 0]) && (has(&[0xbe, op, 0, 0, 0]) || has(&[0x40, 0x80, 0xf6, op]))
    };
    const PRIVATE: u8 = libc::FUTEX_PRIVATE_FLAG as u8;
    if does(2, libc::FUTEX_WAIT as u8 | PRIVATE) {
        Some(WAIT)
    } else if does(1, libc::FUTEX_WAKE as u8 | PRIVATE) && code.len() <= LONGEST_WAKE {
        Some(WAKE)
    } else {
        None
    }
}
