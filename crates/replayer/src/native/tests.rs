//! Laws that hold for every native replay, whatever the machine does meanwhile.

use convoy_replay::program::{
    Barrier, Channel, Cond, Lock, LockKind, Need, Op, Program, Semaphore, Thread, NO_SECTION,
};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Measurements of a cost of which one at least should be undisturbed.
const ATTEMPTS: usize = 20;

fn lock(kind: LockKind) -> Lock {
    Lock {
        kind,
        ..Lock::default()
    }
}

fn acquire(lock: u32) -> Op {
    Op::Acquire {
        lock,
        shared: false,
        section: NO_SECTION,
    }
}

fn thread(ops: Vec<Op>) -> Thread {
    Thread {
        at_start: true,
        ops,
        ..Thread::default()
    }
}

/// `sections` times: work outside, a section of the lock with work inside.
fn looped(sections: usize, lock: u32, inside: f32, outside: f32) -> Thread {
    let section = [
        Op::Work { ns: outside },
        acquire(lock),
        Op::Work { ns: inside },
        Op::Release { lock },
    ];
    thread(section.repeat(sections))
}

fn play(program: &Program) -> NativeOutcome {
    let options = NativeOptions {
        timeout: TIMEOUT,
        schedule: Schedule::Free,
    };
    run(program, &options).expect("a program that ends")
}

fn hang(program: &Program) -> String {
    let options = NativeOptions {
        timeout: Duration::from_millis(50),
        schedule: Schedule::Free,
    };
    match run(program, &options) {
        Err(NativeError::Hang {
            after_ms: 50,
            waits,
        }) => waits,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_kind_of_lock_excludes_and_counts_exactly() {
    let kinds = [
        LockKind::Mutex,
        LockKind::Adaptive { spin_ns: 2000.0 },
        LockKind::Spin,
        LockKind::RwLock,
        LockKind::Ticket,
    ];
    for kind in kinds {
        let program = Program {
            threads: vec![looped(20_000, 0, 50.0, 20.0); 2],
            locks: vec![lock(kind)],
            ..Program::default()
        };
        let outcome = play(&program);
        // Counted by plain additions inside of the sections: without exclusion some would be lost.
        assert_eq!(outcome.locks[0].acquisitions, 40_000, "{kind:?}");
        assert!(outcome.locks[0].contended <= 40_000);
        assert_eq!(
            outcome.lock_waits.count, outcome.locks[0].contended,
            "{kind:?}"
        );
        let waited: u64 = outcome.threads.iter().map(|t| t.lock_wait_ns).sum();
        assert!(waited.abs_diff(outcome.locks[0].wait_ns) <= 2, "{kind:?}");
    }
}

#[test]
fn removed_locks_exclude_nobody() {
    let program = Program {
        threads: vec![looped(1000, 0, 2000.0, 0.0); 4],
        locks: vec![lock(LockKind::Absent)],
        ..Program::default()
    };
    let outcome = play(&program);
    assert_eq!(outcome.locks[0].acquisitions, 4000);
    assert_eq!(
        (outcome.locks[0].contended, outcome.locks[0].wait_ns),
        (0, 0)
    );
}

#[test]
fn shared_sections_overlap_and_exclude_writers() {
    let shared = |ops: &mut Vec<Op>| {
        ops.push(Op::Acquire {
            lock: 0,
            shared: true,
            section: NO_SECTION,
        });
        ops.push(Op::Work { ns: 200.0 });
        ops.push(Op::Release { lock: 0 });
    };
    let mut readers = Vec::new();
    (0..5000).for_each(|_| shared(&mut readers));
    // A reader that waits inside of its section for another one to be inside of its own.
    let meet = vec![
        Op::Acquire {
            lock: 0,
            shared: true,
            section: NO_SECTION,
        },
        Op::Barrier { barrier: 0 },
        Op::Release { lock: 0 },
    ];
    let with_meeting = thread([readers, meet].concat());
    let program = Program {
        threads: vec![
            with_meeting.clone(),
            with_meeting,
            looped(5000, 0, 100.0, 100.0),
        ],
        locks: vec![lock(LockKind::RwLock)],
        barriers: vec![Barrier {
            recorded: 0,
            count: 2,
        }],
        ..Program::default()
    };
    assert_eq!(play(&program).locks[0].acquisitions, 15_002);
}

#[test]
fn time_is_conserved() {
    let program = Program {
        threads: vec![looped(5000, 0, 1000.0, 200.0); 3],
        locks: vec![lock(LockKind::Mutex)],
        ..Program::default()
    };
    let outcome = play(&program);
    assert!((outcome.work_ns - 3.0 * 5000.0 * 1200.0).abs() < 1.0);
    // Sections exclude each other: the run is at least as long as all of them together.
    assert!(outcome.wall_ns as f64 > 0.9 * 3.0 * 5000.0 * 1000.0);
    for thread in &outcome.threads {
        assert!(thread.lifetime_ns <= outcome.wall_ns);
        assert!(thread.lock_wait_ns <= thread.lifetime_ns);
        assert!(thread.cpu_ns <= thread.lifetime_ns + 1_000_000);
    }
    assert!(outcome.waited_share() < 1.0 && outcome.contended_share() <= 1.0);
    assert!((0.0..=1.0).contains(&outcome.others_share));
}

#[test]
fn short_segments_are_made_up_for_by_longer_ones() {
    const LONG_NS: f64 = 500.0;
    let short_ns = Rates::of_machine().step_ns / 2.0;
    // Two segments of which one is too short, and one that has room.
    let program = Program {
        threads: vec![looped(20_000, 0, short_ns as f32, LONG_NS as f32)],
        locks: vec![lock(LockKind::Mutex)],
        ..Program::default()
    };
    // What a step costs is measured for each program anew, and whoever else is at work on the
    // machine disturbs that. The law is about a floor that stands between the two segments.
    let mut attempts = (0..ATTEMPTS).map(|_| play(&program));
    let is_told = |o: &NativeOutcome| o.floor_ns > short_ns && o.floor_ns < LONG_NS / 2.0;
    let outcome = attempts
        .find(is_told)
        .expect("a floor between the segments");
    assert!((outcome.below_floor_share - 0.5).abs() < 0.001);
    assert!(
        outcome.excess_ns < 64.0 * outcome.floor_ns + 1.0,
        "{}",
        outcome.excess_ns
    );
    // All segments too short: what they take too long is reported.
    let program = Program {
        threads: vec![looped(20_000, 0, 0.0, 0.0)],
        ..program
    };
    let outcome = play(&program);
    assert_eq!(outcome.below_floor_share, 1.0);
    let expected = 40_000.0 * Rates::of_machine().step_ns;
    assert!((outcome.excess_ns - expected).abs() <= 0.01 * expected + 1.0);
}

#[test]
fn a_bounded_queue_hands_every_item_on() {
    // Channel 0: items, channel 1: free places.
    let stage = |takes: u32, cond: u32, gives: u32, signals: u32| {
        let item = [
            acquire(0),
            Op::Await {
                cond,
                lock: 0,
                need: Need::Token(takes),
            },
            Op::Work { ns: 50.0 },
            Op::Post { channel: gives },
            Op::Signal { cond: signals },
            Op::Release { lock: 0 },
            Op::Work { ns: 500.0 },
        ];
        thread(item.repeat(3000))
    };
    for kind in [
        LockKind::Mutex,
        LockKind::Spin,
        LockKind::Ticket,
        LockKind::Absent,
    ] {
        let program = Program {
            threads: vec![
                stage(1, 1, 0, 0),
                stage(0, 0, 1, 1),
                stage(1, 1, 0, 0),
                stage(0, 0, 1, 1),
            ],
            locks: vec![lock(kind)],
            conds: vec![Cond::default(); 2],
            channels: vec![Channel { tokens: 0 }, Channel { tokens: 4 }],
            ..Program::default()
        };
        assert_eq!(play(&program).locks[0].acquisitions, 12_000, "{kind:?}");
    }
}

#[test]
fn one_condition_variable_serves_waits_for_different_things() {
    // Both sides of a queue wait on condition variable 0, as sloppy programs do, with signals.
    let side = |takes: u32, gives: u32| {
        let item = [
            acquire(0),
            Op::Await {
                cond: 0,
                lock: 0,
                need: Need::Token(takes),
            },
            Op::Post { channel: gives },
            Op::Signal { cond: 0 },
            Op::Release { lock: 0 },
        ];
        thread(item.repeat(1000))
    };
    let program = Program {
        threads: vec![side(0, 1), side(1, 0), side(0, 1), side(1, 0)],
        locks: vec![lock(LockKind::Mutex)],
        conds: vec![Cond::default()],
        channels: vec![Channel { tokens: 0 }, Channel { tokens: 1 }],
        ..Program::default()
    };
    assert_eq!(play(&program).locks[0].acquisitions, 4000);
}

#[test]
fn posts_that_signalled_nobody_wake_who_waits_now() {
    let waits = thread(vec![
        acquire(0),
        Op::Await {
            cond: 0,
            lock: 0,
            need: Need::Count(0, 3),
        },
        Op::Release { lock: 0 },
    ]);
    let post = [acquire(0), Op::Post { channel: 0 }, Op::Release { lock: 0 }];
    let posts = [vec![Op::Sleep { ns: 2e6 }], post.repeat(3)].concat();
    let program = Program {
        threads: vec![waits, thread(posts)],
        locks: vec![lock(LockKind::Mutex)],
        conds: vec![Cond::default()],
        channels: vec![Channel { tokens: 0 }],
        ..Program::default()
    };
    let outcome = play(&program);
    assert_eq!(outcome.simplified.silent_posts, 3);
    assert!(outcome.threads[0].other_wait_ns > 1_000_000);
}

#[test]
fn barriers_and_semaphores_order_threads() {
    // Thread 0 posts only after the barrier that both reach; the semaphore starts with one.
    let program = Program {
        threads: vec![
            thread(vec![
                Op::Sleep { ns: 3e6 },
                Op::Barrier { barrier: 0 },
                Op::Sleep { ns: 3e6 },
                Op::SemPost { sem: 0 },
            ]),
            thread(vec![
                Op::SemWait { sem: 0 },
                Op::Barrier { barrier: 0 },
                Op::SemWait { sem: 0 },
            ]),
        ],
        barriers: vec![Barrier {
            recorded: 0,
            count: 2,
        }],
        semaphores: vec![Semaphore {
            value: 1,
            ..Semaphore::default()
        }],
        ..Program::default()
    };
    let outcome = play(&program);
    assert!(outcome.wall_ns > 5_000_000, "{outcome:?}");
    let waited = outcome.threads[1].other_wait_ns;
    assert!(waited > 4_500_000, "{outcome:?}");
    assert!(outcome.threads[1].voluntary >= 2);
}

#[test]
fn threads_start_where_they_are_spawned_and_are_joined() {
    let mut threads = vec![thread(vec![
        Op::Sleep { ns: 2e6 },
        Op::Spawn { thread: 1 },
        Op::Spawn { thread: 2 },
        Op::Join { thread: 1 },
        Op::Join { thread: 2 },
        Op::Join { thread: 2 },
    ])];
    threads.extend([looped(100, 0, 100.0, 100.0), looped(100, 0, 100.0, 100.0)]);
    threads[1].at_start = false;
    threads[2].at_start = false;
    let program = Program {
        threads,
        locks: vec![lock(LockKind::Mutex)],
        ..Program::default()
    };
    let outcome = play(&program);
    assert_eq!(outcome.locks[0].acquisitions, 200);
    let lives = outcome.threads.iter().map(|thread| thread.lifetime_ns);
    assert_eq!(lives.max(), Some(outcome.threads[0].lifetime_ns));
    assert!(outcome.threads[0].lifetime_ns > 1_900_000);
}

#[test]
fn what_cannot_be_replayed_as_it_is_is_counted() {
    let program = Program {
        threads: vec![thread(vec![
            Op::Release { lock: 0 },
            acquire(0),
            acquire(0),
            Op::TryFail { lock: 0 },
            Op::Release { lock: 0 },
        ])],
        locks: vec![lock(LockKind::Mutex)],
        ..Program::default()
    };
    let simplified = Simplified {
        recursive: 1,
        unmatched_releases: 1,
        unreleased: 1,
        silent_posts: 0,
    };
    let outcome = play(&program);
    assert_eq!(outcome.simplified, simplified);
    assert_eq!(outcome.locks[0].acquisitions, 1);
}

#[test]
fn a_hang_ends_with_what_threads_waited_for() {
    let forever = thread(vec![Op::SemWait { sem: 0 }]);
    let program = Program {
        threads: vec![forever.clone(), forever],
        semaphores: vec![Semaphore::default()],
        ..Program::default()
    };
    let waits = hang(&program);
    assert_eq!(waits, "2 threads wait for a semaphore");
    // Two threads that acquire two locks in opposite order, certainly.
    let crossed = |first: u32, second: u32| {
        thread(vec![
            acquire(first),
            Op::Barrier { barrier: 0 },
            acquire(second),
        ])
    };
    let program = Program {
        threads: vec![crossed(0, 1), crossed(1, 0)],
        locks: vec![lock(LockKind::Mutex); 2],
        barriers: vec![Barrier {
            recorded: 0,
            count: 2,
        }],
        ..Program::default()
    };
    let waits = hang(&program);
    assert_eq!(waits, "2 threads wait for a lock");
}

#[test]
fn rejects_programs_that_contradict_themselves() {
    let with = |ops: Vec<Op>| Program {
        threads: vec![thread(ops)],
        barriers: vec![Barrier {
            recorded: 0,
            count: 1,
        }],
        ..Program::default()
    };
    let mut twice = with(vec![Op::Spawn { thread: 0 }]);
    let cases = [
        with(vec![acquire(0)]),
        with(vec![Op::Work { ns: f32::NAN }]),
        with(vec![Op::Sleep { ns: -1.0 }]),
        with(vec![Op::Join { thread: 1 }]),
        twice.clone(),
        {
            twice.threads[0] = Thread::default();
            twice.clone()
        },
        {
            twice.threads[0] = thread(Vec::new());
            twice.barriers[0].count = 2;
            twice
        },
    ];
    for program in cases {
        let options = NativeOptions::for_run_of(Duration::ZERO);
        let result = run(&program, &options);
        assert!(
            matches!(result, Err(NativeError::Invalid(_))),
            "{program:?}"
        );
    }
}

#[test]
fn an_empty_program_takes_no_time() {
    assert_eq!(play(&Program::default()).wall_ns, 0);
}

#[test]
fn recorded_order_is_kept_where_threads_fit_the_processors() {
    let sections = 500;
    let mut threads = vec![
        looped(sections, 0, 100.0, 100.0),
        looped(sections, 0, 300.0, 50.0),
    ];
    if crate::cpus::usable() < 2 {
        threads.truncate(1);
    }
    let count = threads.len();
    // Runs of one to five sections in turn.
    let mut left = vec![sections; count];
    let mut order = Vec::new();
    for (run, thread) in (0..count).cycle().enumerate() {
        let taken = left[thread].min(run % 5 + 1);
        left[thread] -= taken;
        order.extend(vec![thread as u32; taken]);
        if left.iter().all(|&left| left == 0) {
            break;
        }
    }
    let program = Program {
        threads,
        locks: vec![lock(LockKind::Mutex)],
        ..Program::default()
    };
    let options = NativeOptions {
        timeout: TIMEOUT,
        schedule: Schedule::Recorded(vec![order.clone()]),
    };
    let fingerprints: Vec<u64> = (0..3)
        .map(|_| run(&program, &options).unwrap().locks[0].fingerprint)
        .collect();
    assert_eq!(fingerprints[0], fingerprints[1]);
    assert_eq!(fingerprints[1], fingerprints[2]);
    // An order that is too short contradicts the program.
    order.pop();
    let options = NativeOptions {
        timeout: TIMEOUT,
        schedule: Schedule::Recorded(vec![order]),
    };
    assert!(matches!(
        run(&program, &options),
        Err(NativeError::Invalid(_))
    ));
}

/// Two threads that hand tokens to each other under a lock, and take a semaphore's permit before
/// they work.
fn pair_of_queue_and_permit(rounds: usize) -> Program {
    let need = Need::Token(0);
    let (acquire, release) = (acquire(0), Op::Release { lock: 0 });
    let wait = Op::Await {
        cond: 0,
        lock: 0,
        need,
    };
    let worked = [
        Op::SemWait { sem: 0 },
        Op::Work { ns: 200.0 },
        Op::SemPost { sem: 0 },
    ];
    let get = [&[acquire, wait, release][..], &worked].concat();
    let (post, signal) = (Op::Post { channel: 0 }, Op::Signal { cond: 0 });
    let put = [&[acquire, post, signal, release][..], &worked].concat();
    Program {
        threads: vec![thread(get.repeat(rounds)), thread(put.repeat(rounds))],
        locks: vec![lock(LockKind::Mutex)],
        conds: vec![Cond::default()],
        channels: vec![Channel::default()],
        semaphores: vec![Semaphore {
            value: 1,
            ..Semaphore::default()
        }],
        ..Program::default()
    }
}

#[test]
fn one_order_of_all_operations_is_kept_through_conditions_and_semaphores() {
    let rounds = 300;
    let program = pair_of_queue_and_permit(rounds);
    // The consumer acquires first, and waits for the producer in every round.
    let round = [0, 1, 0, 0, 1];
    let total = |order: Vec<u32>| NativeOptions {
        timeout: TIMEOUT,
        schedule: Schedule::Total(order),
    };
    let options = total(round.repeat(rounds));
    let fingerprints = [(); 3].map(|()| run(&program, &options).unwrap().locks[0].fingerprint);
    assert_eq!(fingerprints, [fingerprints[0]; 3]);
    // The producer acquires first: another order of the same acquisitions.
    let other = run(&program, &total([1, 0, 0, 0, 1].repeat(rounds))).unwrap();
    assert_ne!(other.locks[0].fingerprint, fingerprints[0]);
    // Orders that are too short or too long contradict the program.
    for order in [round.repeat(rounds - 1), round.repeat(rounds + 1)] {
        let error = run(&program, &total(order));
        assert!(matches!(error, Err(NativeError::Invalid(_))), "{error:?}");
    }
}
