//! The ranked findings, each linked to what it rests on.

use convoy_analysis::counters::WaitsFor;
use convoy_model::finding::{Cause, Finding};
use convoy_report::human::{self, duration, percent};
use convoy_report::replay::messages;
use convoy_report::waits::alike;
use convoy_report::{names, sched_names, subject, Report};
use maud::{html, Markup};

use crate::data::{waited_for, Data};

/// Places named for a finding.
const PLACES: usize = 3;

pub(super) fn findings(report: &Report<'_>, data: &Data) -> Markup {
    let analysis = report.analysis;
    let found = &analysis.findings;
    html! {
        section #findings aria-labelledby="findings-title" {
            h2 #findings-title { "Findings" }
            @if found.is_empty() {
                p {
                    @if report.model.threads.is_empty() { "No thread was seen: there is nothing to judge (" a href="#quality" { "why" } ")." }
                    @else { "None that is worth a person's time." }
                }
            } @else {
                p .remark { "Most gain first. Gain: throughput after the fix, as a multiple of today's, with its interval." }
            }
            ol .findings {
                @for (i, finding) in found.iter().enumerate() {
                    li { (one(report, data, i + 1, finding, i == 0)) }
                }
            }
            @if !analysis.dismissed.is_empty() {
                details {
                    summary { "Looked at and not worth it (" (analysis.dismissed.len()) ")" }
                    ol .findings start=(found.len() + 1) {
                        @for (i, finding) in analysis.dismissed.iter().enumerate() {
                            li { (one(report, data, found.len() + i + 1, finding, false)) }
                        }
                    }
                }
            }
        }
    }
}

fn one(report: &Report<'_>, data: &Data, number: usize, finding: &Finding, open: bool) -> Markup {
    let ids = subject::ids(&finding.subject);
    let row = subject::lock(report.analysis, &ids);
    let waits_for = match (row, subject::event(report.analysis, &ids)) {
        (Some(lock), _) => lock.waits_for.as_slice(),
        (None, Some(event)) => event.waits_for.as_slice(),
        (None, None) => &[],
    };
    let waits_for = alike(report.model, waits_for);
    html! {
        details #{ "finding-" (number) } open[open] {
            summary {
                span .gain { (human::gain(&finding.gain)) }
                " " strong { (finding.title) } " "
                code .id { (finding.id.as_str()) }
            }
            dl {
                @if !finding.evidence.is_empty() {
                    dt { "seen" }
                    dd { ul { @for e in &finding.evidence { li { (e.text) } } } }
                }
                @if !waits_for.is_empty() {
                    dt { "waits" }
                    dd { ul { @for w in waits_for.iter().take(PLACES) { li { (waits(report, &w.sum, row.is_some())) } } } }
                }
                @if !ids.sites.is_empty() {
                    dt { "code" }
                    dd { @for site in ids.sites.iter().take(PLACES) {
                        div { code { (sched_names::path_of(report.model, Some(*site), 6)) } }
                    } }
                }
                @if let Some(own) = subject::site(report.analysis, &ids)
                    .and_then(|site| report.model.site(site)?.own_caller())
                {
                    dt { "caller" }
                    dd { code { (names::frame(own)) } }
                }
                @for spin in ids.loops.iter().filter_map(|id| subject::spin_loop(report.model, *id)) {
                    dt { "loop" }
                    dd { code { (sched_names::loop_place(spin)) } ": " (sched_names::spin(spin.kind)) }
                }
                (causes(finding))
                @for caveat in &finding.caveats {
                    dt .warn { "but" }
                    dd { (caveat) }
                }
                @if let Some(text) = messages::estimates(&finding.gain) {
                    dt { "replay" }
                    dd { (text) }
                }
                @if let Some(text) = messages::experiments(&finding.gain) {
                    dt { "tried" }
                    dd { (text) }
                }
                @if !finding.gain.method.is_empty() || !finding.gain.limited_by.is_empty() {
                    dt { "gain" }
                    dd .dim {
                        @if !finding.gain.limited_by.is_empty() { "limited by " (finding.gain.limited_by) "; " }
                        @if !finding.gain.method.is_empty() { "predicted by " (finding.gain.method) }
                    }
                }
                (links(report, data, &ids))
            }
        }
    }
}

/// The most likely cause with its fix; the others are folded, as long as nobody has decided.
fn causes(finding: &Finding) -> Markup {
    let Some((first, others)) = finding.causes.split_first() else {
        return html! {};
    };
    html! {
        dt { (if others.is_empty() { "why" } else { "likely" }) }
        dd { (first.text) }
        @if !first.fix.is_empty() {
            dt .good { "fix" }
            dd { strong { (first.fix) } }
        }
        @if !others.is_empty() {
            dt { "or" }
            dd {
                details .others {
                    summary { (human::count_of(others.len() as u64, "other cause is", "other causes are")) " possible" }
                    ul { @for cause in others { (alternative(cause)) } }
                    @if !finding.undecided.is_empty() { p { "What decides: " (finding.undecided) "." } }
                }
            }
        }
    }
}

fn alternative(cause: &Cause) -> Markup {
    html! {
        li {
            (cause.text)
            @if !cause.fix.is_empty() { br; span .dim { "Fix: " } (cause.fix) }
        }
    }
}

fn waits(report: &Report<'_>, waits: &WaitsFor, is_lock: bool) -> Markup {
    let released = waits.released_at.map(|id| names::site_of(report.model, id));
    html! {
        code { (names::site_of(report.model, waits.waiter)) }
        @if let Some(holder) = convoy_model::telling(&waits.holder).filter(|_| is_lock) {
            "; held since " code { (names::frame(holder)) }
            @if let Some(released) = &released { " until " code { (released) } }
        } @else if let Some(released) = &released {
            (if is_lock { "; released at " } else { " until woken at " }) code { (released) }
        }
        " (" (duration(waits.wait_ns as f64)) ", " (percent(waits.share)) " of its waits)"
    }
}

/// The pictures that show it.
fn links(report: &Report<'_>, data: &Data, ids: &subject::Ids) -> Markup {
    let shown = waited_for(report);
    let objects: Vec<_> = ids
        .objects
        .iter()
        .filter(|id| shown.iter().any(|row| row.object == **id))
        .take(PLACES)
        .collect();
    let groups = !ids.groups.is_empty() && !report.analysis.groups.is_empty();
    html! {
        @if !objects.is_empty() || groups || data.has_activity || data.has_lanes {
            dt { "see" }
            dd .links {
                @for id in objects {
                    a href={ "#object-" (id.0) } { (names::object_of(report.model, *id)) }
                }
                @if groups { a href="#groups" { "thread groups" } }
                @if data.has_activity { a href="#parallelism" { "parallelism" } }
                @if data.has_lanes {
                    a href="#timeline" data-objects=(ids.objects.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(" ")) { "timeline" }
                }
            }
        }
    }
}
