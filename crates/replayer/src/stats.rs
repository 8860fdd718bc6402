//! Quantiles of measurements.

use serde::{Deserialize, Serialize};

/// Measurements, in ascending order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Sorts measurements; those that are not numbers are dropped.
    pub fn new(mut values: Vec<f64>) -> Self {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// The smallest measurement that a share of all do not exceed; 0 without any.
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = (self.0.len() as f64 * share) as usize;
        let last = self.0.len().saturating_sub(1);
        self.0.get(rank.min(last)).copied().unwrap_or(0.0)
    }

    /// Half of them are smaller; the mean of the middle two of an even number.
    pub fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        if self.0.is_empty() {
            0.0
        } else if self.0.len() % 2 == 0 {
            (self.0[middle - 1] + self.0[middle]) / 2.0
        } else {
            self.0[middle]
        }
    }

    /// Distance of the quartiles, relative to the median; 0 without measurements.
    pub fn relative_quartiles(&self) -> f64 {
        let median = self.median();
        if median > 0.0 {
            (self.quantile(0.75) - self.quantile(0.25)) / median
        } else {
            0.0
        }
    }

    /// Least, median, greatest.
    pub fn range(&self) -> Range {
        Range {
            min: self.0.first().copied().unwrap_or(0.0),
            median: self.median(),
            max: self.0.last().copied().unwrap_or(0.0),
        }
    }

    /// In ascending order.
    pub fn values(&self) -> &[f64] {
        &self.0
    }
}

/// Least, median and greatest of several measurements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Least.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Greatest.
    pub max: f64,
}

impl Range {
    /// Of some measurements; zeros without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        Sample::new(values.into_iter().collect()).range()
    }

    /// (max - min) / median; 0 if the median is.
    pub fn relative_width(&self) -> f64 {
        if self.median > 0.0 {
            (self.max - self.min) / self.median
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_few_measurements_are_measurements() {
        let sample = Sample::new(vec![3.0, f64::NAN, 1.0, 2.0]);
        assert_eq!(sample.values(), [1.0, 2.0, 3.0]);
        assert_eq!(sample.median(), 2.0);
        assert_eq!(sample.quantile(0.1), 1.0);
        assert_eq!(sample.quantile(1.0), 3.0);
        assert_eq!(Sample::new(vec![1.0, 3.0]).median(), 2.0);
        assert_eq!(Sample::default().median(), 0.0);
        assert_eq!(Sample::default().quantile(0.5), 0.0);
    }

    #[test]
    fn width_of_a_range_is_relative_to_its_median() {
        assert_eq!(Range::of([10.0, 8.0, 13.0]).relative_width(), 0.5);
        assert_eq!(Range::of([]).relative_width(), 0.0);
    }
}
