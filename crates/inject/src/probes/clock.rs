//! The time stamp counter against the monotonic clock.

use std::arch::x86_64::_rdtsc;
use std::time::{Duration, Instant};

/// A time by both clocks.
#[derive(Debug, Clone, Copy)]
struct Pair {
    ticks: u64,
    time: Instant,
}

/// Both clocks are read this often, and the pair that took least time is kept.
const READS: usize = 16;
/// Shortest time that a frequency is measured over: 20 ms are exact to about 10 in a million.
const BASE: Duration = Duration::from_millis(20);

/// The time stamp counter.
pub(super) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { _rdtsc() }
}

impl Pair {
    fn now() -> Self {
        let one = || {
            let (before, time, after) = (ticks(), Instant::now(), ticks());
            (after.wrapping_sub(before), before, time)
        };
        let best = (0..READS).map(|_| one()).min_by_key(|(length, ..)| *length);
        let (length, before, time) = best.unwrap_or_else(one);
        Self {
            ticks: before + length / 2,
            time,
        }
    }
}

/// Converts ticks to nanoseconds; the longer it is used, the better.
#[derive(Debug)]
pub(super) struct TickClock {
    base: Pair,
}

impl TickClock {
    /// Waits until a frequency can be measured.
    pub fn begin() -> Self {
        let base = Pair::now();
        std::thread::sleep(BASE);
        Self { base }
    }

    /// The present time in ticks, and nanoseconds a tick.
    pub fn now(&self) -> (u64, f64) {
        let now = Pair::now();
        let ticks = now.ticks.wrapping_sub(self.base.ticks).max(1);
        let time = now.time.duration_since(self.base.time);
        (now.ticks, time.as_nanos() as f64 / ticks as f64)
    }
}

/// With 32 bits behind the point.
pub(super) fn fixed_point(ns_per_tick: f64) -> u64 {
    (ns_per_tick * 2f64.powi(32)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds() {
        let clock = TickClock::begin();
        let (before, time) = (ticks(), Instant::now());
        std::thread::sleep(Duration::from_millis(30));
        let (passed, elapsed) = (ticks() - before, time.elapsed());
        let ns = passed as f64 * clock.now().1;
        let ratio = ns / elapsed.as_nanos() as f64;
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }
}
