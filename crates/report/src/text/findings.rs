//! The ranked findings.

use std::collections::BTreeMap;

use convoy_analysis::counters::{Assignment, WaitsFor};
use convoy_model::finding::{Cause, Finding, Gain};
use convoy_model::{CodeFrom, SiteFrame, SiteId};

use super::page::{plain, toned, Page, Span, Tone};
use crate::human::{self, duration, factor, percent};
use crate::replay::messages;
use crate::{names, sched_names, subject, waits, Report};

const INDENT: usize = 4;
const LABEL: usize = 8;
const GAIN: usize = 19;

/// The findings in about `lines` lines: the first ones in full, the others in a line each.
pub fn write(page: &mut Page, report: &Report<'_>, lines: usize) {
    let findings = &report.analysis.findings;
    if findings.is_empty() {
        return;
    }
    heading(page, findings.len());
    let mut used = 0;
    let mut folded = 0;
    for (i, finding) in findings.iter().enumerate() {
        let full = page.measure(|page| one(page, report, i + 1, finding, Depth::Normal));
        if i == 0 || (folded == 0 && used + full <= lines) {
            one(page, report, i + 1, finding, Depth::Normal);
            used += full;
        } else if used < lines {
            if folded == 0 {
                page.gap();
            }
            first_line(page, i + 1, finding);
            used += 1;
            folded += 1;
        } else {
            let rest = findings.len() - i;
            let text = format!("and {rest} more, each with a smaller gain: --all shows them");
            page.line(INDENT, vec![toned(Tone::Dim, text)]);
            break;
        }
    }
}

/// The first finding by itself.
pub fn first(page: &mut Page, report: &Report<'_>, finding: &Finding) {
    one(page, report, 1, finding, Depth::Normal);
}

/// All findings in full, and what was looked at and found harmless.
pub fn write_all(page: &mut Page, report: &Report<'_>) {
    let analysis = report.analysis;
    if !analysis.findings.is_empty() {
        heading(page, analysis.findings.len());
    }
    for (i, finding) in analysis.findings.iter().enumerate() {
        one(page, report, i + 1, finding, Depth::Full);
    }
    if !analysis.dismissed.is_empty() {
        page.title("Looked at and not worth it");
        for (i, finding) in analysis.dismissed.iter().enumerate() {
            one(
                page,
                report,
                analysis.findings.len() + i + 1,
                finding,
                Depth::Normal,
            );
        }
    }
}

fn heading(page: &mut Page, n: usize) {
    page.title(&format!(
        "{n} {}, most gain first (gain: throughput after the fix / now)",
        if n == 1 { "finding" } else { "findings" }
    ));
}

/// How much of a finding is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Normal,
    Full,
}

impl Depth {
    fn of<T>(self, items: &[T], normally: usize) -> &[T] {
        match self {
            Self::Normal => &items[..items.len().min(normally)],
            Self::Full => items,
        }
    }
}

fn one(page: &mut Page, report: &Report<'_>, number: usize, finding: &Finding, depth: Depth) {
    page.gap();
    first_line(page, number, finding);
    facts(page, finding, depth);
    where_and_who(page, report, finding, depth);
    causes(page, finding, depth);
    for caveat in depth.of(&finding.caveats, 2) {
        detail(page, toned(Tone::Warn, "but"), vec![plain(caveat.clone())]);
    }
    limits(page, finding, depth);
}

fn first_line(page: &mut Page, number: usize, finding: &Finding) {
    let gain = human::gain(&finding.gain);
    let pad = " ".repeat(GAIN.saturating_sub(gain.chars().count()).max(1));
    let spans = vec![
        toned(Tone::Good, gain),
        plain(pad),
        toned(Tone::Strong, finding.title.clone()),
        toned(Tone::Dim, format!("  [{}]", finding.id)),
    ];
    page.hang(
        0,
        toned(Tone::Strong, format!("{number:>2}")),
        INDENT,
        spans,
    );
}

/// What the other room says of the same thing: the first of it is shown however much other evidence there is.
const OTHER_ROOM: [&str; 3] = ["low_parallelism_ratio", "scheduler_gain", "detect_gain"];

fn facts(page: &mut Page, finding: &Finding, depth: Depth) {
    let shown = depth.of(&finding.evidence, 4);
    let rest = finding.evidence.get(shown.len()..).unwrap_or(&[]);
    let agreed = rest.iter().find(|e| OTHER_ROOM.contains(&e.key));
    let evidence: Vec<_> = shown
        .iter()
        .chain(agreed)
        .map(|e| e.text.as_str())
        .collect();
    if !evidence.is_empty() {
        detail(page, plain("seen"), vec![plain(evidence.join("; "))]);
    }
}

fn where_and_who(page: &mut Page, report: &Report<'_>, finding: &Finding, depth: Depth) {
    let ids = subject::ids(&finding.subject);
    let waits_for = match (
        subject::lock(report.analysis, &ids),
        subject::event(report.analysis, &ids),
    ) {
        (Some(lock), _) => lock.waits_for.as_slice(),
        (None, Some(event)) => event.waits_for.as_slice(),
        (None, None) => &[],
    };
    // A place of the scheduler's on an object is where its holder is blocked, not where threads wait for it.
    let held_up = is_of_scheduler(report, finding);
    let relevant = waits::alike(
        report.model,
        waits_for
            .iter()
            .filter(|w| held_up || ids.sites.is_empty() || ids.sites.contains(&w.waiter)),
    );
    let is_lock = subject::lock(report.analysis, &ids).is_some();
    for (i, waits) in depth.of(&relevant, 2).iter().enumerate() {
        let label = if i == 0 { "waits" } else { "" };
        detail(page, plain(label), waits_line(report, &waits.sum, is_lock));
    }
    if held_up || ids.objects.is_empty() {
        code(page, report, &ids);
    }
    if let Some(own) =
        subject::site(report.analysis, &ids).and_then(|site| report.model.site(site)?.own_caller())
    {
        detail(
            page,
            plain("caller"),
            vec![toned(Tone::Strong, names::frame(own))],
        );
    }
    subjects(page, report, &ids);
    if let Some(best) = subject::assignment(report.analysis, &ids) {
        detail(page, plain("threads"), assignment(report, best));
    }
}

/// Callers that are named for the code of a finding.
const CALLERS: usize = 4;

/// Whether the scheduler's events alone led to a finding.
fn is_of_scheduler(report: &Report<'_>, finding: &Finding) -> bool {
    let own = report.critical.iter();
    own.flat_map(|c| c.findings.iter().chain(&c.dismissed))
        .any(|f| f.id == finding.id && f.subject == finding.subject)
}

/// The code that ran or was blocked.
fn code(page: &mut Page, report: &Report<'_>, ids: &subject::Ids) {
    for site in &ids.sites {
        let path = sched_names::path_of(report.model, Some(*site), CALLERS);
        detail(page, plain("code"), vec![toned(Tone::Strong, path)]);
        hot_lines(page, report, *site);
    }
}

/// The loop, file or processes that the scheduler found.
fn subjects(page: &mut Page, report: &Report<'_>, ids: &subject::Ids) {
    let model = report.model;
    for spin in ids
        .loops
        .iter()
        .filter_map(|id| subject::spin_loop(model, *id))
    {
        let mut spans = vec![toned(Tone::Strong, sched_names::loop_place(spin))];
        spans.push(plain(format!(": {}", sched_names::spin(spin.kind))));
        if !spin.evidence.is_empty() {
            spans.push(plain(format!(": {}", names::clip(&spin.evidence, 160))));
        }
        detail(page, plain("loop"), spans);
    }
    for name in &ids.names {
        let name = sched_names::file_of(model, *name);
        detail(page, plain("file"), vec![toned(Tone::Strong, name)]);
    }
    if !ids.processes.is_empty() {
        let names: Vec<_> = ids
            .processes
            .iter()
            .map(|id| sched_names::process_of(model, *id))
            .collect();
        detail(page, plain("ranks"), vec![plain(names.join(", "))]);
    }
}

/// Lines that are named for a call path.
const LINES: usize = 3;

/// Where in the function most of it was, if samples tell.
fn hot_lines(page: &mut Page, report: &Report<'_>, site: SiteId) {
    let paths = report.critical.map_or(&[][..], |c| &c.paths);
    let Some(path) = paths.iter().find(|p| p.site == Some(site)) else {
        return;
    };
    // Functions that were inlined at one line are one line.
    let mut by_line: BTreeMap<(&str, u32), f64> = BTreeMap::new();
    let sampled = path.functions.iter().flat_map(|f| f.lines.iter());
    for line in sampled.filter(|line| line.line > 0 && line.from == CodeFrom::Sample) {
        *by_line.entry((&line.file, line.line)).or_default() += line.low_cm_ns;
    }
    let mut lines: Vec<_> = by_line.into_iter().collect();
    lines.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    // One line is that of the path itself.
    if lines.len() < 2 || path.low_cm_ns <= 0.0 {
        return;
    }
    let texts: Vec<_> = lines
        .iter()
        .take(LINES)
        .map(|&((file, line), low_cm_ns)| {
            let file = file.rsplit('/').next().unwrap_or_default();
            let share = percent(low_cm_ns / path.low_cm_ns);
            format!("{share} at {}:{line}", names::clip(file, 40))
        })
        .collect();
    detail(page, plain("lines"), vec![plain(texts.join(", "))]);
}

/// `insert() a.c:12; held since rebuild() a.c:40 until line 52 (38 ms, 38 % of its waits)`.
pub(super) fn waits_line(report: &Report<'_>, waits: &WaitsFor, is_lock: bool) -> Vec<Span> {
    let mut spans = vec![toned(
        Tone::Strong,
        names::site_of(report.model, waits.waiter),
    )];
    let released = waits
        .released_at
        .and_then(|id| report.model.sites.get(id.0 as usize))
        .and_then(names::shown);
    let acquired = convoy_model::telling(&waits.holder);
    match (is_lock, acquired, released) {
        (true, Some(acquired), released) => {
            spans.push(plain("; held since "));
            spans.push(toned(Tone::Strong, names::frame(acquired)));
            if let Some(released) = released {
                spans.push(plain(format!(" until {}", until(acquired, released))));
            }
        }
        (true, None, Some(released)) => {
            spans.push(plain(format!("; released at {}", names::frame(released))));
        }
        (true, None, None) => spans.push(plain("; holder not seen")),
        (false, _, Some(released)) => {
            spans.push(plain(" until woken at "));
            spans.push(toned(Tone::Strong, names::frame(released)));
        }
        (false, _, None) => {}
    }
    let amount = format!(
        " ({}, {} of its waits)",
        duration(waits.wait_ns as f64),
        percent(waits.share)
    );
    spans.push(plain(amount));
    spans
}

/// The end of a section; only its line if the section is within one function.
fn until(acquired: &SiteFrame, released: &SiteFrame) -> String {
    let together = acquired.function == released.function
        && acquired.file == released.file
        && !acquired.function.is_empty()
        && released.line > 0;
    if together {
        format!("line {}", released.line)
    } else {
        names::frame(released)
    }
}

/// `now reader 1, encoder 2, writer 1: best 1, 5, 1 (2.1x)`.
fn assignment(report: &Report<'_>, best: &Assignment) -> Vec<Span> {
    let now: Vec<_> = best
        .groups
        .iter()
        .zip(&best.now)
        .map(|(id, n)| {
            let name = report.model.groups.get(id.0 as usize).map(names::group);
            format!("{n} {}", name.unwrap_or_else(|| "unknown".into()))
        })
        .collect();
    let mut spans = vec![plain(format!("now {}", now.join(" + ")))];
    let option = best.options.first();
    if option.is_some_and(|option| option.threads == best.now) {
        spans.push(plain("; as many threads in all cannot be spread better"));
    } else if let Some(option) = option {
        let threads: Vec<_> = option.threads.iter().map(u32::to_string).collect();
        spans.push(plain("; best "));
        spans.push(toned(Tone::Strong, threads.join(" + ")));
        spans.push(plain(format!(" ({})", factor(option.throughput))));
    }
    spans
}

fn causes(page: &mut Page, finding: &Finding, depth: Depth) {
    let Some((first, others)) = finding.causes.split_first() else {
        return;
    };
    cause(page, "why", first);
    if depth == Depth::Full {
        others.iter().for_each(|other| cause(page, "or", other));
        if !finding.undecided.is_empty() {
            detail(
                page,
                plain("decide"),
                vec![plain(finding.undecided.clone())],
            );
        }
    } else if !others.is_empty() {
        let texts: Vec<_> = others.iter().map(|c| c.text.as_str()).collect();
        let text = format!(
            "{} (--all: what to do then, and what decides)",
            texts.join("; or ")
        );
        detail(page, plain("or"), vec![plain(text)]);
    }
}

fn cause(page: &mut Page, label: &str, cause: &Cause) {
    detail(page, plain(label), vec![plain(cause.text.clone())]);
    if !cause.fix.is_empty() {
        let fix = toned(Tone::Strong, cause.fix.clone());
        detail(page, toned(Tone::Good, "fix"), vec![fix]);
    }
}

/// What bounds the gain; how it was predicted only where there is room.
fn limits(page: &mut Page, finding: &Finding, depth: Depth) {
    if let Some(text) = messages::estimates(&finding.gain) {
        detail(page, plain("replay"), vec![plain(text)]);
    }
    if let Some(text) = messages::experiments(&finding.gain) {
        detail(page, plain("tried"), vec![plain(text)]);
    }
    let Gain {
        method,
        limited_by,
        high,
        ..
    } = &finding.gain;
    let mut text = Vec::new();
    if !limited_by.is_empty() {
        let what = if *high > 1.0 { "limited by" } else { "none:" };
        text.push(format!("{what} {limited_by}"));
    }
    if depth == Depth::Full && !method.is_empty() {
        text.push(format!("predicted by {method}"));
    }
    if !text.is_empty() {
        detail(
            page,
            toned(Tone::Dim, "gain"),
            vec![toned(Tone::Dim, text.join("; "))],
        );
    }
}

fn detail(page: &mut Page, label: Span, spans: Vec<Span>) {
    page.hang(INDENT, label, LABEL, spans);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_a_middle_and_an_interval() {
        let of = |low, mid, high| {
            human::gain(&Gain {
                low,
                mid,
                high,
                method: String::new(),
                limited_by: String::new(),
                estimates: Vec::new(),
            })
        };
        assert_eq!(of(1.4, 1.9, 2.1), "1.9x (1.4–2.1x)");
        assert_eq!(of(1.0, 1.02, 1.3), "1.02x (1.00–1.3x)");
        assert_eq!(of(1.0, 1.0, 1.0), "no gain");
        assert_eq!(of(1.0, 1.4, f64::INFINITY), "1.4x (1.00x or more)");
    }
}
