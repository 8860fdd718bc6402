//! Whether a program can have more threads than it was seen to have: what its files ask one another for says so.

use crate::elf::Image;

/// What a program that makes threads imports one of: POSIX, C, OpenMP (GCC's and LLVM's).
const MAKE: [&str; 4] = [
    "pthread_create",
    "thrd_create",
    "GOMP_parallel",
    "__kmpc_fork_call",
];
/// The same of C++, mangled: `std::thread::_M_start_thread()`.
const MAKE_OF_CPP: &str = "_ZNSt6thread15_M_start_thread";

/// What one file asks others for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Threads {
    /// To make threads.
    pub(crate) makes: bool,
    /// For something of a library's that is done in threads, by its name.
    pub(crate) speaks: bool,
}

impl Threads {
    pub(crate) fn of(image: &Image<'_>) -> Self {
        Self {
            makes: image.imports(|name| MAKE.contains(&name) || name.starts_with(MAKE_OF_CPP)),
            speaks: image.imports(speaks_of_threads),
        }
    }

    /// Whether the program that asks for this can have several threads for its work, where libraries can make some or not. Most can,
    /// for a timer or some service of theirs: it must make them itself, or ask for work in threads.
    pub(crate) fn may_be_several(self, libraries_do: bool) -> bool {
        self.makes || (self.speaks && libraries_do)
    }
}

/// `lzma_stream_encoder_mt`, `g_thread_new`; not what the C library has for threads that there are.
fn speaks_of_threads(name: &str) -> bool {
    let of_c = name.starts_with("pthread_") || name.starts_with("thrd_");
    !of_c && (name.contains("thread") || name.ends_with("_mt") || name.contains("_mt_"))
}

#[cfg(test)]
mod tests {
    use super::{speaks_of_threads, Threads};

    #[test]
    fn a_library_that_can_make_a_thread_does_not_make_a_program_parallel() {
        let of = |makes, speaks| Threads { makes, speaks };
        assert!(of(true, false).may_be_several(false));
        assert!(!of(false, false).may_be_several(true));
        assert!(of(false, true).may_be_several(true));
        assert!(!of(false, true).may_be_several(false));
    }

    #[test]
    fn what_is_done_in_threads_says_so() {
        for name in ["lzma_stream_encoder_mt", "g_thread_new", "lzma_cputhreads"] {
            assert!(speaks_of_threads(name), "{name}");
        }
        for name in [
            "pthread_sigmask",
            "thrd_current",
            "sqlite3_step",
            "fmt_open",
            "mtrace",
        ] {
            assert!(!speaks_of_threads(name), "{name}");
        }
    }
}
