//! Durations by powers of two: differences and quantiles.

use convoy_probes::BUCKETS;

/// Bin `i` counts durations of [2^i, 2^(i+1)) ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    bins: [u64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { bins: [0; BUCKETS] }
    }
}

impl Histogram {
    /// Adds what came between two readings; counters of 32 bits may have wrapped around.
    pub fn add(&mut self, now: &[u32; BUCKETS], before: &[u32; BUCKETS]) {
        for ((bin, now), before) in self.bins.iter_mut().zip(now).zip(before) {
            *bin = bin.saturating_add(u64::from(now.wrapping_sub(*before)));
        }
    }

    /// Adds another one.
    pub fn merge(&mut self, other: &Self) {
        for (bin, more) in self.bins.iter_mut().zip(&other.bins) {
            *bin = bin.saturating_add(*more);
        }
    }

    /// The counts.
    pub fn bins(&self) -> &[u64; BUCKETS] {
        &self.bins
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.bins.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// The duration that a share of them does not exceed, nanoseconds, by linear interpolation
    /// inside its bin: at most a factor of two off. `None` of no durations.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let count = self.count();
        let wanted = share.clamp(0.0, 1.0) * count as f64;
        let mut below = 0.0;
        for (ix, n) in self.bins.iter().enumerate().filter(|(_, n)| **n > 0) {
            let n = *n as f64;
            if below + n >= wanted {
                let low = (ix as f64).exp2();
                return Some(low * (1.0 + (wanted - below) / n));
            }
            below += n;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bins: &[(usize, u32)]) -> Histogram {
        let mut now = [0; BUCKETS];
        bins.iter().for_each(|(ix, n)| now[*ix] = *n);
        let mut histogram = Histogram::default();
        histogram.add(&now, &[0; BUCKETS]);
        histogram
    }

    #[test]
    fn quantiles_lie_in_the_bin_that_holds_them() {
        let histogram = of(&[(4, 90), (10, 10)]);
        let median = histogram.quantile(0.5).unwrap();
        assert!((16.0..32.0).contains(&median), "{median}");
        let high = histogram.quantile(0.99).unwrap();
        assert!((1024.0..2048.0).contains(&high), "{high}");
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn counters_that_wrapped_around_are_still_differences() {
        let mut histogram = Histogram::default();
        let (mut now, mut before) = ([0; BUCKETS], [0; BUCKETS]);
        (now[3], before[3]) = (2, u32::MAX);
        histogram.add(&now, &before);
        assert_eq!(histogram.count(), 3);
    }
}
