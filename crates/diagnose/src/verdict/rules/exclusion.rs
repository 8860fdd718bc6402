//! Locks that exclude nobody whom another lock does not exclude already, or too many.

use convoy_model::finding::Evidence;
use convoy_model::Model;

use super::{decided, Judge};
use crate::rows::{InsideRow, Verdict};
use crate::text::{cause, evidence, percent, place};

/// Locks inside that are named.
const INNER_NAMES: usize = 4;

impl Judge<'_> {
    /// Another lock is always held already.
    pub(super) fn already_exclusive(&self) -> Option<Verdict> {
        let [lock] = self.case.group.locks[..] else {
            return None;
        };
        let outer = self.inside.always(lock)?;
        Some(inner_verdict(self.case.model, outer, &self.here))
    }

    /// Its sections hold other locks that nobody takes without it.
    pub(super) fn common_lock(&self) -> Option<Verdict> {
        let [lock] = self.case.group.locks[..] else {
            return None;
        };
        let below = self.inside.below(lock);
        let runs = self.case.run() as f64;
        let inner: f64 = below.iter().map(|row| row.acquisitions).sum();
        // What one thread does under it does not wait for what the others do.
        if below.len() < 2 || inner < 0.5 * runs || self.one_sided().is_some() {
            return None;
        }
        let names: Vec<&str> = below
            .iter()
            .filter_map(|row| self.case.model.objects.get(row.inner.0 as usize))
            .map(|object| object.name.as_str())
            .take(INNER_NAMES)
            .collect();
        let n = below.len();
        // Two sections meet at one of the finer locks as often as both take the same.
        let meet: f64 = below
            .iter()
            .map(|row| (row.acquisitions / inner).powi(2))
            .sum();
        Some(Verdict {
            waits_saved: Some(1.0 - meet),
            ..decided(
            cause(
                "serialized-by-common-lock",
                format!("{n} other locks are only ever taken while this one is held: it makes them exclude each other"),
                format!("take only {} where their data are used, and not the lock at {}", names.join(", "), self.here),
            ),
            vec![evidence(
                "locks_inside",
                n as f64,
                format!("taken inside, and nowhere else: {}", names.join(", ")),
            )],
        )})
    }

    /// Locks that lengthen its sections and exclude nobody who is not excluded already.
    pub(super) fn needless_inside(&self, verdict: &Verdict) -> Vec<Evidence> {
        let [lock] = self.case.group.locks[..] else {
            return Vec::new();
        };
        if verdict
            .decided()
            .is_some_and(|cause| cause.id == "serialized-by-common-lock")
        {
            return Vec::new();
        }
        let runs = self.case.run().max(1) as f64;
        let below = self.inside.below(lock).into_iter();
        below
            .filter_map(|row| {
                let inner = self.case.model.objects.get(row.inner.0 as usize)?;
                let each = row.acquisitions / runs;
                let text = format!(
                    "besides, {} is taken inside in {} of its acquisitions ({each:.1} times a section): one of the two may be enough",
                    inner.name,
                    percent(row.share)
                );
                Some(evidence("needless_inside", each, text))
            })
            .take(INNER_NAMES)
            .collect()
    }
}

/// For a lock that is always taken inside another one.
pub(crate) fn inner_verdict(model: &Model, row: &InsideRow, here: &str) -> Verdict {
    let outer = model.objects.get(row.outer.0 as usize);
    let outer = outer.map_or("another lock", |object| object.name.as_str());
    let at = place(model, row.outer_site);
    Verdict {
        waits_saved: None,
        ..decided(
            cause(
                "already-exclusive",
                format!("{outer} is held whenever it is taken, and excludes all that it excludes"),
                format!("no lock at {here}, or {outer} not around it: one of the two is enough"),
            ),
            vec![evidence(
                "inside_ratio",
                row.share,
                format!(
                    "{} of its acquisitions are inside sections of {outer} at {at}",
                    percent(row.share)
                ),
            )],
        )
    }
}
