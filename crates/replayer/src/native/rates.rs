//! What replaying itself costs on this machine, measured once a process (about 10 ms).

use std::sync::atomic::AtomicU32;
use std::sync::OnceLock;

use convoy_replay::program::LockKind;

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
    /// Those of this machine.
    pub fn of_machine() -> Self {
        static RATES: OnceLock<Rates> = OnceLock::new();
        *RATES.get_or_init(Self::measured)
    }

    fn measured() -> Self {
        let clock = Clock::of_machine();
        let iteration_ns = iteration_ns();
        let none = segment_ns(&clock, |_| 0);
        // Lengths that no branch predictor can learn, as those of a program.
        let mut seed = 1;
        let mut mean = 0.0;
        let some = segment_ns(&clock, |position| {
            seed = work(1, seed);
            let iterations = 20 + (seed >> 58) as u32;
            mean += (f64::from(iterations) - mean) / (position + 1) as f64;
            iterations
        });
        let step_ns = none.max(0.0);
        Self {
            iteration_ns,
            step_ns,
            entry_ns: (some - mean * iteration_ns).max(step_ns),
            sleep_ns: oversleep_ns(&clock),
        }
    }
}

/// Time of a segment between the operations of a lock that is free, less theirs.
fn segment_ns(clock: &Clock, mut iterations: impl FnMut(usize) -> u32) -> f64 {
    const PAIRS: usize = 2000;
    let steps = (0..2 * PAIRS).map(|position| {
        let kind = [Kind::Acquire, Kind::Release][position % 2];
        Step::new(iterations(position), kind, 0)
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
    let best = (0..12).map(|_| {
        let mut interpreter = Interpreter::new(&plan, 0, &objects, &waits_at, *clock);
        let start = clock.ticks();
        interpreter.run(|_| ());
        let with_steps = clock.since(start);
        let lock = &objects.locks[0];
        let start = clock.ticks();
        for _ in 0..PAIRS {
            lock.try_acquire(false);
            lock.release();
        }
        (with_steps - clock.since(start)) / (2 * PAIRS) as f64
    });
    // An interruption of the first measurement makes it longer, of the second shorter.
    Sample::new(best.collect()).median()
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
