//! Windows in blocks: every block has the baseline, the null experiment and every level of every
//! target once, in random order, so that phases of the program meet all of them alike.

use serde::Serialize;

use crate::estimator::Estimator;
use crate::random::Random;

/// Speed-ups that are tried. Beyond one half, forecasts meet cliffs that no estimator sees: a lock
/// whose waiters begin to park when the code between two acquisitions becomes shorter.
pub const LEVELS: [f64; 2] = [0.25, 0.5];

/// By so much of their time the slowed targets of F are lengthened.
pub(crate) const FACTORIAL: f64 = 0.5;

/// Baseline windows of a block: every estimate is a ratio to them.
const BASELINES: usize = 2;

/// How the agent measures what it lengthens. Each has its own overhead, and so its own baseline and
/// null experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    /// By samples: functions, lines, sleeps.
    Sampled,
    /// By the clock, from one lock operation to the next: critical sections.
    Measured,
}

/// Targets by their numbers, below 32.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TargetSet(pub u32);

impl TargetSet {
    /// No target.
    pub const NONE: Self = Self(0);

    /// One of them.
    pub fn one(number: usize) -> Self {
        Self(1u32.checked_shl(number as u32).unwrap_or_default())
    }

    /// Whether a target is one of them.
    pub fn contains(self, number: usize) -> bool {
        self.0 & Self::one(number).0 != 0
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Their numbers.
    pub fn numbers(self) -> impl Iterator<Item = usize> {
        (0..u32::BITS as usize).filter(move |number| self.contains(*number))
    }
}

impl FromIterator<usize> for TargetSet {
    fn from_iter<T: IntoIterator<Item = usize>>(numbers: T) -> Self {
        let bits = numbers.into_iter().map(|number| Self::one(number).0);
        Self(bits.fold(0, |all, bit| all | bit))
    }
}

/// What a window tries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arm {
    /// Its targets; none = baseline or null experiment. Several only for F.
    pub targets: TargetSet,
    /// Virtual speed-up of the target, 0 to 1; 0 = baseline.
    pub speedup: f64,
    /// How code is measured.
    pub mechanism: Mechanism,
}

/// What a window measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Measured {
    /// Length, seconds.
    pub seconds: f64,
    /// Units of progress.
    pub progress: f64,
    /// CPU time that the program could have had, seconds; 0 = not known.
    pub capacity_seconds: f64,
    /// CPU time that it had, seconds.
    pub cpu_seconds: f64,
    /// Part of `cpu_seconds` in calls that were not lengthened though they are not the target.
    pub calls_seconds: f64,
}

/// Windows of a block of targets that are measured in one way.
pub fn windows_of_targets(targets: usize) -> usize {
    BASELINES + (1 + targets) * LEVELS.len()
}

/// Pairs of windows in a block of F.
const PAIRS: usize = 2;

/// Windows of F: each target has a random bit in the first one of a pair, and the other bit in the
/// second one, so that a block has as many windows with as without it.
fn factorial(targets: &[usize], mechanism: Mechanism, random: &mut Random) -> Vec<Arm> {
    let mut arms = Vec::new();
    for _ in 0..PAIRS {
        let (mut slowed, mut others) = (TargetSet::NONE, TargetSet::NONE);
        for target in targets {
            let side = match random.below(2) {
                0 => &mut slowed,
                _ => &mut others,
            };
            side.0 |= TargetSet::one(*target).0;
        }
        arms.extend([slowed, others].map(|targets| Arm {
            targets,
            speedup: if targets.is_empty() { 0.0 } else { FACTORIAL },
            mechanism,
        }));
    }
    arms
}

/// The arms of a block, in random order. `targets`: number and mechanism of those that are not
/// settled.
pub(crate) fn block(
    targets: &[(usize, Mechanism)],
    estimator: Estimator,
    random: &mut Random,
) -> Vec<Arm> {
    let levels = estimator.levels();
    let mut arms = Vec::new();
    for mechanism in [Mechanism::Sampled, Mechanism::Measured] {
        let mut of = targets.iter().filter(|(_, m)| *m == mechanism).peekable();
        if of.peek().is_none() {
            continue;
        }
        if estimator == Estimator::Factorial {
            let numbers: Vec<usize> = of.map(|(number, _)| *number).collect();
            arms.extend(factorial(&numbers, mechanism, random));
            continue;
        }
        let arm = |targets, speedup| Arm {
            targets,
            speedup,
            mechanism,
        };
        arms.extend([arm(TargetSet::NONE, 0.0); BASELINES]);
        if estimator.has_null() {
            arms.extend(levels.iter().map(|level| arm(TargetSet::NONE, *level)));
        }
        for (target, _) in of {
            let own = TargetSet::one(*target);
            arms.extend(levels.iter().map(|level| arm(own, *level)));
        }
    }
    random.shuffle(&mut arms);
    arms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_every_level_of_every_target() {
        let targets = [(0, Mechanism::Sampled), (3, Mechanism::Measured)];
        let arms = block(&targets, Estimator::Dilate, &mut Random::new(5));
        assert_eq!(arms.len(), 2 * (BASELINES + 2 * LEVELS.len()));
        for (target, mechanism) in targets {
            for speedup in LEVELS {
                for targets in [TargetSet::one(target), TargetSet::NONE] {
                    let wanted = Arm {
                        targets,
                        speedup,
                        mechanism,
                    };
                    let n = arms.iter().filter(|arm| **arm == wanted).count();
                    assert_eq!(n, 1, "{wanted:?}");
                }
            }
        }
    }

    #[test]
    fn slowing_the_target_needs_no_null() {
        let arms = block(
            &[(0, Mechanism::Sampled)],
            Estimator::Slow,
            &mut Random::new(5),
        );
        assert!(arms
            .iter()
            .all(|a| !a.targets.is_empty() || a.speedup == 0.0));
    }

    #[test]
    fn a_factorial_block_has_each_target_in_half_of_its_windows() {
        let targets = [0, 3, 7].map(|number| (number, Mechanism::Sampled));
        for seed in 0..20 {
            let arms = block(&targets, Estimator::Factorial, &mut Random::new(seed));
            assert_eq!(arms.len(), 2 * PAIRS);
            for (target, _) in targets {
                let slowed = arms.iter().filter(|arm| arm.targets.contains(target));
                assert_eq!(slowed.count(), PAIRS);
            }
        }
    }
}
