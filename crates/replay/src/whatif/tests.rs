use super::{apply, parse, Applied, Knowledge, Names, Note, ParseError, Refusal, WhatIf};
use crate::machine::{Machine, WakeLatency};
use crate::program::{Barrier, Lock, LockKind, Op, Program, Semaphore, Thread};
use crate::random::{below, mix};
use crate::sections::Sections;
use crate::sets::{Assignment, SectionSets};
use crate::testing::recording;
use crate::testing_program::{assert_locks_are_released, program, work};
use crate::testing_sets::sets;

fn machine() -> Machine {
    Machine {
        cpus: 2,
        atomic_local_ns: 3.0,
        atomic_remote_ns: 20.0,
        lock_pair_ns: 6.0,
        rdlock_pair_ns: 15.0,
        futex_check_ns: 200.0,
        futex_eagain_ns: 300.0,
        futex_block_ns: 300.0,
        futex_wake_none_ns: 290.0,
        futex_wake_ns: 700.0,
        futex_wake_ipi_ns: 9000.0,
        switch_ns: 1500.0,
        tick_ns: 4e6,
        slice_ns: 3e6,
        wake_latency: vec![WakeLatency {
            idle_ns: 0.0,
            p10_ns: 2000.0,
            p50_ns: 3000.0,
            p90_ns: 9000.0,
            ipi_share: 0.1,
        }],
        spawn_ns: 15_000.0,
        clock_ns: 10.0,
    }
}

/// Objects L1 and L2, threads a and b in the group `workers`.
fn names() -> Names {
    Names {
        locks: vec![("cache_lock".into(), vec![0]), ("log_lock".into(), vec![1])],
        groups: vec![("workers".into(), vec![0, 1])],
        barriers: vec![("phase_end".into(), vec![0])],
        semaphores: vec![("connections".into(), vec![0])],
    }
}

const PROGRAM: &str = "
    thread a
    10 lock L1
    30 unlock L1
    40 lock L1
    45 unlock L1
    50 lock L2
    60 unlock L2
    thread b
    5 lock L2
    7 lock L1
    9 unlock L1
    12 unlock L2";

fn built(text: &str) -> Program {
    let recording = recording(text);
    program(&recording, &Sections::of(&recording))
}

fn answer_with(
    program: &Program,
    query: &str,
    sets: Option<(&SectionSets, &Assignment)>,
) -> Result<Applied, Refusal> {
    let what_ifs = parse(query, &names()).unwrap();
    let machine = machine();
    let knowledge = Knowledge {
        machine: &machine,
        sets,
        seed: 1,
    };
    apply(program, &what_ifs, &knowledge)
}

fn answer(text: &str, query: &str) -> Applied {
    answer_with(&built(text), query, None).unwrap()
}

/// Operations of a thread: `+0` acquires lock 0, `r0` for reading, `?0` by a try, `!0` a failed try, `-0`
/// releases it; `w5` works 5 ns; `b0` meets at barrier 0, `s1` and `j1` start and join thread 1.
fn ops(applied: &Applied, thread: usize) -> String {
    let show = |op: &Op| match op {
        Op::Work { ns } => format!("w{ns}"),
        Op::Sleep { ns } => format!("z{ns}"),
        Op::Acquire {
            lock, shared: true, ..
        } => format!("r{lock}"),
        Op::Acquire { lock, .. } => format!("+{lock}"),
        Op::TryAcquire { lock, .. } => format!("?{lock}"),
        Op::TryFail { lock } => format!("!{lock}"),
        Op::Release { lock } => format!("-{lock}"),
        Op::Barrier { barrier } => format!("b{barrier}"),
        Op::Spawn { thread } => format!("s{thread}"),
        Op::Join { thread } => format!("j{thread}"),
        other => format!("{other:?}"),
    };
    let ops = applied.program.threads[thread].ops.iter().map(show);
    ops.collect::<Vec<_>>().join(" ")
}

fn kind(applied: &Applied, lock: usize) -> LockKind {
    applied.program.locks[lock].kind
}

#[test]
fn removing_a_lock_keeps_its_sections_work() {
    let before = built(PROGRAM);
    let after = answer(PROGRAM, "remove cache_lock");
    assert_eq!(kind(&after, 0), LockKind::Absent);
    assert_eq!(kind(&after, 1), LockKind::Mutex);
    assert_eq!(after.program.threads, before.threads);
}

#[test]
fn removing_sections_takes_their_work_away_and_no_more() {
    let after = answer(PROGRAM, "remove section cache_lock");
    assert_eq!(ops(&after, 0), "w10 +0 -0 w10 +0 -0 w5 +1 w10 -1");
    assert_eq!(ops(&after, 1), "w5 +1 w2 +0 -0 w3 -1");
    assert_eq!(kind(&after, 0), LockKind::Absent);
}

#[test]
fn shortening_scales_the_work_inside_or_between_sections() {
    let after = answer(PROGRAM, "shorten cache_lock 50%");
    assert_eq!(ops(&after, 0), "w10 +0 w10 -0 w10 +0 w2.5 -0 w5 +1 w10 -1");
    assert_eq!(ops(&after, 1), "w5 +1 w2 +0 w1 -0 w3 -1");
    let after = answer(PROGRAM, "shorten gap cache_lock 50%");
    // Only what lies between two sections: 30..40 of thread a.
    assert_eq!(ops(&after, 0), "w10 +0 w20 -0 w5 +0 w5 -0 w5 +1 w10 -1");
    assert_eq!(ops(&after, 1), "w5 +1 w2 +0 w2 -0 w3 -1");
    let outer = answer(PROGRAM, "shorten log_lock 100%");
    assert_eq!(ops(&outer, 1), "w5 +1 +0 -0 -1");
}

#[test]
fn kinds_of_locks_change() {
    assert_eq!(kind(&answer(PROGRAM, "spin cache_lock"), 0), LockKind::Spin);
    let spin = LockKind::Adaptive { spin_ns: 500.0 };
    assert_eq!(kind(&answer(PROGRAM, "adaptive cache_lock 500ns"), 0), spin);
    // Check, block, switch, wake-up: 200 + 300 + 1500 + 3000.
    let round = LockKind::Adaptive { spin_ns: 5000.0 };
    assert_eq!(kind(&answer(PROGRAM, "adaptive cache_lock"), 0), round);
}

#[test]
fn atomic_replaces_sections_without_other_operations() {
    let after = answer(PROGRAM, "atomic cache_lock");
    assert_eq!(ops(&after, 0), "w10 w20 w10 w20 w5 +1 w10 -1");
    assert_eq!(ops(&after, 1), "w5 +1 w2 w20 w3 -1");
    let outer = answer(PROGRAM, "atomic log_lock");
    assert_eq!(ops(&outer, 1), "w5 +1 w2 +0 w2 -0 w3 -1");
    assert_eq!(outer.notes, [Note::SectionsStay(1)]);
}

#[test]
fn blocking_replaces_a_loop_of_tries() {
    let text = "
        thread a
        10 tryfail L1
        20 tryfail L1
        35 try L1
        40 unlock L1
        50 tryfail L1
        60 lock L2
        61 unlock L2
        65 try L1
        70 unlock L1";
    let after = answer(text, "blocking cache_lock");
    // 10..35 only waited. The try at 50 was given up for something else.
    assert_eq!(ops(&after, 0), "w10 +0 w5 -0 w10 w10 +1 w1 -1 w4 +0 w5 -0");
}

#[test]
fn a_batch_does_the_work_of_its_sections_in_one() {
    let text = "
        thread a
        10 lock L1
        12 unlock L1
        20 lock L1
        23 unlock L1
        30 lock L1
        34 unlock L1
        40 lock L2
        41 unlock L2
        50 lock L1
        55 unlock L1";
    let after = answer(text, "batch cache_lock 2");
    assert_eq!(
        ops(&after, 0),
        "w10 w8 +0 w2 w3 -0 w7 +0 w4 -0 w6 +1 w1 -1 w9 +0 w5 -0"
    );
    assert_eq!(after.notes, [Note::Model]);
    assert_eq!(work(&after.program), work(&built(text)));
}

/// Twenty sections of each of two threads; sections of even number use sample 0, the others 1.
fn many() -> String {
    let mut text = String::new();
    for thread in 0..2 {
        text += "thread t\n";
        for turn in 0..20 {
            let at = thread + 10 * turn;
            text += &format!("{at} lock L1\n{} unlock L1\n", at + 5);
        }
    }
    text
}

#[test]
fn a_reader_writer_lock_is_shared_by_sections_that_only_read() {
    let program = built(PROGRAM);
    let sets = sets("r1\n w1");
    // Sections 0 and 1 of a on L1, 2 on L2; 3 of b on L2, 4 on L1.
    let assignment = Assignment::observed(vec![0, 1, 0, 0, crate::sets::NO_SAMPLE]);
    let after = answer_with(&program, "rwlock cache_lock", Some((&sets, &assignment))).unwrap();
    assert_eq!(kind(&after, 0), LockKind::RwLock);
    assert_eq!(ops(&after, 0), "w10 r0 w20 -0 w10 +0 w5 -0 w5 +1 w10 -1");
    assert_eq!(ops(&after, 1), "w5 +1 w2 +0 w2 -0 w3 -1");
    assert_eq!(after.notes, [Note::SetsUnknown(1)]);
    let refused = answer_with(&program, "rwlock cache_lock", None);
    assert_eq!(refused, Err(Refusal::NeedsSets("cache_lock".into())));
}

/// Sections by lock.
fn spread(applied: &Applied) -> Vec<usize> {
    let mut counts = vec![0; applied.program.locks.len()];
    for op in applied
        .program
        .threads
        .iter()
        .flat_map(|thread| &thread.ops)
    {
        if let Op::Acquire { lock, .. } = op {
            counts[*lock as usize] += 1;
        }
    }
    counts
}

#[test]
fn shards_follow_the_data_of_the_sections() {
    let program = built(&many());
    // Word 9 is a counter that all sections change: it joins nothing.
    let sets = sets("b1 b2 b9\n b3 b4 b9\n b5 b9");
    let samples: Vec<u32> = (0..40).map(|ix| ix % 3).collect();
    let assignment = Assignment::observed(samples.clone());
    let after = answer_with(&program, "cache_lock / 64", Some((&sets, &assignment))).unwrap();
    assert_eq!(after.program.locks.len(), 64);
    let mut used: Vec<usize> = spread(&after).into_iter().filter(|n| *n > 0).collect();
    used.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
    assert_eq!(used, [14, 13, 13], "one lock for each part: {used:?}");
    assert!(after.notes.is_empty());
    assert_locks_are_released(&after.program);
}

#[test]
fn shards_of_one_part_of_data_are_taken_by_chance() {
    let program = built(&many());
    let sets = sets("b1 b2\n b2 b3\n b3 b1");
    let assignment = Assignment::observed((0..40).map(|ix| ix % 3).collect());
    let after = answer_with(&program, "cache_lock / 4", Some((&sets, &assignment))).unwrap();
    assert_eq!(after.notes, [Note::OnePart]);
    assert!(spread(&after).iter().all(|n| *n > 0));
}

#[test]
fn shards_without_sets_are_even() {
    let after = answer(&many(), "cache_lock / 2");
    let counts = spread(&after);
    assert_eq!(counts.iter().sum::<usize>(), 40);
    assert!(counts.iter().all(|n| *n >= 10), "{counts:?}");
    assert_eq!(after.notes, [Note::ShardsByChance]);
}

#[test]
fn what_ifs_combine_from_left_to_right() {
    let after = answer(&many(), "cache_lock / 2 + spin cache_lock + cpus 8");
    assert!(after
        .program
        .locks
        .iter()
        .all(|lock| lock.kind == LockKind::Spin));
    assert_eq!(after.cpus, Some(8));
}

const MUTEX: Lock = Lock {
    recorded: 0,
    kind: LockKind::Mutex,
    transfer: None,
};

/// A main thread that starts two workers with two phases each.
fn phased() -> Program {
    let worker = |units: u32| {
        let mut ops = Vec::new();
        for phase in 0..2 {
            for unit in 0..units {
                ops.push(Op::Acquire {
                    lock: 0,
                    shared: false,
                    section: phase * 10 + unit,
                });
                ops.push(Op::Work { ns: 1.0 });
                ops.push(Op::Release { lock: 0 });
            }
            ops.push(Op::Barrier { barrier: 0 });
        }
        Thread {
            ops,
            ..Thread::default()
        }
    };
    let main = Thread {
        at_start: true,
        ops: vec![
            Op::Spawn { thread: 0 },
            Op::Spawn { thread: 1 },
            Op::Join { thread: 0 },
            Op::Join { thread: 1 },
        ],
        ..Thread::default()
    };
    Program {
        threads: vec![worker(3), worker(3), main],
        locks: vec![MUTEX; 2],
        barriers: vec![Barrier {
            recorded: 0,
            count: 2,
        }],
        ..Program::default()
    }
}

#[test]
fn more_threads_share_the_same_work_phase_by_phase() {
    let after = answer_with(&phased(), "threads workers=3", None).unwrap();
    assert_eq!(after.program.barriers[0].count, 3);
    assert_eq!(work(&after.program), [4.0, 4.0, 0.0, 4.0]);
    assert_eq!(ops(&after, 3), "+0 w1 -0 +0 w1 -0 b0 +0 w1 -0 +0 w1 -0 b0");
    assert_eq!(ops(&after, 2), "s0 s1 s3 j0 j1 j3");
    assert_eq!(after.notes, [Note::Model]);
}

/// Two threads meet twice; the second one has done 30 and then nothing, the first 10 and 20.
fn uneven() -> Program {
    let meet = Op::Barrier { barrier: 0 };
    let thread = |ops| Thread {
        ops,
        ..Thread::default()
    };
    let work = |ns| Op::Work { ns };
    Program {
        threads: vec![
            thread(vec![work(10.0), meet, work(20.0), meet]),
            thread(vec![work(30.0), meet, meet, work(5.0)]),
        ],
        barriers: vec![Barrier {
            recorded: 0,
            count: 2,
        }],
        ..Program::default()
    }
}

#[test]
fn a_balanced_barrier_gives_each_thread_the_mean_of_every_phase() {
    let after = answer_with(&uneven(), "balance phase_end", None).unwrap();
    assert_eq!(ops(&after, 0), "w20 b0 w10 b0");
    assert_eq!(ops(&after, 1), "w20 b0 w10 b0 w5");
    assert_eq!(after.notes, [Note::Model]);
}

#[test]
fn a_barrier_of_changing_threads_is_not_balanced() {
    let mut program = uneven();
    program.barriers[0].count = 3;
    let refused = answer_with(&program, "balance phase_end", None);
    assert!(
        matches!(refused, Err(Refusal::Balance { .. })),
        "{refused:?}"
    );
}

/// Two threads that each take and give back a permit, the second of which has it from the start.
fn pool(permits: u32) -> Program {
    let (take, give) = (Op::SemWait { sem: 0 }, Op::SemPost { sem: 0 });
    let thread = |ops| Thread {
        ops,
        ..Thread::default()
    };
    Program {
        threads: vec![thread(vec![take, give]), thread(vec![give, take, give])],
        semaphores: vec![Semaphore {
            recorded: 0,
            value: permits.saturating_sub(1),
            permits,
        }],
        ..Program::default()
    }
}

#[test]
fn more_permits_are_there_from_the_start() {
    let after = answer_with(&pool(1), "permits connections=3", None).unwrap();
    assert_eq!(after.program.semaphores[0].value, 2);
    assert_eq!(after.program.threads, pool(1).threads);
}

#[test]
fn permits_that_are_out_are_kept_when_they_come_back_if_there_are_to_be_fewer() {
    let mut program = pool(4);
    program.semaphores[0].value = 0;
    let after = answer_with(&program, "permits connections=3", None).unwrap();
    assert_eq!(after.program.semaphores[0].value, 0);
    assert_eq!(after.program.threads[0].ops, [Op::SemWait { sem: 0 }]);
    assert_eq!(after.program.threads[1].ops, program.threads[1].ops);
}

#[test]
fn a_semaphore_without_permits_of_its_own_gets_none() {
    let refused = answer_with(&pool(0), "permits connections=3", None);
    assert_eq!(refused, Err(Refusal::NoPermits("connections".into())));
}

#[test]
fn fewer_threads_do_all_of_the_work() {
    let after = answer_with(&phased(), "threads workers=1", None).unwrap();
    assert_eq!(work(&after.program), [12.0, 0.0, 0.0]);
    assert_eq!(after.program.barriers[0].count, 1);
    assert_eq!(ops(&after, 2), "s0 j0");
    assert_eq!(ops(&after, 1), "");
}

#[test]
fn threads_that_create_others_cannot_be_shared_out() {
    let mut program = phased();
    program.threads[1].ops.push(Op::Spawn { thread: 2 });
    let refused = answer_with(&program, "threads workers=4", None);
    assert!(matches!(refused, Err(Refusal::Threads { .. })));
}

#[test]
fn queries_are_read() {
    let one = |query: &str| parse(query, &names()).unwrap().remove(0);
    assert!(matches!(one("cache_lock/8"), WhatIf::Shard { ways: 8, .. }));
    assert!(matches!(
        one("\"cache_lock\" / 8"),
        WhatIf::Shard { ways: 8, .. }
    ));
    assert!(matches!(
        one("remove sections log"),
        WhatIf::RemoveSections(_)
    ));
    assert!(matches!(
        one("threads workers = 16"),
        WhatIf::Threads { count: 16, .. }
    ));
    let two = parse("remove cache_lock + shorten log_lock 12.5%", &names()).unwrap();
    let [WhatIf::Remove(_), WhatIf::ShortenHold { share, .. }] = two.as_slice() else {
        panic!("{two:?}");
    };
    assert_eq!(*share, 0.125);
    for what_if in two {
        assert!(what_if.description().ends_with('.'));
        assert!(!what_if.assumption().is_empty());
    }
}

#[test]
fn queries_that_cannot_be_read_say_why() {
    let error = |query: &str| parse(query, &names()).unwrap_err();
    assert!(matches!(error("remove cache_lokc"), ParseError::Name(_)));
    assert!(matches!(error("explode cache_lock"), ParseError::Form(_)));
    assert!(matches!(error(""), ParseError::Form(_)));
    assert!(matches!(
        error("shorten cache_lock 150%"),
        ParseError::Number { .. }
    ));
    assert!(matches!(error("shorten cache_lock"), ParseError::Form(_)));
    assert!(matches!(error("cache_lock / 0"), ParseError::Number { .. }));
    assert!(matches!(error("cpus many"), ParseError::Number { .. }));
    assert!(matches!(error("threads workers"), ParseError::Form(_)));
    assert!(matches!(error("remove cache_lock + "), ParseError::Form(_)));
    assert!(error("remove cache_lokc")
        .to_string()
        .contains("did you mean `cache_lock`?"));
}

#[test]
fn names_with_separators_can_be_quoted() {
    let mut names = names();
    names
        .locks
        .push(("mutex from a + b() src/x.c:4".into(), vec![2]));
    let query = "remove \"mutex from a + b() src/x.c:4\" + cpus 2";
    assert_eq!(parse(query, &names).unwrap().len(), 2);
    assert!(matches!(
        parse("mutex from a / 2", &names).unwrap()[0],
        WhatIf::Shard { ways: 2, .. }
    ));
}

#[test]
fn no_query_breaks_a_program() {
    let queries = [
        "remove cache_lock",
        "remove section log_lock",
        "cache_lock / 3",
        "shorten cache_lock 30%",
        "shorten gap log_lock 30%",
        "adaptive cache_lock",
        "spin log_lock",
        "atomic cache_lock",
        "blocking log_lock",
        "batch cache_lock 4",
        "threads workers=5",
        "threads workers=1",
    ];
    for seed in 0..200 {
        let draw = |n: u64, limit: u64| below(mix(seed, n), limit);
        let mut text = String::new();
        let mut n = 0;
        for _ in 0..3 {
            text += "thread t\n";
            let mut at = 0;
            for _ in 0..10 {
                n += 1;
                at += 1 + draw(n, 50);
                let lock = draw(n + 1000, 2);
                let nested = lock == 0 && draw(n + 2000, 3) == 0;
                text += &format!("{at} lock L{lock}\n");
                if nested {
                    text += &format!("{} lock L1\n{} unlock L1\n", at + 2, at + 5);
                }
                at += 8;
                text += &format!("{at} unlock L{lock}\n");
            }
        }
        let program = built(&text);
        let query: Vec<&str> = (0..3)
            .map(|k| queries[draw(5000 + k, queries.len() as u64) as usize])
            .collect();
        let query = query.join(" + ");
        let after = answer_with(&program, &query, None).unwrap();
        assert_locks_are_released(&after.program);
        let before: f64 = work(&program).iter().sum();
        let is_kept = !["section", "shorten", "atomic"]
            .iter()
            .any(|word| query.contains(word));
        if is_kept {
            let after: f64 = work(&after.program).iter().sum();
            assert!((before - after).abs() < 1e-3, "{query}: {before} {after}");
        }
    }
}
