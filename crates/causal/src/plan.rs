//! Windows in blocks: every block has the baseline, the null experiment and every level of every
//! target once, in random order, so that phases of the program meet all of them alike.

use serde::Serialize;

use crate::estimator::Estimator;
use crate::random::Random;

/// Speed-ups that are tried. Beyond one half, forecasts meet cliffs that no estimator sees: a lock
/// whose waiters begin to park when the code between two acquisitions becomes shorter.
pub const LEVELS: [f64; 2] = [0.25, 0.5];

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

/// What a window tries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arm {
    /// Number of the target; `None` = no target: baseline or null experiment.
    pub target: Option<usize>,
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
        let arm = |target, speedup| Arm {
            target,
            speedup,
            mechanism,
        };
        arms.extend([arm(None, 0.0); BASELINES]);
        if estimator.has_null() {
            arms.extend(levels.iter().map(|level| arm(None, *level)));
        }
        for (target, _) in of {
            arms.extend(levels.iter().map(|level| arm(Some(*target), *level)));
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
                for target in [Some(target), None] {
                    let wanted = Arm {
                        target,
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
        assert!(arms.iter().all(|a| a.target.is_some() || a.speedup == 0.0));
    }
}
