//! Intervals by resampling blocks (bootstrap; Efron, 1979).

use serde::Serialize;

use crate::random::Random;

/// Saved share of the run, 0 to 1; below 0 it became longer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Saved {
    /// At least.
    pub low: f64,
    /// Expected.
    pub mid: f64,
    /// At most.
    pub high: f64,
}

/// Share of intervals that may miss, all targets together.
const MISSES: f64 = 0.05;

/// Resamplings.
const RESAMPLINGS: usize = 300;

impl Saved {
    /// Half of its length.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Without what cannot be: nothing saves more than the whole run.
    pub fn possible(self) -> Self {
        Self {
            high: self.high.min(1.0).max(self.mid),
            ..self
        }
    }

    /// This interval, with an expected value as near to that one as it allows.
    pub(crate) fn with_mid(self, mid: f64) -> Self {
        Self {
            mid: mid.max(self.low).min(self.high),
            ..self
        }
    }

    /// This estimate, with an interval that holds that of another one, too.
    pub fn or(&self, other: &Self) -> Self {
        Self {
            low: self.low.min(other.low),
            mid: self.mid,
            high: self.high.max(other.high),
        }
    }
}

/// The value of a statistic over blocks, with its interval. `comparisons`: intervals that must all
/// hold (Bonferroni). `None` = too few blocks, or it is undefined.
pub(crate) fn resampled<B>(
    blocks: &[B],
    comparisons: usize,
    random: &mut Random,
    statistic: impl Fn(&mut dyn Iterator<Item = &B>) -> Option<f64>,
) -> Option<Saved> {
    if blocks.len() < 2 {
        return None;
    }
    // Without time, as of latencies that no look met, it is no number.
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
    let mid = finite(statistic(&mut blocks.iter()))?;
    let mut values = Vec::with_capacity(RESAMPLINGS);
    for _ in 0..RESAMPLINGS {
        let drawn: Vec<&B> = blocks
            .iter()
            .map(|_| &blocks[random.below(blocks.len())])
            .collect();
        values.extend(finite(statistic(&mut drawn.into_iter())));
    }
    if values.len() < RESAMPLINGS / 2 {
        return None;
    }
    let half = deviation(&values) * deviations(comparisons, blocks.len());
    Some(Saved {
        low: mid - half,
        mid,
        high: mid + half,
    })
}

/// Standard deviations of half an interval of [`resampled`].
pub(crate) fn deviations(comparisons: usize, blocks: usize) -> f64 {
    quantile(MISSES / comparisons.max(1) as f64, blocks)
}

fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let sum: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (sum / n).sqrt()
}

/// Standard deviations of a two-sided interval that misses with this probability, after `n` blocks:
/// the normal quantile, lengthened as Student's t is (expansion in 1/(n-1); Abramowitz and Stegun
/// 26.7.5), and for the deviation being that of n resampled blocks.
fn quantile(misses: f64, n: usize) -> f64 {
    let z = normal_quantile(1.0 - misses / 2.0);
    let v = (n - 1) as f64;
    let t = z
        + (z.powi(3) + z) / (4.0 * v)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * v * v);
    t * (n as f64 / v).sqrt()
}

/// Abramowitz and Stegun 26.2.23, for p from 0.5 to 1; error below 4.5e-4.
fn normal_quantile(p: f64) -> f64 {
    let t = (-2.0 * (1.0 - p).max(1e-12).ln()).sqrt();
    let above = 2.515_517 + 0.802_853 * t + 0.010_328 * t * t;
    let below = 1.0 + 1.432_788 * t + 0.189_269 * t * t + 0.001_308 * t.powi(3);
    t - above / below
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(values: &mut dyn Iterator<Item = &f64>) -> Option<f64> {
        let all: Vec<f64> = values.copied().collect();
        Some(all.iter().sum::<f64>() / all.len() as f64)
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        assert!((normal_quantile(0.975) - 1.96).abs() < 1e-3);
        assert!((quantile(0.05, 1000) - 1.96).abs() < 0.01);
        assert!((quantile(0.05, 5) * (0.8f64).sqrt() - 2.776).abs() < 0.05);
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_promise() {
        let mut random = Random::new(3);
        let mut held = 0;
        for _ in 0..200 {
            // Sums of uniform numbers: mean 0.
            let mut noise = || {
                (0..4)
                    .map(|_| random.below(1000) as f64 - 499.5)
                    .sum::<f64>()
            };
            let blocks: Vec<f64> = (0..8).map(|_| noise()).collect();
            let found = resampled(&blocks, 1, &mut random, mean).unwrap();
            held += u32::from(found.low <= 0.0 && found.high >= 0.0);
        }
        assert!((180..=199).contains(&held), "{held}");
    }

    #[test]
    fn draws_without_a_number_are_left_out() {
        let blocks = [1.0, 1.0, 1.0, f64::INFINITY];
        let least = |values: &mut dyn Iterator<Item = &f64>| values.copied().reduce(f64::max);
        assert!(resampled(&blocks, 1, &mut Random::new(1), least).is_none());
        let last = |values: &mut dyn Iterator<Item = &f64>| {
            let all: Vec<f64> = values.copied().collect();
            let mean = all.iter().filter(|v| v.is_finite()).sum::<f64>() / 4.0;
            Some(if all[0].is_finite() { mean } else { f64::NAN })
        };
        let found = resampled(&blocks, 1, &mut Random::new(1), last).unwrap();
        assert!(found.low.is_finite() && found.high.is_finite(), "{found:?}");
    }

    #[test]
    fn more_comparisons_make_wider_intervals() {
        let blocks = [1.0, 2.0, 3.0, 2.5];
        let width = |n| {
            let found = resampled(&blocks, n, &mut Random::new(1), mean).unwrap();
            found.half_width()
        };
        assert!(width(10) > 1.2 * width(1));
        assert!(resampled(&blocks[..1], 1, &mut Random::new(1), mean).is_none());
    }

    #[test]
    fn an_interval_of_two_estimates_holds_both() {
        let of = |low, mid, high| Saved { low, mid, high };
        assert_eq!(
            of(0.0, 0.1, 0.2).or(&of(0.15, 0.2, 0.25)),
            of(0.0, 0.1, 0.25)
        );
    }
}
