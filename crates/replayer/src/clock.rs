//! Cycle counter of the machine; CLOCK_MONOTONIC where there is none that runs at a constant rate.

use std::sync::OnceLock;
use std::time::Duration;

use rustix::time::{clock_gettime, ClockId};

/// How long the counter's rate is measured: 50 ns of uncertainty are 5 parts in a million of it.
const RATE_WINDOW: Duration = Duration::from_millis(10);

/// A clock that costs little to read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    has_counter: bool,
    ticks_per_ns: f64,
}

impl Clock {
    /// The clock of this machine. The first call takes [`RATE_WINDOW`].
    pub fn of_machine() -> Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(|| {
            if has_constant_counter() {
                Self::measured()
            } else {
                Self {
                    has_counter: false,
                    ticks_per_ns: 1.0,
                }
            }
        })
    }

    fn measured() -> Self {
        let (ns, ticks) = (monotonic_ns(), counter());
        while monotonic_ns() - ns < RATE_WINDOW.as_nanos() as u64 {
            std::hint::spin_loop();
        }
        let (ns, ticks) = (monotonic_ns() - ns, counter().wrapping_sub(ticks));
        Self {
            has_counter: true,
            ticks_per_ns: ticks as f64 / ns as f64,
        }
    }

    /// Now, in ticks.
    #[inline(always)]
    pub fn ticks(&self) -> u64 {
        if self.has_counter {
            counter()
        } else {
            monotonic_ns()
        }
    }

    /// Ticks in nanoseconds.
    #[inline(always)]
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_ns
    }

    /// Nanoseconds in ticks.
    pub fn ticks_in(&self, ns: f64) -> u64 {
        (ns * self.ticks_per_ns) as u64
    }

    /// Nanoseconds since a reading; 0 if another processor's counter is behind.
    #[inline(always)]
    pub fn since(&self, ticks: u64) -> f64 {
        self.ns(self.ticks().saturating_sub(ticks))
    }
}

/// CLOCK_MONOTONIC, nanoseconds.
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// CPU time of the calling thread, nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: reads a register that every x86-64 processor has.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    monotonic_ns()
}

/// A counter that keeps its rate whatever the processor's frequency, and runs while it sleeps.
fn has_constant_counter() -> bool {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut flags = info
        .lines()
        .find_map(|line| line.strip_prefix("flags")?.split_once(':'))
        .map_or("", |(_, flags)| flags)
        .split_ascii_whitespace();
    cfg!(target_arch = "x86_64")
        && flags.clone().any(|flag| flag == "constant_tsc")
        && flags.any(|flag| flag == "nonstop_tsc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_monotonic_clock() {
        let clock = Clock::of_machine();
        let (ns, ticks) = (monotonic_ns(), clock.ticks());
        std::thread::sleep(Duration::from_millis(5));
        // Whatever happens between two readings, the second reading of each is later by as much.
        let inner = clock.since(ticks);
        let outer = (monotonic_ns() - ns) as f64;
        assert!(inner <= outer * 1.001, "{inner} {outer}");
        assert!(inner >= 5e6 * 0.999, "{inner}");
    }
}
