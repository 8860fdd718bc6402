//! What replaying itself costs on this machine, measured in some 10 ms.

use std::sync::atomic::AtomicU32;
use std::sync::OnceLock;

use convoy_replay::program::{LockKind, Op, Program};

use super::interpreter::{sleep_ns, Interpreter};
use super::objects::Objects;
use super::plan::{Plan, ThreadPlan};
use super::step::{Kind, Step};
use crate::clock::Clock;
use crate::stats::Sample;
use crate::work::{iteration_ns, work};

/// Costs of a replayed segment, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// One iteration of the work loop.
    pub iteration_ns: f64,
    /// A segment without work: the step itself.
    pub step_ns: f64,
    /// A segment with work, beyond its iterations: the step, entering and leaving the loop. Shorter
    /// segments cannot be replayed each by itself.
    pub entry_ns: f64,
    /// What a sleep takes longer than it should.
    pub sleep_ns: f64,
}

impl Rates {
    /// Those of this machine, for segments of irregular lengths. Measured once a process.
    pub fn of_machine() -> Self {
        static RATES: OnceLock<Rates> = OnceLock::new();
        *RATES.get_or_init(Self::measured)
    }

    /// Those of this machine for the segments of a program: how much of leaving the work loop the
    /// branch predictor hides depends on how regular their lengths are.
    pub(super) fn for_program(program: &Program) -> Self {
        let mut rates = Self::of_machine();
        let longest = program.threads.iter().max_by_key(|thread| thread.ops.len());
        let entries = longest.map(|thread| rates.entries(&thread.ops));
        let entries = Sample::new(entries.unwrap_or_default());
        if !entries.values().is_empty() {
            rates.entry_ns = entries.median().max(rates.step_ns);
        }
        rates
    }

    fn measured() -> Self {
        let clock = Clock::of_machine();
        let iteration_ns = iteration_ns();
        let step_ns = (0..ROUNDS).map(|_| segment_ns(&clock, &[0; 2 * PAIRS]));
        let step_ns = Sample::new(step_ns.collect()).median().max(0.0);
        // Lengths that no branch predictor can learn.
        let mut seed = 1;
        let entry_ns = (0..ROUNDS).map(|_| {
            let lengths = (0..2 * PAIRS).map(|_| {
                seed = work(1, seed);
                20 + (seed >> 58) as u32
            });
            let lengths: Vec<u32> = lengths.collect();
            beyond_work_ns(&clock, &lengths, iteration_ns)
        });
        let entry_ns = Sample::new(entry_ns.collect()).median().max(step_ns);
        Self {
            iteration_ns,
            step_ns,
            entry_ns,
            sleep_ns: oversleep_ns(&clock),
        }
    }

    /// Cost of entering the work loop, at several places of a thread.
    fn entries(&self, ops: &[Op]) -> Vec<f64> {
        let clock = Clock::of_machine();
        let windows = (0..ROUNDS).filter_map(|round| {
            let from = ops.len() / ROUNDS * round;
            let lengths = self.lengths(&ops[from..]);
            let with_work = lengths.iter().filter(|&&length| length > 0).count() as f64;
            let is_telling = with_work >= LEAST_TELLING && mean(&lengths) < LONG_ITERATIONS;
            is_telling.then(|| {
                let all = lengths.len() as f64;
                let measured = beyond_work_ns(&clock, &lengths, self.iteration_ns);
                (measured * all - self.step_ns * (all - with_work)) / with_work
            })
        });
        windows.collect()
    }

    /// The first segments of some operations, in iterations.
    fn lengths(&self, ops: &[Op]) -> Vec<u32> {
        let mut pending_ns = 0.0;
        let mut lengths = Vec::with_capacity(2 * PAIRS);
        for op in ops {
            if let Op::Work { ns } = op {
                pending_ns += f64::from(*ns);
            } else {
                let ns: f64 = std::mem::take(&mut pending_ns);
                lengths.push((ns / self.iteration_ns) as u32);
                if lengths.len() == 2 * PAIRS {
                    break;
                }
            }
        }
        lengths
    }
}

/// Places where a measurement is repeated.
const ROUNDS: usize = 12;
/// Sections of a measurement.
const PAIRS: usize = 500;
/// Segments with work without which a measurement says nothing.
const LEAST_TELLING: f64 = 200.0;
/// Iterations of segments that are so long that entering the loop does not matter.
const LONG_ITERATIONS: f64 = 2000.0;

fn mean(lengths: &[u32]) -> f64 {
    let sum: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    sum as f64 / lengths.len().max(1) as f64
}

/// Mean time of segments beyond that of their iterations, at the processor's calibrated speed.
///
/// A processor whose other half is at work, or whose frequency is lower than at calibration, takes
/// longer for the iterations, too: their time is measured on either side of the segments, since
/// the difference of two long times would else be what a change of speed leaves.
fn beyond_work_ns(clock: &Clock, iterations: &[u32], calibrated_ns: f64) -> f64 {
    let all: u64 = iterations.iter().map(|&length| u64::from(length)).sum();
    let work_ns = || {
        let each = u32::try_from(all / 2).unwrap_or(u32::MAX).max(1);
        let start = clock.ticks();
        std::hint::black_box(work(each, all));
        clock.since(start) / f64::from(each)
    };
    let before = work_ns();
    let segments = segment_ns(clock, iterations);
    let present_ns = (before + work_ns()) / 2.0;
    (segments - mean(iterations) * present_ns) * (calibrated_ns / present_ns)
}

/// Mean time of segments between the operations of a lock that is free, less theirs.
fn segment_ns(clock: &Clock, iterations: &[u32]) -> f64 {
    let steps = iterations.chunks_exact(2).flat_map(|pair| {
        [
            Step::new(pair[0], Kind::Acquire, 0),
            Step::new(pair[1], Kind::Release, 0),
        ]
    });
    let plan = Plan {
        locks: vec![LockKind::Mutex],
        threads: vec![ThreadPlan {
            steps: steps.collect(),
            ..ThreadPlan::default()
        }],
        ..Plan::default()
    };
    let waits_at = AtomicU32::new(0);
    let objects = Objects::new(&plan, clock);
    let lock = &objects.locks[0];
    let mut interpreter = Interpreter::new(&plan, 0, &objects, &waits_at, *clock);
    let steps = plan.threads[0].steps.len();
    // Brings the code, the steps and the lock near.
    lock.try_acquire(false);
    lock.release();
    let start = clock.ticks();
    interpreter.run(|_| ());
    let with_steps = clock.since(start);
    let start = clock.ticks();
    for _ in 0..steps / 2 {
        lock.try_acquire(false);
        lock.release();
    }
    // An interruption of the first measurement makes it longer, of the second shorter: callers
    // take a median.
    (with_steps - clock.since(start)) / steps.max(1) as f64
}

/// Sleeps of a thread with the least timer slack.
fn oversleep_ns(clock: &Clock) -> f64 {
    const SLEEP_NS: f64 = 100_000.0;
    let measured = std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            super::run::least_timer_slack();
            let sleeps = (0..15).map(|_| {
                let start = clock.ticks();
                sleep_ns(SLEEP_NS);
                clock.since(start) - SLEEP_NS
            });
            Sample::new(sleeps.collect()).median()
        });
        sleeper.join()
    });
    measured.unwrap_or(0.0).max(0.0)
}
