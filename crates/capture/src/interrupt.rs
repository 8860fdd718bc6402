//! Ctrl-C while processes are recorded or watched that convoy has not started: it ends that, and then convoy.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals that ask for an end.
const ASKING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Whether a signal asks for an end: who sent it to a program wants no other run of it.
pub fn asks_for_an_end(signal: i32) -> bool {
    ASKING.contains(&signal) || signal == libc::SIGQUIT
}

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// The handlers are in place. They stay: the second Ctrl-C ends convoy, whatever it does then.
#[derive(Debug)]
pub struct Interrupt(());

impl Interrupt {
    /// From here on the first signal is only noted.
    pub fn watch() -> Self {
        ASKED.store(false, Ordering::Relaxed);
        for signal in ASKING {
            // SAFETY: a zeroed sigaction is a valid value of this plain C structure; the handler only stores to
            // an atomic, which is async-signal-safe; both pointers are null or to a live local.
            unsafe {
                let mut before = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
                libc::sigaction(signal, std::ptr::null(), &mut before);
                if before.sa_sigaction == libc::SIG_IGN {
                    continue; // nohup: it was meant to be ignored
                }
                let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
                action.sa_sigaction = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
                action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
        }
        Self(())
    }

    /// Whether somebody asked for an end.
    pub fn asked(&self) -> bool {
        ASKED.load(Ordering::Relaxed)
    }
}
