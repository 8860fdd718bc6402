//! Shares of time with their confidence interval, and the verdicts that follow.

/// A share of some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// From 0 to 1, and more only by errors of measurement.
    pub mean: f64,
    /// 95 % confidence interval.
    pub low: f64,
    /// See `low`.
    pub high: f64,
}

/// What a measurement says of a hypothesis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The share is above the threshold.
    True,
    /// It is below.
    False,
    /// It could not be measured, or is too near the threshold.
    Unknown,
}

impl Verdict {
    /// As in JSON and text.
    pub fn name(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::False => "false",
            Self::Unknown => "unknown",
        }
    }
}

/// Intervals from which a share has a confidence interval.
const FEWEST: usize = 3;

/// Student's t, 97.5 %, from 2 degrees of freedom on.
const T: [f64; 9] = [4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];

/// Student's t for many.
const T_MANY: f64 = 2.1;

/// Quantile of the normal distribution, 97.5 %.
const Z: f64 = 1.96;

impl Share {
    /// Of a ratio of sums over intervals of time: parts and wholes. `None` = there are too few, or
    /// the whole is 0. Variance by linearization (Cochran, Sampling Techniques, 1977, 6.4).
    pub fn of_intervals(pairs: &[(f64, f64)]) -> Option<Self> {
        let n = pairs.len();
        let (part, whole) = pairs
            .iter()
            .fold((0.0, 0.0), |(p, w), (part, all)| (p + part, w + all));
        if n < FEWEST || whole <= 0.0 {
            return None;
        }
        let mean = part / whole;
        let squares = pairs.iter().map(|(p, w)| (p - mean * w).powi(2));
        let variance = squares.sum::<f64>() / ((n - 1) * n) as f64;
        let error = variance.sqrt() / (whole / n as f64);
        let margin = T.get(n - FEWEST).copied().unwrap_or(T_MANY) * error;
        Some(Self {
            mean,
            low: (mean - margin).max(0.0),
            high: mean + margin,
        })
    }

    /// Of samples: Wilson's interval. `None` = there are none.
    pub fn of_samples(hits: f64, all: f64) -> Option<Self> {
        if all <= 0.0 {
            return None;
        }
        let mean = (hits / all).clamp(0.0, 1.0);
        let square = Z * Z / all;
        let middle = (mean + square / 2.0) / (1.0 + square);
        let spread = mean * (1.0 - mean) / all + square / (4.0 * all);
        let margin = Z * spread.sqrt() / (1.0 + square);
        Some(Self {
            mean,
            low: (middle - margin).max(0.0),
            high: (middle + margin).min(1.0),
        })
    }

    /// A share that is known exactly.
    pub fn exact(mean: f64) -> Self {
        Self {
            mean,
            low: mean,
            high: mean,
        }
    }

    /// Compares it with a threshold.
    pub fn verdict(&self, threshold: f64) -> Verdict {
        if self.low >= threshold {
            Verdict::True
        } else if self.high < threshold {
            Verdict::False
        } else {
            Verdict::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_shares_have_a_narrow_interval() {
        let share = Share::of_intervals(&[(0.5, 1.0), (0.52, 1.0), (0.48, 1.0), (0.5, 1.0)]);
        let share = share.unwrap();
        assert!((share.mean - 0.5).abs() < 1e-9);
        assert!(share.low > 0.45 && share.high < 0.55, "{share:?}");
        assert_eq!(share.verdict(0.2), Verdict::True);
        assert_eq!(share.verdict(0.8), Verdict::False);
    }

    #[test]
    fn shares_that_vary_around_the_threshold_are_unknown() {
        let share = Share::of_intervals(&[(0.0, 1.0), (0.5, 1.0), (0.1, 1.0), (0.3, 1.0)]);
        assert_eq!(share.unwrap().verdict(0.2), Verdict::Unknown);
    }

    #[test]
    fn too_little_time_is_no_share() {
        assert_eq!(Share::of_intervals(&[(0.5, 1.0); 2]), None);
        assert_eq!(Share::of_intervals(&[(0.0, 0.0); 4]), None);
        assert_eq!(Share::of_samples(0.0, 0.0), None);
    }

    #[test]
    fn few_samples_decide_nothing() {
        let few = Share::of_samples(1.0, 4.0).unwrap();
        assert_eq!(few.verdict(0.2), Verdict::Unknown);
        let many = Share::of_samples(250.0, 1000.0).unwrap();
        assert_eq!(many.verdict(0.2), Verdict::True);
        assert!(many.low > 0.22 && many.high < 0.28, "{many:?}");
    }
}
