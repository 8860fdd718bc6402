//! Conservation of time, repeatability.

use super::*;
use crate::program::Need;

/// One program of everything: locks, a queue, a barrier, a semaphore, sleeps, children.
fn everything() -> Program {
    let mut threads = Vec::new();
    for thread in 0..3u32 {
        let mut ops = sections(300, 500.0, 800.0, thread * 300);
        for round in 0..20 {
            ops.push(Op::Sleep {
                ns: 20_000.0 * (thread + 1) as f32,
            });
            ops.extend([
                acquire(1),
                Op::Post { channel: 0 },
                Op::Signal { cond: 0 },
                release(1),
            ]);
            ops.push(Op::Barrier { barrier: 0 });
            ops.extend([Op::SemWait { sem: 0 }, work(3000.0), Op::SemPost { sem: 0 }]);
            ops.push(work(100.0 * round as f32));
        }
        threads.push(ops);
    }
    let mut consumer = vec![Op::Spawn { thread: 4 }];
    for _ in 0..60 {
        let need = Need::Token(0);
        consumer.extend([
            acquire(1),
            Op::Await {
                cond: 0,
                lock: 1,
                need,
            },
            release(1),
        ]);
        consumer.push(work(4000.0));
    }
    consumer.push(Op::Join { thread: 4 });
    threads.push(consumer);
    threads.push(sections(200, 2000.0, 100.0, 900));
    let mut program = program(threads)
        .with_locks(LockKind::Mutex, 2)
        .with_cond(&[0])
        .with_barrier(3);
    program.threads[4].at_start = false;
    program.threads[1].start_ns = 50_000.0;
    program.with_semaphore(1)
}

fn assert_conserved(program: &Program, outcome: &Outcome, cpus: f64) {
    let mut cpu_time = 0.0;
    for (index, (thread, recorded)) in outcome.threads.iter().zip(&program.threads).enumerate() {
        let lifetime = thread.end_ns - thread.start_ns;
        let accounted = thread.accounted_ns();
        assert!(
            (accounted - lifetime).abs() < 0.01,
            "{index}: {accounted} of {lifetime}"
        );
        let time_of = |is: fn(&Op) -> Option<f32>| -> f64 {
            recorded.ops.iter().filter_map(is).map(f64::from).sum()
        };
        let recorded_work = time_of(|op| match op {
            Op::Work { ns } => Some(*ns),
            _ => None,
        });
        // Each operation is rounded down to a picosecond.
        let rounding = 0.001 * recorded.ops.len() as f64 + 0.001;
        assert!(
            (thread.work_ns - recorded_work).abs() <= rounding,
            "{index}: work is kept"
        );
        let recorded_sleep = time_of(|op| match op {
            Op::Sleep { ns } => Some(*ns),
            _ => None,
        });
        assert!(
            (thread.slept_ns - recorded_sleep).abs() <= rounding,
            "{index}: sleep is kept"
        );
        let at_least = thread.work_ns + thread.protocol_ns;
        assert!(
            thread.cpu_ns >= at_least - 0.01,
            "{index}: {} < {at_least}",
            thread.cpu_ns
        );
        cpu_time += thread.cpu_ns;
    }
    assert!(
        cpu_time <= cpus * outcome.wall_ns,
        "{cpu_time} ns of CPU time in {}",
        outcome.wall_ns
    );
}

#[test]
fn a_lifetime_is_the_sum_of_what_it_was_spent_on() {
    let program = everything();
    for seed in 0..20 {
        assert_conserved(&program, &run_seed(&program, seed), 2.0);
    }
    for kind in KINDS {
        let program = contended(kind, 5, 400);
        assert_conserved(&program, &run_program(&program), 2.0);
    }
}

#[test]
fn time_is_conserved_with_any_number_of_cpus() {
    let program = everything();
    for cpus in [1, 2, 3, 8, 64] {
        let options = Options {
            cpus: Some(cpus),
            ..Options::default()
        };
        let outcome = run_unfinished(&program, &options);
        assert_eq!(outcome.stuck, None);
        assert_conserved(&program, &outcome, f64::from(cpus));
    }
}

#[test]
fn time_is_conserved_when_threads_are_stuck() {
    let mut program = everything();
    // The consumer waits for one item more than there will be.
    let need = Need::Token(0);
    program.threads[3].ops.extend([
        acquire(1),
        Op::Await {
            cond: 0,
            lock: 1,
            need,
        },
    ]);
    let outcome = run_unfinished(&program, &Options::default());
    let stuck = outcome.stuck.as_ref().expect("a missing item");
    assert_eq!(
        stuck
            .threads
            .iter()
            .map(|(thread, _)| *thread)
            .collect::<Vec<_>>(),
        [3]
    );
    for thread in &outcome.threads {
        assert!((thread.accounted_ns() - (thread.end_ns - thread.start_ns)).abs() < 0.01);
    }
}

#[test]
fn the_same_seed_gives_the_same_run_bit_by_bit() {
    let program = everything();
    let text = |seed| format!("{:?}", run_seed(&program, seed));
    assert_eq!(text(5), text(5));
    assert_ne!(text(5), text(6));
}

#[test]
fn a_thread_alone_takes_its_work_and_the_costs_of_its_locks() {
    let program = program(vec![sections(1000, 100.0, 300.0, 0)]).with_locks(LockKind::Mutex, 1);
    let outcome = run_program(&program);
    let thread = outcome.threads[0];
    let costs = 1000.0 * machine().lock_pair_ns;
    assert!((outcome.wall_ns - thread.work_ns - costs).abs() < 0.01);
    assert!((thread.protocol_ns - costs).abs() < 0.01);
    assert_eq!(outcome.futex, FutexCounts::default());
    assert_eq!((thread.voluntary, thread.involuntary), (0, 0));
    assert_eq!(outcome.locks[0].acquisitions, 1000);
    let held: f64 = outcome.locks[0].hold_ns;
    let inside = thread.work_ns / 4.0 + costs / 2.0;
    assert!(
        (held - inside).abs() < 1.0,
        "{held} ns held instead of {inside}"
    );
}

#[test]
fn independent_threads_do_not_disturb_one_another() {
    let own = |lock: u32, count: u32| {
        let mut ops = Vec::new();
        for index in 0..count {
            ops.push(work(150.0 + (index % 13) as f32));
            ops.extend(section(lock, NO_SECTION, 80.0));
        }
        ops
    };
    let alone = |lock, count| {
        run_program(&program(vec![own(lock, count)]).with_locks(LockKind::Mutex, 2)).wall_ns
    };
    let both = program(vec![own(0, 500), own(1, 900)]).with_locks(LockKind::Mutex, 2);
    let outcome = run_program(&both);
    assert_eq!(outcome.threads[0].end_ns, alone(0, 500));
    assert_eq!(outcome.threads[1].end_ns, alone(1, 900));
}

#[test]
fn every_acquisition_is_counted_and_has_its_times() {
    for kind in KINDS {
        let program = contended(kind, 4, 500);
        let outcome = run_program(&program);
        let lock = &outcome.locks[0];
        assert_eq!(lock.acquisitions, 2000, "{kind:?}");
        assert_eq!(outcome.sections.len(), 2000, "{kind:?}");
        assert_eq!(
            lock.waits.as_ref().map_or(0, |waits| waits.count()),
            lock.contended
        );
        let mut held = 0.0;
        for times in &outcome.sections {
            assert!(times.is_reached());
            assert!(times.requested_ns <= times.acquired_ns);
            assert!(times.acquired_ns <= times.released_ns);
            held += times.released_ns - times.acquired_ns;
        }
        assert!(
            (held - lock.hold_ns).abs() < 0.1,
            "{kind:?}: {held} of {}",
            lock.hold_ns
        );
        let waited: f64 = outcome.threads.iter().map(|t| t.waited_ns[0]).sum();
        assert!((waited - lock.waited_ns).abs() < 0.1, "{kind:?}: {waited}");
    }
}
