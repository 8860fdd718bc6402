//! Findings as leads of an investigation.

use convoy_estimate::WhatIf;
use convoy_investigate::Lead;
use convoy_model::finding::Finding;
use convoy_model::{is_lock_kind, FindingId, Model};
use convoy_report::names;

/// What is known of a finding from the recorded run.
pub fn lead(model: &Model, finding: &Finding) -> Lead {
    let mut estimates = finding.gain.estimates.clone();
    if estimates.is_empty() {
        let what_if = match finding.id {
            FindingId::ContendedLock
            | FindingId::AsymmetricContention
            | FindingId::StarvedThread => WhatIf::LockRemoved,
            _ => WhatIf::Fix,
        };
        estimates.push(finding.gain.accounting(what_if));
    }
    Lead {
        id: finding.id.as_str().into(),
        title: finding.title.clone(),
        lock: lock(model, finding),
        causes: finding.causes.iter().map(|c| c.text.clone()).collect(),
        fix: finding
            .causes
            .first()
            .map_or_else(String::new, |c| c.fix.clone()),
        estimates,
    }
}

/// The lock that a finding is about, if its name means the same in another run, which an address
/// does not.
fn lock(model: &Model, finding: &Finding) -> Option<String> {
    let first = finding.subject.objects().first()?;
    let object = model.objects.get(first.0 as usize)?;
    let is_whole = !object.name.is_empty() && names::object(object) == object.name;
    (is_lock_kind(object.kind) && is_whole).then(|| object.name.to_string())
}
