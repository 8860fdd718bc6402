//! Loops in which threads wait without giving up their processor.

use convoy_analysis::scheduler::{Analysis, LoopRow};

use super::paths::SMALL;
use super::{detail, nothing, remark};
use crate::human::{count, count_of, duration, percent};
use crate::sched_names;
use crate::text::page::{toned, Page, Tone};
use crate::text::table::INDENT;
use crate::{names, subject, Report};

/// Loops that are listed.
const ROWS: usize = 12;

/// Callers that are named.
const CALLERS: usize = 3;

/// Columns of the label of a line under a loop.
const LABEL: usize = 10;

/// Call paths that a loop waits for.
const PATHS: usize = 2;

/// The section.
pub fn write(page: &mut Page, report: &Report<'_>, analysis: &Analysis) {
    page.title("Loops that wait on the processor (busy waiting)");
    if analysis.loops.is_empty() {
        nothing(
            page,
            if analysis.quality.sample_period_ns == 0 {
                "not known: they show in samples of the instruction pointer, and none were taken"
            } else {
                "none was seen"
            },
        );
        return;
    }
    for row in analysis.loops.iter().take(ROWS) {
        one(page, report, analysis, row);
    }
    if analysis.loops.len() > ROWS {
        let rest = count((analysis.loops.len() - ROWS) as u64);
        remark(page, format!("and {rest} more: --format json has all"));
    }
}

fn one(page: &mut Page, report: &Report<'_>, analysis: &Analysis, row: &LoopRow) {
    let model = report.model;
    let spin = subject::spin_loop(model, row.spin);
    let place = spin.map_or_else(
        || sched_names::place(model, row.site),
        sched_names::loop_place,
    );
    page.line(INDENT, vec![toned(Tone::Strong, place)]);
    let line = |page: &mut Page, label, text| detail(page, label, LABEL, text);
    let cost = format!(
        "{} of CPU time, {} of all; {}, {}",
        duration(row.running_ns as f64),
        percent(row.share),
        count_of(row.samples, "sample", "samples"),
        sched_names::threads(model, row.threads, row.group)
    );
    line(page, "burns", cost);
    let evidence = spin.map_or("", |s| s.evidence.as_str());
    let mut kind = sched_names::spin(row.kind).to_owned();
    if !evidence.is_empty() {
        kind += &format!(": {}", names::clip(evidence, 240));
    }
    line(page, "evidence", kind);
    if row.site.is_some() {
        let path = sched_names::path_of(model, row.site, CALLERS);
        line(page, "called at", path);
    }
    let waits_for = row.waits_for.iter().take(PATHS);
    for (rank, path) in waits_for.filter_map(|ix| Some((ix + 1, analysis.paths.get(*ix)?))) {
        let mut text = sched_names::path_of(model, path.site, CALLERS);
        if path.share >= SMALL {
            text += &format!(" (number {rank} above)");
        }
        line(page, "waits for", text);
    }
}
