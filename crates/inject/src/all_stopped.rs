//! All threads of a process, stopped at once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::tracee::{is_uninterruptible, threads, Fault, Pause, Tracee, STOP_LIMIT};

/// A thread that has been in uninterruptible sleep for this long is not waited for while the others
/// stand still: the attempt fails, and may be repeated.
const UNINTERRUPTIBLE_LIMIT: Duration = Duration::from_millis(50);

/// Every thread of a process, stopped; they go on when this is dropped.
#[derive(Debug)]
pub(crate) struct AllStopped {
    pub threads: Vec<Tracee>,
    _haste: Haste,
}

/// Real-time priority, where we may have it: threads that go on would take the processor from us
/// before the last one goes on, and make the stop longer by a time slice.
#[derive(Debug)]
struct Haste;

impl Haste {
    fn begin() -> Self {
        set_policy(libc::SCHED_FIFO, 1);
        Self
    }
}

impl Drop for Haste {
    fn drop(&mut self) {
        set_policy(libc::SCHED_OTHER, 0);
    }
}

fn set_policy(policy: i32, priority: i32) {
    let parameter = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: a live local. Without the right to, everything stays as it is.
    unsafe { libc::sched_setscheduler(0, policy, &parameter) };
}

impl AllStopped {
    /// Stops them all, also those that are made meanwhile. Only the end of the calling thread lets
    /// go of a thread that does not stop in time: see tracer.rs.
    pub fn of(pid: u32) -> Result<Self, Fault> {
        let until = Instant::now() + STOP_LIMIT;
        let mut all = Self {
            threads: Vec::new(),
            _haste: Haste::begin(),
        };
        loop {
            let new = interrupt_others(pid, &all.threads)?;
            // Also because seizing may have been blocked by an exec.
            if Instant::now() > until {
                return Err(Fault::TimedOut);
            }
            if new.is_empty() {
                break;
            }
            all.wait_for(new, until)?;
        }
        all.threads.sort_by_key(Tracee::tid);
        match all.threads.is_empty() {
            true => Err(Fault::Ended),
            false => Ok(all),
        }
    }

    /// All of them are looked at in turn, so that each one that stops has its system call made
    /// ready for a restart, whatever becomes of the others.
    fn wait_for(&mut self, mut running: Vec<Tracee>, until: Instant) -> Result<(), Fault> {
        let patience = Instant::now() + UNINTERRUPTIBLE_LIMIT;
        let mut pause = Pause::default();
        loop {
            let mut still_running = Vec::new();
            for tracee in running {
                match tracee.has_stopped() {
                    Ok(true) => self.threads.push(tracee),
                    Ok(false) => still_running.push(tracee),
                    Err(Fault::Ended) => {}
                    Err(fault) => return Err(fault),
                }
            }
            running = still_running;
            if running.is_empty() {
                return Ok(());
            }
            let now = Instant::now();
            let is_asleep = |tracee: &Tracee| is_uninterruptible(tracee.tid());
            if now > until || (now > patience && running.iter().any(is_asleep)) {
                return Err(Fault::TimedOut);
            }
            pause.sleep();
        }
    }
}

/// Threads that are not stopped yet, about to stop. (An exec gives the number of the main thread to
/// another one, so that a number that has been seen may be that of a new thread.)
fn interrupt_others(pid: u32, stopped: &[Tracee]) -> Result<Vec<Tracee>, Fault> {
    let stopped: BTreeSet<u32> = stopped.iter().map(Tracee::tid).collect();
    let mut new = Vec::new();
    for tid in threads(pid)
        .into_iter()
        .filter(|tid| !stopped.contains(tid))
    {
        match Tracee::seize(tid)? {
            Some(tracee) if tracee.interrupt().is_ok() => new.push(tracee),
            _ => {}
        }
    }
    Ok(new)
}

impl Drop for AllStopped {
    fn drop(&mut self) {
        // The last one first: it has waited for the shortest time, and those that go on take our
        // processor.
        while let Some(tracee) = self.threads.pop() {
            tracee.detach();
        }
    }
}
