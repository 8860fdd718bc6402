//! The pipeline and the join, fed with events written by hand.

use convoy_profile::{OffReason, Process, SchedSource, Thread, Waker};
use convoy_sched::Options;

use super::join;
use super::pipeline::{Collected, Pipeline};
use super::raw::{Call, Left, Raw, Regs, Sink, WakerRaw};

const FUTEX: i16 = if cfg!(target_arch = "x86_64") {
    202
} else {
    98
};
const SLEEP: i16 = if cfg!(target_arch = "x86_64") {
    230
} else {
    115
};
const PID: u32 = 4_000_000; // above the kernel's limit: nothing of it is in /proc
const OTHER: u32 = PID + 1;

fn pipeline() -> Pipeline {
    pipeline_of(SchedSource::Bpf)
}

fn pipeline_of(source: SchedSource) -> Pipeline {
    Pipeline::new(Options {
        source,
        sample_period_ns: 0,
        bins: 10,
        intervals: 1000,
    })
}

fn comm(name: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}

fn blocked(nr: i16, arg0: u64, key: u32) -> Left {
    Left {
        state: 1,
        call: Call { nr, arg0, arg1: 0 },
        iowait: false,
        key,
    }
}

fn switch<'a>(ts: u64, out: Option<(u32, Left)>, into: Option<u32>) -> Raw<'a> {
    Raw::Switch { ts, out, into }
}

fn woken_by<'a>(ts: u64, tid: u32, waker: u32, nr: i16) -> Raw<'a> {
    Raw::Wakeup {
        ts,
        tid,
        waker: Some(WakerRaw {
            tid: waker,
            call: Call {
                nr,
                ..Call::default()
            },
            kernel: false,
            key: 0,
        }),
    }
}

/// Two threads: one waits for a futex from 100 to 300, woken from within a call `nr` of the other.
fn one_wait(nr: i16) -> Pipeline {
    let mut p = pipeline();
    for tid in [PID, OTHER] {
        p.take(&Raw::Init {
            ts: 0,
            tid,
            pid: PID,
            comm: comm("work"),
            left: None,
            on_cpu: true,
        });
    }
    p.take(&Raw::Stack {
        ts: 100,
        tid: PID,
        key: 7,
        regs: Regs {
            ip: 0x1234,
            sp: 0x1000,
            ..Regs::default()
        },
        bytes: &[0; 64],
        kernel: &[0xffff_0001, 0xffff_0002],
    });
    p.take(&switch(100, Some((PID, blocked(FUTEX, 0x500, 7))), None));
    p.take(&woken_by(300, PID, OTHER, nr));
    p.take(&switch(310, None, Some(PID)));
    p.take(&Raw::Exit {
        ts: 400,
        tid: OTHER,
        comm: comm("other"),
    });
    p
}

fn heard(p: Pipeline, end_ns: u64) -> Collected {
    p.finish(end_ns, |_| None)
}

#[test]
fn a_wait_has_its_reason_its_stack_and_its_waker() {
    let mut processes = Vec::new();
    let (sched, _) = join(heard(one_wait(FUTEX), 500), &mut processes);
    let [off] = sched.offs.as_slice() else {
        panic!("{:?}", sched.offs)
    };
    assert_eq!((off.reason, off.address), (OffReason::Futex, 0x500));
    assert_eq!((off.n, off.sum_ns), (1, 200));
    assert_eq!(off.kernel_stack, ["0xffff0001", "0xffff0002"]);
    let process = &processes[off.thread.process as usize];
    assert!(process.without_agent && process.pid == PID);
    let stack = &process.stacks[off.stack as usize];
    assert_eq!(process.frames[stack[0] as usize].pc, 0x1234);
    let [wake] = sched.wakes.as_slice() else {
        panic!("{:?}", sched.wakes)
    };
    let Waker::Thread(waker, _) = wake.waker else {
        panic!("{wake:?}")
    };
    let waker = &process.threads[waker.thread as usize];
    assert_eq!((waker.tid, waker.name.as_str()), (OTHER, "other"));
    assert_eq!((wake.wait_ns, wake.waker_running_ns), (200, 200));
}

#[test]
fn who_was_interrupted_by_the_waking_interrupt_has_woken_nobody() {
    for nr in [SLEEP, -1] {
        let (sched, _) = join(heard(one_wait(nr), 500), &mut Vec::new());
        assert_eq!(sched.wakes[0].waker, Waker::Interrupt, "{nr}");
    }
}

/// Records of perf events have no system calls, which must not look like a page fault.
#[test]
fn a_source_that_knows_no_calls_gives_no_reasons() {
    for (source, reason) in [
        (SchedSource::Bpf, OffReason::PageFault),
        (SchedSource::Perf, OffReason::Unknown),
    ] {
        let mut p = pipeline_of(source);
        p.take(&Raw::Init {
            ts: 0,
            tid: PID,
            pid: PID,
            comm: comm("work"),
            left: None,
            on_cpu: true,
        });
        p.take(&switch(100, Some((PID, blocked(-1, 0, 0))), None));
        p.take(&switch(310, None, Some(PID)));
        let (sched, _) = join(heard(p, 500), &mut Vec::new());
        assert_eq!(sched.offs[0].reason, reason);
    }
}

#[test]
fn a_process_with_an_agent_stays_one_process() {
    let mut processes = vec![Process {
        pid: PID,
        start_ns: 5,
        end_ns: 450,
        stacks: vec![Vec::new(), Vec::new()],
        threads: vec![Thread {
            tid: PID,
            name: "main".into(),
            start_ns: 5,
            end_ns: 450,
            lives: 1,
            ..Thread::default()
        }],
        ..Process::default()
    }];
    let (sched, _) = join(heard(one_wait(FUTEX), 500), &mut processes);
    assert_eq!(processes.len(), 1);
    let process = &processes[0];
    assert!(!process.without_agent);
    let tids: Vec<u32> = process.threads.iter().map(|t| t.tid).collect();
    assert_eq!(tids, [PID, OTHER], "the known one and the new one");
    assert_eq!(process.threads[0].name, "main");
    assert_eq!(sched.offs[0].stack, 2, "after the agent's stacks");
    let main = sched.threads.iter().find(|t| t.thread.thread == 0).unwrap();
    assert_eq!(process.threads[0].cpu_ns, main.running_ns);
}

#[test]
fn what_only_forks_and_executes_is_no_process_of_its_own() {
    let mut p = pipeline();
    p.take(&Raw::Fork {
        ts: 10,
        parent: 1,
        tid: PID,
        pid: PID,
    });
    p.take(&woken_by(11, PID, 1, -1));
    // It waits for a processor for longer than it runs.
    p.take(&switch(30_000_000, None, Some(PID)));
    p.take(&Raw::Exec {
        ts: 30_001_000,
        pid: PID,
        old_tid: PID,
    });
    p.take(&switch(90_000_000, Some((PID, Left::default())), None));
    let mut processes = Vec::new();
    let (sched, _) = join(heard(p, 100_000_000), &mut processes);
    assert_eq!(processes.len(), 1, "{processes:?}");
    assert_eq!(processes[0].start_ns, 30_001_000);
    assert!(sched.threads.iter().all(|t| t.thread.process == 0));
}

/// The processes of a program that `maker` forks, which executes another one after 25 ms of work.
fn forked_by(maker: u32) -> Vec<Process> {
    let mut p = pipeline();
    p.take(&Raw::Init {
        ts: 0,
        tid: OTHER,
        pid: OTHER,
        comm: comm("shell"),
        left: None,
        on_cpu: true,
    });
    p.take(&Raw::Fork {
        ts: 10,
        parent: maker,
        tid: PID,
        pid: PID,
    });
    p.take(&woken_by(11, PID, maker, -1));
    p.take(&switch(20, None, Some(PID)));
    p.take(&Raw::Exec {
        ts: 25_000_020,
        pid: PID,
        old_tid: PID,
    });
    let mut processes = Vec::new();
    join(heard(p, 30_000_000), &mut processes);
    processes
}

#[test]
fn what_convoy_forks_only_becomes_the_program_however_long_it_takes() {
    assert_eq!(forked_by(1).len(), 2, "the shell and the program");
    assert_eq!(forked_by(OTHER).len(), 3, "and what the shell did itself");
}

#[test]
fn events_of_unknown_threads_harm_nothing() {
    let mut p = pipeline();
    p.take(&switch(5, Some((77, blocked(FUTEX, 1, 1))), Some(78)));
    p.take(&woken_by(6, 79, 80, FUTEX));
    p.take(&Raw::Sample {
        ts: 7,
        tid: 81,
        regs: Regs::default(),
        bytes: &[],
        in_kernel: false,
        call: Call::default(),
        outcome: None,
        registers: None,
    });
    p.take(&Raw::Exit {
        ts: 8,
        tid: 82,
        comm: comm(""),
    });
    p.take(&Raw::Exec {
        ts: 9,
        pid: 83,
        old_tid: 84,
    });
    p.pause(10);
    join(heard(p, 20), &mut Vec::new());
}
