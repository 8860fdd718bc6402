//! Histogram of durations with eight classes to each power of two: quantiles within 6 %.

use super::outcome::WaitPercentiles;

const SUB_BITS: u32 = 3;
const SUB: usize = 1 << SUB_BITS;
const CLASSES: usize = (64 - SUB_BITS as usize + 1) * SUB;

/// Counts by length, in any unit.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; CLASSES],
            max: 0,
        }
    }
}

impl Histogram {
    pub fn add(&mut self, value: u64) {
        self.counts[class(value)] += 1;
        self.max = self.max.max(value);
    }

    pub fn merge(&mut self, other: &Self) {
        for (count, other) in self.counts.iter_mut().zip(&other.counts) {
            *count += other;
        }
        self.max = self.max.max(other.max);
    }

    /// Percentiles, `unit_ns` nanoseconds to a unit.
    pub fn percentiles(&self, unit_ns: f64) -> WaitPercentiles {
        let quantile = |share| self.quantile(share) * unit_ns;
        WaitPercentiles {
            count: self.counts.iter().sum(),
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p95_ns: quantile(0.95),
            p99_ns: quantile(0.99),
            max_ns: self.max as f64 * unit_ns,
        }
    }

    fn quantile(&self, share: f64) -> f64 {
        let total: u64 = self.counts.iter().sum();
        let wanted = ((total as f64 * share).ceil() as u64).max(1);
        let mut below = 0;
        for (class, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= wanted {
                return middle(class).min(self.max as f64);
            }
        }
        0.0
    }
}

fn class(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let exponent = value.ilog2() - SUB_BITS;
    (exponent as usize + 1) * SUB + (value >> exponent) as usize % SUB
}

fn middle(class: usize) -> f64 {
    if class < SUB {
        return class as f64;
    }
    let exponent = (class / SUB - 1) as i32;
    ((SUB + class % SUB) as f64 + 0.5) * 2f64.powi(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_class_is_within_six_percent_of_its_values() {
        for value in (0..64).flat_map(|bit| [1u64 << bit, (1u64 << bit) + (1 << bit) / 3]) {
            let error = (middle(class(value)) - value as f64).abs() / value as f64;
            assert!(error < 0.0626, "{value}: {error}");
        }
        assert!(class(u64::MAX) < CLASSES);
    }

    #[test]
    fn percentiles_of_merged_histograms_are_those_of_all_values() {
        let (mut low, mut high) = (Histogram::default(), Histogram::default());
        (0..90).for_each(|_| low.add(100));
        (0..10).for_each(|_| high.add(10_000));
        low.merge(&high);
        let waits = low.percentiles(2.0);
        assert_eq!(waits.count, 100);
        assert!((waits.p50_ns - 200.0).abs() < 13.0, "{waits:?}");
        assert!((waits.p90_ns - 200.0).abs() < 13.0, "{waits:?}");
        assert!((waits.p95_ns - 20_000.0).abs() < 1300.0, "{waits:?}");
        assert_eq!(waits.max_ns, 20_000.0);
    }

    #[test]
    fn no_values_have_no_percentiles() {
        assert_eq!(
            Histogram::default().percentiles(1.0),
            WaitPercentiles::default()
        );
    }
}
