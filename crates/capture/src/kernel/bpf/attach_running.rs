//! Taking in processes that run already, without stopping them.

use std::fs::{self, File};
use std::io::Read;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use libbpf_rs::{Iter, MapCore, MapFlags, Object};
use zerocopy::FromBytes;

use convoy_abi::{BpfControl, BpfInit, CV_BPF_INIT, CV_BPF_OFF, CV_BPF_STACK_MAX};

use super::deliver::BlockedStacks;
use super::map::Mapping;
use super::unavailable;
use crate::error::Trouble;
use crate::kernel::listener_priority::with_normal_priority;

/// Passes over all tasks of the system at most. Every one but the last found somebody new, and those are
/// recorded from then on with all that they make, so in fact it is two or three.
const MAX_PASSES: usize = 64;

/// Of blocked threads' stacks, in all.
const STACKS_BYTES: usize = 32 << 20;

/// Starts recording all threads of these processes; how many there were.
pub(super) fn adopt(object: &Object, control: &Mapping, pids: &[u32]) -> Result<usize, Trouble> {
    let failed = |e: libbpf_rs::Error| unavailable::not_adopted(&format!("{e:#}"));
    let targets = object
        .maps()
        .find(|map| map.name() == "targets")
        .ok_or_else(|| unavailable::not_adopted("no list of processes"))?;
    let passes = object
        .progs_mut()
        .find(|program| program.name() == "on_task")
        .ok_or_else(|| unavailable::not_adopted("no way to list tasks"))?;
    let link = passes.attach().map_err(failed)?;
    for pid in pids {
        targets
            .update(&pid.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(failed)?;
    }
    let adopting = control.half_word(offset_of!(BpfControl, adopting));
    let adopted = control.word(offset_of!(BpfControl, adopted));
    let before = adopted.load(Ordering::SeqCst);
    // From here on a thread that one of them makes is recorded by its fork.
    adopting.store(1, Ordering::SeqCst);
    let mut result = Ok(());
    for _ in 0..MAX_PASSES {
        let known = adopted.load(Ordering::SeqCst);
        result = pass(&link);
        if result.is_err() || adopted.load(Ordering::SeqCst) == known {
            break;
        }
    }
    adopting.store(0, Ordering::SeqCst);
    for pid in pids {
        // It may be gone only if the caller named it twice.
        let _ = targets.delete(&pid.to_ne_bytes());
    }
    result.map_err(|e| unavailable::not_adopted(&e))?;
    Ok((adopted.load(Ordering::SeqCst) - before) as usize)
}

/// Reading runs the program for every task.
fn pass(link: &libbpf_rs::Link) -> Result<(), String> {
    let mut tasks = Iter::new(link).map_err(|e| format!("{e:#}"))?;
    let mut unused = [0; 512];
    loop {
        match tasks.read(&mut unused) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {}
            Err(e) => return Err(e.to_string()),
        }
    }
}

/// Keeps the stack of a thread that was blocked when it was adopted, and still is at the same place.
pub(super) fn keep_stack(record: &[u8], blocked: &mut BlockedStacks) {
    let Ok((init, _)) = BpfInit::read_from_prefix(record) else {
        return;
    };
    let is_off = init.flags & u32::from(CV_BPF_OFF) != 0;
    if init.kind != CV_BPF_INIT || !is_off || blocked.contains_key(&init.tid) {
        return;
    }
    // With thousands of threads, less of each: the leaf end tells most.
    let each = (STACKS_BYTES / (blocked.len() + 1)).clamp(512, CV_BPF_STACK_MAX);
    if let Some(stack) = read_stack(&init, each) {
        blocked.insert(init.tid, stack);
    }
}

fn read_stack(init: &BpfInit, bytes: usize) -> Option<Vec<u8>> {
    let memory = File::open(format!("/proc/{}/mem", init.tgid)).ok()?;
    let mut stack = vec![0; bytes];
    let mut have = 0;
    // A read ends at the end of the mapping.
    while have < bytes {
        match with_normal_priority(|| {
            memory.read_at(&mut stack[have..], init.sp.wrapping_add(have as u64))
        }) {
            Ok(0) | Err(_) => break,
            Ok(n) => have += n,
        }
    }
    stack.truncate(have);
    stack.shrink_to_fit();
    (have > 0 && is_still_there(init)).then_some(stack)
}

/// Whether the thread is still blocked with these registers: then its stack was what it was at the first look.
fn is_still_there(init: &BpfInit) -> bool {
    let file = format!("/proc/{}/task/{}/syscall", init.tgid, init.tid);
    let Ok(text) = fs::read_to_string(file) else {
        return false;
    };
    stands_at(&text, init.sp, init.ip)
}

/// The file ends with stack pointer and instruction pointer; it says "running" for a thread that is not blocked.
fn stands_at(text: &str, sp: u64, ip: u64) -> bool {
    let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let mut words = text.split_whitespace().rev();
    words.next().and_then(hex) == Some(ip) && words.next().and_then(hex) == Some(sp)
}

#[cfg(test)]
mod tests {
    use super::stands_at;

    #[test]
    fn a_thread_that_has_moved_on_is_not_where_it_was() {
        let blocked = "202 0x7f1 0x189 0x0 0x0 0x0 0x7ffe10 0x7f5520\n";
        assert!(stands_at(blocked, 0x7ffe10, 0x7f5520));
        assert!(!stands_at(blocked, 0x7ffe00, 0x7f5520));
        assert!(!stands_at(blocked, 0x7ffe10, 0x7f5521));
        assert!(stands_at("-1 0x7ffe10 0x7f5520\n", 0x7ffe10, 0x7f5520));
        assert!(!stands_at("running\n", 0, 0));
        assert!(!stands_at("", 0, 0));
    }
}
