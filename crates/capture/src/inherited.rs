//! What convoy itself was started with, so that the program gets exactly that.
//!
//! Rust's runtime changes two things before `main`: it ignores SIGPIPE, and opens /dev/null for any of
//! the descriptors 0..2 that are closed. Both would leak into the program ("same semantics with and
//! without convoy"), so they are read before the runtime starts: glibc runs `.init_array` first.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

static PIPE_SIGNAL_IGNORED: AtomicBool = AtomicBool::new(false);
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

#[used]
#[link_section = ".init_array"]
static BEFORE_RUNTIME: extern "C" fn() = before_runtime;

extern "C" fn before_runtime() {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only asks; `action` is big enough and, if the call fails, still zeroed,
    // which is a valid sigaction (SIG_DFL).
    let action = unsafe {
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    PIPE_SIGNAL_IGNORED.store(action.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
    for (fd, closed) in CLOSED.iter().enumerate() {
        // SAFETY: F_GETFD on any number is harmless.
        let flags = unsafe { libc::fcntl(fd as i32, libc::F_GETFD) };
        closed.store(flags < 0, Ordering::Relaxed);
    }
}
