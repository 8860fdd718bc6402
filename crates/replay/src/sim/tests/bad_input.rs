//! Programs and machines that cannot be simulated.

use super::*;
use crate::program::Need;

fn error_of(ops: Vec<Op>) -> Option<SimError> {
    run(&program(vec![ops]), &machine(), &Options::default()).err()
}

#[test]
fn unknown_objects_are_errors() {
    let need = Need::Token(0);
    for op in [
        acquire(0),
        Op::TryAcquire {
            lock: 0,
            section: 0,
        },
        Op::TryFail { lock: 0 },
        release(0),
        Op::Await {
            cond: 0,
            lock: 0,
            need,
        },
        Op::Post { channel: 0 },
        Op::Signal { cond: 0 },
        Op::Broadcast { cond: 0 },
        Op::Barrier { barrier: 0 },
        Op::SemWait { sem: 0 },
        Op::SemPost { sem: 0 },
        Op::Spawn { thread: 1 },
        Op::Join { thread: 1 },
    ] {
        let error = error_of(vec![work(1.0), op]);
        assert_eq!(
            error,
            Some(SimError::UnknownObject { thread: 0, op: 1 }),
            "{op:?}"
        );
    }
}

#[test]
fn impossible_durations_are_errors() {
    for ns in [-1.0, f32::NAN, f32::INFINITY, 1e15] {
        let expected = Some(SimError::Duration { thread: 0, op: 0 });
        assert_eq!(error_of(vec![work(ns)]), expected);
        assert_eq!(error_of(vec![Op::Sleep { ns }]), expected);
    }
    let mut late = program(vec![vec![]]);
    late.threads[0].start_ns = f64::NAN;
    let error = run(&late, &machine(), &Options::default()).err();
    assert_eq!(error, Some(SimError::Duration { thread: 0, op: 0 }));
}

#[test]
fn a_thread_cannot_start_twice() {
    let twice = vec![Op::Spawn { thread: 0 }];
    assert_eq!(error_of(twice), Some(SimError::StartedTwice(0)));
}

#[test]
fn section_numbers_out_of_the_blue_do_not_allocate() {
    let ops = section(0, NO_SECTION - 1, 1.0).to_vec();
    let program = program(vec![ops]).with_locks(LockKind::Mutex, 1);
    let options = Options {
        sections: true,
        ..Options::default()
    };
    let error = run(&program, &machine(), &options).err();
    assert_eq!(error, Some(SimError::SparseSections));
}

#[test]
fn impossible_machines_are_errors() {
    let program = program(vec![vec![work(1.0)]]);
    let error = |machine: &Machine| run(&program, machine, &Options::default()).err();
    let mut none = machine();
    none.cpus = 0;
    assert_eq!(error(&none), Some(SimError::Cpus(0)));
    let mut negative = machine();
    negative.switch_ns = -1.0;
    assert_eq!(error(&negative), Some(SimError::Cost("switch_ns")));
    let mut unsorted = machine();
    unsorted.wake_latency.reverse();
    assert_eq!(error(&unsorted), Some(SimError::Cost("wake_latency")));
    assert!(error(&negative).is_some_and(|error| error.to_string().contains("calibrate again")));
}

#[test]
fn costs_of_nothing_still_let_time_pass() {
    let mut free = machine();
    free.tick_ns = 0.0;
    free.slice_ns = 0.0;
    free.switch_ns = 0.0;
    free.futex_check_ns = 0.0;
    free.lock_pair_ns = 0.0;
    let outcome = run(
        &contended(LockKind::Mutex, 4, 100),
        &free,
        &Options::default(),
    );
    assert_eq!(outcome.expect("valid").stuck, None);
}

#[test]
fn a_barrier_of_nobody_stops_nobody() {
    let program = program(vec![vec![Op::Barrier { barrier: 0 }]]).with_barrier(0);
    assert_eq!(run_program(&program).threads[0].waited_total_ns(), 0.0);
}
