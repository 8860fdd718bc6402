//! Attempts to trace a process, each in a thread of its own.
//!
//! To the kernel a tracer is a thread, and the end of that thread lets go of all tracees, whatever
//! state they are in. A tracee that does not stop in time (uninterruptible sleep) can be released
//! in no other way: it would stop later, and nobody would let it go on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::tracee::threads;
use convoy_probes::Refusal;

/// An attempt that takes longer than this may be waiting for threads to be reaped.
const REAP_INTERVAL: Duration = Duration::from_millis(20);
/// Longest time that an attempt may take, 60 s: it looks for a thread, and makes calls in it.
/// Counted in intervals, in none of which this process was stopped itself (SIGSTOP).
const ATTEMPT_INTERVALS: usize = 3000;
/// How often it is looked whether the kernel has let go of the tracees of a thread that has ended:
/// at first each time after this, then after [`REAP_INTERVAL`].
const RELEASE_PAUSE: Duration = Duration::from_micros(50);
const RELEASE_LOOKS: (usize, usize) = (200, 100);

/// The first pause between two attempts, during which the process runs, and the longest one. An
/// attempt that fails may have stopped threads for some 50 ms.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// An attempt was given up, and may still trace threads.
static STUCK: AtomicBool = AtomicBool::new(false);

/// Whether a thread of this process may trace others that it cannot let go: only the end of this
/// process does.
pub fn is_stuck() -> bool {
    STUCK.load(Ordering::Relaxed)
}

/// Repeats attempts that fail for a reason that may pass, until one succeeds or the time is over.
pub(crate) fn retry<T>(
    limit: Duration,
    attempt: impl Fn() -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let until = Instant::now() + limit;
    let (mut pause, longest) = PAUSES;
    loop {
        match attempt() {
            Err(refusal) if refusal.is_passing && Instant::now() < until => thread::sleep(pause),
            result => return result,
        }
        pause = (pause * 2).min(longest);
    }
}

/// Runs `work`, which may trace threads of process `pid`, in a thread that ends with it. When this
/// returns, no thread is traced any more.
///
/// Another thread that runs exec waits until the process's other threads are gone, those that are
/// traced not before they are reaped, and blocks PTRACE_SEIZE meanwhile: the tracer cannot reap
/// while it is blocked, so that this thread does.
///
/// # Errors
/// `work` takes too long: [`is_stuck`] from then on.
pub(crate) fn attempt<T: Send + 'static>(
    pid: u32,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let (sender, receiver) = channel();
    let tracer = thread::Builder::new()
        .name("tracer".into())
        .spawn(move || {
            // SAFETY: reads a number.
            let tid = unsafe { libc::gettid() };
            // Nobody listens any more if it took too long.
            let _ = sender.send((tid, work()));
        })
        .map_err(|e| Refusal::new(format!("convoy cannot start a thread: {e}"), ""))?;
    for _ in 0..ATTEMPT_INTERVALS {
        match receiver.recv_timeout(REAP_INTERVAL) {
            Ok((tid, result)) => {
                if !is_gone(tid) {
                    STUCK.store(true, Ordering::Relaxed);
                }
                return result;
            }
            Err(RecvTimeoutError::Disconnected) => match tracer.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => return Err(too_long(pid)),
            },
            Err(RecvTimeoutError::Timeout) => reap(pid),
        }
    }
    Err(too_long(pid))
}

fn too_long(pid: u32) -> Refusal {
    STUCK.store(true, Ordering::Relaxed);
    Refusal::new(
        format!("a thread of process {pid} cannot be traced: it does not react"),
        "try again later",
    )
}

/// Whether a thread of this process ends, in time. The kernel lets go of its tracees first, and
/// takes it off the list then.
fn is_gone(tid: i32) -> bool {
    let entry = format!("/proc/self/task/{tid}");
    let (soon, later) = RELEASE_LOOKS;
    let pauses = std::iter::repeat_n(RELEASE_PAUSE, soon);
    let mut pauses = pauses.chain(std::iter::repeat_n(REAP_INTERVAL, later));
    while Path::new(&entry).exists() {
        match pauses.next() {
            Some(pause) => thread::sleep(pause),
            None => return false,
        }
    }
    true
}

/// Reaps threads of the process that have ended while they were traced by a thread of this process.
/// Not its first one: that is the process, whose end its parent wants to know.
fn reap(pid: u32) {
    for tid in threads(pid).into_iter().filter(|tid| *tid != pid) {
        // Of a traced thread a wait takes stops as well, whatever it asks for (wait_task_stopped in
        // kernel/exit.c), and the tracer would never see them: only an end is taken.
        if has_ended(tid, libc::WNOWAIT) {
            has_ended(tid, 0);
        }
    }
}

/// Whether a traced thread has ended; without WNOWAIT it is reaped, or its stop taken.
fn has_ended(tid: u32, how: libc::c_int) -> bool {
    let how = how | libc::WEXITED | libc::WNOHANG | libc::__WALL;
    // SAFETY: integers, all of which may be 0; a live local for the call. It fails for threads that
    // nobody here traces.
    let (r, found) = unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        (libc::waitid(libc::P_PID, tid, &mut found, how), found)
    };
    let ends = [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED];
    // SAFETY: waitid has filled in the fields of SIGCHLD, or left zeros.
    r == 0 && unsafe { found.si_pid() } != 0 && ends.contains(&found.si_code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracee::{stat_fields, Stop, Tracee, STOP_LIMIT};

    #[test]
    fn look_for_ended_threads_leaves_stops_to_the_tracer() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let tracee = Tracee::seize(child.id()).unwrap().unwrap();
        tracee.interrupt().unwrap();
        let until = Instant::now() + STOP_LIMIT * 10;
        while stat_fields(child.id()).unwrap()[0] != "t" {
            assert!(Instant::now() < until, "it does not stop");
            thread::sleep(Duration::from_millis(1));
        }
        assert!(!has_ended(child.id(), libc::WNOWAIT));
        assert_eq!(tracee.wait(until).unwrap(), Stop::Event);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
