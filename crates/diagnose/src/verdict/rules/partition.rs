//! Data that one lock guards together, and that sections use apart or together.

use convoy_model::finding::Cause;

use super::{decided, undecided, Judge};
use crate::partition::Together;
use crate::rows::{PartitionBy, Verdict};
use crate::stats::Share;
use crate::text::{cause, evidence, percent};

impl Judge<'_> {
    /// The pairs that conflict, if they are few enough for finer locks: with or without the common words.
    pub(super) fn apart(&self, together: &Together) -> Option<Share> {
        let limit = self.case.t.conflicts;
        let few = |share: &Share| share.share <= limit && share.high <= 2.0 * limit;
        let parts = together.partition.as_ref()?;
        let found = together.conflicts.filter(few);
        let found = found.or(together.apart_from_common.filter(few));
        found.filter(|_| parts.parts > 1)
    }

    /// Some conflict: neither one nor the other.
    pub(super) fn between(&self, together: &Together) -> Option<Verdict> {
        let share = together.conflicts?;
        let t = self.case.t;
        let parts = together.partition.as_ref().is_some_and(|p| p.parts > 1);
        (share.share > t.conflicts && share.share < t.conflicts_shared && parts).then(|| Verdict {
            evidence: vec![Self::conflict_evidence(&share)],
            ..undecided(
                vec![self.many(None), needed_cause(&self.here)],
                format!(
                    "{} of the pairs of sections touch the same data: finer locks would let the others pass, and how many depends on how the data are divided",
                    percent(share.share)
                ),
            )
        })
    }

    pub(super) fn many(&self, together: Option<&Together>) -> Cause {
        let partition = together.and_then(|together| together.partition.as_ref());
        let fix = match partition.map(|parts| parts.by) {
            Some(PartitionBy::Place) => format!("a lock of its own for each of these parts, at {} and the other places", self.here),
            _ => format!("one lock per element or bucket (or a few, chosen by its hash) instead of the one at {}", self.here),
        };
        let common = partition.filter(|parts| !parts.common.is_empty());
        let fix = match common {
            Some(parts) => {
                let names: Vec<&str> = parts.common.iter().map(|row| row.name.as_str()).collect();
                format!(
                    "{fix}; what all use ({}) as atomics or per thread",
                    names.join(", ")
                )
            }
            None => fix,
        };
        cause(
            "too-many-data-under-one-lock",
            "one lock guards data that sections use independently of each other",
            fix,
        )
    }

    pub(super) fn too_many(
        &self,
        together: &Together,
        conflicts: &Share,
        movable: Option<f64>,
    ) -> Option<Verdict> {
        let partition = together.partition.as_ref()?;
        let parts: Vec<String> = partition
            .largest
            .iter()
            .map(|part| format!("{} ({} of the sections)", part.name, percent(part.sections)))
            .collect();
        let by = match partition.by {
            PartitionBy::Element => "the same lines use different elements",
            PartitionBy::Place => "different places use different data",
        };
        let mut all = vec![
            Self::conflict_evidence(conflicts),
            evidence(
                "parts",
                partition.parts as f64,
                format!(
                    "{} parts that no sampled section uses together ({by}): {}",
                    partition.parts,
                    parts.join(", ")
                ),
            ),
        ];
        if let Some(movable) = movable {
            all.push(evidence(
                "movable_ratio",
                movable,
                format!(
                    "besides, {} of the instructions belong to lines that touch nothing shared",
                    percent(movable)
                ),
            ));
        }
        Some(Verdict {
            waits_saved: Some(1.0 - conflicts.share),
            ..decided(self.many(Some(together)), all)
        })
    }

    /// No row of the table: the lock does what locks are for.
    pub(super) fn needed(&self) -> Verdict {
        match self.facts.together.conflicts {
            Some(_) => decided(needed_cause(&self.here), self.conflicts()),
            None => undecided(
                vec![self.many(None), needed_cause(&self.here)],
                "too few sections of different threads were traced to say whether they use the same data",
            ),
        }
    }
}

fn needed_cause(here: &str) -> Cause {
    cause(
        "truly-shared-data",
        "sections do use the same data, and little of them can be moved out",
        format!("fewer or shorter sections at {here}: work on per-thread copies and merge, or another data structure"),
    )
}
