//! Writing of patches, while all threads of the process are stopped.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use convoy_probes::relocate::PATCH_BYTES;

use super::area::Patch;
use super::borrow::open;
use crate::all_stopped::AllStopped;
use crate::memory::Memory;
use crate::safe_point::refused;
use crate::stacks::Stacks;
use crate::tracee::{Fault, Tracee};
use convoy_probes::Refusal;

/// How long threads that are inside the bytes of a patch are given to go on.
const LIMIT: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(2);
/// How long a process is tried to be stopped for taking patches out.
const LEAVE_LIMIT: Duration = Duration::from_secs(60);
const PAGE: u64 = 4096;

type Bytes = [u8; PATCH_BYTES];

/// Bytes to write, where these are now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub old: Bytes,
    pub new: Bytes,
}

/// What is written in one stop.
#[derive(Debug, Default)]
pub(super) struct Changes<'a> {
    /// By address.
    bytes: BTreeMap<u64, Change>,
    /// Instructions that are displaced: threads that are at one are moved.
    moved: BTreeMap<u64, u64>,
    /// Patches that go in.
    inserted: Vec<&'a Patch>,
}

impl<'a> Changes<'a> {
    /// A patch goes in, in the place of another one if there is one.
    pub fn insert(&mut self, patch: &'a Patch, before: Option<&Patch>) {
        let old = before.map_or(patch.original, |p| p.patched);
        let new = patch.patched;
        self.bytes.insert(patch.at, Change { old, new });
        if before.is_none() {
            self.moved.extend(patch.moved.iter().copied());
            self.inserted.push(patch);
        }
    }

    /// A patch goes out.
    pub fn remove(&mut self, patch: &Patch) {
        let change = Change {
            old: patch.patched,
            new: patch.original,
        };
        self.bytes.insert(patch.at, change);
    }

    /// Whether an address is strictly inside bytes that will be replaced.
    fn is_inside(&self, address: u64) -> bool {
        let from = address.saturating_sub(PATCH_BYTES as u64 - 1);
        let mut near = self.bytes.range(from..address);
        near.any(|(at, _)| self.inserted_at(*at))
    }

    fn inserted_at(&self, at: u64) -> bool {
        // A jump that replaces a jump, or that goes, has no instruction strictly inside.
        self.moved.contains_key(&at)
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

    /// Writes it all, a page at a time; what is not as expected is left alone and returned.
    fn write(&self, memory: &Memory) -> io::Result<Vec<u64>> {
        let mut unexpected = Vec::new();
        let mut rest = self.bytes.iter().peekable();
        while let Some((&first, &change)) = rest.next() {
            let mut group = vec![(first, change)];
            while let Some((at, change)) = rest.next_if(|(at, _)| **at / PAGE == first / PAGE) {
                group.push((*at, *change));
            }
            let end = group.last().map_or(first, |(at, _)| *at) + PATCH_BYTES as u64;
            let mut span = vec![0; (end - first) as usize];
            if memory.read(first, &mut span).is_err() {
                // The library is gone.
                unexpected.extend(group.iter().map(|(at, _)| *at));
                continue;
            }
            for (at, change) in group {
                let from = (at - first) as usize;
                let place = &mut span[from..from + PATCH_BYTES];
                match place == change.old {
                    true => place.copy_from_slice(&change.new),
                    false => unexpected.push(at),
                }
            }
            memory.write(first, &span)?;
        }
        Ok(unexpected)
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

/// Stops all threads and writes; `also` is done before, in the same stop. Returns the addresses
/// that did not have the bytes that were expected, and how long the stop took.
pub(super) fn apply(
    pid: u32,
    changes: &Changes<'_>,
    signal_returns: &[u64],
    mut also: impl FnMut(&Memory) -> io::Result<()>,
) -> Result<(Vec<u64>, Duration), Refusal> {
    let fault = |fault| refused(pid, fault);
    let until = Instant::now() + LIMIT;
    if let Ok(memory) = Memory::open(pid) {
        changes.touch(&memory);
    }
    loop {
        let began = Instant::now();
        let stopped = AllStopped::of(pid).map_err(fault)?;
        let memory = open(pid)?;
        let io_fault = |e: io::Error| refused(pid, e.into());
        let stacks = Stacks::of(pid, &memory, signal_returns).map_err(io_fault)?;
        let moves = changes.displaced(&stopped, &stacks);
        if let Some(moves) = moves.map_err(fault)? {
            also(&memory).map_err(io_fault)?;
            for (thread, rip) in moves {
                let mut registers = thread.registers().map_err(fault)?;
                registers.rip = rip;
                thread.set_registers(&registers).map_err(fault)?;
            }
            let unexpected = changes.write(&memory).map_err(io_fault)?;
            drop(stopped);
            return Ok((unexpected, began.elapsed()));
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

/// Stops all threads, as long as it may take; `None` = the process is gone.
pub(super) fn stop_patiently(pid: u32) -> Result<Option<AllStopped>, Refusal> {
    let until = Instant::now() + LEAVE_LIMIT;
    loop {
        match AllStopped::of(pid) {
            Ok(stopped) => return Ok(Some(stopped)),
            Err(Fault::Ended) => return Ok(None),
            Err(fault) if Instant::now() > until => return Err(refused(pid, fault)),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}
