//! Data that one lock guards together, and that sections use apart or together.

use convoy_model::finding::{Cause, Evidence};

use super::{decided, undecided, Judge};
use crate::partition::Together;
use crate::rows::{Part, Partition, PartitionBy, Verdict};
use crate::stats::Share;
use crate::text::{cause, evidence, percent, place};

/// Sections that seldom use the same data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Apart {
    /// Pairs that do.
    pub(super) conflicts: Share,
    /// In all words, those included that most sections use.
    pub(super) wholly: bool,
}

impl Judge<'_> {
    /// The pairs that conflict, if they are few enough for finer locks: over all words, or apart from a few that most
    /// sections use. If these are most of what sections do, the parts hang on them: the nodes of one list.
    pub(super) fn apart(&self, together: &Together) -> Option<Apart> {
        let limit = self.case.t.conflicts;
        let few = |share: &Share| share.share <= limit && share.high <= 2.0 * limit;
        let parts = together.partition.as_ref()?;
        let wholly = together.conflicts.filter(few).map(|conflicts| Apart {
            conflicts,
            wholly: true,
        });
        let but_common = || {
            let conflicts = together.apart_from_common.filter(few)?;
            (together.common_accesses <= self.case.t.common).then_some(Apart {
                conflicts,
                wholly: false,
            })
        };
        let worth = parts.parts > 1 && parts.separated >= self.case.t.separated;
        wholly.or_else(but_common).filter(|_| worth)
    }

    /// Neither one nor the other: some conflict, or few do and yet the data have no parts.
    pub(super) fn between(&self, together: &Together) -> Option<Verdict> {
        let share = together.conflicts?;
        let (t, of_pairs) = (self.case.t, percent(share.share));
        let parts = together.partition.as_ref().filter(|p| p.parts > 1);
        let in_parts = match parts.is_some_and(|p| p.separated < t.separated) {
            true => "but most sections use one and the same part of them, in which they use several elements at a time",
            false => "but they use several elements at a time: finer locks would have to be taken together",
        };
        let small = self.case.effort() <= t.small_instructions;
        let why = match share.share {
            share if share <= t.conflicts && !small => format!(
                "only {of_pairs} of the pairs of sections touch the same data, {in_parts}"
            ),
            share if share > t.conflicts && share < t.conflicts_shared && parts.is_some() => format!(
                "{of_pairs} of the pairs of sections touch the same data: finer locks would let the others pass, and how many depends on how the data are divided"
            ),
            _ => return None,
        };
        Some(Verdict {
            evidence: self.conflicts(),
            ..undecided(vec![self.many(None), needed_cause(&self.here)], why)
        })
    }

    pub(super) fn many(&self, together: Option<&Together>) -> Cause {
        let partition = together.and_then(|together| together.partition.as_ref());
        let fix = match partition.map(|parts| parts.by) {
            Some(PartitionBy::Place | PartitionBy::Field) => format!("a lock of its own for each of these parts, at {} and the other places", self.here),
            Some(PartitionBy::Object) => format!("one lock in each object (or a few, chosen by its address) instead of the one at {}", self.here),
            _ => format!("one lock per element or bucket (or a few, chosen by its hash) instead of the one at {}", self.here),
        };
        let common = together.map(common_names).unwrap_or_default().join(", ");
        let fix = match common.as_str() {
            "" => fix,
            names => format!("{fix}; what all use ({names}) once per lock, or as atomics"),
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
        apart: Apart,
        movable: Option<f64>,
    ) -> Option<Verdict> {
        let partition = together.partition.as_ref()?;
        let parts: Vec<String> = partition
            .largest
            .iter()
            .map(|part| self.part(partition, part))
            .collect();
        let bytes = partition.largest.iter().map(|part| part.bytes).max();
        let by = match partition.by {
            PartitionBy::Element => "the same lines use different elements".to_owned(),
            PartitionBy::Object => format!(
                "by object: the same lines use different ones, of {} bytes as far as they are touched",
                bytes.unwrap_or(0)
            ),
            PartitionBy::Place => "different places use different data".to_owned(),
            PartitionBy::Field => "by field: different places use different ones of one object".to_owned(),
        };
        let mut all = vec![
            match apart.wholly {
                true => Self::conflict_evidence(&apart.conflicts),
                false => self.apart_evidence(together, &apart.conflicts),
            },
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
            waits_saved: Some((1.0 - apart.conflicts.share).min(partition.separated)),
            ..decided(self.many(Some(together)), all)
        })
    }

    fn part(&self, partition: &Partition, part: &Part) -> String {
        let share = percent(part.sections);
        let at = part.at.map(|site| place(self.case.model, site));
        match (partition.by, at) {
            (PartitionBy::Place | PartitionBy::Field, Some(at)) => {
                format!("{} ({share} of the sections, at {at})", part.name)
            }
            _ => format!("{} ({share} of the sections)", part.name),
        }
    }

    fn apart_evidence(&self, together: &Together, conflicts: &Share) -> Evidence {
        let names = common_names(together).join(", ");
        evidence(
            "conflict_apart_ratio",
            conflicts.share,
            format!(
                "apart from {names}, {} of the pairs of sections of different threads touch the same data, one of them writing",
                percent(conflicts.share)
            ),
        )
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

/// What most sections use beside the parts.
fn common_names(together: &Together) -> Vec<&str> {
    let common = together.partition.iter().flat_map(|parts| &parts.common);
    common.map(|row| row.name.as_str()).collect()
}

fn needed_cause(here: &str) -> Cause {
    cause(
        "truly-shared-data",
        "sections do use the same data, and little of them can be moved out",
        format!("fewer or shorter sections at {here}: work on per-thread copies and merge, or another data structure"),
    )
}
