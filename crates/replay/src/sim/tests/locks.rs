//! The protocols of locks.

use super::*;

/// Sections of a lock in the order in which they were entered.
fn in_order(outcome: &Outcome) -> Vec<SectionTimes> {
    let mut all = outcome.sections.clone();
    all.sort_by(|a, b| a.acquired_ns.total_cmp(&b.acquired_ns));
    all
}

#[test]
fn exclusive_sections_never_overlap() {
    for kind in KINDS {
        for seed in 0..10 {
            let outcome = run_seed(&contended(kind, 4, 300), seed);
            for pair in in_order(&outcome).windows(2) {
                assert!(
                    pair[0].released_ns <= pair[1].acquired_ns,
                    "{kind:?}, seed {seed}"
                );
            }
        }
    }
}

#[test]
fn a_removed_lock_excludes_nobody_and_costs_nothing() {
    let outcome = run_program(&contended(LockKind::Absent, 2, 300));
    let overlapping = in_order(&outcome)
        .windows(2)
        .any(|p| p[0].released_ns > p[1].acquired_ns);
    assert!(overlapping);
    assert!(outcome
        .threads
        .iter()
        .all(|t| t.protocol_ns == 0.0 && t.waited_total_ns() == 0.0));
}

#[test]
fn a_wait_shorter_than_the_system_call_fails_with_eagain() {
    // The section is over before FUTEX_WAIT compares: the wake-up finds nobody, the wait nothing.
    let first = [vec![work(1000.0)], section(0, 0, 100.0).to_vec()].concat();
    let second = [vec![work(1050.0)], section(0, 1, 100.0).to_vec()].concat();
    let outcome = run_program(&program(vec![first, second]).with_locks(LockKind::Mutex, 1));
    assert_eq!(outcome.futex.eagain, 1);
    assert_eq!(outcome.futex.wakes, 0);
    // The waiter has left 2 in the word: its own release wakes nobody, too.
    assert_eq!(outcome.futex.wakes_nobody, 2);
    assert_eq!(outcome.locks[0].contended, 1);
}

#[test]
fn a_long_wait_parks_and_is_woken() {
    let first = [vec![work(1000.0)], section(0, 0, 50_000.0).to_vec()].concat();
    let second = [vec![work(2000.0)], section(0, 1, 100.0).to_vec()].concat();
    let outcome = run_program(&program(vec![first, second]).with_locks(LockKind::Mutex, 1));
    assert_eq!(outcome.futex.eagain, 0);
    assert_eq!(outcome.futex.wakes, 1);
    assert_eq!(outcome.threads[1].voluntary, 1);
    let gap = outcome.sections[1].acquired_ns - outcome.sections[0].released_ns;
    assert!(gap > 3000.0, "the wake-up took {gap} ns");
    // The waker pays for the system call after the release.
    assert!(outcome.threads[0].protocol_ns > machine().futex_wake_ns);
}

#[test]
fn whoever_comes_first_takes_a_mutex_before_the_woken_waiter() {
    // Thread 1 parks; thread 0 locks again at once, long before thread 1 runs.
    let again = [section(0, 0, 20_000.0), section(0, 1, 100.0)].concat();
    let waiter = [vec![work(5000.0)], section(0, 2, 100.0).to_vec()].concat();
    let mutex = program(vec![again, waiter]).with_locks(LockKind::Mutex, 1);
    let outcome = run_program(&mutex);
    assert!(outcome.sections[1].acquired_ns < outcome.sections[2].acquired_ns);
    let mut ticket = mutex;
    ticket.locks[0].kind = LockKind::Ticket;
    let outcome = run_program(&ticket);
    assert!(outcome.sections[1].acquired_ns > outcome.sections[2].released_ns);
}

#[test]
fn ticket_locks_serve_in_order_of_arrival() {
    for seed in 0..10 {
        let outcome = run_seed(&contended(LockKind::Ticket, 4, 300), seed);
        let mut by_request = outcome.sections.clone();
        by_request.sort_by(|a, b| a.requested_ns.total_cmp(&b.requested_ns));
        for pair in by_request.windows(2) {
            // Requests closer than the atomic operation may swap.
            if pair[1].requested_ns - pair[0].requested_ns > 50.0 {
                assert!(pair[0].acquired_ns < pair[1].acquired_ns, "seed {seed}");
            }
        }
    }
}

#[test]
fn an_adaptive_mutex_spins_through_short_waits() {
    let parked = run_program(&contended(LockKind::Mutex, 2, 500));
    let spun = run_program(&contended(LockKind::Adaptive { spin_ns: 5000.0 }, 2, 500));
    assert!(parked.futex.wakes + parked.futex.eagain > 50);
    assert_eq!(spun.futex, FutexCounts::default());
    assert!(spun.locks[0].contended > 50);
    assert!(spun.wall_ns < parked.wall_ns);
}

#[test]
fn an_adaptive_mutex_parks_when_it_has_spun_long_enough() {
    let holder = [vec![work(1000.0)], section(0, 0, 50_000.0).to_vec()].concat();
    let waiter = [vec![work(2000.0)], section(0, 1, 100.0).to_vec()].concat();
    let kind = LockKind::Adaptive { spin_ns: 3000.0 };
    let outcome = run_program(&program(vec![holder, waiter]).with_locks(kind, 1));
    assert_eq!(outcome.futex.wakes, 1);
    assert_eq!(outcome.threads[1].voluntary, 1);
}

#[test]
fn more_spinning_threads_than_cpus_come_to_an_end() {
    for seed in 0..5 {
        let program = contended(LockKind::Spin, 4, 20_000);
        let outcome = run_seed(&program, seed);
        assert_eq!(outcome.stuck, None, "seed {seed}");
    }
}

#[test]
fn spinning_takes_cpu_time_from_the_lock_holder() {
    // Two threads on one CPU: the spinner burns its slice while the holder waits to run.
    let holder = section(0, 0, 20e6).to_vec();
    let spinner = [vec![work(100.0)], section(0, 1, 100.0).to_vec()].concat();
    let program = program(vec![holder, spinner]).with_locks(LockKind::Spin, 1);
    let options = Options {
        cpus: Some(1),
        ..Options::default()
    };
    let outcome = run_unfinished(&program, &options);
    assert_eq!(outcome.stuck, None);
    let spinner = outcome.threads[1];
    assert!(
        spinner.cpu_ns > machine().slice_ns,
        "spun for {} ns",
        spinner.cpu_ns
    );
    assert!(outcome.wall_ns > 20e6 + machine().slice_ns);
    assert!(outcome.threads[0].involuntary > 0);
}

#[test]
fn a_preempted_holder_delays_its_waiters_by_slices() {
    // One CPU, sections longer than a slice.
    let ops = |first| [section(0, first, 6e6), section(0, first + 1, 6e6)].concat();
    let program = program(vec![ops(0), [vec![work(3e7)], ops(2)].concat()]);
    let program = program.with_locks(LockKind::Mutex, 1);
    let options = Options {
        cpus: Some(1),
        sections: true,
        ..Options::default()
    };
    let outcome = run_unfinished(&program, &options);
    assert_eq!(outcome.stuck, None);
    let first = outcome.sections[0];
    let held = first.released_ns - first.acquired_ns;
    assert!(held > 6e6 + 3e6, "held for {held} ns");
    assert!(outcome.threads[0].involuntary > 0);
    assert!(outcome.threads[0].runnable_ns > 3e6);
}

#[test]
fn readers_share_and_writers_do_not() {
    let reader = |section| vec![acquire_shared(0, section), work(10_000.0), release(0)];
    let writer = |s| {
        [
            vec![work(2000.0)],
            section(0, s, 10_000.0).to_vec(),
            vec![work(10.0)],
        ]
        .concat()
    };
    let program = program(vec![reader(0), reader(1), writer(2), writer(3)]);
    let program = program.with_locks(LockKind::RwLock, 1);
    let options = Options {
        cpus: Some(4),
        sections: true,
        ..Options::default()
    };
    let outcome = run_unfinished(&program, &options);
    assert_eq!(outcome.stuck, None);
    let [first, second, one, other] = outcome.sections[..] else {
        panic!("four sections")
    };
    assert!(first.acquired_ns < second.released_ns && second.acquired_ns < first.released_ns);
    let last_reader = first.released_ns.max(second.released_ns);
    assert!(one.acquired_ns >= last_reader && other.acquired_ns >= last_reader);
    assert!(one.released_ns <= other.acquired_ns || other.released_ns <= one.acquired_ns);
    assert_eq!(outcome.locks[0].contended, 2);
}

#[test]
fn readers_overtake_a_waiting_writer() {
    let reader = |delay, s| {
        vec![
            work(delay),
            acquire_shared(0, s),
            work(30_000.0),
            release(0),
        ]
    };
    let writer = [vec![work(5000.0)], section(0, 1, 100.0).to_vec()].concat();
    let program = program(vec![reader(0.0, 0), writer, reader(20_000.0, 2)]);
    let program = program.with_locks(LockKind::RwLock, 1);
    let options = Options {
        cpus: Some(3),
        sections: true,
        ..Options::default()
    };
    let outcome = run_unfinished(&program, &options);
    assert_eq!(outcome.stuck, None);
    assert!(outcome.sections[2].acquired_ns < outcome.sections[0].released_ns);
    assert!(outcome.sections[1].acquired_ns > outcome.sections[2].released_ns);
}

#[test]
fn readers_that_wait_for_a_writer_come_in_together() {
    let writer = section(0, 0, 40_000.0).to_vec();
    let reader = |s| {
        vec![
            work(5000.0),
            acquire_shared(0, s),
            work(50_000.0),
            release(0),
        ]
    };
    let program = program(vec![writer, reader(1), reader(2), reader(3)]);
    let program = program.with_locks(LockKind::RwLock, 1);
    let options = Options {
        cpus: Some(4),
        sections: true,
        ..Options::default()
    };
    let outcome = run_unfinished(&program, &options);
    assert_eq!(outcome.stuck, None);
    assert_eq!(outcome.futex.wakes, 3);
    let readers = &outcome.sections[1..];
    let last_in = readers.iter().map(|s| s.acquired_ns).fold(0.0, f64::max);
    let first_out = readers
        .iter()
        .map(|s| s.released_ns)
        .fold(f64::INFINITY, f64::min);
    assert!(last_in < first_out);
}

#[test]
fn mixed_readers_and_writers_exclude_each_other() {
    for seed in 0..20 {
        let ops = |thread: u32| {
            let mut ops = Vec::new();
            for index in 0..200 {
                let s = thread * 200 + index;
                ops.push(work(300.0 + (s % 7) as f32 * 100.0));
                let shared = (index + thread) % 4 != 0;
                ops.extend([
                    Op::Acquire {
                        lock: 0,
                        shared,
                        section: s,
                    },
                    work(400.0),
                    release(0),
                ]);
            }
            ops
        };
        let program = program((0..4).map(ops).collect()).with_locks(LockKind::RwLock, 1);
        let outcome = run_seed(&program, seed);
        let is_shared = |id: usize| !(id % 200 + id / 200).is_multiple_of(4);
        let mut order: Vec<usize> = (0..800).collect();
        let times = &outcome.sections;
        order.sort_by(|a, b| times[*a].acquired_ns.total_cmp(&times[*b].acquired_ns));
        let mut free_for_reader = 0.0f64;
        let mut free_for_writer = 0.0f64;
        for id in order {
            let free = if is_shared(id) {
                free_for_reader
            } else {
                free_for_writer
            };
            assert!(times[id].acquired_ns >= free, "seed {seed}, section {id}");
            if !is_shared(id) {
                free_for_reader = free_for_reader.max(times[id].released_ns);
            }
            free_for_writer = free_for_writer.max(times[id].released_ns);
        }
    }
}

#[test]
fn a_try_that_was_recorded_as_successful_waits_if_it_must() {
    let holder = section(0, 0, 30_000.0).to_vec();
    let tries = vec![
        work(1000.0),
        Op::TryFail { lock: 0 },
        Op::TryAcquire {
            lock: 0,
            section: 1,
        },
        work(10.0),
        release(0),
    ];
    let outcome = run_program(&program(vec![holder, tries]).with_locks(LockKind::Mutex, 1));
    assert_eq!(outcome.locks[0].acquisitions, 2);
    assert!(outcome.sections[1].acquired_ns >= outcome.sections[0].released_ns);
}

#[test]
fn a_lock_cycle_is_reported_with_its_threads() {
    let ops = |first, second| {
        let body = [
            acquire(first),
            work(20_000.0),
            acquire(second),
            release(second),
        ];
        [body.to_vec(), vec![release(first)]].concat()
    };
    let program = program(vec![ops(0, 1), ops(1, 0), vec![work(10.0)]]);
    let outcome = run_unfinished(&program.with_locks(LockKind::Mutex, 2), &Options::default());
    assert_eq!(
        outcome.stuck,
        Some(Stuck {
            threads: vec![(0, 2), (1, 2)]
        })
    );
    assert_eq!(outcome.threads[0].end_ns, outcome.wall_ns);
}

#[test]
fn spinning_for_a_lock_that_is_never_released_ends() {
    let holder = vec![acquire(0)];
    let spinner = vec![work(1000.0), acquire(0)];
    let program = program(vec![holder, spinner.clone(), spinner.clone(), spinner]);
    let outcome = run_unfinished(&program.with_locks(LockKind::Spin, 1), &Options::default());
    assert_eq!(outcome.stuck.map(|stuck| stuck.threads.len()), Some(3));
}

#[test]
fn releases_without_the_lock_are_counted_and_left_out() {
    let program = program(vec![
        vec![release(0), work(100.0)],
        section(0, 0, 50.0).to_vec(),
    ]);
    let outcome = run_program(&program.with_locks(LockKind::Mutex, 1));
    assert_eq!(outcome.unmatched_releases, 1);
    assert_eq!(outcome.locks[0].acquisitions, 1);
}
