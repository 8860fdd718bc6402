//! Live tests: they need root and a kernel with BPF, and say so where they cannot run.

mod trace;
mod workload;

use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::*;
use crate::kernel::reason;
use trace::{Kept, Trace};

/// One after the other: a source that records the children of this process records those of other tests, too.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A source, unless this machine has none.
fn source(
    options: &BpfOptions,
    ring_events: Option<usize>,
) -> Option<(BpfSource, MutexGuard<'static, ()>)> {
    let turn = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|broken| broken.into_inner());
    match BpfSource::open_with_rings(options, ring_events) {
        Ok(source) => Some((source, turn)),
        Err(trouble) => {
            eprintln!("skipped: {trouble}");
            None
        }
    }
}

const NO_SAMPLES: BpfOptions = BpfOptions {
    sample_period_ns: 0,
    stack_bytes: 16384,
    adopts_running: true,
};

/// Drains until the program has ended, and the rest.
fn drain_until_end(source: &mut BpfSource, child: &mut std::process::Child, trace: &mut Trace) {
    while child.try_wait().expect("wait").is_none() {
        source.drain(trace, false);
        std::thread::sleep(Duration::from_millis(2));
    }
    source.drain(trace, true);
}

#[test]
fn a_shell_and_its_children_are_followed_from_fork_to_exit() {
    let Some((mut source, _turn)) = source(&BpfOptions::default(), None) else {
        return;
    };
    source.adopt_children_of_self(true);
    let mut shell = Command::new("sh")
        .args(["-c", "sleep 0.01 & sleep 0.02; wait"])
        .spawn()
        .expect("sh");
    source.adopt_children_of_self(false);
    let mut outsider = Command::new("sleep").arg("0.01").spawn().expect("sleep");
    let outside = outsider.id();
    outsider.wait().expect("wait");
    let pid = shell.id();
    assert!(shell.wait().expect("sh").success());

    let mut trace = Trace::default();
    source.drain(&mut trace, true);
    trace.check_order();
    trace.check_beginnings();
    trace.check_stacks();
    let family = trace.family(pid);
    assert_eq!(family.len(), 3, "the shell and two sleeps");
    let exits = trace.count(|k| matches!(k, Kept::Exit { tid, .. } if family.contains(tid)));
    assert_eq!(exits, 3);
    let execs = trace.count(|k| matches!(k, Kept::Exec { pid, .. } if family.contains(pid)));
    assert_eq!(execs, 3);
    assert!(trace.blocked_in(&family, libc::SYS_clock_nanosleep) >= 2);
    let of_outsider = trace.count(|kept| match kept {
        Kept::Switch { out, into, .. } => {
            out.is_some_and(|o| o.0 == outside) || *into == Some(outside)
        }
        Kept::Fork { tid, .. } | Kept::Wakeup { tid, .. } | Kept::Exit { tid, .. } => {
            *tid == outside
        }
        _ => false,
    });
    assert_eq!(of_outsider, 0, "started after the door was closed");
}

#[test]
fn every_handoff_of_two_threads_is_a_wakeup_and_two_switches() {
    const ROUNDS: u32 = 20_000;
    let Some((mut source, _turn)) = source(&NO_SAMPLES, None) else {
        return;
    };
    let mut child = workload::recorded(&source, "ping-pong", ROUNDS);
    let mut trace = Trace::default();
    drain_until_end(&mut source, &mut child, &mut trace);
    trace.check_order();
    trace.check_beginnings();
    assert_eq!(trace.lost(), (0, 0));
    trace.check_stacks();
    let family = trace.family(child.id());
    assert_eq!(family.len(), 2);
    let handoffs = 2 * ROUNDS as usize;
    let switches =
        trace.count(|k| matches!(k, Kept::Switch { into: Some(t), .. } if family.contains(t)));
    assert!(
        switches >= handoffs && switches < handoffs + handoffs / 4,
        "{switches} switches of {handoffs}"
    );
    // Where the writer is preempted by the one that it wakes, its own read finds the byte there.
    let reads = trace.blocked_in(&family, libc::SYS_read);
    assert!(
        reads > handoffs * 9 / 20 && reads <= handoffs + 10,
        "{reads} of {handoffs}"
    );
    let woken_by_write = trace.count(|kept| match kept {
        Kept::Wakeup {
            tid,
            waker: Some(waker),
            ..
        } => {
            family.contains(tid)
                && family.contains(&waker.tid)
                && waker.tid != *tid
                && libc::c_long::from(waker.call.nr) == libc::SYS_write
                && waker.key != 0
        }
        _ => false,
    });
    assert!(
        woken_by_write.abs_diff(reads) <= 10,
        "{woken_by_write} of {reads}"
    );
}

#[test]
fn the_one_descriptor_that_a_poll_waits_for_is_read() {
    const FD: u32 = 77;
    let Some((mut source, _turn)) = source(&NO_SAMPLES, None) else {
        return;
    };
    let mut child = workload::recorded(&source, "polls", FD);
    let mut trace = Trace::default();
    drain_until_end(&mut source, &mut child, &mut trace);
    assert!(child.wait().expect("wait").success());
    let waits = |one: bool| {
        trace.count(|kept| match kept {
            Kept::Switch {
                out: Some((tid, left)),
                ..
            } if *tid == child.id() && left.state != 0 => match one {
                true => reason::descriptor(&left.call) == Some(FD as i32),
                // The address stays where it was.
                false => left.call.arg1 == 2 && reason::descriptor(&left.call).is_none(),
            },
            _ => false,
        })
    };
    assert_eq!((waits(true), waits(false)), (5, 5));
}

#[test]
fn a_storm_on_two_processors_loses_nothing() {
    const ROUNDS: u32 = 150_000;
    let Some((mut source, _turn)) = source(&BpfOptions::default(), None) else {
        return;
    };
    let mut child = workload::recorded(&source, "storm", ROUNDS);
    let mut trace = Trace::default();
    drain_until_end(&mut source, &mut child, &mut trace);
    assert_eq!(trace.lost().0, 0);
    trace.check_order();
    let family = trace.family(child.id());
    assert_eq!(family.len(), 5);
    assert!(trace.blocked_in(&family, libc::SYS_read) > 2 * ROUNDS as usize * 9 / 10);
}

#[test]
fn a_ring_that_is_too_small_says_what_it_has_lost_and_when() {
    let Some((mut source, _turn)) = source(&NO_SAMPLES, Some(1024)) else {
        return;
    };
    let mut child = workload::recorded(&source, "ping-pong", 10_000);
    assert!(child.wait().expect("wait").success());
    let mut trace = Trace::default();
    source.drain(&mut trace, true);
    let events = trace.count(|kept| matches!(kept, Kept::Switch { .. } | Kept::Wakeup { .. }));
    let (lost, _) = trace.lost();
    // At least two switches and a wake-up a round.
    assert!(
        lost + events as u64 >= 29_000 && events < 4096,
        "{lost} lost, {events} there"
    );
    let mut before = 0;
    for kept in &trace.kept {
        assert!(kept.ts() >= before, "time goes back at {kept:?}");
        before = kept.ts();
        if let Kept::Lost { from, to, .. } = kept {
            assert!(from <= to);
        }
    }
}

#[test]
fn thousand_short_threads_have_a_beginning_and_an_end() {
    let Some((mut source, _turn)) = source(&NO_SAMPLES, None) else {
        return;
    };
    let mut child = workload::recorded(&source, "threads", 1000);
    let mut trace = Trace::default();
    drain_until_end(&mut source, &mut child, &mut trace);
    trace.check_order();
    trace.check_beginnings();
    let family = trace.family(child.id());
    assert_eq!(family.len(), 1001);
    let exits = trace.count(|k| matches!(k, Kept::Exit { tid, .. } if family.contains(tid)));
    assert_eq!(exits, 1001);
}

#[test]
fn a_program_started_by_another_thread_takes_the_process_over() {
    let Some((mut source, _turn)) = source(&NO_SAMPLES, None) else {
        return;
    };
    let mut child = workload::recorded(&source, "exec-thread", 0);
    let pid = child.id();
    let mut trace = Trace::default();
    drain_until_end(&mut source, &mut child, &mut trace);
    let family = trace.family(pid);
    assert_eq!(family.len(), 2);
    let taken_over = trace.count(
        |k| matches!(k, Kept::Exec { pid: p, old_tid, .. } if *p == pid && *old_tid == family[1]),
    );
    assert_eq!(taken_over, 1);
    // The main thread ends before, and the one with its number after.
    let ends: Vec<[u8; 16]> = trace
        .kept
        .iter()
        .filter_map(|kept| match kept {
            Kept::Exit { tid, comm, .. } if *tid == pid => Some(*comm),
            _ => None,
        })
        .collect();
    assert_eq!(ends.len(), 2);
    assert!(ends[0].starts_with(b"workload\0") && ends[1].starts_with(b"true\0"));
}

#[test]
fn running_threads_are_taken_in_with_state_and_stack() {
    let Some((mut source, _turn)) = source(&BpfOptions::default(), None) else {
        return;
    };
    let child = workload::running("blocked");
    let pid = child.id();
    assert_eq!(source.adopt_running(&[pid]).expect("adopt"), 5);
    std::thread::sleep(Duration::from_millis(60));
    let mut trace = Trace::default();
    source.drain(&mut trace, false);
    workload::end(child);
    source.drain(&mut trace, true);
    trace.check_order();
    trace.check_beginnings();
    trace.check_stacks();
    let mut calls = Vec::new();
    let mut busy = 0;
    for kept in &trace.kept {
        let Kept::Init {
            tid, pid: of, left, ..
        } = kept
        else {
            continue;
        };
        assert_eq!(*of, pid);
        let Some(left) = left else {
            busy += 1;
            continue;
        };
        calls.push(libc::c_long::from(left.call.nr));
        assert_eq!(left.state, 1, "interruptible");
        let stacks = trace.count(|k| {
            matches!(k, Kept::Stack { tid: t, key, bytes, regs, .. }
            if t == tid && *key == left.key && *bytes > 256 && regs.ip != 0)
        });
        assert!(stacks >= 1, "of {tid}");
    }
    calls.sort_unstable();
    let mut expected = [
        libc::SYS_read,
        libc::SYS_futex,
        libc::SYS_poll,
        libc::SYS_clock_nanosleep,
    ];
    expected.sort_unstable();
    assert_eq!(calls, expected);
    assert_eq!(busy, 1);
    let samples = trace
        .count(|k| matches!(k, Kept::Sample { bytes, regs, .. } if *bytes > 256 && regs.ip != 0));
    assert!(samples >= 5, "{samples} samples of 60 ms");
}

#[test]
fn threads_made_while_their_process_is_taken_in_are_told_once() {
    let Some((mut source, _turn)) = source(&NO_SAMPLES, None) else {
        return;
    };
    let child = workload::running("churn");
    let mut trace = Trace::default();
    let began = Instant::now();
    assert!(source.adopt_running(&[child.id()]).expect("adopt") >= 5);
    assert!(began.elapsed() < Duration::from_secs(1));
    let forks = |trace: &Trace| trace.count(|k| matches!(k, Kept::Fork { .. }));
    while forks(&trace) <= 100 {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
        source.drain(&mut trace, false);
    }
    workload::end(child);
    source.drain(&mut trace, true);
    trace.check_beginnings();
}

#[test]
fn the_kernel_names_its_functions_as_its_table_does() {
    let Some((source, _turn)) = source(&NO_SAMPLES, None) else {
        return;
    };
    let table = std::fs::read_to_string("/proc/kallsyms").expect("kallsyms");
    let address = table
        .lines()
        .find_map(|line| line.strip_suffix(" T vfs_read"))
        .and_then(|hex| u64::from_str_radix(hex, 16).ok())
        .expect("a function that every kernel has");
    assert_eq!(source.kernel_name(address + 9).as_deref(), Some("vfs_read"));
    assert_eq!(source.kernel_name(0x1000), None);
}
