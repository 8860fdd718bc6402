//! Verdicts in the place of what findings hold possible.

use std::collections::BTreeSet;

use convoy_model::finding::{Cause, Finding, Subject};
use convoy_model::{Model, ObjectId};

use crate::rows::{Analysis, SiteRow, Verdict};
use crate::text::place;
use crate::verdict::inner_verdict;

/// Places of a lock with less of its sections do not speak for it.
const SPEAKS: f64 = 0.2;

/// Puts what `analysis` of `sections` decides into the findings about the same locks. The findings may be of another
/// recording of the program: locks are told by name.
pub fn join(model: &Model, findings: &mut [Finding], sections: &Model, analysis: &Analysis) {
    for finding in findings {
        if finding.causes.len() < 2 && finding.undecided.is_empty() {
            continue;
        }
        let names = names(model, &finding.subject);
        if names.is_empty() {
            continue;
        }
        if let Some(inner) = inner(sections, analysis, &names) {
            apply(finding, &[inner]);
            continue;
        }
        let of_lock = |row: &&SiteRow| row.locks.iter().any(|&id| is_one(sections, id, &names));
        let rows: Vec<&SiteRow> = analysis.sites.iter().filter(of_lock).collect();
        let weight = |row: &SiteRow| match rows.iter().any(|row| row.waited > 0) {
            // Where threads wait is where a fix helps.
            true => row.run as f64 * row.waited as f64 / row.traced.max(1) as f64,
            false => row.run as f64,
        };
        let all: f64 = rows.iter().map(|row| weight(row)).sum();
        let speak = |row: &&&SiteRow| all <= 0.0 || weight(row) >= SPEAKS * all;
        let mut speaking: Vec<&SiteRow> = rows.iter().filter(speak).copied().collect();
        speaking.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then(a.site.cmp(&b.site)));
        let verdicts: Vec<Verdict> = speaking.iter().map(|row| row.verdict.clone()).collect();
        apply(finding, &verdicts);
    }
}

type Names<'a> = BTreeSet<(&'a str, &'a str)>;

fn names<'a>(model: &'a Model, subject: &Subject) -> Names<'a> {
    let ids = subject.objects().iter();
    ids.filter_map(|&id| name(model, id)).collect()
}

fn name(model: &Model, id: ObjectId) -> Option<(&str, &str)> {
    let object = model.objects.get(id.0 as usize)?;
    let process = model.processes.get(object.process.0 as usize)?;
    (!object.name.is_empty()).then_some((process.name.as_str(), object.name.as_str()))
}

fn is_one(model: &Model, id: ObjectId, names: &Names<'_>) -> bool {
    name(model, id).is_some_and(|name| names.contains(&name))
}

/// A lock that is always inside another one may have no sections of its own.
fn inner(model: &Model, analysis: &Analysis, names: &Names<'_>) -> Option<Verdict> {
    let row = analysis
        .inside
        .iter()
        .find(|row| row.always && is_one(model, row.inner, names))?;
    let most = model.uses_of(row.inner).iter().max_by_key(|u| u.calls)?;
    Some(inner_verdict(model, row, &place(model, most.site)))
}

/// The verdicts of the places that speak for the lock, most important first.
fn apply(finding: &mut Finding, verdicts: &[Verdict]) {
    let Some(first) = verdicts.first() else {
        return;
    };
    if first.causes.is_empty() {
        // Too little was seen: what is possible stays, with the reason.
        finding.undecided.clone_from(&first.undecided);
        return;
    }
    let mut causes: Vec<Cause> = Vec::new();
    for cause in verdicts.iter().flat_map(|verdict| &verdict.causes) {
        if !causes.iter().any(|other| other.id == cause.id) {
            causes.push(cause.clone());
        }
    }
    finding.causes = causes;
    finding.undecided = verdicts
        .iter()
        .map(|verdict| verdict.undecided.as_str())
        .find(|why| !why.is_empty())
        .unwrap_or_default()
        .to_owned();
    if finding.undecided.is_empty() && finding.causes.len() > 1 {
        finding.undecided = "its places differ: each has the cause that is named for it".into();
    }
    finding.evidence.extend(first.evidence.iter().cloned());
    match first.waits_saved {
        Some(saved) if finding.undecided.is_empty() => scale(finding, saved),
        Some(_) => {}
        // Nothing in the sections says how many waits the fix takes away: no promise.
        None => finding.gain.low = finding.gain.low.min(1.0),
    }
}

/// What is predicted is that nobody waits any more; a fix that takes away a part of the waits gains that part at
/// least, as waits fall faster than holds do.
fn scale(finding: &mut Finding, saved: f64) {
    let gain = &mut finding.gain;
    if saved < 0.995 && gain.mid > 1.0 {
        gain.mid = 1.0 + (gain.mid - 1.0) * saved;
        gain.low = 1.0 + (gain.low - 1.0) * saved;
        gain.method = format!(
            "{}, times the {:.0} % that the sections show",
            gain.method,
            saved * 100.0
        );
    }
}
