//! Enforced schedules.

use super::*;
use crate::program::Need;
use crate::program::SectionId;

fn with_schedule<'a>(schedule: Schedule<'a>, seed: u64) -> Options<'a> {
    Options {
        schedule,
        seed,
        sections: true,
        order: matches!(schedule, Schedule::Sync { .. }),
        ..Options::default()
    }
}

fn shuffled(program: &Program, seed: u64) -> Vec<Vec<SectionId>> {
    // A merge of the threads' own orders, at random.
    let mut rng = rng::Rng::new(seed);
    let mut own: Vec<Vec<SectionId>> = program
        .threads
        .iter()
        .map(|thread| {
            let sections = thread.ops.iter().filter_map(|op| match op {
                Op::Acquire { section, .. } => Some(*section),
                _ => None,
            });
            sections.collect::<Vec<_>>().into_iter().rev().collect()
        })
        .collect();
    let mut order = Vec::new();
    while own.iter().any(|list| !list.is_empty()) {
        let thread = (rng.unit() * own.len() as f64) as usize;
        order.extend(own[thread].pop());
    }
    vec![order]
}

#[test]
fn elsc_enters_sections_exactly_in_the_given_order() {
    for kind in KINDS {
        let program = contended(kind, 3, 200);
        for seed in 0..5 {
            let order = shuffled(&program, seed);
            let outcome = run_unfinished(&program, &with_schedule(Schedule::Elsc(&order), 9));
            assert_eq!(outcome.stuck, None, "{kind:?}");
            assert_eq!(outcome.lock_orders(), order, "{kind:?}");
        }
    }
}

#[test]
fn elsc_of_an_observed_order_takes_about_as_long() {
    let program = contended(LockKind::Mutex, 2, 2000);
    let free = run_program(&program);
    let order = free.lock_orders();
    let walls: Vec<f64> = (0..5)
        .map(|seed| {
            let options = with_schedule(Schedule::Elsc(&order), seed);
            let outcome = run_unfinished(&program, &options);
            assert_eq!(outcome.lock_orders(), order);
            outcome.wall_ns
        })
        .collect();
    for wall in walls {
        assert!(
            (wall / free.wall_ns - 1.0).abs() < 0.25,
            "{wall} instead of {}",
            free.wall_ns
        );
    }
}

#[test]
fn elsc_skips_sections_that_a_what_if_removed() {
    let program = contended(LockKind::Mutex, 2, 50);
    let mut order = shuffled(&program, 3);
    order[0].insert(10, 5000);
    order[0].insert(20, NO_SECTION);
    let mut what_if = program.clone();
    let removed = what_if.threads[0].ops.drain(4..8).collect::<Vec<_>>();
    assert!(matches!(removed[1], Op::Acquire { section: 1, .. }));
    let outcome = run_unfinished(&what_if, &with_schedule(Schedule::Elsc(&order), 1));
    assert_eq!(outcome.stuck, None);
    order[0].retain(|section| ![1, 5000, NO_SECTION].contains(section));
    assert_eq!(outcome.lock_orders(), order);
}

#[test]
fn elsc_leaves_a_removed_lock_free() {
    let program = contended(LockKind::Absent, 2, 200);
    let order = vec![(0..400).collect::<Vec<SectionId>>()];
    let outcome = run_unfinished(&program, &with_schedule(Schedule::Elsc(&order), 1));
    assert_eq!(outcome.wall_ns, run_program(&program).wall_ns);
}

#[test]
fn an_impossible_order_is_reported_as_stuck() {
    let program = program(vec![[section(0, 0, 10.0), section(0, 1, 10.0)].concat()]);
    let program = program.with_locks(LockKind::Mutex, 1);
    let order = vec![vec![1, 0]];
    let outcome = run_unfinished(&program, &with_schedule(Schedule::Elsc(&order), 1));
    assert_eq!(
        outcome.stuck,
        Some(Stuck {
            threads: vec![(0, 0)]
        })
    );
    assert!(!outcome.sections[0].is_reached());
}

#[test]
fn elsc_wants_one_list_for_each_lock() {
    let program = contended(LockKind::Mutex, 2, 5);
    let error = run(&program, &machine(), &with_schedule(Schedule::Elsc(&[]), 1));
    assert_eq!(
        error,
        Err(SimError::OrderOfOtherLocks { given: 0, locks: 1 })
    );
}

const SYNC: Schedule<'_> = Schedule::Sync { chunk_ns: 500.0 };

#[test]
fn logical_time_orders_locks_whatever_the_machine() {
    for kind in KINDS {
        let program = contended(kind, 4, 150);
        let reference = run_unfinished(&program, &with_schedule(SYNC, 1));
        assert_eq!(reference.stuck, None);
        for seed in 2..6 {
            let mut other = machine();
            other.futex_wake_ns *= seed as f64;
            other.switch_ns *= 3.0;
            let mut options = with_schedule(SYNC, seed);
            options.cpus = Some(seed as u32);
            let outcome = run(&program, &other, &options).expect("a valid program");
            assert_eq!(outcome.lock_orders(), reference.lock_orders(), "{kind:?}");
            assert_eq!(outcome.order, reference.order, "{kind:?}");
        }
    }
}

#[test]
fn the_order_has_every_operation_that_may_wait() {
    let program = all_kinds_of_waits();
    let outcome = run_unfinished(&program, &with_schedule(SYNC, 1));
    let waits = |op: &&Op| {
        matches!(
            op,
            Op::Acquire { .. } | Op::Await { .. } | Op::SemWait { .. }
        )
    };
    for (tid, thread) in (0..).zip(&program.threads) {
        let turns = outcome.order.iter().filter(|of| **of == tid).count();
        assert_eq!(
            turns,
            thread.ops.iter().filter(waits).count(),
            "thread {tid}"
        );
    }
    // It is a program of waits for others, not of waits for CPUs.
    assert!(outcome.queued_ns < outcome.wall_ns, "{}", outcome.queued_ns);
    let unasked = Options {
        order: false,
        ..with_schedule(SYNC, 1)
    };
    assert_eq!(run_unfinished(&program, &unasked).order, []);
}

#[test]
fn threads_beyond_the_cpus_wait_in_queues_all_the_time() {
    let program = program(vec![vec![work(1e6)]; 3]);
    let queued = |cpus| {
        let options = Options {
            cpus: Some(cpus),
            ..Options::default()
        };
        let outcome = run(&program, &machine(), &options).expect("a valid program");
        outcome.queued_ns / outcome.wall_ns
    };
    assert_eq!(queued(3), 0.0);
    assert!((0.5..=0.7).contains(&queued(1)), "{}", queued(1));
}

#[test]
fn logical_time_is_the_work_done() {
    // Thread 1 has done less work when it asks, though it asks later in real time.
    let first = [vec![work(10_000.0)], section(0, 0, 100.0).to_vec()].concat();
    let second = vec![Op::Sleep { ns: 1000.0 }, work(5000.0)];
    let second = [second, section(0, 1, 100.0).to_vec()].concat();
    let mut program = program(vec![first, second]).with_locks(LockKind::Mutex, 1);
    program.threads[1].start_ns = 2000.0;
    let outcome = run_unfinished(&program, &with_schedule(SYNC, 1));
    assert_eq!(outcome.lock_orders(), [[1, 0]]);
    let turn = outcome.threads[0].waited_ns[WaitKind::Turn as usize];
    assert_eq!(turn, 0.0, "thread 1 has entered before");
}

#[test]
fn a_thread_waits_for_its_turn_even_if_the_lock_is_free() {
    let first = [vec![work(1000.0)], section(0, 0, 100.0).to_vec()].concat();
    let second = vec![work(50_000.0), Op::Sleep { ns: 10.0 }];
    let late = [vec![work(2000.0)], section(0, 1, 10.0).to_vec(), second].concat();
    let program = program(vec![late, first]).with_locks(LockKind::Mutex, 1);
    let outcome = run_unfinished(&program, &with_schedule(SYNC, 1));
    assert_eq!(outcome.lock_orders(), [[0, 1]]);
    let early = [vec![work(900.0)], section(0, 1, 10.0).to_vec()].concat();
    let busy = vec![work(40_000.0)];
    let program = super::program(vec![early, busy]).with_locks(LockKind::Mutex, 1);
    let outcome = run_unfinished(&program, &with_schedule(SYNC, 1));
    assert_eq!(outcome.threads[0].waited_ns[WaitKind::Turn as usize], 100.0);
}

fn all_kinds_of_waits() -> Program {
    let need = Need::Token(0);
    let consumer: Vec<Op> = (0..30)
        .flat_map(|_| {
            [
                acquire(0),
                Op::Await {
                    cond: 0,
                    lock: 0,
                    need,
                },
                release(0),
                work(900.0),
            ]
        })
        .collect();
    let mut producer = vec![Op::Spawn { thread: 2 }];
    for index in 0..60 {
        producer.extend([
            acquire(0),
            Op::Post { channel: 0 },
            Op::Signal { cond: 0 },
            release(0),
        ]);
        producer.push(work(100.0 * (index % 5) as f32));
        if index % 20 == 0 {
            producer.extend([Op::Barrier { barrier: 0 }, Op::SemWait { sem: 0 }]);
            producer.extend([Op::Sleep { ns: 2000.0 }, Op::SemPost { sem: 0 }]);
        }
    }
    producer.push(Op::Join { thread: 2 });
    let helper: Vec<Op> = (0..3)
        .flat_map(|_| {
            [
                work(700.0),
                Op::Barrier { barrier: 0 },
                Op::SemWait { sem: 0 },
                work(50.0),
            ]
            .into_iter()
            .chain([Op::SemPost { sem: 0 }])
        })
        .collect();
    let mut program = program(vec![producer, consumer.clone(), helper, consumer])
        .with_locks(LockKind::Mutex, 1)
        .with_cond(&[0])
        .with_barrier(2)
        .with_semaphore(1);
    program.threads[2].at_start = false;
    program
}

#[test]
fn logical_time_passes_through_all_kinds_of_waits() {
    let program = all_kinds_of_waits();
    for seed in 0..20 {
        let options = with_schedule(SYNC, seed);
        assert_eq!(
            run_unfinished(&program, &options).stuck,
            None,
            "seed {seed}"
        );
    }
}

#[test]
fn mem_is_refused_without_recorded_accesses() {
    let program = contended(LockKind::Mutex, 2, 5);
    let refused = run(&program, &machine(), &with_schedule(Schedule::Mem(None), 1));
    assert_eq!(refused, Err(SimError::AccessesNotRecorded));
}

#[test]
fn mem_keeps_the_order_of_accesses() {
    let ops = |first| [section(0, first, 100.0), section(0, first + 1, 100.0)].concat();
    let program = program(vec![ops(0), ops(2)]).with_locks(LockKind::Mutex, 1);
    let access = |thread, op| Access { thread, op };
    // A lock is memory, too: without its accesses, thread 0 could take it and then wait inside.
    let order = [
        (1, 0),
        (1, 1),
        (0, 0),
        (0, 1),
        (0, 3),
        (0, 4),
        (1, 3),
        (1, 4),
    ];
    let order = order.map(|(thread, op)| access(thread, op));
    let outcome = run_unfinished(&program, &with_schedule(Schedule::Mem(Some(&order)), 1));
    assert_eq!(outcome.stuck, None);
    assert_eq!(outcome.lock_orders(), [[2, 0, 1, 3]]);
}

#[test]
fn mem_refuses_orders_that_contradict_the_program() {
    let program = contended(LockKind::Mutex, 2, 5);
    let access = |thread, op| Access { thread, op };
    let run = |order: &[Access]| {
        run(
            &program,
            &machine(),
            &with_schedule(Schedule::Mem(Some(order)), 1),
        )
    };
    assert_eq!(
        run(&[access(7, 0)]),
        Err(SimError::UnknownAccess { thread: 7, op: 0 })
    );
    assert_eq!(
        run(&[access(0, 99)]),
        Err(SimError::UnknownAccess { thread: 0, op: 99 })
    );
    let backwards = [access(0, 3), access(0, 1)];
    assert_eq!(
        run(&backwards),
        Err(SimError::AccessesOutOfOrder { thread: 0 })
    );
}
