//! Functions that hand out or take back memory.

/// What a function does with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocator {
    /// It returns the address of memory that is the caller's from then on.
    HandsOut,
    /// It takes memory back, tells something about it, or hands it out in another way.
    Other,
}

/// The names by which programs call the allocators of the C library, jemalloc, tcmalloc, mimalloc, and of C++.
const HAND_OUT: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "valloc",
    "pvalloc",
    "mallocx",
    "rallocx",
];
const OTHERS: &[&str] = &[
    "free",
    "posix_memalign",
    "malloc_usable_size",
    "malloc_trim",
    "cfree",
    "xallocx",
    "sallocx",
    "dallocx",
    "sdallocx",
    "nallocx",
    "free_sized",
    "free_aligned_sized",
];

/// C++'s operators new and delete, with every signature.
const NEW: &[&str] = &["_Znw", "_Zna"];
const DELETE: &[&str] = &["_ZdlPv", "_ZdaPv"];
/// The allocators' own names for the functions above.
const PREFIXES: &[&str] = &["", "__libc_", "je_", "tc_", "mi_"];

/// Whether a function of this (mangled) name hands out or takes back memory, and which. What it and its callees do
/// counts as "allocator", not as data of the section.
pub fn allocator(name: &str) -> Option<Allocator> {
    let begins = |with: &[&str]| with.iter().any(|begin| name.starts_with(begin));
    let is_one = |of: &[&str]| {
        let mut rests = PREFIXES.iter().filter_map(|own| name.strip_prefix(own));
        rests.any(|rest| of.contains(&rest))
    };
    if is_one(HAND_OUT) || begins(NEW) {
        return Some(Allocator::HandsOut);
    }
    (is_one(OTHERS) || begins(DELETE)).then_some(Allocator::Other)
}

/// Whether a file of this path is the dynamic linker: it binds functions at their first call, which is no doing of the section.
pub fn is_linker(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    ["ld-linux", "ld-musl", "ld.so", "ld-2."]
        .iter()
        .any(|begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::{allocator, is_linker, Allocator};

    #[test]
    fn names() {
        for name in ["malloc", "_ZnwmSt11align_val_t", "je_mallocx", "tc_calloc"] {
            assert_eq!(allocator(name), Some(Allocator::HandsOut), "{name}");
        }
        for name in ["__libc_free", "_ZdlPvm", "posix_memalign", "mi_free"] {
            assert_eq!(allocator(name), Some(Allocator::Other), "{name}");
        }
        for name in [
            "mallopt",
            "__libc_start_main",
            "_ZNKSt6vector",
            "free_list",
            "je_malloc_conf",
        ] {
            assert_eq!(allocator(name), None, "{name}");
        }
        assert!(is_linker("/lib64/ld-linux-x86-64.so.2") && !is_linker("/opt/ld/server"));
    }
}
