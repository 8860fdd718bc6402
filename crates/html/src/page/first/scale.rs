//! A ratio scale for throughput: equal factors are equally long.

use convoy_model::finding::Gain;

/// Ends that read well.
const ENDS: [f64; 9] = [1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0];
/// Ticks that read well, below and above today's throughput.
const TICKS: [f64; 14] = [
    0.5, 0.8, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0,
];
/// Room that an open interval gets beyond its expectation.
const OPEN_ROOM: f64 = 1.4;
/// Two ticks are at least so far apart, as a share of the scale.
const MIN_TICK_DISTANCE: f64 = 0.18;

#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// Holds today's throughput and all of these.
    pub(super) fn of<'g>(gains: impl IntoIterator<Item = &'g Gain>) -> Self {
        let (mut low, mut high) = (1.0_f64, 1.0_f64);
        for gain in gains {
            low = low.min(gain.low.max(0.1));
            let bound = Some(gain.high).filter(|high| high.is_finite());
            high = high
                .max(bound.unwrap_or(gain.mid * OPEN_ROOM))
                .max(gain.mid);
        }
        let end = ENDS.iter().find(|end| high <= **end);
        Self {
            low,
            high: end.copied().unwrap_or(high.min(1000.0)),
        }
    }

    /// The place of a factor, 0..1.
    pub(super) fn at(self, factor: f64) -> f64 {
        let place = (factor.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln();
        place.clamp(0.0, 1.0)
    }

    /// Factors to label. Today's is always among them.
    pub(super) fn ticks(self) -> Vec<f64> {
        let inside = |tick: &&f64| **tick >= self.low && **tick <= self.high;
        let mut ticks = vec![1.0];
        for &tick in TICKS.iter().filter(inside).rev() {
            let is_apart =
                |other: &f64| (self.at(tick) - self.at(*other)).abs() >= MIN_TICK_DISTANCE;
            if ticks.iter().all(is_apart) {
                ticks.push(tick);
            }
        }
        ticks.sort_by(f64::total_cmp);
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(low: f64, mid: f64, high: f64) -> Gain {
        Gain {
            low,
            mid,
            high,
            ..Gain::none("", "")
        }
    }

    #[test]
    fn equal_factors_are_equally_long() {
        let scale = Scale::of([&gain(1.0, 1.5, 3.9)]);
        assert_eq!((scale.low, scale.high), (1.0, 5.0));
        let [one, two, four] = [1.0, 2.0, 4.0].map(|factor| scale.at(factor));
        assert!(((two - one) - (four - two)).abs() < 1e-9);
        assert_eq!(scale.ticks(), [1.0, 2.0, 3.0, 5.0]);
    }

    #[test]
    fn an_open_interval_ends_beyond_its_expectation() {
        let scale = Scale::of([&gain(0.9, 6.2, f64::INFINITY)]);
        assert_eq!((scale.low, scale.high), (0.9, 10.0));
        assert!(scale.at(6.2) < 0.9 && scale.ticks().contains(&1.0));
        assert_eq!(scale.at(f64::INFINITY), 1.0);
    }
}
