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

/// Longest time that an attempt may take: it looks for a thread, and makes calls in it.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(60);
/// An attempt that takes longer than this may be waiting for threads to be reaped.
const REAP_INTERVAL: Duration = Duration::from_millis(20);
/// Within this time the kernel lets go of the tracees of a thread that has ended.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

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
    let until = Instant::now() + ATTEMPT_LIMIT;
    loop {
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
            Err(RecvTimeoutError::Timeout) if Instant::now() > until => return Err(too_long(pid)),
            Err(RecvTimeoutError::Timeout) => reap(pid),
        }
    }
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
    let until = Instant::now() + RELEASE_LIMIT;
    let entry = format!("/proc/self/task/{tid}");
    while Path::new(&entry).exists() {
        if Instant::now() > until {
            return false;
        }
        thread::sleep(Duration::from_micros(50));
    }
    true
}

/// Reaps threads of the process that have ended while they were traced by a thread of this process.
/// Not its first one: that is the process, whose end its parent wants to know.
fn reap(pid: u32) {
    for tid in threads(pid).into_iter().filter(|tid| *tid != pid) {
        // SAFETY: integers, all of which may be 0; a live local for the call.
        unsafe {
            let mut end: libc::siginfo_t = std::mem::zeroed();
            let how = libc::WEXITED | libc::WNOHANG | libc::__WALL;
            // Fails for threads that nobody here traces.
            libc::waitid(libc::P_PID, tid, &mut end, how);
        }
    }
}
