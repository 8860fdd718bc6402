//! The interval of a gain.

use serde::Serialize;

/// A gain with its bounds, as throughput after / throughput now: 1 = none, 2 = twice as fast.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// At least.
    pub low: f64,
    /// Expected.
    pub mid: f64,
    /// At most; `None` = nothing bounds it.
    pub high: Option<f64>,
}

impl Interval {
    /// Low, expected and high, put in order.
    pub fn new(low: f64, mid: f64, high: f64) -> Self {
        Self {
            low: low.min(mid),
            mid,
            high: Some(high.max(mid)),
        }
    }

    /// The gain of a change that saves shares of the run time, each below 1.
    pub fn of_saved(low: f64, mid: f64, high: f64) -> Self {
        let gain = |saved: f64| 1.0 / (1.0 - saved.min(MOST_SAVED));
        Self::new(gain(low), gain(mid), gain(high))
    }

    /// The share of the run time that each bound saves: low, expected, high.
    pub fn saved(&self) -> (f64, f64, Option<f64>) {
        let saved = |gain: f64| 1.0 - 1.0 / gain.max(f64::MIN_POSITIVE);
        (saved(self.low), saved(self.mid), self.high.map(saved))
    }

    /// Whether a gain lies inside.
    pub fn holds(&self, gain: f64) -> bool {
        self.low <= gain && self.high.is_none_or(|high| gain <= high)
    }

    /// High over low; `None` = nothing bounds it.
    pub fn width(&self) -> Option<f64> {
        self.high.map(|high| high / self.low)
    }

    /// The smallest interval that holds both; expected is the mean of both on the scale of factors.
    pub fn union(&self, other: &Self) -> Self {
        Self {
            low: self.low.min(other.low),
            mid: (self.mid * other.mid).sqrt(),
            high: self.high.zip(other.high).map(|(a, b)| a.max(b)),
        }
    }

    /// What both allow, with this one's expectation as far as it is inside; `None` = nothing.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let low = self.low.max(other.low);
        let high = match (self.high, other.high) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if high.is_some_and(|high| high < low) {
            return None;
        }
        let mid = self.mid.max(low).min(high.unwrap_or(f64::INFINITY));
        Some(Self { low, mid, high })
    }
}

/// A share of the run that a change can save at most in a number: beyond it the number means nothing.
const MOST_SAVED: f64 = 0.999;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_share_and_gain_are_two_names_of_one_thing() {
        let half = Interval::of_saved(0.2, 0.5, 0.75);
        assert_eq!((half.mid, half.high), (2.0, Some(4.0)));
        assert!((half.low - 1.25).abs() < 1e-12);
        let (low, mid, high) = half.saved();
        assert!((low - 0.2).abs() < 1e-12 && (mid - 0.5).abs() < 1e-12);
        assert!((high.unwrap() - 0.75).abs() < 1e-12);
    }

    #[test]
    fn a_change_that_costs_time_has_a_gain_below_one() {
        assert!((Interval::of_saved(-0.25, -0.25, 0.0).low - 0.8).abs() < 1e-12);
    }

    #[test]
    fn an_interval_without_a_bound_holds_every_larger_gain() {
        let open = Interval {
            low: 1.2,
            mid: 1.4,
            high: None,
        };
        assert!(open.holds(300.0) && !open.holds(1.1));
        assert_eq!(open.width(), None);
        let closed = Interval::new(1.0, 1.5, 2.0);
        assert_eq!(
            closed.intersection(&open),
            Some(Interval::new(1.2, 1.5, 2.0))
        );
        assert_eq!(closed.union(&open).high, None);
    }

    #[test]
    fn intervals_apart_have_no_intersection() {
        let (a, b) = (Interval::new(1.0, 1.1, 1.2), Interval::new(1.5, 2.0, 3.0));
        assert_eq!(a.intersection(&b), None);
    }
}
