//! Difference of two calibrations of one machine.

use convoy_replay::machine::Machine;

use super::text::scalars;

/// Costs that decide little and vary much, or are a difference of others: they never make a machine
/// another one.
const MINOR: [&str; 3] = ["spawn_ns", "slice_ns", "futex_block_ns"];
/// After longer idle times a quick measurement has too few wake-ups.
const LONGEST_IDLE_NS: f64 = 200_000.0;

/// By how much the machine's speed differs between two calibrations: the middle one of the changes
/// of all costs, as a factor of at least 1. The largest one is noise: a virtual machine's wake-ups
/// take twice as long in one tenth of a second as in the next one. 1 if nothing can be compared.
pub fn drift(before: &Machine, after: &Machine) -> f64 {
    let single = scalars(before).into_iter().zip(scalars(after));
    let single = single
        .filter(|((name, _), _)| !MINOR.contains(name))
        .map(|((_, a), (_, b))| (a, b));
    let rows = before.wake_latency.iter();
    let rows = rows.filter(|row| row.idle_ns <= LONGEST_IDLE_NS);
    let rows = rows.filter_map(|row| {
        let mut others = after.wake_latency.iter();
        let other = others.find(|other| other.idle_ns == row.idle_ns)?;
        Some((row.p50_ns, other.p50_ns))
    });
    let costs = single.chain(rows).filter(|&(a, b)| a > 0.0 && b > 0.0);
    let mut ratios: Vec<f64> = costs.map(|(a, b)| b / a).collect();
    ratios.sort_by(f64::total_cmp);
    let middle = ratios.get(ratios.len() / 2).copied().unwrap_or(1.0);
    middle.max(1.0 / middle)
}

#[cfg(test)]
mod tests {
    use super::super::text::example;
    use super::*;

    #[test]
    fn a_slower_and_a_faster_machine_differ_by_the_same_factor() {
        let before = example();
        let mut after = before.clone();
        for cost in [
            &mut after.atomic_local_ns,
            &mut after.atomic_remote_ns,
            &mut after.lock_pair_ns,
            &mut after.rdlock_pair_ns,
            &mut after.futex_check_ns,
            &mut after.futex_eagain_ns,
            &mut after.futex_wake_none_ns,
            &mut after.futex_wake_ns,
            &mut after.switch_ns,
            &mut after.clock_ns,
        ] {
            *cost *= 1.5;
        }
        for row in &mut after.wake_latency {
            row.p50_ns *= 1.5;
        }
        assert_eq!(drift(&before, &after), 1.5);
        assert_eq!(drift(&after, &before), 1.5);
    }

    #[test]
    fn one_cost_alone_is_no_other_speed() {
        let before = example();
        let mut after = before.clone();
        after.futex_wake_ns *= 3.0;
        after.spawn_ns *= 10.0;
        assert_eq!(drift(&before, &after), 1.0);
    }
}
