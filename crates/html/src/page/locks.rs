//! What was waited for: a table of all, and the most waited for in detail.

use std::collections::BTreeSet;

use convoy_analysis::counters::Quadrant;
use convoy_model::{is_lock_kind, ObjectId};
use convoy_report::human::{count, count_of, duration, percent, rate};
use convoy_report::{names, subject, waits, Report};
use maud::{html, Markup};

use crate::data::{matrix, waited_for, Data, Matrix, WaitedFor};

/// Rows of a table.
const ROWS: usize = 60;
/// Rows of what nobody waited for, or hardly, where there are none that somebody did.
const IDLE_ROWS: usize = 12;
/// Of the waits for events; what has less is not in the table, where there are others.
const LEAST_ROW: f64 = 0.001;
/// Objects whose details are open.
const OPEN: usize = 2;
/// Objects whose details are printed.
const PRINTED: usize = 10;
/// Share of the waits that an object must have to be one of them.
const LEAST: f64 = 0.01;

pub(super) fn locks(report: &Report<'_>, data: &Data) -> Markup {
    let analysis = report.analysis;
    if analysis.locks.is_empty() && analysis.events.is_empty() {
        return html! {};
    }
    let shown = waited_for(report);
    let printed = printed(report, &shown);
    html! {
        section #locks aria-labelledby="locks-title" {
            h2 #locks-title { "Locks and what else is waited for" }
            (lock_table(report))
            (event_table(report))
            @for (i, row) in shown.iter().enumerate() {
                (details(report, data, row, i < OPEN, printed.contains(&row.object)))
            }
            @if let Some(most) = shown.iter().filter(|row| !printed.contains(&row.object)).map(|row| row.wait_ns).max() {
                p .remark.paper {
                    "Not on paper: " (count_of((shown.len() - printed.len()) as u64, "object", "objects"))
                    " that no finding is about and that were waited for less, at most " (duration(most as f64)) "."
                }
            }
            (families(report))
        }
    }
}

/// Nobody leafs through a page for each microsecond: the objects of findings, and those with a share of the waits.
fn printed(report: &Report<'_>, shown: &[WaitedFor<'_>]) -> Vec<ObjectId> {
    let findings = report.analysis.findings.iter();
    let found: BTreeSet<_> = findings
        .flat_map(|finding| subject::ids(&finding.subject).objects)
        .collect();
    // Waits that nobody could shorten may be most of all waits, and leave none of the others a share.
    let all = |idle: bool| {
        let rows = shown.iter().filter(|row| idle || !row.idle);
        rows.map(|row| row.wait_ns).fold(0, u64::saturating_add)
    };
    let (all, shortened) = (all(true), all(false));
    let has_share = |row: &&WaitedFor<'_>| {
        let of_ns = if row.idle { all } else { shortened };
        row.wait_ns as f64 >= LEAST * of_ns as f64
    };
    let is_found = |row: &&WaitedFor<'_>| found.contains(&row.object);
    let first = shown.iter().filter(is_found);
    let others = shown.iter().filter(|row| !is_found(row) && has_share(row));
    first
        .chain(others)
        .take(PRINTED)
        .map(|row| row.object)
        .collect()
}

fn lock_table(report: &Report<'_>) -> Markup {
    let rows = &report.analysis.locks;
    if rows.is_empty() {
        return html! {};
    }
    let waited = rows.iter().filter(|row| row.stats.wait_ns > 0).count();
    let shown = rows.len().min(waited.clamp(IDLE_ROWS, ROWS));
    html! {
        div .scroll tabindex="0" role="region" aria-label="Table of locks" {
            table {
                caption { "Locks, most waited for first" @if rows.len() > shown { " (" (shown) " of " (rows.len()) ")" } }
                thead { tr {
                    th scope="col" { "lock" } th scope="col" { "kind" }
                    th .n scope="col" { "waited" } th .n scope="col" { "share of its threads' time" }
                    th .n scope="col" { "acquisitions" } th .n scope="col" { "rate" } th .n scope="col" { "contended" }
                    th .n scope="col" { "longest wait" } th .n scope="col" { "hold, contended" } th .n scope="col" { "held in all" }
                    th .n scope="col" { "threads" }
                } }
                tbody {
                    @for row in rows.iter().take(shown) {
                        tr {
                            th scope="row" { (linked(report, row.object)) }
                            td { (kind(report, row.object)) }
                            td .n { (duration(row.stats.wait_ns as f64)) }
                            td .n { (percent(row.stats.waited_ratio)) }
                            @if row.stats.quadrant == Quadrant::Unknown {
                                td .n { "?" } td .n { "?" }
                            } @else {
                                td .n { (count(row.stats.acquisitions)) }
                                td .n { (rate(row.stats.frequency_hz)) }
                            }
                            td .n { (row.stats.contention_ratio.map_or_else(|| "?".into(), percent)) }
                            td .n { (duration(row.stats.wait_max_ns as f64)) }
                            td .n { (row.stats.hold_contended_ns.map_or_else(|| "?".into(), duration)) }
                            td .n { (duration(row.stats.hold_total_ns)) }
                            td .n { (row.stats.threads) }
                        }
                    }
                }
            }
        }
    }
}

fn event_table(report: &Report<'_>) -> Markup {
    let rows = &report.analysis.events;
    if rows.is_empty() {
        return html! {};
    }
    // Who joins 200 threads waits for the first of them.
    let all_ns: f64 = rows.iter().map(|row| row.wait_ns as f64).sum();
    let waited = rows
        .iter()
        .filter(|row| row.wait_ns as f64 >= LEAST_ROW * all_ns)
        .count();
    let shown = rows.len().min(waited.clamp(IDLE_ROWS, ROWS));
    html! {
        div .scroll tabindex="0" role="region" aria-label="Table of events" {
            table {
                caption {
                    "Condition variables, barriers, queues and the like, most waited for first"
                    @if rows.len() > shown { " (" (shown) " of " (rows.len()) ")" }
                }
                thead { tr {
                    th scope="col" { "object" } th scope="col" { "kind" } th .n scope="col" { "waited" }
                    th .n scope="col" { "share of its threads' time" } th .n scope="col" { "waits" }
                    th .n scope="col" { "longest" } th .n scope="col" { "threads" } th scope="col" { "what the waits were" }
                } }
                tbody {
                    @for row in rows.iter().take(shown) {
                        tr {
                            th scope="row" { (linked(report, row.object)) }
                            td { (kind(report, row.object)) }
                            td .n { (duration(row.wait_ns as f64)) }
                            td .n { (percent(row.waited_ratio)) }
                            td .n { (count(row.waits)) }
                            td .n { (duration(row.wait_max_ns as f64)) }
                            td .n { (row.threads) }
                            td { (row.why) }
                        }
                    }
                }
            }
        }
    }
}

fn kind(report: &Report<'_>, id: ObjectId) -> &'static str {
    let object = report.model.objects.get(id.0 as usize);
    object.map_or("", |object| names::kind(object.kind))
}

fn linked(report: &Report<'_>, id: ObjectId) -> Markup {
    let name = names::object_of(report.model, id);
    let shown = waited_for(report).iter().any(|row| row.object == id);
    html! {
        @if shown { a href={ "#object-" (id.0) } { (name) } } @else { (name) }
    }
}

fn details(
    report: &Report<'_>,
    data: &Data,
    row: &WaitedFor<'_>,
    open: bool,
    printed: bool,
) -> Markup {
    let name = names::object_of(report.model, row.object);
    let id = row.object.0;
    let object = report.model.objects.get(id as usize);
    // Of others the peer is who woke.
    let held = object.is_some_and(|object| is_lock_kind(object.kind));
    html! {
        details .object.unprinted[!printed] #{ "object-" (id) } data-object=(id) open[open] {
            summary { h3 { (name) } " " (kind(report, row.object)) ", waited " (duration(row.wait_ns as f64)) }
            div .pictures {
                @if data.has_lanes {
                    figure .curve data-curve="waits" data-object=(id) {
                        figcaption { "Threads that wait for it, over time" }
                        div .drawing role="img" aria-label={ "Threads waiting for " (name) " over time" } {}
                    }
                }
                @if data.has_lanes && held {
                    figure .curve data-curve="holders" data-object=(id) {
                        figcaption {
                            "Who held it while others waited, over time"
                            @if data.joined_below_ns > 0 { "; waits shorter than " (duration(data.joined_below_ns as f64)) " are not in it" }
                        }
                        div .drawing role="img" aria-label={ "Threads that held " (name) " while others waited, over time; the table below has the sums" } {}
                        p .said {}
                    }
                }
                figure .curve data-curve="hist" data-object=(id) {
                    figcaption { "Waits by length" }
                    div .drawing role="img" aria-label={ "Histogram of waits for " (name) } {}
                    (histogram(row.hist))
                }
            }
            @if let Some(matrix) = matrix(report.model, row.object) { (who_for_whom(&matrix, held)) }
            (places(report, row, held))
        }
    }
}

/// For those who do not see the picture.
fn histogram(hist: &[u64]) -> Markup {
    html! {
        table .unseen {
            caption { "Waits by length" }
            thead { tr { th scope="col" { "from" } th scope="col" { "to" } th scope="col" { "waits" } } }
            tbody {
                @for (i, n) in hist.iter().enumerate().filter(|(_, n)| **n > 0) {
                    tr {
                        td { (duration((1u128 << i) as f64)) }
                        td { (duration((1u128 << (i + 1)) as f64)) }
                        td { (count(*n)) }
                    }
                }
            }
        }
    }
}

fn who_for_whom(matrix: &Matrix, held: bool) -> Markup {
    let most = matrix
        .cells
        .iter()
        .flatten()
        .copied()
        .max()
        .unwrap_or(0)
        .max(1);
    let what = if held {
        "waited for the holder"
    } else {
        "waited until woken by"
    };
    let nobody = matrix.cells.iter().all(|row| row.last() == Some(&0));
    html! {
        div .scroll tabindex="0" role="region" aria-label="Who waited for whom" {
            table .matrix {
                caption {
                    "Who (row) " (what) " (column)"
                    @if matrix.by_group { ", by thread group" }
                }
                thead { tr {
                    td {}
                    @for label in &matrix.labels { th scope="col" { span { (label) } } }
                    @if !nobody { th scope="col" { span { "not seen" } } }
                } }
                tbody {
                    @for (label, row) in matrix.labels.iter().zip(&matrix.cells) {
                        tr {
                            th scope="row" { (label) }
                            @for (at, ns) in row.iter().enumerate().filter(|(at, _)| !nobody || *at < matrix.labels.len()) {
                                (cell(*ns, most, at))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn cell(ns: u64, most: u64, at: usize) -> Markup {
    // The eye compares areas badly and shades worse: the number is there as well.
    let share = (ns as f64 / most as f64).sqrt();
    html! {
        @if ns == 0 {
            td .n data-column=(at) { "" }
        } @else {
            td .n.heat data-column=(at) style={ "--heat:" (format!("{share:.2}")) } { (duration(ns as f64)) }
        }
    }
}

/// Call sites, most waited first.
const PLACES: usize = 8;

fn places(report: &Report<'_>, row: &WaitedFor<'_>, held: bool) -> Markup {
    if row.waits_for.is_empty() {
        return html! {};
    }
    html! {
        div .scroll tabindex="0" role="region" aria-label="Places" {
            table {
                caption { "Where it is waited, and for whom" }
                thead { tr {
                    th scope="col" { "waits at" }
                    @if held { th scope="col" { "held since" } }
                    th scope="col" { (if held { "released at" } else { "woken at" }) }
                    th .n scope="col" { "waits" } th .n scope="col" { "waited" } th .n scope="col" { "longest" } th .n scope="col" { "share" }
                } }
                tbody {
                    @for all in waits::alike(report.model, row.waits_for).iter().take(PLACES) {
                        @let waits = &all.sum;
                        tr {
                            td {
                                code { (names::site_of(report.model, waits.waiter)) }
                                @if let Some(callers) = all.callers(report.model) { div .dim { "called from " (callers) } }
                            }
                            @if held { td { code { (convoy_model::telling(&waits.holder).map_or_else(|| "not seen".into(), names::frame)) } } }
                            td { code { (waits.released_at.map_or_else(|| "not seen".into(), |id| names::site_of(report.model, id))) } }
                            td .n { (count(waits.waits)) }
                            td .n { (duration(waits.wait_ns as f64)) }
                            td .n { (duration(waits.wait_max_ns as f64)) }
                            td .n { (percent(waits.share)) }
                        }
                    }
                }
            }
        }
    }
}

fn families(report: &Report<'_>) -> Markup {
    let families: Vec<_> = report
        .analysis
        .families
        .iter()
        .filter(|family| family.locks.len() > 1)
        .take(8)
        .collect();
    html! {
        @if !families.is_empty() {
            h3 #families { "Locks that are taken at the same place" }
            @for (i, family) in families.iter().enumerate() {
                figure .curve data-curve="family" data-family=(i) {
                    figcaption {
                        (count(family.locks.len() as u64)) " locks at " code { (names::site_of(report.model, family.site)) } ": "
                        "the most used tenth has " (percent(family.top_tenth_acquisitions)) " of the acquisitions and "
                        (percent(family.top_tenth_waits)) " of the waits"
                        @if family.asymmetric { strong { " (unequal)" } }
                    }
                    div .drawing role="img" aria-label="Acquisitions and waits by lock" {}
                }
            }
        }
    }
}
