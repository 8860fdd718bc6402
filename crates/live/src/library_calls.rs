//! Functions of libraries that metrics are measured by, where the focus names none.

use convoy_probes::{Bytes, Io};

use crate::metric::{Metric, Subject};

/// Those of the allocator, and the bytes that a call asks for.
const ALLOCATOR: &[(&str, Bytes)] = &[
    ("malloc", Bytes::First),
    ("calloc", Bytes::Product),
    ("realloc", Bytes::Second),
    ("aligned_alloc", Bytes::Second),
    ("posix_memalign", Bytes::Third),
    ("memalign", Bytes::Second),
];

/// All languages with the Itanium C++ ABI throw by it.
const THROW: &str = "_Unwind_RaiseException";

/// Those that read, write or sync, all by a file descriptor in their first argument.
const INPUT_OUTPUT: &[(&str, Io)] = &[
    ("read", Io::Read),
    ("pread64", Io::Read),
    ("readv", Io::Read),
    ("preadv64", Io::Read),
    ("preadv64v2", Io::Read),
    ("recv", Io::Read),
    ("recvfrom", Io::Read),
    ("recvmsg", Io::Read),
    ("write", Io::Write),
    ("pwrite64", Io::Write),
    ("writev", Io::Write),
    ("pwritev64", Io::Write),
    ("pwritev64v2", Io::Write),
    ("send", Io::Write),
    ("sendto", Io::Write),
    ("sendmsg", Io::Write),
    ("sendfile64", Io::Write),
    ("fsync", Io::Other),
    ("fdatasync", Io::Other),
];

/// What is counted of a function besides its calls and their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extra {
    Nothing,
    Bytes(Bytes),
    Io(Io),
}

/// The functions that a metric of this subject is measured by; none if the focus names them.
pub(crate) fn names(metric: Metric, subject: Subject) -> Vec<&'static str> {
    match (subject, metric) {
        (Subject::File, _) => INPUT_OUTPUT.iter().map(|(name, _)| *name).collect(),
        (Subject::Program, Metric::Exceptions) => vec![THROW],
        (Subject::Program, _) => ALLOCATOR.iter().map(|(name, _)| *name).collect(),
        _ => Vec::new(),
    }
}

/// What is counted of one of these functions, by its name and the file that it is in.
pub(crate) fn extra(metric: Metric, subject: Subject, name: &str, module: &str) -> Extra {
    let io = INPUT_OUTPUT.iter().find(|(n, _)| *n == name);
    let bytes = ALLOCATOR.iter().find(|(n, _)| *n == name);
    match (subject, metric) {
        (Subject::File, _) => io.map_or(Extra::Nothing, |(_, io)| Extra::Io(*io)),
        (Subject::Program, Metric::AllocatedBytes) => match bytes {
            // Without old memory it jumps to malloc, which counts.
            Some(("realloc", _)) if is_c_library(module) => Extra::Bytes(Bytes::More),
            Some((_, bytes)) => Extra::Bytes(*bytes),
            None => Extra::Nothing,
        },
        _ => Extra::Nothing,
    }
}

/// Whether a file is the C library, or the part of it that older ones have apart.
pub fn is_c_library(module: &str) -> bool {
    ["libc.so", "libc-", "libc.musl", "libpthread", "ld-musl"]
        .iter()
        .any(|name| module.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn realloc_of_the_c_library_leaves_new_memory_to_malloc() {
        let of = |name, module| extra(Metric::AllocatedBytes, Subject::Program, name, module);
        assert_eq!(of("realloc", "libc.so.6"), Extra::Bytes(Bytes::More));
        assert_eq!(
            of("realloc", "libjemalloc.so.2"),
            Extra::Bytes(Bytes::Second)
        );
        assert_eq!(of("calloc", "libc.so.6"), Extra::Bytes(Bytes::Product));
        let calls = extra(Metric::Allocations, Subject::Program, "malloc", "libc.so.6");
        assert_eq!(calls, Extra::Nothing);
    }

    #[test]
    fn every_function_has_its_direction() {
        for name in names(Metric::IoWait, Subject::File) {
            let extra = extra(Metric::IoWait, Subject::File, name, "libc.so.6");
            assert!(matches!(extra, Extra::Io(_)), "{name}");
        }
        assert_eq!(names(Metric::Allocations, Subject::Program).len(), 6);
        assert_eq!(names(Metric::Exceptions, Subject::Program), [THROW]);
        assert!(names(Metric::Cpu, Subject::Function).is_empty());
    }
}
