//! Native replay against the program that it replays: loops of a critical section and work
//! outside, in real code, and as programs for replay. Runs alternate; medians, and the real code's
//! own spread.
//!
//! Arguments: milliseconds of a run (100), runs (10).

use std::cell::UnsafeCell;
use std::error::Error;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use convoy_replay::program::{Lock, LockKind, Op, Program, Thread, NO_SECTION};
use convoy_replayer::calibrate::calibrate;
use convoy_replayer::clock::monotonic_ns;
use convoy_replayer::native::{NativeOutcome, Prepared, Schedule};
use convoy_replayer::stats::Range;
use convoy_replayer::work::{iteration_ns, work};

/// Section and work outside, nanoseconds; threads.
const CASES: [(f64, f64, usize); 11] = [
    (20.0, 60.0, 1),
    (200.0, 250.0, 1),
    (0.0, 100.0, 1),
    (200.0, 1000.0, 2),
    (200.0, 1000.0, 4),
    (1000.0, 200.0, 2),
    (1000.0, 200.0, 4),
    (200.0, 250.0, 2),
    (200.0, 250.0, 4),
    (20.0, 60.0, 2),
    (20.0, 60.0, 4),
];

/// A mutex with what it protects, as in C.
#[repr(align(64))]
struct Guarded {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<u64>,
}

// SAFETY: the value is accessed by who holds the mutex; the mutex through the C library.
unsafe impl Sync for Guarded {}

/// One loop: iterations of work inside and outside of the section, for each thread so often.
#[derive(Clone, Copy)]
struct Loop {
    inside: u32,
    outside: u32,
    threads: usize,
    operations: u32,
}

/// What a run took, and its context switches.
#[derive(Clone, Copy)]
struct Measured {
    wall_ns: f64,
    voluntary: f64,
    involuntary: f64,
}

impl Loop {
    fn run(&self) -> Measured {
        let guarded = Guarded {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            value: UnsafeCell::new(1),
        };
        let gate = Barrier::new(self.threads);
        let before = switches();
        let spans: Vec<(u64, u64)> = thread::scope(|scope| {
            let (guarded, gate) = (&guarded, &gate);
            let threads = (0..self.threads).map(|_| {
                scope.spawn(move || {
                    gate.wait();
                    let begin = monotonic_ns();
                    self.operations(guarded);
                    (begin, monotonic_ns())
                })
            });
            let threads: Vec<_> = threads.collect();
            threads
                .into_iter()
                .filter_map(|thread| thread.join().ok())
                .collect()
        });
        let after = switches();
        let begin = spans.iter().map(|span| span.0).min().unwrap_or(0);
        let end = spans.iter().map(|span| span.1).max().unwrap_or(0);
        Measured {
            wall_ns: (end - begin) as f64,
            voluntary: (after.0 - before.0) as f64,
            involuntary: (after.1 - before.1) as f64,
        }
    }

    fn operations(&self, guarded: &Guarded) {
        let mut own = 1;
        for _ in 0..self.operations {
            // SAFETY: the mutex is initialized and does not move; the value is accessed with it
            // held.
            unsafe {
                libc::pthread_mutex_lock(guarded.mutex.get());
                *guarded.value.get() = work(self.inside, *guarded.value.get());
                libc::pthread_mutex_unlock(guarded.mutex.get());
            }
            own = work(self.outside, own);
        }
        std::hint::black_box(own);
    }

    /// The same as a recorder without cost would have seen it: `overhead_ns` is what a segment
    /// takes beyond its iterations.
    fn program(&self, overhead_ns: f64) -> Program {
        let ns = |iterations: u32| Op::Work {
            ns: (f64::from(iterations) * iteration_ns() + overhead_ns).max(0.0) as f32,
        };
        let operation = [
            Op::Acquire {
                lock: 0,
                shared: false,
                section: NO_SECTION,
            },
            ns(self.inside),
            Op::Release { lock: 0 },
            ns(self.outside),
        ];
        let thread = Thread {
            at_start: true,
            ops: operation.repeat(self.operations as usize),
            ..Thread::default()
        };
        Program {
            threads: vec![thread; self.threads],
            locks: vec![Lock {
                kind: LockKind::Mutex,
                ..Lock::default()
            }],
            ..Program::default()
        }
    }
}

/// Context switches of this process: voluntary, involuntary.
fn switches() -> (i64, i64) {
    // SAFETY: integers, for which zero is a value; the pointer is to a whole `rusage`.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        (usage.ru_nvcsw, usage.ru_nivcsw)
    }
}

fn replayed(outcome: &NativeOutcome) -> Measured {
    let (voluntary, involuntary) = outcome.switches();
    Measured {
        wall_ns: outcome.wall_ns as f64,
        voluntary: voluntary as f64,
        involuntary: involuntary as f64,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let run_ms: f64 = arguments.next().map_or(Ok(100.0), |text| text.parse())?;
    let runs: u32 = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let pair_ns = calibrate().machine.lock_pair_ns;
    println!(
        "section outside threads |  real ns/op  spread | replay ns/op  spread |  wall | \
         vcs/1000: real replay | ics"
    );
    for (inside_ns, outside_ns, threads) in CASES {
        let alone = Loop {
            inside: (inside_ns / iteration_ns()) as u32,
            outside: (outside_ns / iteration_ns()) as u32,
            threads: 1,
            operations: 20_000,
        };
        let solo = Range::of((0..20).map(|_| alone.run().wall_ns / f64::from(alone.operations)));
        let iterations = f64::from(alone.inside + alone.outside);
        let overhead = (solo.min - pair_ns - iterations * iteration_ns()) / 2.0;
        let bound = (inside_ns + outside_ns) * threads as f64 / threads.min(2) as f64;
        let case = Loop {
            threads,
            operations: (run_ms * 1e6 / bound.max(inside_ns * threads as f64)) as u32,
            ..alone
        };
        let prepared = Prepared::new(case.program(overhead), &Schedule::Free)?;
        let (mut real, mut replay) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            real.push(case.run());
            replay.push(replayed(&prepared.run(Duration::from_secs(60))?));
        }
        report(&case, (inside_ns, outside_ns), &real, &replay);
    }
    Ok(())
}

fn report(case: &Loop, (inside, outside): (f64, f64), real: &[Measured], replay: &[Measured]) {
    let operations = f64::from(case.operations) * case.threads as f64;
    let range = |runs: &[Measured], of: fn(&Measured) -> f64, per: f64| {
        Range::of(runs.iter().map(|run| of(run) / per))
    };
    let wall = |runs| range(runs, |run| run.wall_ns, operations);
    let voluntary = |runs| range(runs, |run| run.voluntary, operations / 1000.0).median;
    let involuntary = |runs| range(runs, |run| run.involuntary, operations / 1000.0).median;
    let (a, b) = (wall(real), wall(replay));
    println!(
        "{inside:7} {outside:7} {:7} | {:11.1} {:5.0} % | {:12.1} {:5.0} % | {:+4.0} % | \
         {:14.2} {:6.2} | {:.2} {:.2}",
        case.threads,
        a.median,
        100.0 * a.relative_width(),
        b.median,
        100.0 * b.relative_width(),
        100.0 * (b.median / a.median - 1.0),
        voluntary(real),
        voluntary(replay),
        involuntary(real),
        involuntary(replay),
    );
}
