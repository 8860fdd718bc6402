//! What the limits of `--fail-on` say to a comparison.

use crate::compare::Comparison;
use crate::inconclusive::Doubt;
use crate::limit::Limit;

/// All limits, judged where that is possible.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gate {
    /// What goes beyond a limit.
    pub breaches: Vec<Breach>,
    /// Limits of which nobody can say whether they hold.
    pub not_judged: Vec<NotJudged>,
}

/// A limit that does not hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Breach {
    /// The limit as it was given.
    pub limit: String,
    /// What was found: `lock.wait_share of cache_lock: 3.0 % before, 41 % after`.
    pub found: String,
}

/// A limit that may hold or not.
#[derive(Debug, Clone, PartialEq)]
pub struct NotJudged {
    /// The limit as it was given.
    pub limit: String,
    /// Why, and what to do.
    pub doubt: Doubt,
}

impl Gate {
    /// Holds a comparison against limits.
    pub fn of(limits: &[Limit], c: &Comparison) -> Self {
        let mut gate = Self::default();
        for limit in limits {
            match limit.check(c) {
                Ok(breaches) => gate.breaches.extend(breaches),
                Err(doubt) => gate.not_judged.push(NotJudged {
                    limit: limit.text().to_owned(),
                    doubt,
                }),
            }
        }
        gate
    }

    /// Every limit was judged, and holds.
    pub fn is_open(&self) -> bool {
        self.breaches.is_empty() && self.not_judged.is_empty()
    }
}
