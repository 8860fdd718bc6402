//! Functions that hand out or take back memory.

/// The names by which programs call the allocators of the C library, jemalloc, tcmalloc, mimalloc, and of C++.
const EXACT: &[&str] = &[
    "malloc",
    "free",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "malloc_usable_size",
    "malloc_trim",
    "cfree",
    "mallocx",
    "rallocx",
    "xallocx",
    "sallocx",
    "dallocx",
    "sdallocx",
    "nallocx",
    "free_sized",
    "free_aligned_sized",
];

/// C++'s operators new and delete, with every signature; and the allocators' own names for the functions above.
const PREFIXES: &[&str] = &[
    "_Znw", "_Zna", "_ZdlPv", "_ZdaPv", "__libc_", "je_", "tc_", "mi_",
];

/// Whether a function of this (mangled) name hands out or takes back memory. What it and its callees do
/// counts as "allocator", not as data of the section.
pub fn is_allocator(name: &str) -> bool {
    if EXACT.contains(&name) {
        return true;
    }
    PREFIXES
        .iter()
        .any(|prefix| match name.strip_prefix(prefix) {
            Some(_) if prefix.starts_with("_Z") => true,
            Some(rest) => EXACT.contains(&rest),
            None => false,
        })
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
    use super::{is_allocator, is_linker};

    #[test]
    fn names() {
        for name in [
            "malloc",
            "__libc_free",
            "_ZnwmSt11align_val_t",
            "_ZdlPvm",
            "je_mallocx",
            "tc_calloc",
        ] {
            assert!(is_allocator(name), "{name}");
        }
        for name in [
            "mallopt",
            "__libc_start_main",
            "_ZNKSt6vector",
            "free_list",
            "je_malloc_conf",
        ] {
            assert!(!is_allocator(name), "{name}");
        }
        assert!(is_linker("/lib64/ld-linux-x86-64.so.2") && !is_linker("/opt/ld/server"));
    }
}
