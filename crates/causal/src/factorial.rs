//! **F.** All targets in the same windows: each has its own random bit, 1 = slowed. One run gives
//! the slope of every target (full factorial design; Fisher, 1935).
//!
//! Assumes that slowed targets do not change each other's effect much; else what is found is the
//! mean effect over the settings of the others. As of S, each slope is an upper bound.

use crate::interval::{resampled, Saved};
use crate::random::Random;

/// A window with random bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FactorialWindow {
    /// Bit = number of a target that was slowed.
    pub slowed: u32,
    /// Length over progress, seconds.
    pub seconds_per_unit: f64,
}

/// Saved share of the run per target if it took no time, from windows in which slowed ones took 1 +
/// `factor` of theirs.
pub fn slopes(
    windows: &[FactorialWindow],
    targets: usize,
    factor: f64,
    random: &mut Random,
) -> Vec<Option<Saved>> {
    let valid: Vec<FactorialWindow> = windows
        .iter()
        .copied()
        .filter(|w| w.seconds_per_unit.is_finite() && w.seconds_per_unit > 0.0)
        .collect();
    let of = |target: usize, random: &mut Random| {
        resampled(&valid, targets, random, |drawn| {
            let mut sums = [(0.0, 0.0); 2];
            for window in drawn {
                let (sum, n) = &mut sums[(window.slowed >> target & 1) as usize];
                *sum += window.seconds_per_unit;
                *n += 1.0;
            }
            let [(fast, n_fast), (slow, n_slow)] = sums;
            let both = n_fast > 0.0 && n_slow > 0.0 && factor > 0.0;
            both.then(|| ((slow / n_slow) / (fast / n_fast) - 1.0) / factor)
        })
    };
    (0..targets.min(32)).map(|t| of(t, random)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_gets_its_slope_from_one_set_of_windows() {
        let mut random = Random::new(11);
        let windows: Vec<FactorialWindow> = (0..400)
            .map(|_| {
                let slowed = random.below(8) as u32;
                let noise = 1.0 + (random.below(100) as f64 - 49.5) / 1000.0;
                // Target 1 is 60 % of the run, target 2 10 %, target 0 off the critical path.
                let time =
                    1.0 + 0.5 * (0.6 * f64::from(slowed >> 1 & 1) + 0.1 * f64::from(slowed >> 2));
                FactorialWindow {
                    slowed,
                    seconds_per_unit: time * noise,
                }
            })
            .collect();
        let found = slopes(&windows, 3, 0.5, &mut random);
        for (found, truth) in found.iter().zip([0.0, 0.6, 0.1]) {
            let found = found.unwrap();
            assert!((found.mid - truth).abs() < 0.05, "{found:?} {truth}");
        }
    }

    #[test]
    fn windows_without_progress_are_left_out() {
        let window = |slowed, seconds_per_unit| FactorialWindow {
            slowed,
            seconds_per_unit,
        };
        let windows = [window(0, f64::INFINITY), window(1, 1.0)];
        assert_eq!(slopes(&windows, 1, 0.5, &mut Random::new(1)), [None]);
    }
}
