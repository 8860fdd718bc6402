//! Taking probes out: those of this convoy, and what a killed one has left.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::area::{Area, Head};
use super::borrow::{open, unmap};
use crate::all_stopped::AllStopped;
use crate::gadgets::Found;
use crate::memory::{regions, Memory};
use crate::owner::Owner;
use crate::refusal;
use crate::safe_point::refused;
use crate::stacks::Stacks;
use crate::tracer::{attempt, retry};
use crate::turn::Turn;
use convoy_probes::Refusal;

/// How long a process is tried to be stopped: it must not stay behind with patches.
const LIMIT: Duration = Duration::from_secs(60);
/// How long another convoy is waited for.
const TURN_LIMIT: Duration = Duration::from_secs(5);
/// How long threads that are in a stub are given to leave it; after that it stays mapped.
const LEAVE_LIMIT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

/// Waits for a convoy that comes or goes at the same moment.
pub(super) fn turn(pid: u32) -> Result<Turn, Refusal> {
    retry(TURN_LIMIT, || Turn::take(pid))
}

/// Takes out what a convoy has left that was killed, or that probes the process from which this
/// one was forked. In one's [`turn`].
///
/// # Errors
/// Another convoy probes the process, or it cannot be stopped.
pub(super) fn take_over(pid: u32, memory: &Memory, found: Option<&Found>) -> Result<(), Refusal> {
    let areas = Area::find(pid, memory, &regions(pid).map_err(|_| Refusal::gone(pid))?);
    if let Some(area) = areas.iter().find(|a| is_alive(a.head(), pid)) {
        return Err(Refusal::new(
            format!(
                "another convoy (process {}) probes process {pid}",
                area.head().owner_pid
            ),
            "wait until it has ended",
        ));
    }
    restore(pid, &areas)?;
    // Areas of one session have one table. It is unmapped once: its place may be another
    // mapping's right after.
    let tables = areas.iter().map(|a| (a.head().table, a.head().table_bytes));
    let tables: BTreeMap<u64, u64> = tables.collect();
    if let Some(found) = found {
        free(pid, found, &areas, tables);
    }
    Ok(())
}

fn is_alive(head: &Head, pid: u32) -> bool {
    let owner = Owner {
        pid: head.owner_pid,
        start_ticks: head.owner_start,
    };
    head.owner_pid != 0 && head.target == pid && owner.is_alive()
}

/// Takes out everything of a session: its areas, and its table.
///
/// # Errors
/// The process cannot be stopped: patches are still in it.
pub(super) fn take_out(
    pid: u32,
    found: &Found,
    areas: &[Area],
    table: (u64, u64),
) -> Result<(), Refusal> {
    // From before the areas are nobody's until they are gone. Without a turn another convoy may
    // free them.
    let turn = turn(pid);
    restore(pid, areas)?;
    if turn.is_ok() {
        free(pid, found, areas, BTreeMap::from([table]));
    }
    Ok(())
}

/// Writes all old bytes back.
fn restore(pid: u32, areas: &[Area]) -> Result<(), Refusal> {
    let addresses: Vec<u64> = areas.iter().map(|a| a.at).collect();
    if addresses.is_empty() {
        return Ok(());
    }
    retry(LIMIT, || {
        let addresses = addresses.clone();
        attempt(pid, move || {
            let stopped = AllStopped::of(pid).map_err(|fault| refused(pid, fault))?;
            let memory = open(pid)?;
            for at in addresses {
                // The image may be another one now, which has none of them.
                if let Some(mut area) = Area::at(&memory, at) {
                    let out = area.take_out(&memory);
                    out.map_err(|e| refused(pid, e.into()))?;
                }
            }
            drop(stopped);
            Ok(())
        })
    })
}

/// Unmaps areas in which no thread is, with their tables; nobody comes into them any more. What
/// cannot be unmapped stays, and the next convoy tries once more.
fn free(pid: u32, found: &Found, areas: &[Area], tables: BTreeMap<u64, u64>) {
    let until = Instant::now() + LEAVE_LIMIT;
    while !are_left(pid, found, areas).unwrap_or(false) {
        if Instant::now() > until {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    let areas = areas.iter().map(|a| (a.at, a.head().bytes));
    // Its failure is no harm: nothing that the program sees.
    let _ = unmap(pid, found.gadgets, areas.chain(tables).collect());
}

fn are_left(pid: u32, found: &Found, areas: &[Area]) -> Result<bool, Refusal> {
    let ranges: Vec<_> = areas.iter().map(Area::range).collect();
    if ranges.is_empty() {
        return Ok(true);
    }
    refusal::check_alone(pid)?;
    let returns = found.signal_returns.clone();
    attempt(pid, move || {
        let fault = |fault| refused(pid, fault);
        let stopped = AllStopped::of(pid).map_err(fault)?;
        let memory = open(pid)?;
        let stacks = Stacks::of(pid, &memory, &returns).map_err(|e| fault(e.into()))?;
        let is_in = stacks.lead_into(&stopped, &ranges).map_err(fault)?;
        Ok(!is_in)
    })
}
