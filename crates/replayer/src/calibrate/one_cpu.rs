//! Costs of threads that share a processor: context switch, hand-over, time slice.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use rustix::thread::{futex, sched_yield};
use rustix::time::{clock_getres, ClockId};

use super::local::Local;
use super::Bench;
use crate::clock::{monotonic_ns, thread_cpu_ns, Clock};
use crate::cpus;
use crate::stats::Sample;

/// Costs of two threads on one processor, nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared {
    /// From one thread's FUTEX_WAKE until the woken thread runs, the waker having gone to wait.
    pub handover_ns: f64,
    /// FUTEX_WAKE of a thread of the same processor.
    pub wake_ns: f64,
    pub switch_ns: f64,
    pub tick_ns: f64,
    pub slice_ns: f64,
}

pub(super) fn measure(bench: &Bench, cpu: usize, local: &Local) -> Shared {
    let tick_ns = tick_ns();
    let (handover_ns, wake_ns) = handover(bench, cpu);
    // Without a switch that could be observed: what a hand-over takes beyond its two system calls.
    let switch_ns = yield_switch(bench, cpu)
        .unwrap_or_else(|| (handover_ns - wake_ns - local.futex_eagain_ns).max(local.syscall_ns));
    Shared {
        handover_ns,
        wake_ns,
        switch_ns,
        tick_ns,
        slice_ns: slice(bench, cpu).unwrap_or(tick_ns),
    }
}

/// The coarse clock advances with the tick.
fn tick_ns() -> f64 {
    let resolution = clock_getres(ClockId::MonotonicCoarse);
    resolution.tv_sec as f64 * 1e9 + resolution.tv_nsec as f64
}

/// Two threads wake each other in turn: (nanoseconds of one turn, of its FUTEX_WAKE).
fn handover(bench: &Bench, cpu: usize) -> (f64, f64) {
    let rounds = bench.effort.of(2000);
    let (ping, pong) = (AtomicU32::new(0), AtomicU32::new(0));
    let wait = |word: &AtomicU32| {
        while word.swap(0, Ordering::SeqCst) == 0 {
            // EAGAIN and EINTR: the loop looks again.
            let _ = futex::wait(word, futex::Flags::PRIVATE, 0, None);
        }
    };
    let wake = |word: &AtomicU32| {
        word.store(1, Ordering::SeqCst);
        let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
    };
    let (mut turns, mut wakes) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            cpus::pin(cpu);
            for _ in 0..rounds {
                wait(&ping);
                wake(&pong);
            }
        });
        for _ in 0..rounds {
            let start = bench.clock.ticks();
            wake(&ping);
            wakes.push(bench.clock.since(start));
            wait(&pong);
            turns.push(bench.clock.since(start) / 2.0);
        }
    });
    let (turns, wakes) = (Sample::new(turns), Sample::new(wakes));
    bench.note_spread(&turns);
    // A waker that is preempted by the thread it woke has a switch in its time: not the lower
    // quartile.
    (turns.median(), wakes.quantile(0.25))
}

/// CPU time of two threads that yield to each other, less what yields cost that switch to nobody.
fn yield_switch(bench: &Bench, cpu: usize) -> Option<f64> {
    let yields = bench.effort.of(4000);
    let alone = bench.per_call(200, sched_yield);
    let stop = AtomicBool::new(false);
    let ready = AtomicBool::new(false);
    let (own, other) = thread::scope(|scope| {
        let other = scope.spawn(|| {
            cpus::pin(cpu);
            ready.store(true, Ordering::SeqCst);
            Yields::until(|_| stop.load(Ordering::Relaxed))
        });
        while !ready.load(Ordering::SeqCst) {
            sched_yield();
        }
        let own = Yields::until(|count| count >= yields);
        stop.store(true, Ordering::Relaxed);
        (own, other.join().unwrap_or_default())
    });
    let switches = (own.switches + other.switches) as f64;
    let per_yield = f64::from(own.count + other.count) * alone;
    let per_switch = ((own.cpu_ns + other.cpu_ns) as f64 - per_yield) / switches;
    (switches >= 200.0 && per_switch > 0.0).then_some(per_switch)
}

/// What a thread did that yielded. CPU time: other programs may run in between.
#[derive(Debug, Clone, Copy, Default)]
struct Yields {
    count: u32,
    switches: i64,
    cpu_ns: u64,
}

impl Yields {
    fn until(is_over: impl Fn(u32) -> bool) -> Self {
        let (switches, cpu_ns) = (switches_of_thread(), thread_cpu_ns());
        let mut count = 0;
        while !is_over(count) {
            sched_yield();
            count += 1;
        }
        Self {
            count,
            switches: switches_of_thread() - switches,
            cpu_ns: thread_cpu_ns() - cpu_ns,
        }
    }
}

/// Context switches of the calling thread, voluntary and not.
fn switches_of_thread() -> i64 {
    let (voluntary, involuntary) = crate::native::usage::switches();
    voluntary + involuntary
}

/// How long two threads that compute run in turn; `None` if too few turns could be seen.
fn slice(bench: &Bench, cpu: usize) -> Option<f64> {
    let length = u64::from(bench.effort.of(48)) * 1_000_000;
    let clock = bench.clock;
    let end = monotonic_ns() + length;
    let runs = thread::scope(|scope| {
        let other = scope.spawn(|| {
            cpus::pin(cpu);
            runs_until(clock, end)
        });
        let mut runs = runs_until(clock, end);
        runs.extend(other.join().unwrap_or_default());
        runs
    });
    let sample = Sample::new(runs);
    (sample.values().len() >= 3).then(|| sample.median())
}

/// Lengths of the stretches in which this thread ran; the first and last are cut off.
fn runs_until(clock: Clock, end_ns: u64) -> Vec<f64> {
    /// A longer gap between two readings is a turn of somebody else, not an interrupt.
    const TURN_NS: f64 = 300_000.0;
    let mut runs = Vec::new();
    let (mut began, mut last) = (None, clock.ticks());
    let length = clock.ticks_in(end_ns.saturating_sub(monotonic_ns()) as f64);
    let end = last + length;
    while last < end {
        let now = clock.ticks();
        if clock.ns(now.saturating_sub(last)) > TURN_NS {
            if let Some(began) = began {
                runs.push(clock.ns(last - began));
            }
            began = Some(now);
        }
        last = now;
    }
    runs
}
