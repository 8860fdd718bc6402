//! System calls in the probed process, by any of its threads.

use std::time::{Duration, Instant};

use super::cpu_clock;
use crate::call::{Borrowed, Gadgets};
use crate::gadgets::{self, Found};
use crate::memory::{regions, Memory};
use crate::refusal;
use crate::safe_point::{is_own_stack, refused};
use crate::tracee::{threads, Fault, Tracee, STOP_LIMIT};
use convoy_probes::Refusal;

/// How long a thread is looked for.
const LIMIT: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(2);

/// Opens the memory of the image that a process runs now.
pub(super) fn open(pid: u32) -> Result<Memory, Refusal> {
    Memory::open(pid).map_err(|_| refusal::not_permitted(pid))
}

/// Lets a thread make system calls.
pub(super) fn with_thread<T>(
    pid: u32,
    gadgets: Gadgets,
    calls: impl FnOnce(&mut Borrowed) -> Result<T, Fault>,
) -> Result<T, Refusal> {
    let until = Instant::now() + LIMIT;
    let fault = |fault| refused(pid, fault);
    loop {
        let all = threads(pid);
        if all.is_empty() {
            return Err(Refusal::gone(pid));
        }
        for tid in all {
            let Some(tracee) = stopped(tid, pid).map_err(fault)? else {
                continue;
            };
            let mut borrowed = Borrowed::new(tracee, open(pid)?, gadgets).map_err(fault)?;
            let result = calls(&mut borrowed);
            borrowed.give_back().map_err(fault)?;
            return result.map_err(fault);
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
    // A restartable sequence would go on in its middle: rseq_cs of struct rseq is not 0 then.
    let sequence = tracee.rseq_area().map(|area| memory.get::<u64>(area + 8));
    let is_sequence = |at: u64| at != 0 && !cpu_clock::is_descriptor(&memory, at);
    let is_restartable = sequence.is_some_and(|cs| is_sequence(cs.unwrap_or(1)));
    let is_fit = !is_restartable && is_own_stack(&registers, &regions(pid)?);
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
    let now = regions(pid).map_err(|_| Refusal::gone(pid))?;
    with_thread(pid, found, |thread| thread.map_code(&now, near, bytes))?
        .ok_or_else(|| Refusal::new("there is no room near the code of the functions", ""))
}

/// Maps the table: as many columns as there is memory for. Returns its address and columns.
pub(super) fn map_table(
    pid: u32,
    found: Gadgets,
    columns: u64,
    bytes: impl Fn(u64) -> u64,
) -> Result<(u64, u64), Refusal> {
    const FEWEST: u64 = 64;
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as u64;
    with_thread(pid, found, |thread| {
        let mut columns = columns;
        loop {
            let arguments = [0, bytes(columns), protection, flags, u64::MAX, 0];
            match thread.system_call(libc::SYS_mmap, arguments) {
                Ok(at) => {
                    for advice in [libc::MADV_WIPEONFORK, libc::MADV_DONTDUMP] {
                        let arguments = [at, bytes(columns), advice as u64, 0, 0, 0];
                        thread.system_call(libc::SYS_madvise, arguments)?;
                    }
                    return Ok((at, columns));
                }
                Err(Fault::Refused(_)) if columns > FEWEST => columns /= 2,
                Err(fault) => return Err(fault),
            }
        }
    })
}
