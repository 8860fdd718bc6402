//! Waits that more locks do not take away.
//!
//! A lock per part of the data takes away that two threads meet at one by chance. Where the program has such locks already and a
//! holder keeps one for long (its table grows, its processor was taken from it), the others go on until each has come to that
//! lock: among `n` of them, that is after `n` acquisitions, and then they wait for the rest of it. Twice as many locks only make that
//! way twice as long. What a wait is longer than that way is left.

use super::Unit;
use crate::estimate::queueing::Change;
use crate::facts::process_facts::ProcessFacts;

/// Share of its gain that a fix of locks that are split already keeps at least: what more of them take away, colder caches
/// give back in part.
const SURE: f64 = 0.3;
/// Share of the waits that is worth a word, and changes what is told.
pub(super) const TOLD: f64 = 0.2;

impl Unit<'_> {
    /// Share of what is waited for these locks that is longer than the way to a lock that somebody keeps; nothing where there is one
    /// lock, which can be split, or where its acquisitions are not counted.
    pub(super) fn stuck(&self, cx: &ProcessFacts) -> Option<f64> {
        let calls = self.stats.taken() as f64;
        if self.locks.len() < 2 || self.stats.contention_ratio.is_none() || calls <= 0.0 {
            return None;
        }
        let way = self.locks.len() as f64 * cx.users_life(&self.locks) / calls;
        let bins = self.stats.wait_hist.iter().enumerate();
        let (all, left) = bins.fold((0.0, 0.0), |(all, left), (power, &n)| {
            let each = 1.5 * (power as f64).exp2();
            (
                all + n as f64 * each,
                left + n as f64 * (each - way).max(0.0),
            )
        });
        (left > 0.0).then(|| left / all)
    }

    pub(super) fn of_stuck(&self, cx: &ProcessFacts) -> Option<String> {
        let share = self.stuck(cx).filter(|share| *share >= TOLD)?;
        Some(format!(
            "{} of the wait is for a holder that the others soon meet however many locks there are: what keeps it is to be \
             found under the lock",
            crate::words::percent(share)
        ))
    }
}

/// So much of the waits stays.
pub(super) fn leave_stuck(change: &mut Change, share: f64) {
    for d in &mut change.deltas {
        d.wait *= 1.0 - share;
        d.spin *= 1.0 - share;
    }
    change.sure = change.sure.min(SURE);
}
