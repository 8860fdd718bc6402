//! Wake-ups of idle processors: what they cost the waker, and how long the woken thread takes to
//! run.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

use convoy_replay::machine::WakeLatency;
use rustix::thread::futex;

use super::one_cpu::Shared;
use super::two_cpus::Line;
use super::Bench;
use crate::clock::Clock;
use crate::cpus;
use crate::stats::Sample;

/// Times for which a processor is left idle before the wake-up, microseconds.
const IDLE_US: [u32; 9] = [0, 5, 20, 50, 100, 200, 500, 1000, 4000];
/// Budget of a row of the table, microseconds.
const ROW_US: u32 = 50_000;
/// Longest time for a row, microseconds, once it has [`LEAST_WAKES`].
const MOST_ROW_US: u32 = 150_000;
/// Wake-ups of a row at least.
const LEAST_WAKES: u32 = 6;
/// A thread that just called FUTEX_WAIT is asleep after so many times the cost of a refused call.
const ASLEEP_AFTER_CALLS: f64 = 5.0;
/// Longest wait for a woken thread: beyond that, its processor was taken away.
const LOST_NS: f64 = 50e6;
/// Wakers' costs that differ by more are of two kinds: with and without an interrupt.
const KINDS_APART: f64 = 2.0;

/// What wake-ups cost.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WakeUp {
    pub waker_ns: f64,
    pub waker_ipi_ns: f64,
    pub table: Vec<WakeLatency>,
}

/// One wake-up, nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Measured {
    waker_ns: f64,
    latency_ns: f64,
}

impl WakeUp {
    /// One processor: it is never idle when one of its threads wakes another.
    pub(super) fn on_one_cpu(shared: &Shared) -> Self {
        let latency = shared.handover_ns;
        Self {
            waker_ns: shared.wake_ns,
            waker_ipi_ns: shared.wake_ns,
            table: vec![WakeLatency {
                idle_ns: 0.0,
                p10_ns: latency,
                p50_ns: latency,
                p90_ns: latency,
                ipi_share: 0.0,
            }],
        }
    }
}

pub(super) fn measure(bench: &Bench, there: usize) -> WakeUp {
    let sleeper = Sleeper::default();
    let clock = bench.clock;
    let rows: Vec<(f64, Vec<Measured>)> = thread::scope(|scope| {
        scope.spawn(|| sleeper.run(there, clock));
        let rows = IDLE_US.iter().map(|&idle| {
            let budget = bench.effort.of(ROW_US);
            let repetitions = (budget / (idle + 60)).clamp(LEAST_WAKES, 300);
            let idle_ns = f64::from(idle) * 1000.0;
            // On a busy machine a wake-up takes long: enough of them is not all of them.
            let end = clock.ticks() + clock.ticks_in(f64::from(MOST_ROW_US) * 1000.0);
            let wakes = (0..repetitions)
                .take_while(|&done| done < LEAST_WAKES || clock.ticks() < end)
                .filter_map(|_| sleeper.wake(clock, idle_ns));
            (idle_ns, wakes.collect())
        });
        let rows = rows.collect();
        sleeper.end();
        rows
    });
    summarize(bench, &rows)
}

fn summarize(bench: &Bench, rows: &[(f64, Vec<Measured>)]) -> WakeUp {
    let all = rows.iter().flat_map(|(_, wakes)| wakes);
    let kinds = WakerCost::of(all.map(|wake| wake.waker_ns).collect());
    let table = rows.iter().filter(|(_, wakes)| !wakes.is_empty());
    let table = table.map(|(idle_ns, wakes)| {
        let latency = Sample::new(wakes.iter().map(|wake| wake.latency_ns).collect());
        bench.note_spread(&latency);
        let interrupts = wakes.iter().filter(|wake| kinds.is_ipi(wake.waker_ns));
        WakeLatency {
            idle_ns: *idle_ns,
            p10_ns: latency.quantile(0.1),
            p50_ns: latency.median(),
            p90_ns: latency.quantile(0.9),
            ipi_share: interrupts.count() as f64 / wakes.len() as f64,
        }
    });
    WakeUp {
        waker_ns: kinds.plain_ns,
        waker_ipi_ns: kinds.ipi_ns,
        table: table.collect(),
    }
}

/// What wakers paid, of two kinds if there are two.
#[derive(Debug, Clone, Copy, PartialEq)]
struct WakerCost {
    plain_ns: f64,
    ipi_ns: f64,
    /// Costs above it are those of interrupts.
    threshold_ns: f64,
}

impl WakerCost {
    /// Splits where the sum of squared distances of the logarithms to their groups' means is least.
    fn of(costs: Vec<f64>) -> Self {
        let costs = Sample::new(costs);
        let logs: Vec<f64> = costs.values().iter().map(|ns| ns.max(1.0).ln()).collect();
        let total: f64 = logs.iter().sum();
        // Least within groups = most between them. A group of less than a twentieth is outliers.
        let least = (logs.len() / 20).max(1);
        let (mut sum, mut best) = (0.0, (0.0, 0));
        for (below, log) in logs.iter().enumerate() {
            let (n, m) = (below as f64, (logs.len() - below) as f64);
            if below >= least && logs.len() - below >= least {
                let distance: f64 = sum / n - (total - sum) / m;
                let between = n * m * distance * distance;
                if between > best.0 {
                    best = (between, below);
                }
            }
            sum += log;
        }
        let (low, high) = costs.values().split_at(best.1);
        let (low, high) = (Sample::new(low.to_vec()), Sample::new(high.to_vec()));
        if best.1 == 0 || high.median() < KINDS_APART * low.median() {
            let median = costs.median();
            return Self {
                plain_ns: median,
                ipi_ns: median,
                threshold_ns: f64::INFINITY,
            };
        }
        Self {
            plain_ns: low.median(),
            ipi_ns: high.median(),
            threshold_ns: low.values().last().copied().unwrap_or(0.0),
        }
    }

    fn is_ipi(&self, waker_ns: f64) -> bool {
        waker_ns > self.threshold_ns
    }
}

/// A thread that sleeps on a futex, on a processor with nothing else to do.
#[derive(Debug, Default)]
struct Sleeper {
    word: Line<AtomicU32>,
    /// When it called FUTEX_WAIT; 0 = not since the last wake-up.
    called: Line<AtomicU64>,
    /// When it ran again; 0 = not yet.
    ran: Line<AtomicU64>,
    ends: AtomicBool,
}

impl Sleeper {
    fn run(&self, cpu: usize, clock: Clock) {
        cpus::pin(cpu);
        let word = &self.word.0;
        loop {
            // Before the look at the end, whose writer clears the word afterwards: no sleep misses it.
            word.store(1, Ordering::SeqCst);
            if self.ends.load(Ordering::SeqCst) {
                return;
            }
            self.called.0.store(clock.ticks(), Ordering::SeqCst);
            let result = futex::wait(word, futex::Flags::PRIVATE, 1, None);
            let now = clock.ticks();
            if result.is_ok() && word.load(Ordering::SeqCst) == 0 {
                self.ran.0.store(now, Ordering::SeqCst);
            }
        }
    }

    /// Wakes it after its processor has been idle for so long; `None` if it did not sleep.
    fn wake(&self, clock: Clock, idle_ns: f64) -> Option<Measured> {
        let called = self.until_nonzero(&self.called.0, clock)?;
        let refused = clock.ticks();
        // What a refused FUTEX_WAIT costs here and now, as the measure of going to sleep.
        let never = AtomicU32::new(0);
        let _ = futex::wait(&never, futex::Flags::PRIVATE, 1, None);
        let asleep = clock.since(refused) * ASLEEP_AFTER_CALLS;
        let due = called + clock.ticks_in(idle_ns + asleep);
        while clock.ticks() < due {
            std::hint::spin_loop();
        }
        self.called.0.store(0, Ordering::SeqCst);
        self.ran.0.store(0, Ordering::SeqCst);
        self.word.0.store(0, Ordering::SeqCst);
        let start = clock.ticks();
        let woken = futex::wake(&self.word.0, futex::Flags::PRIVATE, 1);
        let waker_ns = clock.since(start);
        if woken != Ok(1) {
            return None;
        }
        let ran = self.until_nonzero(&self.ran.0, clock)?;
        Some(Measured {
            waker_ns,
            latency_ns: clock.ns(ran.saturating_sub(start)),
        })
    }

    fn until_nonzero(&self, stamp: &AtomicU64, clock: Clock) -> Option<u64> {
        let start = clock.ticks();
        loop {
            match stamp.load(Ordering::SeqCst) {
                0 if clock.since(start) > LOST_NS => return None,
                0 => std::hint::spin_loop(),
                at => return Some(at),
            }
        }
    }

    fn end(&self) {
        self.ends.store(true, Ordering::SeqCst);
        self.word.0.store(0, Ordering::SeqCst);
        let _ = futex::wake(&self.word.0, futex::Flags::PRIVATE, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_of_two_kinds_are_told_apart() {
        let costs = [900.0, 1000.0, 1100.0, 9000.0, 10_000.0, 11_000.0];
        let kinds = WakerCost::of(costs.to_vec());
        assert_eq!((kinds.plain_ns, kinds.ipi_ns), (1000.0, 10_000.0));
        assert!(kinds.is_ipi(9000.0) && !kinds.is_ipi(1100.0));
    }

    #[test]
    fn costs_of_one_kind_have_no_interrupts() {
        let kinds = WakerCost::of(vec![900.0, 1000.0, 1100.0, 1200.0]);
        assert_eq!(kinds.plain_ns, kinds.ipi_ns);
        assert!(!kinds.is_ipi(1e9));
        assert_eq!(WakerCost::of(Vec::new()).plain_ns, 0.0);
    }
}
