//! The report for a program: one JSON document, described in docs/json.md.
//!
//! Keys carry their unit (`_ns`, `_ratio`, `_hz`, `_bytes`); ids are indices into the arrays of the
//! same document. A number that was not observable is `null`, never 0. `version` grows when a key
//! changes its meaning or goes away; new keys do not change it.

mod critical;
mod find;
mod frame;
mod live_curves;
mod nouns;
mod run;
mod sections;
mod tables;
mod threads;

use std::borrow::Cow;

use serde::Serialize;

use crate::{quality, verdict, Report};

/// Name of the document type.
pub const SCHEMA: &str = "convoy.report";

/// Version of the document type.
pub const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: u32,
    run: run::Run<'a>,
    thresholds: run::Limits,
    verdict: Cow<'a, str>,
    not_seen: run::NotSeenOut<'a>,
    findings: Vec<find::FindingOut<'a>>,
    dismissed: Vec<find::FindingOut<'a>>,
    processes: Vec<run::ProcessOut<'a>>,
    groups: Vec<threads::GroupOut<'a>>,
    assignments: Vec<threads::AssignmentOut<'a>>,
    threads: Vec<threads::ThreadOut<'a>>,
    locks: Vec<tables::LockOut<'a>>,
    sites: Vec<tables::SiteRowOut>,
    families: Vec<tables::FamilyOut>,
    events: Vec<tables::EventOut<'a>>,
    uses: Vec<nouns::UseOut>,
    pairs: Vec<nouns::PairOut<'a>>,
    objects: Vec<nouns::ObjectOut<'a>>,
    stacks: Vec<nouns::StackOut<'a>>,
    critical: Option<critical::CriticalOut<'a>>,
    sections: Option<sections::SectionsOut<'a>>,
    experiments: Option<convoy_causal::Report>,
    live_curves: Option<live_curves::LiveCurvesOut<'a>>,
    quality: run::QualityOut,
}

/// Writes the document, with a line feed at its end.
pub fn render(report: &Report<'_>) -> String {
    // Only maps with keys that are no strings, and writers that fail, make serde_json fail.
    let mut text = serde_json::to_string_pretty(&document(report)).unwrap_or_default();
    text.push('\n');
    text
}

/// The document for a program that takes it apart again.
pub fn value(report: &Report<'_>) -> serde_json::Value {
    serde_json::to_value(document(report)).unwrap_or_default()
}

fn document<'a>(report: &Report<'a>) -> Document<'a> {
    let Report {
        model,
        analysis,
        critical,
        sections,
        thresholds,
    } = report;
    Document {
        schema: SCHEMA,
        version: VERSION,
        run: run::run(model),
        thresholds: run::limits(thresholds),
        verdict: verdict::of(report),
        not_seen: run::not_seen(analysis),
        findings: find::findings(&analysis.findings, 1),
        dismissed: find::findings(&analysis.dismissed, analysis.findings.len() + 1),
        processes: run::processes(model, analysis),
        groups: threads::groups(model, analysis),
        assignments: threads::assignments(analysis),
        threads: threads::threads(model),
        locks: tables::locks(analysis),
        sites: tables::sites(analysis),
        families: tables::families(analysis),
        events: tables::events(analysis),
        uses: nouns::uses(model),
        pairs: nouns::pairs(model),
        objects: nouns::objects(model),
        stacks: nouns::stacks(model),
        critical: critical::critical(model, *critical),
        sections: sections::sections(model, *sections),
        live_curves: model.live_curves.as_ref().map(live_curves::live_curves),
        experiments: crate::experiments(model),
        quality: run::quality(&quality::of(model)),
    }
}
