//! Waits for the main child, polling meanwhile.

use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use convoy_profile::Exit;
use rustix::process::{waitid, Pid, WaitId, WaitIdOptions};

use crate::clock::Clock;
use crate::poll::Poller;
use crate::signals::Forwarding;

/// The first look comes early: many programs are short.
const FIRST_POLL: Duration = Duration::from_millis(20);

/// How the main child ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ended {
    pub exit: Exit,
    pub at_ns: u64,
    /// Of the child and the children that it waited for.
    pub user_ns: u64,
    /// See `user_ns`.
    pub sys_ns: u64,
}

/// Returns when the child `pid` has ended; polls `dir` until then.
pub(crate) fn wait(
    pid: i32,
    signals: &Forwarding,
    dir: &Path,
    clock: &Clock,
    poller: &mut Poller,
) -> Ended {
    let (ended, end) = mpsc::channel();
    let clock = *clock;
    // A thread that blocks in waitid: no busy polling, and no kernel newer than what pidfds need.
    let waiter = std::thread::spawn(move || {
        if let Some(pid) = Pid::from_raw(pid) {
            // Not reaped here: the zombie keeps its pid from being given to another process.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(
                waitid(WaitId::Pid(pid), options),
                Err(rustix::io::Errno::INTR)
            ) {}
        }
        // The receiver waits for exactly this.
        let _ = ended.send(clock.now_ns());
    });
    let mut next = FIRST_POLL;
    let at_ns = loop {
        match end.recv_timeout(next) {
            Ok(at_ns) => break at_ns,
            Err(mpsc::RecvTimeoutError::Timeout) => next = poller.poll(dir, &clock),
            Err(mpsc::RecvTimeoutError::Disconnected) => break clock.now_ns(),
        }
    };
    let _ = waiter.join();
    poller.finish(dir, &clock);
    signals.program_ended();
    let (exit, user_ns, sys_ns) = reap(pid);
    Ended {
        exit,
        at_ns,
        user_ns,
        sys_ns,
    }
}

fn reap(pid: i32) -> (Exit, u64, u64) {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live locals; a zeroed rusage is a valid one if the call fails.
    let (reaped, usage) = unsafe {
        let reaped = loop {
            let reaped = libc::wait4(pid, &mut status, 0, usage.as_mut_ptr());
            if reaped >= 0 || *libc::__errno_location() != libc::EINTR {
                break reaped;
            }
        };
        (reaped, usage.assume_init())
    };
    if reaped != pid {
        return (Exit::Unknown, 0, 0);
    }
    let exit = if libc::WIFSIGNALED(status) {
        Exit::Signal(libc::WTERMSIG(status))
    } else {
        Exit::Status(libc::WEXITSTATUS(status))
    };
    (exit, timeval_ns(usage.ru_utime), timeval_ns(usage.ru_stime))
}

fn timeval_ns(t: libc::timeval) -> u64 {
    (t.tv_sec.max(0) as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(t.tv_usec.max(0) as u64 * 1000)
}
