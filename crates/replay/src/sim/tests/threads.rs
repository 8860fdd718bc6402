//! Threads and CPUs: creation, joins, sleeps, slices.

use super::*;

fn on(cpus: u32) -> Options<'static> {
    Options {
        cpus: Some(cpus),
        ..Options::default()
    }
}

#[test]
fn a_child_starts_after_its_creation_and_is_joined_after_its_end() {
    let parent = vec![
        work(1000.0),
        Op::Spawn { thread: 1 },
        work(500.0),
        Op::Join { thread: 1 },
        work(100.0),
    ];
    let mut program = program(vec![parent, vec![work(70_000.0)]]);
    program.threads[1].at_start = false;
    let outcome = run_program(&program);
    let [parent, child] = outcome.threads[..] else {
        panic!("two threads")
    };
    assert_eq!(child.start_ns, 1000.0 + machine().spawn_ns);
    assert!(child.runnable_ns > 0.0, "an idle CPU has to be woken");
    assert!(parent.end_ns > child.end_ns);
    assert!(parent.waited_ns[WaitKind::Join as usize] > 60_000.0);
    assert!(!child.is_missing);
}

#[test]
fn joining_an_ended_thread_does_not_wait() {
    let program = program(vec![
        vec![work(50_000.0), Op::Join { thread: 1 }],
        vec![work(10.0)],
    ]);
    let outcome = run_program(&program);
    assert_eq!(outcome.threads[0].waited_total_ns(), 0.0);
    assert_eq!(outcome.wall_ns, 50_000.0);
}

#[test]
fn a_thread_that_nobody_starts_is_missing() {
    let mut program = program(vec![vec![work(10.0)], vec![work(10.0)]]);
    program.threads[1].at_start = false;
    let outcome = run_program(&program);
    assert!(outcome.threads[1].is_missing);
    assert_eq!(outcome.wall_ns, 10.0);
}

#[test]
fn sleeps_take_no_cpu() {
    let ops = vec![work(1000.0), Op::Sleep { ns: 1e6 }, work(1000.0)];
    let outcome = run_unfinished(&program(vec![ops; 8]), &on(1));
    assert!(outcome.wall_ns < 1.2e6, "{}", outcome.wall_ns);
    assert!(outcome.threads.iter().all(|thread| thread.slept_ns == 1e6));
}

#[test]
fn a_late_thread_starts_at_its_time() {
    let mut program = program(vec![vec![work(10.0)], vec![work(1000.0)]]);
    program.threads[1].start_ns = 5000.0;
    let outcome = run_program(&program);
    assert_eq!(
        (outcome.threads[1].start_ns, outcome.wall_ns),
        (5000.0, 6000.0)
    );
}

#[test]
fn cpus_are_shared_in_slices() {
    let outcome = run_unfinished(&program(vec![vec![work(40e6)]; 4]), &on(2));
    let cpu_time = 4.0 * 40e6;
    assert!(outcome.wall_ns >= cpu_time / 2.0);
    assert!(
        outcome.wall_ns < 1.1 * cpu_time / 2.0,
        "{}",
        outcome.wall_ns
    );
    let (_, involuntary) = outcome.switches();
    assert!((12..60).contains(&involuntary), "{involuntary} preemptions");
    // Fair: all end within two slices of each other.
    let ends = outcome.threads.iter().map(|t| t.end_ns);
    assert!(ends.fold(f64::INFINITY, f64::min) > outcome.wall_ns - 4.0 * machine().tick_ns);
}

#[test]
fn an_idle_cpu_takes_waiting_threads_at_its_tick() {
    // Both CPUs get two threads; those of one CPU are short.
    let threads = vec![
        vec![work(1000.0)],
        vec![work(30e6)],
        vec![work(1000.0)],
        vec![work(30e6)],
    ];
    let outcome = run_unfinished(&program(threads), &on(2));
    assert!(
        outcome.wall_ns < 30e6 + 3.0 * machine().tick_ns,
        "{}",
        outcome.wall_ns
    );
}

#[test]
fn independent_work_scales_with_the_cpus() {
    let wall = |cpus| {
        let threads = (0..64)
            .map(|t| sections(50, 100.0, 20_000.0, t * 50))
            .collect();
        let mut program = program(threads).with_locks(LockKind::Mutex, 64);
        for (index, thread) in program.threads.iter_mut().enumerate() {
            for op in &mut thread.ops {
                match op {
                    Op::Acquire { lock, .. } | Op::Release { lock } => *lock = index as u32,
                    _ => {}
                }
            }
        }
        run_unfinished(&program, &on(cpus)).wall_ns
    };
    let (one, eight, all) = (wall(1), wall(8), wall(64));
    assert!((one / all - 64.0).abs() < 2.0, "{} times faster", one / all);
    assert!(
        (one / eight - 8.0).abs() < 1.0,
        "{} times faster",
        one / eight
    );
}

#[test]
fn a_saturated_lock_limits_the_scaling() {
    let wall = |cpus| {
        let threads = (0..16)
            .map(|t| sections(200, 1000.0, 4000.0, t * 200))
            .collect();
        let program = program(threads).with_locks(LockKind::Spin, 1);
        run_unfinished(&program, &on(cpus)).wall_ns
    };
    // The lock is busy for 16 * 200 us, whatever the CPUs.
    assert!(wall(16) >= 16.0 * 200.0 * 950.0);
    assert!(wall(2) > 1.5 * wall(16));
}

#[test]
fn an_empty_program_takes_no_time() {
    assert_eq!(run_program(&Program::default()).wall_ns, 0.0);
    assert_eq!(run_program(&program(vec![vec![], vec![]])).wall_ns, 0.0);
}

#[test]
fn a_busy_cpu_takes_over_what_waits_for_another_one() {
    const LONG: f32 = 400e6;
    let waker = vec![
        work(20e6),
        Op::SemPost { sem: 0 },
        Op::SemPost { sem: 0 },
        work(LONG),
    ];
    let woken = vec![Op::SemWait { sem: 0 }, work(LONG)];
    let busy = vec![work(LONG)];
    let program = program(vec![waker, busy, woken.clone(), woken]).with_semaphore(0);
    let outcome = run_unfinished(&program, &on(2));
    // With a CPU to itself it would end after `LONG`.
    let busy = outcome.threads[1].end_ns;
    assert!(busy > 1.5 * f64::from(LONG), "it ended after {busy} ns");
}

#[test]
fn a_thread_that_had_a_cpu_of_its_own_is_not_made_to_wait_for_it() {
    // Two threads share a CPU for two seconds; then one of them takes that of the third, which
    // sleeps for a moment.
    let alone = vec![work(2e9), Op::Sleep { ns: 10e6 }, work(10e6)];
    let shared = vec![work(3e9)];
    let outcome = run_unfinished(&program(vec![shared.clone(), alone, shared]), &on(2));
    let waited = outcome.threads[1].runnable_ns;
    assert!(waited < 20.0 * machine().slice_ns, "for {waited} ns");
}
