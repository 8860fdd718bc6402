//! System calls in the probed process, by any of its threads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::call::{Borrowed, Gadgets};
use crate::gadgets::{self, Found};
use crate::memory::{regions, Memory};
use crate::refusal;
use crate::safe_point::{in_restartable_sequence, is_own_stack, refused};
use crate::tracee::{is_uninterruptible, threads, Fault, Tracee, STOP_LIMIT};
use crate::tracer::{attempt, retry};
use convoy_probes::Refusal;

/// How long a thread is looked for.
const LIMIT: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(2);

/// Opens the memory of the image that a process runs now.
pub(super) fn open(pid: u32) -> Result<Memory, Refusal> {
    Memory::open(pid).map_err(|_| refusal::not_permitted(pid))
}

/// Lets a thread make system calls.
pub(super) fn with_thread<T: Send + 'static>(
    pid: u32,
    gadgets: Gadgets,
    calls: impl Fn(&mut Borrowed) -> Result<T, Fault> + Send + Sync + 'static,
) -> Result<T, Refusal> {
    let calls = Arc::new(calls);
    retry(LIMIT, || {
        let calls = Arc::clone(&calls);
        attempt(pid, move || with_thread_once(pid, gadgets, &*calls))
    })
}

fn with_thread_once<T>(
    pid: u32,
    gadgets: Gadgets,
    calls: impl Fn(&mut Borrowed) -> Result<T, Fault>,
) -> Result<T, Refusal> {
    let until = Instant::now() + LIMIT;
    let fault = |fault| refused(pid, fault);
    loop {
        let all = threads(pid);
        if all.is_empty() {
            return Err(Refusal::gone(pid));
        }
        // A filter could end a thread for the call.
        let unfiltered: Vec<u32> = all
            .into_iter()
            .filter(|t| !refusal::has_filter(*t))
            .collect();
        if unfiltered.is_empty() {
            return Err(Refusal::new(
                format!("each thread of process {pid} has a seccomp filter"),
                "",
            ));
        }
        for tid in unfiltered.into_iter().filter(|t| !is_uninterruptible(*t)) {
            let Some(tracee) = stopped(tid, pid).map_err(fault)? else {
                continue;
            };
            let mut borrowed = Borrowed::new(tracee, open(pid)?, gadgets).map_err(fault)?;
            let result = calls(&mut borrowed);
            return match (result, borrowed.give_back()) {
                // It has its own state back: only the stop behind that was not seen.
                (Ok(value), Ok(()) | Err(Fault::TimedOut)) => Ok(value),
                (Err(f), _) | (Ok(_), Err(f)) => Err(fault(f)),
            };
        }
        if Instant::now() > until {
            return Err(Refusal::new(
                format!("no thread of process {pid} can be borrowed for a system call"),
                "try again",
            ));
        }
        std::thread::sleep(PAUSE);
    }
}

/// A thread, stopped where it can be borrowed; `None` if it is not there.
fn stopped(tid: u32, pid: u32) -> Result<Option<Tracee>, Fault> {
    let Some(tracee) = Tracee::seize(tid)? else {
        return Ok(None);
    };
    tracee.interrupt()?;
    match tracee.wait_interrupted(Instant::now() + STOP_LIMIT) {
        Ok(()) => {}
        Err(Fault::Ended) => return Ok(None),
        Err(fault) => return Err(fault),
    }
    let registers = tracee.registers()?;
    let memory = Memory::open(pid)?;
    let is_fit = !tracee.dispatches_system_calls()
        && !in_restartable_sequence(&tracee, &memory)
        && is_own_stack(&registers, &regions(pid)?);
    Ok(is_fit.then_some(tracee))
}

/// Gadgets of a process, or why there are none.
pub(super) fn gadgets(pid: u32, memory: &Memory) -> Result<Found, Refusal> {
    let regions = regions(pid).map_err(|_| Refusal::gone(pid))?;
    gadgets::find(memory, &regions).ok_or_else(|| {
        Refusal::new(
            format!("process {pid} has no code that makes a system call and returns"),
            "",
        )
    })
}

/// Maps executable memory near `near`.
pub(super) fn map_code(pid: u32, found: Gadgets, near: u64, bytes: u64) -> Result<u64, Refusal> {
    with_thread(pid, found, move |thread| thread.map_code(pid, near, bytes))?
        .ok_or_else(|| Refusal::new("there is no room near the code of the functions", ""))
}

/// Unmaps ranges, each of which must still be ours: address and bytes.
pub(super) fn unmap(pid: u32, found: Gadgets, ranges: Vec<(u64, u64)>) -> Result<(), Refusal> {
    with_thread(pid, found, move |thread| {
        ranges.iter().try_for_each(|(at, bytes)| {
            let done = thread.system_call(libc::SYS_munmap, [*at, *bytes, 0, 0, 0, 0]);
            done.map(drop)
        })
    })
}
