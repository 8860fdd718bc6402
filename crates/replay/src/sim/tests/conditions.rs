//! Condition variables, barriers, semaphores.

use super::*;
use crate::program::Need;
use crate::program::ThreadIx;

fn put(channel: u32) -> Vec<Op> {
    vec![
        acquire(0),
        Op::Post { channel },
        Op::Signal { cond: channel },
        release(0),
    ]
}

fn get(channel: u32) -> Vec<Op> {
    let need = Need::Token(channel);
    vec![
        acquire(0),
        Op::Await {
            cond: channel,
            lock: 0,
            need,
        },
        release(0),
    ]
}

fn waited(outcome: &Outcome, thread: ThreadIx, kind: WaitKind) -> f64 {
    outcome.threads[thread as usize].waited_ns[kind as usize]
}

#[test]
fn a_wait_whose_need_is_met_does_not_wait() {
    let program = program(vec![[get(0), vec![work(10.0)]].concat()]);
    let outcome = run_program(&program.with_locks(LockKind::Mutex, 1).with_cond(&[1]));
    assert_eq!(outcome.threads[0].voluntary, 0);
    assert_eq!(outcome.locks[0].reacquisitions, 0);
}

#[test]
fn a_consumer_waits_for_the_producer() {
    let producer = [vec![work(100_000.0)], put(0)].concat();
    let program = program(vec![producer, get(0)]);
    let outcome = run_program(&program.with_locks(LockKind::Mutex, 1).with_cond(&[0]));
    assert!(outcome.threads[1].end_ns > 100_000.0);
    assert!(waited(&outcome, 1, WaitKind::Cond) > 95_000.0);
    assert_eq!(outcome.locks[0].reacquisitions, 1);
    assert_eq!(outcome.futex.wakes, 1);
}

#[test]
fn a_signal_without_waiters_is_lost() {
    // The need is met without a signal later on: nobody wakes the waiter.
    let early = vec![
        Op::Signal { cond: 0 },
        work(50_000.0),
        acquire(0),
        Op::Post { channel: 0 },
    ];
    let early = [early, vec![release(0)]].concat();
    let late = [vec![work(10_000.0)], get(0)].concat();
    let program = program(vec![early, late])
        .with_locks(LockKind::Mutex, 1)
        .with_cond(&[0]);
    let outcome = run_unfinished(&program, &Options::default());
    assert_eq!(outcome.stuck.map(|stuck| stuck.threads), Some(vec![(1, 2)]));
}

#[test]
fn every_item_is_taken_once_by_any_number_of_consumers() {
    for seed in 0..20 {
        let producer: Vec<Op> = (0..300)
            .flat_map(|_| [vec![work(900.0)], put(0)].concat())
            .collect();
        let consumer: Vec<Op> = (0..100)
            .flat_map(|_| [get(0), vec![work(2500.0)]].concat())
            .collect();
        let program = program(vec![producer, consumer.clone(), consumer.clone(), consumer]);
        // Three consumers of 100: all 300 items are needed for it to end.
        run_seed(
            &program.with_locks(LockKind::Mutex, 1).with_cond(&[0]),
            seed,
        );
    }
}

#[test]
fn a_bounded_queue_holds_the_producer_back() {
    let item = [get(1), put(0), vec![work(100.0)]].concat();
    let producer: Vec<Op> = (0..100).flat_map(|_| item.clone()).collect();
    let taken = [get(0), put(1), vec![work(20_000.0)]].concat();
    let consumer: Vec<Op> = (0..100).flat_map(|_| taken.clone()).collect();
    let program = program(vec![producer, consumer]).with_locks(LockKind::Mutex, 1);
    let outcome = run_program(&program.with_cond(&[0, 4]));
    // It is four items ahead, not a hundred.
    assert!(outcome.threads[0].end_ns > 90.0 * 20_000.0);
    assert!(waited(&outcome, 0, WaitKind::Cond) > 80.0 * 20_000.0);
}

#[test]
fn a_broadcast_wakes_everybody() {
    let need = Need::Count(0, 1);
    let waiter = vec![
        acquire(0),
        Op::Await {
            cond: 0,
            lock: 0,
            need,
        },
        release(0),
    ];
    let waker = vec![work(80_000.0), acquire(0), Op::Post { channel: 0 }];
    let waker = [waker, vec![Op::Broadcast { cond: 0 }, release(0)]].concat();
    let program = program(vec![waiter.clone(), waiter.clone(), waiter, waker]);
    let program = program.with_locks(LockKind::Mutex, 1).with_cond(&[0]);
    for seed in 0..20 {
        let outcome = run_seed(&program, seed);
        assert_eq!(outcome.locks[0].reacquisitions, 3);
        // Woken together, they contend for the lock.
        assert!(outcome.threads[..3]
            .iter()
            .all(|thread| thread.end_ns > 80_000.0));
    }
}

#[test]
fn a_phase_needs_all_of_its_posts() {
    let need = Need::Count(0, 3);
    let waiter = vec![
        acquire(0),
        Op::Await {
            cond: 0,
            lock: 0,
            need,
        },
        release(0),
    ];
    let post = vec![
        acquire(0),
        Op::Post { channel: 0 },
        Op::Broadcast { cond: 0 },
        release(0),
    ];
    let worker = |ns| [vec![work(ns)], post.clone()].concat();
    let program = program(vec![
        waiter,
        worker(20_000.0),
        worker(90_000.0),
        worker(50_000.0),
    ]);
    let outcome = run_program(&program.with_locks(LockKind::Mutex, 1).with_cond(&[0]));
    assert!(outcome.threads[0].end_ns > 90_000.0);
}

#[test]
fn no_wake_up_is_lost_in_a_crowded_queue() {
    // Many short waits and signals that race with them, on one to four CPUs.
    for seed in 0..30 {
        let item = [get(1), put(0), vec![work(50.0 + seed as f32)]].concat();
        let producer: Vec<Op> = (0..200).flat_map(|_| item.clone()).collect();
        let taken = [get(0), put(1), vec![work(70.0)]].concat();
        let consumer: Vec<Op> = (0..200).flat_map(|_| taken.clone()).collect();
        let program = program(vec![
            producer.clone(),
            consumer.clone(),
            producer,
            consumer.clone(),
        ]);
        let program = program.with_locks(LockKind::Mutex, 1).with_cond(&[0, 2]);
        let options = Options {
            seed,
            cpus: Some(1 + seed as u32 % 4),
            ..Options::default()
        };
        assert_eq!(
            run_unfinished(&program, &options).stuck,
            None,
            "seed {seed}"
        );
    }
}

#[test]
fn threads_leave_a_barrier_after_the_last_has_come() {
    let ops = |ns: f32| -> Vec<Op> {
        (0..10)
            .flat_map(|_| [work(ns), Op::Barrier { barrier: 0 }])
            .collect()
    };
    let program = program(vec![ops(5_000.0), ops(60_000.0)]).with_barrier(2);
    let outcome = run_program(&program);
    assert!(outcome.threads[0].end_ns > 10.0 * 60_000.0);
    let waited = waited(&outcome, 0, WaitKind::Barrier);
    assert!(waited > 10.0 * 55_000.0, "waited for {waited} ns");
    assert_eq!(outcome.futex.wakes, 10);
}

#[test]
fn a_barrier_of_more_threads_than_cpus_works() {
    let ops: Vec<Op> = (0..50)
        .flat_map(|_| [work(3_000.0), Op::Barrier { barrier: 0 }])
        .collect();
    for cpus in [1, 2, 3, 6] {
        let program = program(vec![ops.clone(); 6]).with_barrier(6);
        let options = Options {
            cpus: Some(cpus),
            ..Options::default()
        };
        assert_eq!(run_unfinished(&program, &options).stuck, None);
    }
}

#[test]
fn a_semaphore_admits_as_many_as_its_value() {
    let ops = vec![
        Op::SemWait { sem: 0 },
        work(50_000.0),
        Op::SemPost { sem: 0 },
    ];
    let program = program(vec![ops; 4]).with_semaphore(2);
    let options = Options {
        cpus: Some(4),
        ..Options::default()
    };
    let outcome = run_unfinished(&program, &options);
    assert_eq!(outcome.stuck, None);
    assert!(
        (100_000.0..160_000.0).contains(&outcome.wall_ns),
        "{}",
        outcome.wall_ns
    );
    let waiting = (0..4).filter(|t| waited(&outcome, *t, WaitKind::Semaphore) > 40_000.0);
    assert_eq!(waiting.count(), 2);
}

#[test]
fn a_wait_for_an_absent_semaphore_value_is_stuck() {
    let program = program(vec![vec![Op::SemWait { sem: 0 }]]).with_semaphore(0);
    let outcome = run_unfinished(&program, &Options::default());
    assert_eq!(
        outcome.stuck,
        Some(Stuck {
            threads: vec![(0, 0)]
        })
    );
}
