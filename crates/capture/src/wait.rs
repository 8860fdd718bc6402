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

/// Between two looks at the child where convoy may have no thread to wait for it.
const LOOK: Duration = Duration::from_millis(5);

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
    let at_ns = end_of(pid, dir, clock, poller);
    poller.finish(dir, clock);
    signals.program_ended();
    let (exit, user_ns, sys_ns) = reap(pid);
    Ended {
        exit,
        at_ns,
        user_ns,
        sys_ns,
    }
}

/// When it ended.
fn end_of(pid: i32, dir: &Path, clock: &Clock, poller: &mut Poller) -> u64 {
    let Some(pid) = Pid::from_raw(pid) else {
        return clock.now_ns();
    };
    let mut next = FIRST_POLL;
    let (ended, end) = mpsc::channel();
    let of_waiter = *clock;
    // A thread that blocks in waitid: no busy polling, and no kernel newer than what pidfds need.
    let waiter = std::thread::Builder::new().spawn(move || {
        let _ = has_ended(pid, WaitIdOptions::empty());
        // The receiver waits for exactly this.
        let _ = ended.send(of_waiter.now_ns());
    });
    let Ok(waiter) = waiter else {
        // The program may run where not one thread more is allowed (ulimit -u).
        let mut look = clock.now_ns();
        while !has_ended(pid, WaitIdOptions::NOHANG) {
            if clock.now_ns().saturating_sub(look) >= next.as_nanos() as u64 {
                next = poller.poll(dir, clock);
                look = clock.now_ns();
            }
            std::thread::sleep(LOOK);
        }
        return clock.now_ns();
    };
    let at_ns = loop {
        match end.recv_timeout(next) {
            Ok(at_ns) => break at_ns,
            Err(mpsc::RecvTimeoutError::Timeout) => next = poller.poll(dir, clock),
            Err(mpsc::RecvTimeoutError::Disconnected) => break clock.now_ns(),
        }
    };
    let _ = waiter.join();
    at_ns
}

/// Waits for its end, or only looks ([`WaitIdOptions::NOHANG`]). Not reaped here: the zombie keeps its pid
/// from being given to another process.
fn has_ended(pid: Pid, how: WaitIdOptions) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | how;
    let waited = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options));
    !matches!(waited, Ok(None))
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
