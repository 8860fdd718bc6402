//! SyncPerf's plane: frequency against contention rate (section 3.1 of the paper).

use crate::params::Params;
use crate::tables::counters::Quadrant;

/// The quadrant of a contention rate (`None`: not observable) and a frequency.
pub(crate) fn quadrant(contention_ratio: Option<f64>, frequency_hz: f64, t: &Params) -> Quadrant {
    let Some(ratio) = contention_ratio else {
        return Quadrant::Unknown;
    };
    match (ratio > t.contention_ratio, frequency_hz > t.frequency_hz) {
        (true, false) => Quadrant::Q1,
        (true, true) => Quadrant::Q2,
        (false, true) => Quadrant::Q4,
        (false, false) => Quadrant::Q3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_exclusive() {
        let t = Params::default();
        assert_eq!(quadrant(Some(0.10), 1000.0, &t), Quadrant::Q3);
        assert_eq!(quadrant(Some(0.11), 1000.0, &t), Quadrant::Q1);
        assert_eq!(quadrant(Some(0.11), 1001.0, &t), Quadrant::Q2);
        assert_eq!(quadrant(Some(0.02), 200_000.0, &t), Quadrant::Q4);
        assert_eq!(quadrant(None, 200_000.0, &t), Quadrant::Unknown);
    }
}
