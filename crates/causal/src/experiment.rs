//! The course of experiments: which window comes next, and when enough is known.

use crate::consistent::{consistent, Estimate};
use crate::estimator::Estimator;
use crate::factorial::Sums;
use crate::interval::{deviations, resampled, Saved};
use crate::plan::{block, Arm, Measured, Mechanism, TargetSet, FACTORIAL};
use crate::random::Random;

/// How far to go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Way to measure.
    pub estimator: Estimator,
    /// A target is settled when the half-width of its interval at the highest level is below this
    /// share of the run.
    pub precision: f64,
    /// Seed of the order of windows.
    pub seed: u64,
}

/// Blocks before which no target is settled, and no number is given.
pub const BLOCKS_LEAST: usize = 6;

/// Experiments that are under way.
#[derive(Debug)]
pub struct Experiment {
    settings: Settings,
    mechanisms: Vec<Mechanism>,
    settled: Vec<bool>,
    random: Random,
    /// Arms of the block at hand that are still to come, last first.
    pending: Vec<Arm>,
    current: Vec<(Arm, Measured)>,
    blocks: Vec<Vec<(Arm, Measured)>>,
}

impl Experiment {
    /// With targets whose code is measured in these ways.
    pub fn new(mechanisms: Vec<Mechanism>, settings: Settings) -> Self {
        Self {
            settled: vec![false; mechanisms.len()],
            random: Random::new(settings.seed),
            mechanisms,
            settings,
            pending: Vec::new(),
            current: Vec::new(),
            blocks: Vec::new(),
        }
    }

    /// Experiments that are over. `blocks`: all that they measured.
    pub(crate) fn over(
        mechanisms: Vec<Mechanism>,
        settings: Settings,
        blocks: Vec<Vec<(Arm, Measured)>>,
    ) -> Self {
        Self {
            blocks,
            ..Self::new(mechanisms, settings)
        }
    }

    /// The windows of whole blocks, with what each measured.
    pub fn blocks(&self) -> &[Vec<(Arm, Measured)>] {
        &self.blocks
    }

    /// What the next window is to try; `None` = all targets are settled.
    pub fn next_arm(&mut self) -> Option<Arm> {
        if self.pending.is_empty() {
            // Targets of F share their windows: one that is settled costs nothing.
            let is_joint = self.settings.estimator == Estimator::Factorial;
            let is_open = |target: &usize| !self.settled[*target];
            let all = 0..self.mechanisms.len();
            let keeps_all = is_joint && all.clone().any(|target| is_open(&target));
            let open = all.filter(|target| keeps_all || is_open(target));
            let open: Vec<_> = open.map(|t| (t, self.mechanisms[t])).collect();
            self.pending = block(&open, self.settings.estimator, &mut self.random);
        }
        self.pending.last().copied()
    }

    /// Windows of a whole block of all targets.
    pub fn windows_per_block(&self) -> usize {
        let all: Vec<_> = self.mechanisms.iter().copied().enumerate().collect();
        block(&all, self.settings.estimator, &mut Random::new(0)).len()
    }

    /// What the window of [`Self::next_arm`] measured.
    pub fn add(&mut self, measured: Measured) {
        let Some(arm) = self.pending.pop() else {
            return;
        };
        self.current.push((arm, measured));
        if !self.pending.is_empty() {
            return;
        }
        self.blocks.push(std::mem::take(&mut self.current));
        for target in 0..self.mechanisms.len() {
            self.settled[target] = self.settled[target] || self.is_narrow(target);
        }
    }

    /// Windows in whole blocks so far.
    pub fn windows(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }

    fn is_narrow(&self, target: usize) -> bool {
        let levels = self.settings.estimator.levels();
        let last = levels.last().copied().unwrap_or_default();
        let found = self.raw(TargetSet::one(target), self.mechanisms[target], last);
        found.is_some_and(|found| found.half_width() <= self.settings.precision)
    }

    /// What a target that is faster by `speedup` would save; `None` = too few windows had progress.
    pub fn saved(&self, target: usize, speedup: f64) -> Option<Saved> {
        let mechanism = *self.mechanisms.get(target)?;
        if !self.settings.estimator.is_biased() {
            let raw = self.raw(TargetSet::one(target), mechanism, speedup)?;
            return Some(raw.possible());
        }
        let levels = self.settings.estimator.levels();
        let all = levels.iter();
        let all = all.map(|level| self.beside_null(target, mechanism, *level));
        let all: Vec<Estimate> = all.collect::<Option<_>>()?;
        let shrunk: Vec<Estimate> = all.into_iter().map(Estimate::shrunk).collect();
        let mut found = levels.iter().zip(consistent(levels, &shrunk));
        let (_, saved) = found.find(|(level, _)| **level == speedup)?;
        Some(saved)
    }

    /// The same from the windows of this speed-up alone, with the null experiment.
    fn beside_null(&self, target: usize, mechanism: Mechanism, speedup: f64) -> Option<Estimate> {
        let own = TargetSet::one(target);
        let raw = self.estimate(own, mechanism, speedup, Basis::Nothing)?;
        let beyond = self.estimate(own, mechanism, speedup, Basis::Null);
        let beyond = beyond.unwrap_or(raw);
        let is_tried = |block: &&Vec<(Arm, Measured)>| {
            let mut arms = block.iter();
            arms.any(|(arm, _)| arm.targets == own && arm.speedup == speedup)
        };
        let blocks = self.blocks.iter().filter(is_tried).count();
        let half = (raw.half_width() + beyond.half_width()) / 2.0;
        let noise = half / deviations(self.mechanisms.len(), blocks);
        Some(Estimate {
            saved: corrected(&raw, beyond).possible(),
            deviation: noise.hypot((raw.mid - beyond.mid) * UNIFORM_DEVIATION),
        })
    }

    /// Windows of a target by speed-up, where there is a number.
    pub(crate) fn levels(&self, target: usize) -> Vec<LevelWindows> {
        let estimator = self.settings.estimator;
        let level = |speedup: &f64| {
            let mechanism = *self.mechanisms.get(target)?;
            let saved = self.saved(target, *speedup)?;
            let is_joint = estimator == Estimator::Factorial;
            let is_own = |arm: &Arm| {
                let is_level = is_joint || arm.speedup == *speedup;
                arm.targets.contains(target) && is_level
            };
            let is_base = |arm: &Arm| {
                let is_without = !arm.targets.contains(target) && is_joint;
                arm.mechanism == mechanism
                    && (is_without || arm.targets.is_empty() && arm.speedup == 0.0)
            };
            let tried = self.blocks.iter();
            let tried = tried.filter(|block| block.iter().any(|(arm, _)| is_own(arm)));
            let of = |wanted: &dyn Fn(&Arm) -> bool| -> Vec<Measured> {
                let all = tried.clone().flatten();
                all.filter(|(arm, _)| wanted(arm))
                    .map(|(_, m)| *m)
                    .collect()
            };
            let (windows, baseline) = (of(&is_own), of(&is_base));
            let (at, base) = (Sum::of(&windows), Sum::of(&baseline));
            let ratio = at.seconds_per_unit()? / base.seconds_per_unit()?;
            Some(LevelWindows {
                speedup: *speedup,
                scale: (1.0 - saved.mid) / ratio,
                windows,
                baseline,
            })
        };
        estimator.levels().iter().filter_map(level).collect()
    }

    /// What the null experiment of a mechanism predicts: 0 but for bias and noise.
    pub fn null(&self, mechanism: Mechanism, speedup: f64) -> Option<Saved> {
        self.raw(TargetSet::NONE, mechanism, speedup)
    }

    /// Saved share of the run, from windows at this speed-up and without.
    fn saved_of(&self, speedup: f64, at: &Sum, base: &Sum) -> Option<f64> {
        let estimator = self.settings.estimator;
        let at = at.seconds_per_unit_with(estimator.owed(speedup))?;
        Some(estimator.saved(speedup, at / base.seconds_per_unit()?))
    }

    fn raw(&self, targets: TargetSet, mechanism: Mechanism, speedup: f64) -> Option<Saved> {
        match self.settings.estimator {
            Estimator::Factorial => self.slope(targets, mechanism, speedup),
            _ => self.estimate(targets, mechanism, speedup, Basis::Nothing),
        }
    }

    /// Finds by F what a target adds when it is slowed; for no target, what one adds that does not
    /// exist and is in half of each block's windows at random.
    fn slope(&self, targets: TargetSet, mechanism: Mechanism, speedup: f64) -> Option<Saved> {
        let of_mechanism = (0..self.mechanisms.len()).filter(|t| self.mechanisms[*t] == mechanism);
        let numbers: Vec<usize> = of_mechanism.collect();
        // Each block has as many settings as pairs: fewer blocks than targets tell nothing of each.
        if self.blocks.len() < BLOCKS_LEAST.max(numbers.len()) {
            return None;
        }
        let is_own = |number: &usize| targets.contains(*number);
        let column = numbers.iter().position(is_own).unwrap_or(numbers.len());
        let columns = numbers.len().max(column + 1);
        let mut random = Random::new(self.settings.seed ^ self.blocks.len() as u64);
        let sums = |block: &Vec<(Arm, Measured)>| {
            let windows = block.iter().filter(|(arm, _)| arm.mechanism == mechanism);
            let windows: Vec<_> = windows.collect();
            let mut is_null: Vec<bool> = (0..windows.len()).map(|n| n % 2 == 0).collect();
            random.shuffle(&mut is_null);
            let mut sums = Sums::new(columns);
            for ((arm, measured), is_null) in windows.into_iter().zip(is_null) {
                let is_slowed = |n: usize| match numbers.get(n) {
                    Some(number) => arm.targets.contains(*number),
                    None => is_null,
                };
                sums.add(is_slowed, measured.seconds, measured.progress);
            }
            sums
        };
        let blocks: Vec<Sums> = self.blocks.iter().map(sums).collect();
        resampled(&blocks, self.mechanisms.len(), &mut random, |drawn| {
            let mut all = Sums::new(columns);
            drawn.for_each(|block| all.plus(block));
            Some(all.slope(column)? / FACTORIAL * speedup)
        })
    }

    fn estimate(
        &self,
        targets: TargetSet,
        mechanism: Mechanism,
        speedup: f64,
        basis: Basis,
    ) -> Option<Saved> {
        let is_of = |arm: &Arm, targets, speedup| {
            *arm == Arm {
                targets,
                speedup,
                mechanism,
            }
        };
        // Only blocks in which it was tried: their baselines are of the same phases.
        let tried = |block: &&Vec<(Arm, Measured)>| {
            let mut arms = block.iter();
            arms.any(|(arm, _)| is_of(arm, targets, speedup))
        };
        let blocks: Vec<_> = self.blocks.iter().filter(tried).collect();
        if blocks.len() < BLOCKS_LEAST {
            return None;
        }
        let mut random = Random::new(self.settings.seed ^ blocks.len() as u64);
        let comparisons = self.mechanisms.len();
        resampled(&blocks, comparisons, &mut random, |drawn| {
            let mut at = Sum::default();
            let mut base = Sum::default();
            let mut null = Sum::default();
            for (arm, measured) in drawn.flat_map(|block| block.iter()) {
                if is_of(arm, targets, speedup) {
                    at.add(measured);
                } else if is_of(arm, TargetSet::NONE, 0.0) {
                    base.add(measured);
                } else if is_of(arm, TargetSet::NONE, speedup) {
                    null.add(measured);
                }
            }
            let saved = self.saved_of(speedup, &at, &base)?;
            match basis {
                Basis::Nothing => Some(saved),
                Basis::Null => Some(saved - self.saved_of(speedup, &null, &base)?),
            }
        })
    }
}

/// Standard deviation of a number of which nothing but its two bounds is known, over their distance:
/// 12^-0.5.
const UNIFORM_DEVIATION: f64 = 0.288_675;

/// An estimate and the same beyond the null experiment's, as one.
///
/// A null above 0 is time that was not lengthened: the target may make it shorter or not. Below 0 it
/// is what lengthening costs: a target that is not lengthened may have less of that, or hold up those
/// who pay it. Between none and all of it is the target's, and half is expected (judgement; tried in
/// bench/results/2026-11-29-causal-xeon.md).
fn corrected(raw: &Saved, beyond_null: Saved) -> Saved {
    Saved {
        mid: (raw.mid + beyond_null.mid) / 2.0,
        ..beyond_null.or(raw)
    }
}

/// The value that an estimate starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Basis {
    /// Zero: the estimate is what was measured.
    Nothing,
    /// The null experiment's prediction: the target saves the difference. That is less noisy, too, as
    /// both have the same baseline.
    Null,
}

/// Windows of a target at one speed-up.
#[derive(Debug)]
pub(crate) struct LevelWindows {
    pub speedup: f64,
    /// Time with the faster target over the measured one.
    pub scale: f64,
    pub windows: Vec<Measured>,
    /// Windows without a target in the same blocks.
    pub baseline: Vec<Measured>,
}

#[derive(Debug, Default)]
struct Sum(Measured);

impl Sum {
    fn of(windows: &[Measured]) -> Self {
        let mut sum = Self::default();
        windows.iter().for_each(|window| sum.add(window));
        sum
    }

    fn add(&mut self, measured: &Measured) {
        self.0.seconds += measured.seconds;
        self.0.progress += measured.progress;
        self.0.capacity_seconds += measured.capacity_seconds;
        self.0.cpu_seconds += measured.cpu_seconds;
        self.0.calls_seconds += measured.calls_seconds;
    }

    fn seconds_per_unit(&self) -> Option<f64> {
        (self.0.progress > 0.0).then(|| self.0.seconds / self.0.progress)
    }

    /// As if calls had taken longer by `owed` of their time, too: at least as long as the CPUs
    /// would need for all that.
    fn seconds_per_unit_with(&self, owed: f64) -> Option<f64> {
        let needed = self.0.cpu_seconds + owed * self.0.calls_seconds;
        let there = self.0.capacity_seconds.max(self.0.cpu_seconds);
        let longer = if there > 0.0 { needed / there } else { 1.0 };
        Some(self.seconds_per_unit()? * longer.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings {
        estimator: Estimator::Dilate,
        precision: 0.04,
        seed: 1,
    };

    /// A serial program in which each target takes this share of the time; `noise`: of a window.
    fn run(shares: &[f64], noise: f64, blocks: usize) -> Experiment {
        run_by(Estimator::Dilate, shares, noise, blocks)
    }

    fn run_by(estimator: Estimator, shares: &[f64], noise: f64, blocks: usize) -> Experiment {
        let mechanisms = vec![Mechanism::Sampled; shares.len()];
        let settings = Settings {
            estimator,
            ..SETTINGS
        };
        let mut experiment = Experiment::new(mechanisms, settings);
        let mut random = Random::new(9);
        let most = blocks * experiment.windows_per_block();
        for _ in 0..most {
            let Some(arm) = experiment.next_arm() else {
                break;
            };
            let share: f64 = arm.targets.numbers().map(|t| shares[t]).sum();
            let k = 1.0 + estimator.factor(arm.speedup);
            let time = match estimator {
                Estimator::Dilate => share + (1.0 - share) * k,
                _ => share * k + 1.0 - share,
            };
            let error = 1.0 + noise * (random.below(1001) as f64 / 500.0 - 1.0);
            experiment.add(Measured {
                seconds: 0.03,
                progress: 1000.0 / (time * error),
                ..Measured::default()
            });
        }
        experiment
    }

    #[test]
    fn targets_are_worth_their_share_and_decoys_nothing() {
        let experiment = run(&[0.8, 0.0], 0.05, 100);
        for (target, truth) in [(0, 0.4), (1, 0.0)] {
            let saved = experiment.saved(target, 0.5).unwrap();
            assert!(saved.low <= truth && truth <= saved.high, "{saved:?}");
            assert!(saved.half_width() < 0.06, "{saved:?}");
        }
        let null = experiment.null(Mechanism::Sampled, 0.5).unwrap();
        assert!(null.low <= 0.0 && 0.0 <= null.high, "{null:?}");
    }

    #[test]
    fn factorial_windows_give_every_target_its_own_share() {
        let experiment = run_by(Estimator::Factorial, &[0.5, 0.3, 0.0], 0.05, 100);
        for (target, truth) in [(0, 0.25), (1, 0.15), (2, 0.0)] {
            let saved = experiment.saved(target, 0.5).unwrap();
            assert!(saved.low <= truth && truth <= saved.high, "{saved:?}");
            assert!(saved.half_width() <= SETTINGS.precision, "{saved:?}");
        }
        let null = experiment.null(Mechanism::Sampled, 0.5).unwrap();
        assert!(null.low <= 0.0 && 0.0 <= null.high, "{null:?}");
        assert!(experiment.windows() < 100 * experiment.windows_per_block());
    }

    #[test]
    fn noise_takes_more_windows_until_a_target_is_settled() {
        let (quiet, noisy) = (run(&[0.5], 0.01, 200), run(&[0.5], 0.2, 200));
        assert_eq!(quiet.windows(), BLOCKS_LEAST * quiet.windows_per_block());
        assert!(noisy.windows() > 2 * quiet.windows());
    }

    #[test]
    fn calls_that_are_not_lengthened_become_the_next_bottleneck() {
        // On two CPUs: a lock held for 0.9 of the time, 0.1 of work and 0.6 of calls outside. With
        // half of the section the CPUs need (0.45 + 0.1 + 0.6) / 2 = 0.575 for a unit.
        let mut experiment = Experiment::new(vec![Mechanism::Measured], SETTINGS);
        for _ in 0..BLOCKS_LEAST * experiment.windows_per_block() {
            let Some(arm) = experiment.next_arm() else {
                break;
            };
            let k = 1.0 + Estimator::Dilate.factor(arm.speedup);
            let section = if arm.targets.is_empty() { 0.9 * k } else { 0.9 };
            experiment.add(Measured {
                seconds: section,
                progress: 1.0,
                capacity_seconds: 2.0 * section,
                cpu_seconds: section + 0.1 * k + 0.6,
                calls_seconds: 0.6,
            });
        }
        let saved = experiment
            .raw(TargetSet::one(0), Mechanism::Measured, 0.5)
            .unwrap();
        let truth = 1.0 - 0.575 / 0.9;
        assert!((saved.mid - truth).abs() < 1e-9, "{saved:?}, not {truth}");
        let null = experiment.null(Mechanism::Measured, 0.5).unwrap();
        assert!(null.mid.abs() < 1e-9, "{null:?}");
    }

    #[test]
    fn half_of_the_null_is_the_targets() {
        let around = |mid: f64| Saved {
            low: mid - 0.01,
            mid,
            high: mid + 0.01,
        };
        // Lengthening costs a tenth; a tenth is not lengthened.
        let costly = corrected(&around(0.0), around(0.1));
        let unlengthened = corrected(&around(0.3), around(0.2));
        for (saved, low, mid, high) in [
            (costly, -0.01, 0.05, 0.11),
            (unlengthened, 0.19, 0.25, 0.31),
        ] {
            let apart = [saved.low - low, saved.mid - mid, saved.high - high];
            assert!(apart.iter().all(|apart| apart.abs() < 1e-9), "{saved:?}");
        }
    }

    #[test]
    fn a_block_has_the_windows_that_its_targets_are_said_to_need() {
        for targets in 1..4 {
            let experiment = Experiment::new(vec![Mechanism::Sampled; targets], SETTINGS);
            let windows = crate::plan::windows_of_targets(targets);
            assert_eq!(experiment.windows_per_block(), windows);
        }
    }

    #[test]
    fn few_blocks_give_no_number() {
        let experiment = run(&[0.5], 0.01, BLOCKS_LEAST - 1);
        assert_eq!(experiment.saved(0, 0.5), None);
        assert_eq!(experiment.saved(7, 0.5), None);
    }

    #[test]
    fn windows_without_progress_give_no_number() {
        let mut experiment = Experiment::new(vec![Mechanism::Measured], SETTINGS);
        for _ in 0..20 * experiment.windows_per_block() {
            experiment.next_arm();
            experiment.add(Measured {
                seconds: 0.03,
                ..Measured::default()
            });
        }
        assert_eq!(experiment.saved(0, 0.25), None);
    }
}
