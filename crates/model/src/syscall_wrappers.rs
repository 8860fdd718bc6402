//! Functions of C libraries and of Go's runtime by name: in a static program they are in the program's own
//! file, where no library's name tells that they only pass a call on.

/// Whether the function is the C library's side of a system call, or the jump to it. Names with letters
/// of a C library in front (`__libc_read`, `__GI_fsync`) are the same function.
pub(crate) fn is_stub(function: &str) -> bool {
    if function.ends_with("@plt") || function.ends_with(".plt") {
        return true;
    }
    if INTERNALS.iter().any(|start| function.starts_with(start)) || begins_threads(function) {
        return true;
    }
    STUBS.contains(&bare(function))
}

/// Whether threads, or the program, begin in this function.
pub(crate) fn begins_threads(function: &str) -> bool {
    let function = function.strip_suffix(".abi0").unwrap_or(function);
    BEGINNINGS.contains(&function)
}

/// Whether the function is of Go's runtime or of those of its packages that wait for others.
pub(crate) fn is_go_runtime(function: &str) -> bool {
    GO.iter().any(|package| {
        // `runtime.part.0` is a piece of a C function.
        let rest = function.strip_prefix(package);
        rest.is_some_and(|rest| !rest.is_empty() && !is_piece(rest))
    })
}

fn is_piece(rest: &str) -> bool {
    [
        "part",
        "cold",
        "isra",
        "constprop",
        "llvm",
        "lto_priv",
        "localalias",
    ]
    .iter()
    .any(|word| {
        let rest = rest.strip_prefix(word);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// The name without what C libraries put around it.
pub(crate) fn bare(function: &str) -> &str {
    let function = function.strip_prefix("__GI_").unwrap_or(function);
    let function = function.trim_start_matches('_');
    let function = function.strip_prefix("libc_").unwrap_or(function);
    let function = function.strip_suffix("_nocancel").unwrap_or(function);
    function.strip_suffix("64").unwrap_or(function)
}

const BEGINNINGS: [&str; 9] = [
    "_start",
    "__libc_start_main",
    "__libc_start_call_main",
    "start_thread",
    "clone",
    "__clone",
    "clone3",
    "__clone3",
    "runtime.goexit",
];

/// How the names of glibc's and musl's own parts begin.
const INTERNALS: [&str; 9] = [
    "__lll_",
    "__futex_abstimed_wait",
    "__pthread_",
    "pthread_join",
    "__internal_syscall",
    "__syscall_cancel",
    "__GI___pthread_",
    "__timedwait",
    "___pthread_",
];

/// Packages of Go, with the dot.
const GO: [&str; 8] = [
    "runtime.",
    "runtime/internal/",
    "internal/",
    "syscall.",
    "sync.(*",
    "sync.runtime_",
    "os.(*File).",
    "time.",
];

/// System calls in which threads wait, and instructions that wait.
const STUBS: [&str; 62] = [
    "syscall",
    "read",
    "pread",
    "readv",
    "preadv",
    "write",
    "pwrite",
    "writev",
    "pwritev",
    "open",
    "openat",
    "close",
    "fsync",
    "fdatasync",
    "msync",
    "sync_file_range",
    "sendfile",
    "splice",
    "copy_file_range",
    "recv",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "send",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "accept",
    "accept4",
    "connect",
    "poll",
    "ppoll",
    "select",
    "pselect",
    "epoll_wait",
    "epoll_pwait",
    "io_getevents",
    "nanosleep",
    "clock_nanosleep",
    "clock_nanosleep_time",
    "usleep",
    "sleep",
    "sched_yield",
    "wait4",
    "waitpid",
    "waitid",
    "pause",
    "sigsuspend",
    "sigwait",
    "sigwaitinfo",
    "sigtimedwait",
    "flock",
    "fcntl",
    "semop",
    "semtimedop",
    "msgrcv",
    "msgsnd",
    "mq_timedreceive",
    "mmap",
    "munmap",
    "madvise",
    "mm_pause",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_programs_library_is_told_by_name() {
        for name in [
            "read",
            "__read",
            "__libc_read",
            "__GI___libc_read",
            "__read_nocancel",
            "pread64",
            "epoll_wait",
            "__lll_lock_wait",
            "__pthread_clockjoin_ex",
            "__futex_abstimed_wait_common64",
            "start_thread",
            "write@plt",
            "_mm_pause",
        ] {
            assert!(is_stub(name), "{name}");
        }
        for name in [
            "read_config",
            "main",
            "writer",
            "_read_block",
            "Reader::read",
            "send_all",
        ] {
            assert!(!is_stub(name), "{name}");
        }
    }

    #[test]
    fn go_programs_run_their_own_packages() {
        for name in [
            "runtime.futex.abi0",
            "runtime.goexit",
            "sync.(*Mutex).Lock",
            "internal/poll.(*FD).Read",
        ] {
            assert!(is_go_runtime(name), "{name}");
        }
        for name in [
            "main.worker",
            "main.(*Pool).run",
            "runtime",
            "runtime.part.0",
            "sync.part.0",
        ] {
            assert!(!is_go_runtime(name), "{name}");
        }
        assert!(begins_threads("runtime.goexit.abi0"));
    }
}
