//! What synchronization costs on this machine, measured: the input of every prediction.
//!
//! No cost of a machine is a constant in Convoy's source: a wake-up of an idle processor takes ten
//! times longer in a virtual machine than without one. [`calibrate`] takes about 0.6 s,
//! [`remeasure`] 0.2 s; [`drift`] compares two of them, so that a machine that changed meanwhile
//! does not go unnoticed.
//!
//! Measurements are made by threads of their own, bound to processors: the caller's affinity stays.

mod drift;
mod empty;
mod local;
mod one_cpu;
mod text;
mod two_cpus;
mod wake_up;

pub use drift::drift;
pub use empty::run_empty_sections;
pub use text::{empty_from_text, empty_to_text, from_text, to_text, ParseError};

use std::cell::{Cell, RefCell};
use std::thread;

use convoy_replay::machine::Machine;

use crate::clock::{monotonic_ns, thread_cpu_ns, Clock};
use crate::cpus;
use crate::stats::Sample;

/// Below this share of its processor, a thread that only computes was disturbed by others.
const UNDISTURBED_SHARE: f64 = 0.95;

/// A calibrated machine, and how far its measurements can be trusted.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// The costs: medians.
    pub machine: Machine,
    /// Distance of the quartiles relative to the median, the median of all costs. Below 0.1 on a
    /// quiet machine.
    pub spread: f64,
    /// Other programs took processor time from the measurement.
    pub disturbed: bool,
}

/// Measures the costs of this machine, within the processors that this process may use; about 0.6
/// s.
///
/// Where only one processor can be used, costs that need two are those of one: the line is local,
/// and a wake-up costs a context switch.
pub fn calibrate() -> Calibration {
    measure(Effort::Full)
}

/// The same in about 0.2 s, with fewer repetitions.
pub fn remeasure() -> Calibration {
    measure(Effort::Quick)
}

/// How many repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    Full,
    Quick,
}

impl Effort {
    /// A number of repetitions or a budget, scaled.
    fn of(self, full: u32) -> u32 {
        match self {
            Self::Full => full,
            Self::Quick => full.div_ceil(4),
        }
    }
}

fn measure(effort: Effort) -> Calibration {
    // A thread of its own is pinned in place of the caller's; it panics only if no thread can be
    // made.
    thread::scope(|scope| {
        let measuring = scope.spawn(|| on_this_thread(effort));
        measuring
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn on_this_thread(effort: Effort) -> Calibration {
    let allowed = cpus::allowed();
    let usable = cpus::usable();
    let pair = cpus::pair(&allowed);
    let here = pair.map_or(allowed[0], |(first, _)| first);
    cpus::pin(here);
    let bench = Bench::new(effort);
    let local = local::measure(&bench);
    let shared = one_cpu::measure(&bench, here, &local);
    let remote = match pair {
        Some((here, there)) => two_cpus::measure(&bench, here, there, &local),
        None => two_cpus::of_one_cpu(&local, &shared),
    };
    let machine = Machine {
        cpus: usable,
        atomic_local_ns: local.atomic_ns,
        atomic_remote_ns: remote.atomic_ns,
        lock_pair_ns: local.lock_pair_ns,
        rdlock_pair_ns: local.rdlock_pair_ns,
        futex_check_ns: remote.futex_check_ns,
        futex_eagain_ns: local.futex_eagain_ns,
        futex_block_ns: (shared.handover_ns
            - shared.wake_ns
            - remote.futex_check_ns
            - shared.switch_ns)
            .max(local.syscall_ns / 2.0),
        futex_wake_none_ns: local.futex_wake_none_ns,
        futex_wake_ns: remote.wake.waker_ns,
        futex_wake_ipi_ns: remote.wake.waker_ipi_ns,
        switch_ns: shared.switch_ns,
        tick_ns: shared.tick_ns,
        slice_ns: shared.slice_ns,
        wake_latency: remote.wake.table,
        spawn_ns: local.spawn_ns,
        clock_ns: local.clock_ns,
    };
    let (cpu, wall) = bench.computed.get();
    Calibration {
        machine,
        spread: Sample::new(bench.spreads.into_inner()).median(),
        disturbed: (cpu as f64) < UNDISTURBED_SHARE * wall as f64,
    }
}

/// Repeats operations, and keeps how well their measurements agree.
#[derive(Debug)]
struct Bench {
    clock: Clock,
    effort: Effort,
    spreads: RefCell<Vec<f64>>,
    /// CPU time and wall time of stretches in which this thread only computed, nanoseconds.
    computed: Cell<(u64, u64)>,
}

impl Bench {
    fn new(effort: Effort) -> Self {
        Self {
            clock: Clock::of_machine(),
            effort,
            spreads: RefCell::default(),
            computed: Cell::default(),
        }
    }

    /// Median cost of an operation, nanoseconds: of several rounds of many calls.
    fn per_call(&self, calls: u32, mut operation: impl FnMut()) -> f64 {
        let rounds = self.effort.of(100);
        let (wall, cpu) = (monotonic_ns(), thread_cpu_ns());
        let rounds = (0..rounds).map(|_| {
            let start = self.clock.ticks();
            for _ in 0..calls {
                operation();
            }
            self.clock.since(start) / f64::from(calls)
        });
        let sample = Sample::new(rounds.collect());
        let (wall, cpu) = (monotonic_ns() - wall, thread_cpu_ns() - cpu);
        self.note_cpu_share(cpu, wall);
        self.note_spread(&sample);
        sample.median()
    }

    fn note_spread(&self, sample: &Sample) {
        self.spreads.borrow_mut().push(sample.relative_quartiles());
    }

    fn note_cpu_share(&self, cpu_ns: u64, wall_ns: u64) {
        let (cpu, wall) = self.computed.get();
        self.computed.set((cpu + cpu_ns, wall + wall_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_every_cost_and_keeps_the_callers_affinity() {
        let before = cpus::allowed();
        let calibration = calibrate();
        assert_eq!(cpus::allowed(), before);
        let machine = &calibration.machine;
        for (name, value) in text::scalars(machine) {
            assert!(value > 0.0 && value.is_finite(), "{name} = {value}");
        }
        assert!(!machine.wake_latency.is_empty());
        for rows in machine.wake_latency.windows(2) {
            assert!(rows[0].idle_ns < rows[1].idle_ns);
        }
        for row in &machine.wake_latency {
            assert!(
                row.p10_ns <= row.p50_ns && row.p50_ns <= row.p90_ns,
                "{row:?}"
            );
            assert!((0.0..=1.0).contains(&row.ipi_share), "{row:?}");
        }
        // Relations that hold on any machine, whatever its costs.
        assert!(machine.futex_check_ns <= machine.futex_eagain_ns);
        assert!(machine.futex_wake_ns <= machine.futex_wake_ipi_ns);
        assert!(machine.atomic_local_ns < machine.lock_pair_ns);
        assert!(machine.lock_pair_ns < machine.spawn_ns);
    }
}
