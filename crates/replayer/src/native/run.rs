//! Start, watch and end of a replay.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use convoy_replay::standstill;
use rustix::thread::futex;
use rustix::time::Timespec;

use super::histogram::Histogram;
use super::interpreter::{sleep_ns, Interpreter, Waits};
use super::objects::Objects;
use super::outcome::{LockOutcome, NativeError, NativeOutcome, ThreadOutcome};
use super::plan::Plan;
use super::usage::{self, MachineTime};
use crate::clock::{monotonic_ns, thread_cpu_ns, Clock};

/// Stack of a replayed thread: its loop needs little, and there may be thousands.
const STACK_BYTES: usize = 128 << 10;
/// From the opening of the gate to the start, for each thread: until all of them have passed it.
const START_DELAY_NS: u64 = 20_000;

/// One replay under way.
struct Run {
    plan: Arc<Plan>,
    objects: Objects,
    clock: Clock,
    /// Threads at the gate.
    ready: AtomicU32,
    /// 0 = closed.
    gate: AtomicU32,
    /// When threads begin, CLOCK_MONOTONIC.
    start_ns: AtomicU64,
    threads: Box<[ThreadState]>,
    /// Threads that have not ended.
    remaining: AtomicU32,
    trouble: OnceLock<String>,
}

/// One thread, alone on its cache lines.
#[derive(Default)]
#[repr(align(128))]
struct ThreadState {
    waits_at: AtomicU32,
    ended: Mutex<Option<Ended>>,
}

/// What a thread leaves.
struct Ended {
    begin_ns: u64,
    end_ns: u64,
    outcome: ThreadOutcome,
    waits: Waits,
}

/// Replays a plan once.
///
/// # Errors
///
/// [`NativeError::Hang`] and [`NativeError::Threads`]; threads that are left wait or run on.
pub(super) fn run(plan: &Arc<Plan>, timeout: Duration) -> Result<NativeOutcome, NativeError> {
    let deadline = Instant::now() + timeout;
    let clock = Clock::of_machine();
    let count = plan.threads.len();
    let run = Arc::new(Run {
        objects: Objects::new(plan, &clock),
        plan: Arc::clone(plan),
        clock,
        ready: AtomicU32::new(0),
        gate: AtomicU32::new(0),
        start_ns: AtomicU64::new(0),
        threads: (0..count).map(|_| ThreadState::default()).collect(),
        remaining: AtomicU32::new(count as u32),
        trouble: OnceLock::new(),
    });
    let at_start = (0..count).filter(|&index| plan.threads[index].at_start);
    let mut started = 0;
    for index in at_start {
        spawn(&run, index).map_err(|error| NativeError::Threads(error.to_string()))?;
        started += 1;
    }
    while run.ready.load(Ordering::SeqCst) < started {
        if Instant::now() > deadline {
            return Err(run.hang(timeout));
        }
        sleep_ns(50_000.0);
    }
    let machine = MachineTime::now();
    let delay = START_DELAY_NS * u64::from(started + 5);
    run.start_ns.store(monotonic_ns() + delay, Ordering::SeqCst);
    run.gate.store(1, Ordering::SeqCst);
    let _ = futex::wake(&run.gate, futex::Flags::PRIVATE, i32::MAX as u32);
    while run.remaining.load(Ordering::SeqCst) > 0 {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(run.hang(timeout));
        }
        if let Some(trouble) = run.trouble.get() {
            return Err(NativeError::Threads(trouble.clone()));
        }
        let remaining = run.remaining.load(Ordering::SeqCst);
        let left = Timespec::try_from(left.min(Duration::from_secs(1))).ok();
        if remaining > 0 {
            let flags = futex::Flags::PRIVATE;
            let _ = futex::wait(&run.remaining, flags, remaining, left.as_ref());
        }
    }
    let mut outcome = run.outcome();
    let own: u64 = outcome.threads.iter().map(|thread| thread.cpu_ns).sum();
    let all = outcome.wall_ns.max(1) as f64 * usage::processors() as f64;
    outcome.others_share = MachineTime::now().others_since(&machine, own as f64 / all);
    Ok(outcome)
}

/// Timers of this thread, and of those that it makes, fire when they should.
pub(super) fn least_timer_slack() {
    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
}

fn spawn(run: &Arc<Run>, index: usize) -> std::io::Result<()> {
    let run = Arc::clone(run);
    let builder = thread::Builder::new().stack_size(STACK_BYTES);
    builder.spawn(move || run.thread(index)).map(drop)
}

impl Run {
    fn thread(self: &Arc<Self>, index: usize) {
        least_timer_slack();
        let state = &self.threads[index];
        let plan = &self.plan.threads[index];
        let mut interpreter = Interpreter::new(
            &self.plan,
            index,
            &self.objects,
            &state.waits_at,
            self.clock,
        );
        if plan.at_start {
            self.ready.fetch_add(1, Ordering::SeqCst);
            while self.gate.load(Ordering::SeqCst) == 0 {
                let _ = futex::wait(&self.gate, futex::Flags::PRIVATE, 0, None);
            }
            let start = self.start_ns.load(Ordering::SeqCst) as f64 + plan.start_ns;
            let oversleep = self.plan.rates.sleep_ns;
            sleep_ns(start - monotonic_ns() as f64 - oversleep);
        }
        let (voluntary, involuntary) = usage::switches();
        let (begin_ns, cpu_ns) = (monotonic_ns(), thread_cpu_ns());
        interpreter.run(|thread| {
            if let Err(error) = spawn(self, thread) {
                let _ = self.trouble.set(error.to_string());
            }
        });
        let (cpu_ns, end_ns) = (thread_cpu_ns() - cpu_ns, monotonic_ns());
        let (voluntary_end, involuntary_end) = usage::switches();
        let waits = interpreter.waits;
        let outcome = ThreadOutcome {
            lifetime_ns: end_ns - begin_ns,
            cpu_ns,
            lock_wait_ns: self.clock.ns(waits.lock_ticks) as u64,
            other_wait_ns: self.clock.ns(waits.other_ticks) as u64,
            voluntary: (voluntary_end - voluntary).max(0) as u64,
            involuntary: (involuntary_end - involuntary).max(0) as u64,
        };
        *state.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(Ended {
            begin_ns,
            end_ns,
            outcome,
            waits,
        });
        self.objects.ends[index].comes();
        if self.remaining.fetch_sub(1, Ordering::SeqCst) == 1 {
            let _ = futex::wake(&self.remaining, futex::Flags::PRIVATE, 1);
        }
    }

    /// After all threads have ended.
    fn outcome(&self) -> NativeOutcome {
        let mut outcome = NativeOutcome {
            threads: Vec::with_capacity(self.threads.len()),
            locks: self.locks(),
            work_ns: self.plan.work_ns,
            floor_ns: self.plan.rates.entry_ns,
            below_floor_share: self.plan.below_floor as f64 / self.plan.segments.max(1) as f64,
            excess_ns: self.plan.excess_ns,
            simplified: self.plan.simplified,
            ..NativeOutcome::default()
        };
        let mut histogram = Histogram::default();
        let (mut begin, mut end) = (u64::MAX, 0);
        for state in &self.threads {
            let ended = state.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(ended) = ended.as_ref() else {
                continue;
            };
            begin = begin.min(ended.begin_ns);
            end = end.max(ended.end_ns);
            outcome.threads.push(ended.outcome);
            histogram.merge(&ended.waits.histogram);
            for (&lock, &(contended, ticks)) in &ended.waits.locks {
                outcome.locks[lock].contended += contended;
                outcome.locks[lock].wait_ns += self.clock.ns(ticks) as u64;
            }
        }
        outcome.wall_ns = end.saturating_sub(begin);
        outcome.lock_waits = histogram.percentiles(self.clock.ns(1));
        outcome
    }

    fn locks(&self) -> Vec<LockOutcome> {
        let locks = self.objects.locks.iter().zip(&self.plan.uncounted);
        let outcomes = locks.map(|(lock, &uncounted)| {
            let (acquisitions, fingerprint) = match lock.data() {
                // SAFETY: all threads have ended.
                Some(data) => unsafe { ((*data).acquisitions, (*data).order) },
                None => (0, 0),
            };
            LockOutcome {
                acquisitions: acquisitions + uncounted,
                fingerprint,
                ..LockOutcome::default()
            }
        });
        outcomes.collect()
    }

    fn hang(&self, timeout: Duration) -> NativeError {
        let threads = self.threads.iter().zip(&self.plan.threads);
        let waits = threads.filter_map(|(state, thread)| {
            let at = state.waits_at.load(Ordering::Relaxed) as usize;
            let step = thread.steps.get(at.checked_sub(1)?)?;
            Some(step.kind().waits_for())
        });
        let waits = standstill::told(waits);
        NativeError::Hang {
            after_ms: timeout.as_millis() as u64,
            waits,
        }
    }
}
