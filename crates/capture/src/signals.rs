//! Convoy's own signals while a program runs under it.
//!
//! What the terminal sends (Ctrl-C, Ctrl-\, hang-up) goes to the whole foreground process group, so the
//! program gets it by itself; convoy must only survive it. What another process sends to convoy's
//! pid (a supervisor's SIGTERM) is meant for the program, and is passed on.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, Ordering};

/// Signals that ask a program to do something, and whose default would end convoy.
const PASSED_ON: [libc::c_int; 6] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// The program, 0 = none. A pid that was reaped must not be in here: it may be somebody else's.
static PROGRAM: AtomicI32 = AtomicI32::new(0);

extern "C" fn pass_on(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands a valid siginfo to a handler that was installed with SA_SIGINFO.
    let sent_by_process = unsafe { (*info).si_code } <= 0;
    let program = PROGRAM.load(Ordering::Relaxed);
    if sent_by_process && program > 0 {
        // SAFETY: kill is async-signal-safe and takes no pointers; errno is put back because the handler
        // may have interrupted code that is about to read it.
        unsafe {
            let errno = libc::__errno_location();
            let saved = *errno;
            libc::kill(program, signal);
            *errno = saved;
        }
    }
}

/// The handlers are in place; dropping it puts back what was there.
#[derive(Debug)]
pub(crate) struct Forwarding {
    before: Inherited,
}

/// Signal state as it was before [`Forwarding::start`].
#[derive(Clone, Copy)]
pub(crate) struct Inherited {
    actions: [libc::sigaction; PASSED_ON.len()],
    child_action: libc::sigaction,
    mask: libc::sigset_t,
}

impl std::fmt::Debug for Inherited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inherited").finish_non_exhaustive()
    }
}

impl Forwarding {
    /// Installs the handlers. All signals stay blocked until [`Forwarding::program_is`]: between fork
    /// and then nobody would know whom to pass them to, and the child must not run our handlers.
    pub fn start() -> Self {
        // SAFETY: an all-zero sigset_t and sigaction are valid values of these plain C structures; every
        // pointer below is to a live local of the right type; the calls have no other precondition.
        unsafe {
            let mut all = MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
            libc::sigfillset(&mut all);
            let mut mask = MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut mask);

            let mut actions =
                [MaybeUninit::<libc::sigaction>::zeroed().assume_init(); PASSED_ON.len()];
            for (signal, before) in PASSED_ON.into_iter().zip(&mut actions) {
                libc::sigaction(signal, std::ptr::null(), before);
                // Ignored when we were started (nohup, background jobs of a script): stays so for both.
                if before.sa_sigaction == libc::SIG_IGN {
                    continue;
                }
                let mut ours = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
                ours.sa_sigaction = pass_on as extern "C" fn(_, _, _) as usize;
                ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                libc::sigaction(signal, &ours, std::ptr::null_mut());
            }
            // Ignored, the kernel would reap the program by itself and nobody would learn how it ended.
            let mut child_action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            let default = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            libc::sigaction(libc::SIGCHLD, &default, &mut child_action);
            Self {
                before: Inherited {
                    actions,
                    child_action,
                    mask,
                },
            }
        }
    }

    /// What the program must get.
    pub fn inherited(&self) -> Inherited {
        self.before
    }

    /// The program runs (or did not start: 0): take signals again.
    pub fn program_is(&self, pid: i32) {
        PROGRAM.store(pid, Ordering::Relaxed);
        // SAFETY: the mask came from the kernel.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.before.mask, std::ptr::null_mut())
        };
    }

    /// The program has ended but was not reaped yet: from now on its pid is nobody.
    pub fn program_ended(&self) {
        PROGRAM.store(0, Ordering::Relaxed);
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.program_is(0);
        restore_actions(&self.before);
    }
}

fn restore_actions(before: &Inherited) {
    for (signal, action) in PASSED_ON.into_iter().zip(&before.actions) {
        // SAFETY: the action came from the kernel for this signal.
        unsafe { libc::sigaction(signal, action, std::ptr::null_mut()) };
    }
    // SAFETY: as above.
    unsafe { libc::sigaction(libc::SIGCHLD, &before.child_action, std::ptr::null_mut()) };
}

/// In the child, before exec: give it the signal state that convoy was started with. Only
/// async-signal-safe calls.
pub(crate) fn restore_in_child(before: &Inherited) {
    restore_actions(before);
    crate::inherited::restore_file_limit();
    // SAFETY: as above; Rust's runtime has set SIGPIPE to ignored, and the mask came from the kernel.
    unsafe {
        if !crate::inherited::pipe_signal_ignored() {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before.mask, std::ptr::null_mut());
    }
}
