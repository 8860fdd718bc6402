//! Costs of threads that share a processor: context switch, hand-over, time slice.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use rustix::thread::{futex, sched_yield};
use rustix::time::{clock_getres, ClockId};

use super::local::Local;
use super::Bench;
use crate::clock::{monotonic_ns, Clock};
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

/// Switches of two threads that yield to each other, less what a yield costs that switches to
/// nobody.
fn yield_switch(bench: &Bench, cpu: usize) -> Option<f64> {
    let yields = bench.effort.of(4000);
    let alone = bench.per_call(200, sched_yield);
    let stop = AtomicBool::new(false);
    let ready = AtomicBool::new(false);
    let (elapsed, switches, other) = thread::scope(|scope| {
        let other = scope.spawn(|| {
            cpus::pin(cpu);
            ready.store(true, Ordering::SeqCst);
            let mut count = 0u64;
            while !stop.load(Ordering::Relaxed) {
                sched_yield();
                count += 1;
            }
            count
        });
        while !ready.load(Ordering::SeqCst) {
            sched_yield();
        }
        let (start, before) = (monotonic_ns(), switches_of_thread());
        for _ in 0..yields {
            sched_yield();
        }
        let (elapsed, switches) = (monotonic_ns() - start, switches_of_thread() - before);
        stop.store(true, Ordering::Relaxed);
        (elapsed as f64, switches, other.join().unwrap_or(0))
    });
    // Each of ours has its counterpart back; yields of the other thread before and after are few.
    let switches = 2.0 * switches as f64;
    let per_switch = (elapsed - (f64::from(yields) + other as f64) * alone) / switches;
    (switches >= 200.0 && per_switch > 0.0).then_some(per_switch)
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
