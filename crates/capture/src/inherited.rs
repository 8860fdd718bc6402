//! What convoy itself was started with, so that the program gets exactly that.
//!
//! A limit on the size of files (`ulimit -f`) would end convoy by SIGXFSZ before the program
//! starts. It is raised as far as that is allowed, the signal is ignored so that writing fails
//! instead, and the program gets both back.
//!
//! Rust's runtime changes two things before `main`: it ignores SIGPIPE, and opens /dev/null for any of
//! the descriptors 0..2 that are closed. Both would leak into the program ("same semantics with and
//! without convoy"), so they are read before the runtime starts: glibc runs `.init_array` first.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static PIPE_SIGNAL_IGNORED: AtomicBool = AtomicBool::new(false);
static SIZE_SIGNAL_IGNORED: AtomicBool = AtomicBool::new(false);
/// RLIMIT_FSIZE, soft and hard, bytes.
static FILE_LIMIT: [AtomicU64; 2] = [const { AtomicU64::new(libc::RLIM_INFINITY) }; 2];
static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// Whether SIGPIPE was ignored when convoy was started.
pub fn pipe_signal_ignored() -> bool {
    PIPE_SIGNAL_IGNORED.load(Ordering::Relaxed)
}

/// Whether descriptor `fd` (0, 1 or 2) was closed when convoy was started.
pub fn was_closed(fd: usize) -> bool {
    CLOSED
        .get(fd)
        .is_some_and(|closed| closed.load(Ordering::Relaxed))
}

/// How large files may become that the program writes, bytes.
pub fn file_limit() -> u64 {
    FILE_LIMIT[0].load(Ordering::Relaxed)
}

/// In the child, before exec: its signal and its limit again. Only async-signal-safe calls.
pub fn restore_file_limit() {
    let limit = libc::rlimit {
        rlim_cur: FILE_LIMIT[0].load(Ordering::Relaxed),
        rlim_max: FILE_LIMIT[1].load(Ordering::Relaxed),
    };
    // SAFETY: the limit is a live local; neither call has another precondition.
    unsafe {
        libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
        if !SIZE_SIGNAL_IGNORED.load(Ordering::Relaxed) {
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        }
    }
}

/// Raises the limit for convoy itself.
fn raise_file_limit() {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    let endless = limit;
    // SAFETY: the limits are live locals.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) != 0
            || limit.rlim_cur == libc::RLIM_INFINITY
        {
            return;
        }
        FILE_LIMIT[0].store(limit.rlim_cur, Ordering::Relaxed);
        FILE_LIMIT[1].store(limit.rlim_max, Ordering::Relaxed);
        if libc::setrlimit(libc::RLIMIT_FSIZE, &endless) != 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
        }
    }
}

/// Whether this signal is ignored now.
fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only asks; `action` is big enough and, if the call fails, still zeroed,
    // which is a valid sigaction (SIG_DFL).
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

#[used]
#[link_section = ".init_array"]
static BEFORE_RUNTIME: extern "C" fn() = before_runtime;

extern "C" fn before_runtime() {
    PIPE_SIGNAL_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    SIZE_SIGNAL_IGNORED.store(is_ignored(libc::SIGXFSZ), Ordering::Relaxed);
    // SAFETY: ignoring a signal has no precondition.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    raise_file_limit();
    for (fd, closed) in CLOSED.iter().enumerate() {
        // SAFETY: F_GETFD on any number is harmless.
        let flags = unsafe { libc::fcntl(fd as i32, libc::F_GETFD) };
        closed.store(flags < 0, Ordering::Relaxed);
    }
}
