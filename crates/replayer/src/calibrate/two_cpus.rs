//! Costs of threads on different processors: cache lines, comparison inside FUTEX_WAIT.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

use rustix::thread::futex;

use super::local::Local;
use super::one_cpu::Shared;
use super::wake_up::{self, WakeUp};
use super::Bench;
use crate::clock::{monotonic_ns, thread_cpu_ns};
use crate::cpus;
use crate::stats::Sample;
use crate::work::{iteration_ns, work};

/// Costs that need two processors, nanoseconds.
#[derive(Debug)]
pub(super) struct Remote {
    pub atomic_ns: f64,
    pub futex_check_ns: f64,
    pub wake: WakeUp,
}

/// A pair of cache lines: processors fetch neighbours along.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Line<T>(pub T);

pub(super) fn measure(bench: &Bench, here: usize, there: usize, local: &Local) -> Remote {
    debug_assert_ne!(here, there);
    let futex_check_ns = comparison(bench, there, local)
        .unwrap_or_else(|| check_by_halves(local))
        .min(local.futex_eagain_ns);
    Remote {
        atomic_ns: line_transfer(bench, there, local),
        futex_check_ns,
        wake: wake_up::measure(bench, there),
    }
}

/// What takes their place where there is one processor.
pub(super) fn of_one_cpu(local: &Local, shared: &Shared) -> Remote {
    Remote {
        atomic_ns: local.atomic_ns,
        futex_check_ns: check_by_halves(local),
        wake: WakeUp::on_one_cpu(shared),
    }
}

/// The call without its way back, which is half of an empty one.
fn check_by_halves(local: &Local) -> f64 {
    (local.futex_eagain_ns - local.syscall_ns / 2.0).max(local.syscall_ns / 2.0)
}

/// A locked instruction on a line that another processor has written, then work on what it found
/// there, less the same on lines of our own: what is left after overlapping it with the work
/// before.
fn line_transfer(bench: &Bench, there: usize, local: &Local) -> f64 {
    const LINES: usize = 128;
    let rounds = bench.effort.of(80).max(30);
    // About 200 ns, as between the locks of a busy program.
    let between = (200.0 / iteration_ns()) as u32;
    let lines: Vec<Line<AtomicU64>> = (0..LINES).map(|_| Line::default()).collect();
    // Who may touch the lines: 0 this thread, 1 the other, 2 = end.
    let turn = Line(AtomicU32::new(0));
    let pass = |clock: &crate::clock::Clock| {
        let mut value = 0;
        let start = clock.ticks();
        // 37 and 128 have no common factor: every line once, in an order that no prefetcher knows.
        for i in 0..LINES {
            let before = lines[i * 37 % LINES].0.fetch_add(1, Ordering::SeqCst);
            value ^= work(between, before);
        }
        black_box(value);
        clock.since(start) / LINES as f64
    };
    let differences = thread::scope(|scope| {
        let (lines, turn) = (&lines, &turn.0);
        scope.spawn(move || {
            cpus::pin(there);
            loop {
                match turn.load(Ordering::Acquire) {
                    0 => std::hint::spin_loop(),
                    1 => {
                        for line in lines {
                            line.0.fetch_add(1, Ordering::SeqCst);
                        }
                        turn.store(0, Ordering::Release);
                    }
                    _ => return,
                }
            }
        });
        let (wall, cpu) = (monotonic_ns(), thread_cpu_ns());
        let differences = (0..rounds).map(|_| {
            turn.store(1, Ordering::Release);
            while turn.load(Ordering::Acquire) != 0 {
                std::hint::spin_loop();
            }
            let remote = pass(&bench.clock);
            remote - pass(&bench.clock)
        });
        let differences = Sample::new(differences.collect());
        bench.note_cpu_share(thread_cpu_ns() - cpu, monotonic_ns() - wall);
        turn.store(2, Ordering::Release);
        differences
    });
    local.atomic_ns + differences.median().max(0.0)
}

/// From the call of FUTEX_WAIT to its comparison, by a race: another processor changes the word at
/// a random time after the call; the share of calls that saw the change (EAGAIN) is the share of
/// the span before the comparison. `None` if the span was not hit from both sides.
fn comparison(bench: &Bench, there: usize, local: &Local) -> Option<f64> {
    let rounds = bench.effort.of(400);
    let clock = bench.clock;
    let span = clock.ticks_in(2.0 * local.futex_eagain_ns);
    // When the waiter called; 0 = not yet. `u64::MAX` = end.
    let called = Line(AtomicU64::new(0));
    let word = Line(AtomicU32::new(0));
    let returned = Line(AtomicBool::new(false));
    let saw_change = thread::scope(|scope| {
        let (word, called, returned) = (&word.0, &called.0, &returned.0);
        scope.spawn(move || {
            cpus::pin(there);
            let mut seed = 1;
            for _ in 0..rounds {
                let at = loop {
                    match called.load(Ordering::Acquire) {
                        0 => std::hint::spin_loop(),
                        at => break at,
                    }
                };
                seed = work(1, seed);
                let delay = (seed >> 33) % span.max(1);
                while clock.ticks() < at + delay {
                    std::hint::spin_loop();
                }
                word.store(1, Ordering::SeqCst);
                // It may be asleep, or on its way there: until it is back.
                while !returned.swap(false, Ordering::AcqRel) {
                    let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
                }
            }
        });
        let mut saw_change = 0u32;
        for _ in 0..rounds {
            word.store(0, Ordering::SeqCst);
            called.store(clock.ticks(), Ordering::Release);
            let result = futex::wait(word, futex::Flags::PRIVATE, 0, None);
            saw_change += u32::from(result == Err(rustix::io::Errno::AGAIN));
            called.store(0, Ordering::Release);
            returned.store(true, Ordering::Release);
            while returned.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        }
        saw_change
    });
    let share = f64::from(saw_change) / f64::from(rounds);
    (share > 0.02 && share < 0.98).then(|| share * clock.ns(span))
}
