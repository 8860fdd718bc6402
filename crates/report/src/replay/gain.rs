//! Gains of a replay's answers, in the one form that a person reads.

use convoy_estimate::Interval;
use convoy_replay::predict::{Answer, Saved};

use crate::human;

/// Share of the wall time below which a saving is within the errors of the replays.
pub const MIN_SAVED: f64 = 0.03;

/// The gain of a saving; a saving of all the time bounds nothing.
pub fn interval(saved: &Saved) -> Interval {
    let gain = Interval::of_saved(saved.low, saved.mid, saved.high);
    Interval {
        high: gain.high.filter(|_| is_bounded(saved)),
        ..gain
    }
}

/// Whether the saving has an upper bound that says something.
pub fn is_bounded(saved: &Saved) -> bool {
    saved.high < 1.0
}

/// `1.6x (1.1–3.6x)`.
pub fn of_saved(saved: &Saved) -> String {
    human::predicted_gain(&interval(saved))
}

/// The same of all methods together; `no prediction` where none makes one.
pub fn of_answer(answer: &Answer) -> String {
    let saved = answer.saved();
    saved.map_or_else(|| "no prediction".into(), |saved| of_saved(&saved))
}

/// What a method expects, without its interval: `1.6x`.
pub fn expected(saved: f64) -> String {
    human::factor(Interval::of_saved(saved, saved, saved).mid)
}

/// Whether the expected saving is beyond the errors of the replays.
pub fn is_reportable(answer: &Answer) -> bool {
    answer.saved().is_some_and(|saved| saved.mid >= MIN_SAVED)
}

/// Whether no saving that matters is possible: not even the upper bound is worth a fix.
pub fn is_none(answer: &Answer) -> bool {
    answer
        .saved()
        .is_some_and(|saved| saved.high <= MOST_OF_NONE)
}

/// Share of the wall time that a gain of 1.1 saves: from such a bound on findings are ranked
/// (`--min-gain-bound`).
const MOST_OF_NONE: f64 = 0.09;

/// Whether the methods' expectations differ by more than they may be off each.
pub fn is_disputed(answer: &Answer) -> bool {
    answer.disagreement() > DISPUTED
}

/// Median width of the intervals that held nine of ten measured savings, in shares of the wall
/// time: expectations further apart than this contradict each other.
const DISPUTED: f64 = 0.18;

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_estimate::Method;

    fn answer(mids: &[f64]) -> Answer {
        let said = mids.iter().map(|mid| {
            let saved = Saved {
                low: mid - 0.05,
                mid: *mid,
                high: mid + 0.05,
            };
            (Method::ReplaySimulated, saved)
        });
        Answer {
            by_method: said.collect(),
            refused: Vec::new(),
        }
    }

    #[test]
    fn a_saving_of_half_the_time_is_a_gain_of_two() {
        assert_eq!(of_answer(&answer(&[0.5])), "2.0x (1.8–2.2x)");
        assert_eq!(of_answer(&Answer::default()), "no prediction");
    }

    #[test]
    fn a_saving_of_all_the_time_bounds_nothing() {
        let all = Saved {
            low: 0.2,
            mid: 0.5,
            high: 1.0,
        };
        assert_eq!(of_saved(&all), "2.0x (1.2x or more)");
    }

    #[test]
    fn a_wide_interval_around_nothing_is_not_nothing() {
        assert!(is_none(&answer(&[0.0])) && is_none(&answer(&[-0.2])));
        assert!(!is_none(&answer(&[0.05])) && !is_none(&Answer::default()));
    }

    #[test]
    fn methods_far_apart_are_in_dispute() {
        assert!(is_disputed(&answer(&[0.1, 0.4])));
        assert!(!is_disputed(&answer(&[0.1, 0.2])));
        assert!(!is_disputed(&answer(&[0.1])));
    }
}
