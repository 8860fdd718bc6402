//! Interval of a ratio that was measured in pairs, without assumptions about its distribution.

use serde::{Deserialize, Serialize};

use crate::stats::Sample;

/// A median with an interval that holds the true one with a known probability.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Median of the measurements.
    pub mid: f64,
    /// Upper end.
    pub high: f64,
    /// Probability that the true median lies between the ends, 0..1: that of the narrowest interval
    /// with at least 0.9, or of the widest if none has so much.
    pub level: f64,
}

impl Interval {
    /// Interval of the median by the sign test (order statistics): between the k-th smallest and
    /// the k-th greatest of n measurements it lies with probability 1 - 2 P(B(n, 1/2) < k).
    ///
    /// One measurement has an interval of no width, with probability 0.
    pub fn of_median(values: impl IntoIterator<Item = f64>) -> Self {
        const WANTED: f64 = 0.9;
        let sample = Sample::new(values.into_iter().collect());
        let values = sample.values();
        let (Some(&first), Some(&last)) = (values.first(), values.last()) else {
            return Self::default();
        };
        let mut interval = Self {
            low: first,
            mid: sample.median(),
            high: last,
            level: level(values.len(), 1),
        };
        for k in 2..=values.len() / 2 {
            let level = level(values.len(), k);
            if level < WANTED {
                break;
            }
            interval.low = values[k - 1];
            interval.high = values[values.len() - k];
            interval.level = level;
        }
        interval
    }

    /// (high - low) / mid; 0 if the median is.
    pub fn relative_width(&self) -> f64 {
        if self.mid > 0.0 {
            (self.high - self.low) / self.mid
        } else {
            0.0
        }
    }
}

/// Probability that a median lies between the k-th smallest and the k-th greatest of n.
fn level(n: usize, k: usize) -> f64 {
    // P(B(n, 1/2) = 0), then by the ratio of neighbouring binomial coefficients.
    let mut term = 0.5f64.powi(n as i32);
    let mut below = 0.0;
    for successes in 0..k {
        below += term;
        term *= (n - successes) as f64 / (successes + 1) as f64;
    }
    (1.0 - 2.0 * below).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_pairs_have_the_interval_of_all_of_them() {
        let interval = Interval::of_median([1.3, 1.1, 1.2, 1.5, 1.4]);
        assert_eq!((interval.low, interval.mid, interval.high), (1.1, 1.3, 1.5));
        assert_eq!(interval.level, 0.9375);
    }

    #[test]
    fn ten_pairs_leave_an_outlier_on_each_side_out() {
        let values = (1..=10).map(f64::from);
        let interval = Interval::of_median(values);
        assert_eq!((interval.low, interval.mid, interval.high), (2.0, 5.5, 9.0));
        assert!((interval.level - 0.978_515_625).abs() < 1e-12);
    }

    #[test]
    fn few_measurements_say_how_little_they_are_worth() {
        assert_eq!(Interval::of_median([]), Interval::default());
        let one = Interval::of_median([2.0]);
        assert_eq!((one.low, one.high, one.level), (2.0, 2.0, 0.0));
        assert_eq!(Interval::of_median([2.0, 4.0]).level, 0.5);
        assert_eq!(Interval::of_median([2.0, 4.0]).relative_width(), 2.0 / 3.0);
    }
}
