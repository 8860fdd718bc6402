//! Replays in a process of their own: `convoy` starts itself with a hidden argument.

use std::path::Path;
use std::time::{Duration, Instant};

use convoy_replay::program::{Lock, Op, Program, Semaphore, Thread, NO_SECTION};
use convoy_replayer::child::{spawn, Times};
use convoy_replayer::native::{NativeError, NativeOptions};

fn convoy() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_convoy"))
}

fn threads(count: usize, ops: Vec<Op>) -> Program {
    let thread = Thread {
        at_start: true,
        ops,
        ..Thread::default()
    };
    Program {
        threads: vec![thread; count],
        locks: vec![Lock::default()],
        semaphores: vec![Semaphore::default()],
        ..Program::default()
    }
}

fn sections(count: usize) -> Vec<Op> {
    let section = [
        Op::Acquire {
            lock: 0,
            shared: false,
            section: NO_SECTION,
        },
        Op::Work { ns: 100.0 },
        Op::Release { lock: 0 },
        Op::Work { ns: 200.0 },
    ];
    section.repeat(count)
}

#[test]
fn outcomes_come_back_from_the_child() {
    let options = NativeOptions::for_run_of(Duration::from_secs(5));
    let program = threads(2, sections(20_000));
    let runs = spawn(convoy(), &program, &options, &Times::exactly(3)).unwrap();
    assert_eq!((runs.outcomes.len(), runs.failure.as_ref()), (3, None));
    for outcome in &runs.outcomes {
        assert_eq!(outcome.locks[0].acquisitions, 40_000);
        assert_eq!(outcome.threads.len(), 2);
    }
    let wall = runs.wall_ns();
    assert!(wall.min <= wall.median && wall.median <= wall.max);
    assert_eq!(
        runs.median().map(|run| run.wall_ns as f64),
        Some(wall.median)
    );
}

#[test]
fn a_replay_that_hangs_ends_with_its_process() {
    let options = NativeOptions {
        timeout: Duration::from_millis(100),
        ..NativeOptions::for_run_of(Duration::ZERO)
    };
    let program = threads(2, vec![Op::SemWait { sem: 0 }]);
    let start = Instant::now();
    let result = spawn(convoy(), &program, &options, &Times::default());
    assert!(
        matches!(result, Err(NativeError::Hang { .. })),
        "{result:?}"
    );
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn programs_that_contradict_themselves_are_refused_by_the_child() {
    let options = NativeOptions::for_run_of(Duration::ZERO);
    let program = threads(1, vec![Op::Join { thread: 7 }]);
    let result = spawn(convoy(), &program, &options, &Times::default());
    assert!(matches!(result, Err(NativeError::Invalid(_))), "{result:?}");
}
