//! A loop that takes a given time and no memory: what replay runs in place of a program's work.

use std::sync::OnceLock;

use crate::clock::Clock;

/// Multiplier and increment of Knuth's MMIX generator: any odd ones would do, none can be
/// simplified.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;

/// Dependent multiply-adds: each waits for the one before, so that the time is a multiple of their
/// latency, whatever else the processor could do at the same time. About 1.3 ns each at 3 GHz.
///
/// Not inlined: every caller runs the same instructions at the same address, so that one
/// calibration holds for all of them.
#[inline(never)]
pub fn work(iterations: u32, mut value: u64) -> u64 {
    for _ in 0..iterations {
        value = value.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        // SAFETY: no instruction at all; it keeps the compiler from folding iterations.
        unsafe {
            core::arch::asm!("/* {0} */", inout(reg) value,
                options(nomem, nostack, preserves_flags));
        }
    }
    value
}

/// Nanoseconds of one iteration of [`work`], measured once a process (about 3 ms).
///
/// The least of many short measurements: an interruption only ever makes one longer.
pub fn iteration_ns() -> f64 {
    const ITERATIONS: u32 = 50_000;
    static NS: OnceLock<f64> = OnceLock::new();
    *NS.get_or_init(|| {
        let clock = Clock::of_machine();
        // A processor takes some milliseconds to reach its frequency.
        let mut value = work(1_000_000, 1);
        let least = (0..40).map(|_| {
            let start = clock.ticks();
            value = work(ITERATIONS, value);
            clock.since(start) / f64::from(ITERATIONS)
        });
        let least = least.fold(f64::INFINITY, f64::min);
        std::hint::black_box(value);
        least
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_a_function_of_its_iterations() {
        assert_eq!(work(0, 7), 7);
        assert_eq!(work(3, 7), work(1, work(2, 7)));
        assert_ne!(work(3, 7), work(2, 7));
    }

    #[test]
    fn twice_the_iterations_take_at_least_their_time() {
        let clock = Clock::of_machine();
        let start = clock.ticks();
        std::hint::black_box(work(1_000_000, 1));
        // At a frequency above the calibrated one it may be somewhat shorter.
        assert!(clock.since(start) > 0.6 * 1e6 * iteration_ns());
    }
}
