//! The rules, in the order in which they are tried: what needs no lock at all comes before what needs another one.

mod exclusion;
mod partition;
mod sharing;
mod size;

pub(crate) use exclusion::inner_verdict;

use std::collections::BTreeSet;

use convoy_model::finding::{Cause, Evidence};

use super::{Case, LockFacts};
use crate::inside::Inside;
use crate::rows::Verdict;
use crate::stats::Share;
use crate::text::{evidence, percent, place};

pub(super) fn verdict(case: &Case<'_>, facts: &LockFacts, inside: &Inside) -> Verdict {
    let judge = Judge {
        case,
        facts,
        inside,
        here: place(case.model, case.group.site),
    };
    let mut verdict = judge.too_few().unwrap_or_else(|| judge.judge());
    let mut all = judge.sample_evidence();
    all.append(&mut verdict.evidence);
    all.extend(judge.needless_inside(&verdict));
    verdict.evidence = all;
    verdict
}

struct Judge<'a> {
    case: &'a Case<'a>,
    facts: &'a LockFacts,
    inside: &'a Inside,
    here: String,
}

fn decided(cause: Cause, evidence: Vec<Evidence>) -> Verdict {
    Verdict {
        causes: vec![cause],
        evidence,
        ..Verdict::default()
    }
}

fn undecided(causes: Vec<Cause>, why: impl Into<String>) -> Verdict {
    Verdict {
        causes,
        undecided: why.into(),
        ..Verdict::default()
    }
}

impl Judge<'_> {
    fn judge(&self) -> Verdict {
        let rules: [fn(&Self) -> Option<Verdict>; 12] = [
            Self::already_exclusive,
            Self::one_user,
            Self::common_lock,
            Self::blocking,
            Self::one_sided,
            Self::local_data,
            Self::several_small,
            Self::one_word,
            Self::read_only,
            Self::too_fine,
            Self::too_large_or_too_many,
            Self::small,
        ];
        let found = rules.iter().find_map(|rule| rule(self));
        found.unwrap_or_else(|| self.needed())
    }

    fn nearly_all(&self, share: &Share) -> bool {
        share.share >= self.case.t.nearly_all && share.low >= self.case.t.at_least
    }

    fn sample_evidence(&self) -> Vec<Evidence> {
        let case = self.case;
        let run = case.run();
        let n = case.wholes;
        let instructions = case.instructions();
        vec![
            evidence(
                "sections_traced",
                n as f64,
                format!("{n} whole sections traced of {run} run"),
            ),
            evidence(
                "instructions_mean",
                instructions,
                format!("{instructions:.0} instructions in a section (mean)"),
            ),
        ]
    }

    /// Says nothing where there is too little to see.
    fn too_few(&self) -> Option<Verdict> {
        let case = self.case;
        let (n, needed) = (
            case.wholes.min(case.samples.len() as u64),
            case.t.min_sections,
        );
        (n < needed).then(|| {
            undecided(
                Vec::new(),
                format!(
                    "only {n} whole sections were traced at {}, and {needed} are needed",
                    self.here
                ),
            )
        })
    }

    /// Of pairs of sections, those that conflict: `share` of all of them.
    fn conflict_evidence(share: &Share) -> Evidence {
        evidence(
            "conflict_ratio",
            share.share,
            format!("{} of the pairs of sections of different threads touch the same data, one of them writing", percent(share.share)),
        )
    }

    /// The same, where there were pairs to compare.
    fn conflicts(&self) -> Vec<Evidence> {
        let share = self.facts.together.conflicts.as_ref();
        share.map(Self::conflict_evidence).into_iter().collect()
    }
}

/// How many different ones there are.
fn distinct<T: Ord>(items: impl Iterator<Item = T>) -> usize {
    items.collect::<BTreeSet<_>>().len()
}
