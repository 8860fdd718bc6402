//! Costs of a machine in the simulator's unit of time, and the latency of wake-ups.

use super::rng::Rng;
use crate::machine::Machine;

/// Simulated time: picoseconds since the start of the program. Integers, so that sums are exact and
/// the order of events does not depend on rounding. Ends after 213 days.
pub(crate) type Ps = u64;

/// Never.
pub(crate) const NEVER: Ps = Ps::MAX;

/// Picoseconds of nanoseconds; nothing for what is negative or no number.
pub(crate) fn ps(ns: f64) -> Ps {
    (ns * 1000.0) as Ps
}

/// Nanoseconds of picoseconds.
pub(crate) fn ns(ps: Ps) -> f64 {
    ps as f64 / 1000.0
}

/// When FUTEX_WAKE looks for a waiter, as a share of a call that finds nobody: it enters the
/// kernel, computes the key and locks the bucket before, and leaves the kernel after.
const WAKE_LOOKUP_SHARE: f64 = 0.5;

/// A [`Machine`], in picoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Costs {
    /// One half of a lock and unlock pair: an atomic operation and the code around it.
    pub(crate) lock_half: Ps,
    /// The same of a reader's pair.
    pub(crate) rdlock_half: Ps,
    /// A locked instruction on a line of this processor.
    pub(crate) atomic: Ps,
    /// What a line that another processor owns adds.
    pub(crate) remote_extra: Ps,
    /// FUTEX_WAIT: to the comparison.
    pub(crate) wait_check: Ps,
    /// From the comparison to the return with EAGAIN.
    pub(crate) wait_return: Ps,
    /// From the comparison until off the processor.
    pub(crate) wait_block: Ps,
    /// FUTEX_WAKE: to the look for a waiter.
    pub(crate) wake_lookup: Ps,
    /// From there to the return, nobody found.
    pub(crate) wake_none: Ps,
    /// From there to the return, a processor that polls or is busy.
    pub(crate) wake_one: Ps,
    /// From there to the return, a processor that has to be interrupted.
    pub(crate) wake_ipi: Ps,
    pub(crate) switch: Ps,
    pub(crate) tick: Ps,
    pub(crate) slice: Ps,
    pub(crate) spawn: Ps,
}

impl Costs {
    pub(crate) fn of(machine: &Machine) -> Self {
        let lookup = machine.futex_wake_none_ns * WAKE_LOOKUP_SHARE;
        Self {
            lock_half: ps(machine.lock_pair_ns / 2.0),
            rdlock_half: ps(machine.rdlock_pair_ns / 2.0),
            atomic: ps(machine.atomic_local_ns),
            remote_extra: ps(machine.atomic_remote_ns - machine.atomic_local_ns),
            wait_check: ps(machine.futex_check_ns),
            wait_return: ps(machine.futex_eagain_ns - machine.futex_check_ns),
            wait_block: ps(machine.futex_block_ns),
            wake_lookup: ps(lookup),
            wake_none: ps(machine.futex_wake_none_ns - lookup),
            wake_one: ps(machine.futex_wake_ns - lookup),
            wake_ipi: ps(machine.futex_wake_ipi_ns - lookup),
            switch: ps(machine.switch_ns),
            // A tick of nothing would never let time pass.
            tick: ps(machine.tick_ns).max(1000),
            slice: ps(machine.slice_ns),
            spawn: ps(machine.spawn_ns),
        }
    }
}

/// A wake-up of an idle processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct IdleWake {
    /// From the call to the woken thread's first instruction.
    pub(crate) latency: Ps,
    /// The processor has to be interrupted.
    pub(crate) is_ipi: bool,
}

/// Latency of a wake-up on a processor that has been idle for so long: quantiles are interpolated
/// between the rows of [`Machine::wake_latency`], and a value is drawn from them.
pub(crate) fn sample_wake(machine: &Machine, idle: Ps, rng: &mut Rng) -> IdleWake {
    let table = &machine.wake_latency;
    let idle_ns = ns(idle);
    let above = table.partition_point(|row| row.idle_ns <= idle_ns);
    let (Some(low), Some(high)) = (
        table.get(above.saturating_sub(1)),
        table.get(above.min(table.len().wrapping_sub(1))),
    ) else {
        return IdleWake {
            latency: ps(machine.switch_ns),
            is_ipi: false,
        };
    };
    let span = high.idle_ns - low.idle_ns;
    let share = if span > 0.0 {
        ((idle_ns - low.idle_ns) / span).clamp(0.0, 1.0)
    } else {
        0.0
    };
    let between = |a: f64, b: f64| a + (b - a) * share;
    let p10 = between(low.p10_ns, high.p10_ns);
    let p50 = between(low.p50_ns, high.p50_ns);
    let p90 = between(low.p90_ns, high.p90_ns);
    let u = rng.unit();
    // Piecewise linear; beyond the outer quantiles on with the slope of the piece beside them.
    let latency = match u {
        u if u < 0.5 => p50 - (p50 - p10) * (0.5 - u) / 0.4,
        u => p50 + (p90 - p50) * (u - 0.5) / 0.4,
    };
    let is_ipi = rng.chance(between(low.ipi_share, high.ipi_share));
    IdleWake {
        latency: ps(latency.max(p10 / 2.0)),
        is_ipi,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::WakeLatency;
    use crate::sim::testing::machine;

    #[test]
    fn wake_latency_has_the_quantiles_of_the_table() {
        let mut machine = machine();
        machine.wake_latency = vec![
            WakeLatency {
                idle_ns: 0.0,
                p10_ns: 10.0,
                p50_ns: 20.0,
                p90_ns: 40.0,
                ipi_share: 0.0,
            },
            WakeLatency {
                idle_ns: 1000.0,
                p10_ns: 110.0,
                p50_ns: 220.0,
                p90_ns: 440.0,
                ipi_share: 1.0,
            },
        ];
        let mut rng = Rng::new(3);
        for (idle, p50, ipis) in [
            (0, 20.0, 0),
            (500_000, 120.0, 5000),
            (9_000_000, 220.0, 10_000),
        ] {
            let mut all: Vec<IdleWake> = (0..10_000)
                .map(|_| sample_wake(&machine, idle, &mut rng))
                .collect();
            all.sort_by_key(|wake| wake.latency);
            let median = ns(all[5000].latency);
            assert!(
                (median / p50 - 1.0).abs() < 0.1,
                "{idle}: {median} instead of {p50}"
            );
            let counted = all.iter().filter(|wake| wake.is_ipi).count();
            assert!(
                counted.abs_diff(ipis) < 300,
                "{idle}: {counted} IPIs instead of {ipis}"
            );
        }
    }

    #[test]
    fn wake_latency_without_a_table_is_a_switch() {
        let mut machine = machine();
        machine.wake_latency.clear();
        let wake = sample_wake(&machine, 1, &mut Rng::new(1));
        assert_eq!(
            wake,
            IdleWake {
                latency: ps(machine.switch_ns),
                is_ipi: false
            }
        );
    }

    #[test]
    fn impossible_costs_are_nothing() {
        assert_eq!(ps(-1.0), 0);
        assert_eq!(ps(f64::NAN), 0);
    }
}
