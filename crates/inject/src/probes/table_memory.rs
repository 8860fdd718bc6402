//! Memory of the table that probes count into: how much of it the process can spare.
//!
//! Pages that no thread counts into cost nothing but addresses, and those are what some processes
//! are short of: under RLIMIT_AS or RLIMIT_DATA, or where the kernel promises no more memory than
//! there is (vm.overcommit_memory=2).

use std::fs;

use convoy_probes::table::table_bytes;
use convoy_probes::Refusal;

use super::borrow::with_thread;
use crate::call::Gadgets;
use crate::tracee::Fault;

/// Columns for threads that come later, besides twice as many as there are.
const SPARE_COLUMNS: u64 = 512;
const MAX_COLUMNS: u64 = 1 << 17;
/// Columns for threads that come later, where room is short.
const FEWEST_SPARE: u64 = 8;
/// Of what a limit leaves, the part that the table may take.
const LEAST_LEFT: u64 = 8;

/// Room that a limit leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Room {
    bytes: u64,
    limit: &'static str,
}

/// Maps the table for as many threads as the process has, and for others that come. Returns its
/// address and columns.
pub(super) fn map(pid: u32, found: Gadgets, threads: u64) -> Result<(u64, u64), Refusal> {
    let most = (threads * 2 + SPARE_COLUMNS)
        .next_power_of_two()
        .min(MAX_COLUMNS);
    let fewest = (threads + FEWEST_SPARE).next_power_of_two().min(most);
    let rooms = rooms(pid);
    let columns = fitting(most, fewest, &rooms).map_err(|room| {
        Refusal::new(
            format!(
                "{} leaves process {pid} {} MiB, too little for probes of {threads} threads \
                 ({} MiB)",
                room.limit,
                room.bytes >> 20,
                (table_bytes(fewest) * LEAST_LEFT) >> 20
            ),
            "raise the limit",
        )
    })?;
    with_thread(pid, found, move |thread| {
        let mut columns = columns;
        loop {
            match map_pages(thread, table_bytes(columns)) {
                Err(Fault::Refused(_)) if columns > fewest => columns /= 2,
                mapped => return mapped.map(|at| (at, columns)),
            }
        }
    })
}

/// Without access at first: in a process with mlockall(MCL_FUTURE) all pages would be filled at
/// once.
fn map_pages(thread: &mut crate::call::Borrowed, bytes: u64) -> Result<u64, Fault> {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as u64;
    let none = libc::PROT_NONE as u64;
    let at = thread.system_call(libc::SYS_mmap, [0, bytes, none, flags, u64::MAX, 0])?;
    let access = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let calls = [
        (libc::SYS_munlock, 0),
        (libc::SYS_mprotect, access),
        (libc::SYS_madvise, libc::MADV_WIPEONFORK as u64),
        (libc::SYS_madvise, libc::MADV_DONTDUMP as u64),
    ];
    for (call, argument) in calls {
        if let Err(fault) = thread.system_call(call, [at, bytes, argument, 0, 0, 0]) {
            // The memory stays if this fails: nothing that the program sees.
            let _ = thread.system_call(libc::SYS_munmap, [at, bytes, 0, 0, 0, 0]);
            return Err(fault);
        }
    }
    Ok(at)
}

/// As many columns as all limits allow; `Err` = the one that allows too few.
fn fitting(most: u64, fewest: u64, rooms: &[Room]) -> Result<u64, Room> {
    let mut columns = most;
    for room in rooms {
        while table_bytes(columns) > room.bytes / LEAST_LEFT {
            if columns <= fewest {
                return Err(*room);
            }
            columns = (columns / 2).max(fewest);
        }
    }
    Ok(columns)
}

fn rooms(pid: u32) -> Vec<Room> {
    let read = |path: String| fs::read_to_string(path).unwrap_or_default();
    let status = read(format!("/proc/{pid}/status"));
    let limits = read(format!("/proc/{pid}/limits"));
    let of_process = |limit, name: &str, used: &str| {
        let used = kib(&status, used)? << 10;
        let bytes = soft_limit(&limits, name)?.saturating_sub(used);
        Some(Room { bytes, limit })
    };
    let of_machine = || {
        let mode = read("/proc/sys/vm/overcommit_memory".into());
        let memory = read("/proc/meminfo".into());
        let left = kib(&memory, "CommitLimit")?.saturating_sub(kib(&memory, "Committed_AS")?);
        (mode.trim() == "2").then_some(Room {
            bytes: left << 10,
            limit: "vm.overcommit_memory=2",
        })
    };
    let all = [
        of_process("RLIMIT_AS", "Max address space", "VmSize"),
        of_process("RLIMIT_DATA", "Max data size", "VmData"),
        of_machine(),
    ];
    all.into_iter().flatten().collect()
}

/// `NAME:   NUMBER kB`
fn kib(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(key, _)| *key == name)?;
    value.split_whitespace().next()?.parse().ok()
}

/// `NAME   SOFT   HARD   bytes`; `None` = unlimited.
fn soft_limit(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_takes_an_eighth_of_the_room_at_most() {
        let room = |bytes| Room {
            bytes,
            limit: "RLIMIT_AS",
        };
        assert_eq!(fitting(1024, 16, &[]), Ok(1024));
        assert_eq!(fitting(1024, 16, &[room(u64::MAX)]), Ok(1024));
        let tight = room(table_bytes(64) * LEAST_LEFT);
        assert_eq!(fitting(1024, 16, &[tight]), Ok(64));
        let too_tight = room(table_bytes(8) * LEAST_LEFT);
        assert_eq!(fitting(1024, 16, &[tight, too_tight]), Err(too_tight));
    }

    #[test]
    fn limits_are_read_as_the_kernel_writes_them() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max data size             unlimited            unlimited            bytes\n\
                      Max address space         8589934592           unlimited            bytes\n";
        assert_eq!(soft_limit(limits, "Max address space"), Some(8 << 30));
        assert_eq!(soft_limit(limits, "Max data size"), None);
        assert_eq!(
            kib("VmPeak:\t    9 kB\nVmSize:\t  2300 kB\n", "VmSize"),
            Some(2300)
        );
        assert_eq!(kib("", "VmSize"), None);
    }
}
