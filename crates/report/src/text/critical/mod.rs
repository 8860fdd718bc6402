//! `--critical`: what the scheduler showed. When few threads were at work, which code ran then, what the
//! others waited for, and who ended their waits (GAPP, ICPE'20, whose figure 7 is the third section).

mod goroutines;
mod loops;
pub(super) mod parallelism;
mod paths;
pub(super) mod quality;
pub(super) mod reasons;
mod threads;
mod timeline;
mod wakers;

use convoy_analysis::scheduler::Analysis;

use super::page::{plain, toned, Page, Tone};
use super::table::INDENT;
use crate::Report;

/// All sections. One that is empty says why.
pub fn write(page: &mut Page, report: &Report<'_>, analysis: &Analysis) {
    parallelism::write(page, &analysis.parallelism);
    if analysis.parallelism.wall_ns == 0 {
        quality::write(page, report, analysis);
        return;
    }
    timeline::write(page, report, analysis);
    paths::write(page, report, analysis);
    threads::write(page, report, analysis);
    reasons::write(page, report, analysis);
    wakers::write(page, report, analysis);
    loops::write(page, report, analysis);
    goroutines::write(page, report);
    quality::write(page, report, analysis);
}

/// Why there is no such page, and how to get one.
pub fn missing(report: &Report<'_>) -> String {
    let found = "--critical: the profile has no scheduler events";
    let collectors = &report.model.meta.collectors;
    let scheduler = collectors.iter().find(|c| c.name == "scheduler");
    let fix = scheduler.map_or("", |c| c.enable.as_str());
    if fix.is_empty() {
        format!("{found}; to have them: record again with sudo, sudo convoy -- COMMAND")
    } else {
        format!("{found}; to have them: {fix}")
    }
}

/// A remark under a title.
fn remark(page: &mut Page, text: impl Into<String>) {
    page.line(INDENT, vec![toned(Tone::Dim, text)]);
}

/// A labelled line under an entry; the text begins `label_width` columns after the label.
fn detail(page: &mut Page, label: &str, label_width: usize, text: String) {
    let label = toned(Tone::Dim, label);
    page.hang(2 * INDENT, label, label_width, vec![plain(text)]);
}

/// A sentence instead of an empty table.
fn nothing(page: &mut Page, text: impl Into<String>) {
    page.line(INDENT, vec![plain(text)]);
}

/// Some thread waited in loops, so that being active and being at work differ.
fn has_spinning(analysis: &Analysis) -> bool {
    !analysis.loops.is_empty() || analysis.threads.iter().any(|row| row.spinning_ns > 0)
}

/// `part` of `whole`, 0 of nothing.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        part / whole
    } else {
        0.0
    }
}
