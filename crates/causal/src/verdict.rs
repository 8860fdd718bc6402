//! The main result, in one sentence, and why it is no better one.

use crate::interval::Saved;
use crate::result::{Level, Report, TargetRow};
use crate::text::{gain, subject};

/// The null experiment may predict this share of the run. Above it code does not limit the
/// program, and D has nothing to stand on.
const BIASED: f64 = 0.1;

/// A target whose interval ends below this share of the run is not worth making faster.
const LITTLE: f64 = 0.1;

/// The sentence that stands above the numbers.
enum Verdict<'a> {
    /// Not one number, perhaps with the reason.
    Nothing(Option<&'a str>),
    /// Making a target this much faster gains for sure.
    Bottleneck(&'a TargetRow, Level),
    /// The slower a target is, the faster the program: Coz's shape "contention" (section 2).
    Contention(&'a TargetRow),
    /// The program hardly minds that all of its code is slowed down.
    NotItsCode,
    /// The intervals are too wide.
    TooWide,
    /// All intervals end at little.
    NoneIsWorth,
}

impl Report {
    /// The main result, in one sentence.
    pub fn verdict(&self) -> String {
        match self.judged() {
            Verdict::Nothing(Some(reason)) => format!("The experiments have no result: {reason}."),
            Verdict::Nothing(None) => "The experiments have no result.".into(),
            Verdict::Bottleneck(row, level) => self.bottleneck(row, &level),
            Verdict::Contention(row) => format!(
                "Contention in {}: the slower it is, the faster the program.",
                subject(row)
            ),
            Verdict::NotItsCode => {
                "What limits the program is not the speed of its own code: no target can be judged."
                    .into()
            }
            Verdict::TooWide => {
                "The experiments cannot tell whether a target is worth making faster.".into()
            }
            Verdict::NoneIsWorth => "None of the targets is worth making faster.".into(),
        }
    }

    /// Why the verdict is no other one, in lines of at most 100 columns.
    pub fn why(&self) -> Option<&'static str> {
        match self.judged() {
            Verdict::Contention(_) => Some(
                "Its threads get in each other's way there: a lock, or data that several CPUs \
                 write.\nconvoy -- COMMAND says which one.",
            ),
            Verdict::NotItsCode => Some(
                "With all code slowed down it was hardly slower (null). Disks, clients, timers, \
                 or data that\nseveral CPUs write are as fast as before: convoy -- COMMAND looks \
                 for them.",
            ),
            Verdict::TooWide => Some(
                "The intervals are too wide: give it more time (--budget), on an idle machine.",
            ),
            _ => None,
        }
    }

    fn judged(&self) -> Verdict<'_> {
        if let Some(reason) = &self.reason {
            return Verdict::Nothing(Some(reason));
        }
        let first = self.targets.first().filter(|row| row.has_gain());
        // The gain may be sure at the higher level only.
        let sure = |row: &TargetRow| row.at.iter().find(|at| at.saved_share.low > 0.0).copied();
        if let Some((row, level)) = first.and_then(|row| Some((row, sure(row)?))) {
            return Verdict::Bottleneck(row, level);
        }
        let tried = || self.targets.iter().filter(|row| row.reason.is_none());
        let ends_below = |most: f64| move |at: &Level| at.saved_share.high < most;
        if tried().next().is_none() {
            return Verdict::Nothing(None);
        }
        // Another way to wait has no speed.
        let mut slower = tried().filter(|row| row.algorithm.is_none());
        if let Some(row) = slower.find(|row| row.at.iter().all(ends_below(0.0))) {
            return Verdict::Contention(row);
        }
        let is_biased = |row: &TargetRow| row.estimator.is_biased();
        let mut null = self.null.iter();
        if tried().any(is_biased) && null.any(|null| null.saved_share.low > BIASED) {
            return Verdict::NotItsCode;
        }
        match tried().flat_map(|row| &row.at).all(ends_below(LITTLE)) {
            true => Verdict::NoneIsWorth,
            false => Verdict::TooWide,
        }
    }

    fn bottleneck(&self, row: &TargetRow, level: &Level) -> String {
        let most = match row.estimator.is_upper_bound() {
            true => "at most ",
            false => "",
        };
        let saved: &Saved = &level.saved_share;
        let gain = gain(saved);
        let gains = match self.is_of_latency() {
            true => format!("makes the latency {most}{gain} shorter"),
            false => format!("gains {most}{gain}"),
        };
        format!(
            "Main bottleneck: {}. Making it {:.0} % faster {gains}.",
            subject(row),
            100.0 * level.speedup,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimator::Estimator;
    use crate::plan::{Mechanism, LEVELS};
    use crate::result::NullRow;
    use crate::target::Kind;

    /// A target that saves as much at both levels.
    fn row(estimator: Estimator, low: f64, high: f64) -> TargetRow {
        let saved_share = Saved {
            low,
            mid: (low + high) / 2.0,
            high,
        };
        TargetRow {
            kind: Kind::Function,
            name: "f".into(),
            algorithm: None,
            estimator,
            sample_share: Some(0.25),
            at: LEVELS
                .map(|speedup| Level {
                    speedup,
                    saved_share,
                })
                .to_vec(),
            reason: None,
        }
    }

    fn told(null: f64, row: TargetRow) -> (String, Option<&'static str>) {
        let report = Report {
            targets: vec![row],
            null: vec![NullRow {
                mechanism: Mechanism::Sampled,
                speedup: 0.25,
                saved_share: Saved {
                    low: null - 0.01,
                    mid: null,
                    high: null + 0.01,
                },
            }],
            ..Report::default()
        };
        (report.verdict(), report.why())
    }

    #[test]
    fn targets_that_are_worth_nothing_are_said_to_be() {
        let (verdict, why) = told(0.0, row(Estimator::Dilate, -0.02, 0.02));
        assert_eq!(verdict, "None of the targets is worth making faster.");
        assert_eq!(why, None);
    }

    #[test]
    fn an_interval_that_may_hold_a_gain_rules_nothing_out() {
        let (verdict, why) = told(0.0, row(Estimator::Dilate, -0.02, 0.3));
        assert!(
            verdict.starts_with("The experiments cannot tell"),
            "{verdict}"
        );
        assert!(why.is_some_and(|why| why.contains("--budget")));
    }

    #[test]
    fn code_that_may_be_slowed_down_for_nothing_is_not_what_limits() {
        let (verdict, _) = told(0.37, row(Estimator::Dilate, -0.02, 0.38));
        assert!(
            verdict.contains("not the speed of its own code"),
            "{verdict}"
        );
        // S does not stand on the null experiment.
        let (verdict, _) = told(0.37, row(Estimator::Slow, -0.02, 0.05));
        assert!(verdict.starts_with("None of the targets"), "{verdict}");
    }

    #[test]
    fn a_target_that_helps_when_it_is_slower_is_called_contention() {
        let (verdict, why) = told(0.0, row(Estimator::Slow, -0.08, -0.04));
        assert_eq!(
            verdict,
            "Contention in function f: the slower it is, the faster the program."
        );
        assert!(why.is_some_and(|why| why.contains("several CPUs")));
    }

    #[test]
    fn lines_fit_the_screen() {
        for row in [
            row(Estimator::Dilate, -0.02, 0.3),
            row(Estimator::Slow, -0.08, -0.04),
        ] {
            for null in [0.0, 0.37] {
                let (verdict, why) = told(null, row.clone());
                let lines = verdict.lines().chain(why.unwrap_or_default().lines());
                lines.for_each(|line| assert!(line.len() <= 100, "{line}"));
            }
        }
    }
}
