//! Writing of patches, while all threads of the process are stopped.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoy_probes::relocate::PATCH_BYTES;

use super::area::Patch;
use super::borrow::open;
use crate::all_stopped::AllStopped;
use crate::memory::Memory;
use crate::safe_point::refused;
use crate::stacks::Stacks;
use crate::tracee::{Fault, Tracee};
use crate::tracer::{attempt, retry};
use convoy_probes::Refusal;

/// How long threads that are inside the bytes of a patch are given to go on, and those that cannot
/// be stopped.
const LIMIT: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(2);
const PAGE: u64 = 4096;

type Bytes = [u8; PATCH_BYTES];

/// Bytes to write, where these are now.
#[derive(Debug, Clone, Copy)]
struct Change {
    old: Bytes,
    new: Bytes,
    /// It is a patch; otherwise one goes out.
    is_patch: bool,
}

/// What is written in one stop.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// By address.
    bytes: BTreeMap<u64, Change>,
    /// Instructions that are displaced: threads that are at one are moved.
    moved: BTreeMap<u64, u64>,
}

impl Changes {
    /// A patch goes in, in the place of another one if there is one.
    pub fn insert(&mut self, patch: &Patch, before: Option<&Patch>) {
        let change = Change {
            old: before.map_or(patch.original, |p| p.patched),
            new: patch.patched,
            is_patch: true,
        };
        self.bytes.insert(patch.at, change);
        if before.is_none() {
            self.moved.extend(patch.moved.iter().copied());
        }
    }

    /// A patch goes out.
    pub fn remove(&mut self, patch: &Patch) {
        let change = Change {
            old: patch.patched,
            new: patch.original,
            is_patch: false,
        };
        self.bytes.insert(patch.at, change);
    }

    /// Whether an address is strictly inside bytes that will be replaced. A jump that replaces a
    /// jump, or that goes, has no instruction strictly inside.
    fn is_inside(&self, address: u64) -> bool {
        let from = address.saturating_sub(PATCH_BYTES as u64 - 1);
        let mut near = self.bytes.range(from..address);
        near.any(|(at, _)| self.moved.contains_key(at))
    }

    /// Threads to move, with their new places; `None` = one must go on first.
    fn displaced<'t>(
        &self,
        stopped: &'t AllStopped,
        stacks: &Stacks<'_>,
    ) -> Result<Option<Vec<(&'t Tracee, u64)>>, Fault> {
        let mut displaced = Vec::new();
        for thread in &stopped.threads {
            let registers = thread.registers()?;
            if self.is_inside(registers.rip) {
                match self.moved.get(&registers.rip) {
                    Some(new) => displaced.push((thread, *new)),
                    None => return Ok(None),
                }
            }
            let interrupted = stacks.interrupted(thread)?;
            if interrupted.iter().any(|at| self.is_inside(*at)) {
                return Ok(None);
            }
        }
        Ok(Some(displaced))
    }

    /// What is to be written, a page at a time. `Err` = a patch would replace other bytes than
    /// those that it was made for; where one goes out, other bytes are left alone.
    fn spans(&self, memory: &Memory) -> Result<Vec<Span>, u64> {
        let mut spans = Vec::new();
        let mut rest = self.bytes.iter().peekable();
        while let Some((&first, &change)) = rest.next() {
            let mut group = vec![(first, change)];
            while let Some((at, change)) = rest.next_if(|(at, _)| **at / PAGE == first / PAGE) {
                group.push((*at, *change));
            }
            let end = group.last().map_or(first, |(at, _)| *at) + PATCH_BYTES as u64;
            let mut old = vec![0; (end - first) as usize];
            // The library may be gone.
            let is_there = memory.read(first, &mut old).is_ok();
            let mut new = old.clone();
            for (at, change) in group {
                let from = (at - first) as usize;
                let place = &mut new[from..from + PATCH_BYTES];
                if is_there && place == change.old {
                    place.copy_from_slice(&change.new);
                } else if change.is_patch {
                    return Err(at);
                }
            }
            spans.push(Span {
                at: first,
                old,
                new,
            });
        }
        spans.retain(|span| span.old != span.new);
        Ok(spans)
    }

    /// Gives the pages of the patches to the process alone, which takes longest, while it runs.
    fn touch(&self, memory: &Memory) {
        let mut last = None;
        for at in self.bytes.keys() {
            let mut byte = [0];
            if last != Some(at / PAGE) && memory.read(*at, &mut byte).is_ok() {
                // Without it, the stop is a little longer.
                let _ = memory.write(*at, &byte);
            }
            last = Some(at / PAGE);
        }
    }
}

/// Bytes of a page, from the first patch to the last one.
#[derive(Debug)]
struct Span {
    at: u64,
    old: Vec<u8>,
    new: Vec<u8>,
}

/// Writes all of them, or none.
fn write(memory: &Memory, spans: &[Span]) -> io::Result<()> {
    for (index, span) in spans.iter().enumerate() {
        if let Err(e) = memory.write(span.at, &span.new) {
            for written in &spans[..=index] {
                // If this fails, too, the image is gone.
                let _ = memory.write(written.at, &written.old);
            }
            return Err(e);
        }
    }
    Ok(())
}

/// Stops all threads and writes; `also` is done before, in the same stop. Returns how long a thread
/// stood still at most.
///
/// # Errors
/// No byte of the program has changed.
pub(super) fn apply(
    pid: u32,
    changes: Changes,
    signal_returns: &[u64],
    also: impl Fn(&AllStopped, &Memory) -> io::Result<()> + Send + Sync + 'static,
) -> Result<Duration, Refusal> {
    let work = Arc::new((changes, signal_returns.to_vec(), also));
    retry(LIMIT, || {
        let work = Arc::clone(&work);
        attempt(pid, move || {
            let (changes, signal_returns, also) = &*work;
            apply_once(pid, changes, signal_returns, also)
        })
    })
}

fn apply_once(
    pid: u32,
    changes: &Changes,
    signal_returns: &[u64],
    also: impl Fn(&AllStopped, &Memory) -> io::Result<()>,
) -> Result<Duration, Refusal> {
    let fault = |fault| refused(pid, fault);
    let io_fault = |e: io::Error| refused(pid, e.into());
    let until = Instant::now() + LIMIT;
    if let Ok(memory) = Memory::open(pid) {
        changes.touch(&memory);
    }
    loop {
        let began = Instant::now();
        let stopped = AllStopped::of(pid).map_err(fault)?;
        let memory = open(pid)?;
        let stacks = Stacks::of(pid, &memory, signal_returns).map_err(io_fault)?;
        if let Some(moves) = changes.displaced(&stopped, &stacks).map_err(fault)? {
            let spans = changes.spans(&memory).map_err(|at| other_bytes(pid, at))?;
            also(&stopped, &memory).map_err(io_fault)?;
            for (thread, rip) in moves {
                let mut registers = thread.registers().map_err(fault)?;
                registers.rip = rip;
                thread.set_registers(&registers).map_err(fault)?;
            }
            // Whoever has been moved goes on at its new place also if nothing is written.
            let written = write(&memory, &spans).map_err(io_fault);
            drop(stopped);
            return written.map(|()| began.elapsed());
        }
        drop(stopped);
        if Instant::now() > until {
            return Err(Refusal::new(
                format!("threads of process {pid} do not leave the code that would be replaced"),
                "try again, or probe fewer functions",
            ));
        }
        std::thread::sleep(PAUSE);
    }
}

fn other_bytes(pid: u32, at: u64) -> Refusal {
    Refusal::new(
        format!("the code of process {pid} at {at:#x} has just been changed by something else"),
        "end that, or try again",
    )
}
