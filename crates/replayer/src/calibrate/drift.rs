//! Difference of two calibrations of one machine.

use convoy_replay::machine::Machine;

use super::text::scalars;

/// Costs that decide little and vary much, or are a difference of others: they never make a machine
/// another one.
const MINOR: [&str; 3] = ["spawn_ns", "slice_ns", "futex_block_ns"];
/// After longer idle times a quick measurement has too few wake-ups.
const LONGEST_IDLE_NS: f64 = 200_000.0;

/// The cost that changed most.
#[derive(Debug, Clone, PartialEq)]
pub struct Drift {
    /// Its name, as in a calibration's text.
    pub cost: String,
    /// Later value / earlier value.
    pub ratio: f64,
}

impl Drift {
    /// Change as a factor, at least 1, whatever its direction.
    pub fn factor(&self) -> f64 {
        self.ratio.max(1.0 / self.ratio)
    }
}

/// The cost that differs most between two calibrations; `None` if none can be compared.
pub fn drift(before: &Machine, after: &Machine) -> Option<Drift> {
    let single = scalars(before).into_iter().zip(scalars(after));
    let single = single
        .filter(|((name, _), _)| !MINOR.contains(name))
        .map(|((name, a), (_, b))| (name.to_owned(), a, b));
    let rows = before.wake_latency.iter();
    let rows = rows.filter(|row| row.idle_ns <= LONGEST_IDLE_NS);
    let rows = rows.filter_map(|row| {
        let other = after
            .wake_latency
            .iter()
            .find(|other| other.idle_ns == row.idle_ns)?;
        let name = format!("wake_latency after {} us idle", row.idle_ns / 1000.0);
        Some((name, row.p50_ns, other.p50_ns))
    });
    let changes = single.chain(rows).filter(|&(_, a, b)| a > 0.0 && b > 0.0);
    changes
        .map(|(cost, a, b)| Drift { cost, ratio: b / a })
        .max_by(|a, b| a.factor().total_cmp(&b.factor()))
}

#[cfg(test)]
mod tests {
    use super::super::text::example;
    use super::*;

    #[test]
    fn names_the_cost_that_changed_most() {
        let before = example();
        let mut after = before.clone();
        assert_eq!(drift(&before, &after).unwrap().factor(), 1.0);
        after.futex_wake_ns *= 1.5;
        after.wake_latency[1].p50_ns /= 2.0;
        let change = drift(&before, &after).unwrap();
        assert_eq!(change.cost, "wake_latency after 20 us idle");
        assert_eq!((change.ratio, change.factor()), (0.5, 2.0));
    }

    #[test]
    fn minor_costs_are_no_drift() {
        let before = example();
        let mut after = before.clone();
        after.spawn_ns *= 10.0;
        assert_eq!(drift(&before, &after).unwrap().factor(), 1.0);
    }
}
