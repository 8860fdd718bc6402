//! What traced critical sections touched: their lines, coloured by it.

use convoy_diagnose::{LineRow, SiteRow};
use convoy_report::human::{count, few, percent};
use convoy_report::{names, Report};
use maud::{html, Markup};

/// Places that are shown.
const PLACES: usize = 24;
/// Lines of a place.
const LINES: usize = 80;

/// How memory is shared, in the order of [`LineRow::by_sharing`]: what the style sheet calls it, and people.
const SHARING: [(&str, &str); 5] = [
    ("local", "one thread's own"),
    ("read-only", "only read"),
    ("rare", "touched too rarely to say"),
    (
        "overwritten",
        "handed on: each thread writes before it reads",
    ),
    ("shared", "shared, and written"),
];

pub(super) fn sections(report: &Report<'_>) -> Markup {
    let Some(sections) = report.sections else {
        return html! {};
    };
    html! {
        section #sections aria-labelledby="sections-title" {
            h2 #sections-title { "Critical sections" }
            p { (count(sections.traced)) " traced of " (count(sections.run)) " that ran. The lines of each, by what they touch:" }
            p .legend {
                @for (class, name) in SHARING { i class={ "touches " (class) } {} (name) " " }
            }
            @if sections.sites.is_empty() { p { "None of the locks that were asked for was taken." } }
            @for (i, row) in sections.sites.iter().take(PLACES).enumerate() { (place(report, row, i == 0)) }
            @if sections.sites.len() > PLACES {
                p .remark { "And " (sections.sites.len() - PLACES) " more places: convoy report --format json has all." }
            }
        }
    }
}

fn place(report: &Report<'_>, row: &SiteRow, open: bool) -> Markup {
    let lock = row
        .locks
        .first()
        .map(|id| names::object_of(report.model, *id));
    html! {
        details .object open[open] {
            summary {
                h3 { (lock.as_deref().unwrap_or("unknown lock")) } " at " code { (names::site_of(report.model, row.site)) }
                @if let Some(cause) = row.verdict.decided() { ": " strong { (cause.text) } }
            }
            dl {
                @for cause in &row.verdict.causes {
                    dt { "why" } dd { (cause.text) }
                    @if !cause.fix.is_empty() { dt .good { "fix" } dd { strong { (cause.fix) } } }
                }
                @if !row.verdict.undecided.is_empty() { dt { "decide" } dd { (row.verdict.undecided) } }
                @if !row.verdict.evidence.is_empty() {
                    dt { "seen" }
                    dd { ul { @for e in &row.verdict.evidence { li { (e.text) } } } }
                }
                dt { "size" }
                dd {
                    (few(row.instructions.mean)) " instructions a section (at most " (few(row.instructions.max)) "), "
                    (few(row.accesses.mean)) " accesses, of them " (few(row.shared.mean)) " to shared words; "
                    (count(row.traced)) " traced of " (count(row.run))
                }
            }
            (lines(&row.lines))
        }
    }
}

fn lines(lines: &[LineRow]) -> Markup {
    if lines.is_empty() {
        return html! {};
    }
    html! {
        div .scroll tabindex="0" role="region" aria-label="Lines of the section" {
            table .code {
                caption { "Lines, with all that they call" }
                thead { tr {
                    th scope="col" { "line" } th scope="col" { "touches" } th .n scope="col" { "of the instructions" }
                    th .n scope="col" { "times" } th .n scope="col" { "accesses" } th scope="col" { "" }
                } }
                tbody { @for line in lines.iter().take(LINES) { (line_row(line)) } }
            }
        }
    }
}

fn line_row(line: &LineRow) -> Markup {
    // The most shared of what it touches says what it needs the lock for.
    let worst = line.by_sharing.iter().rposition(|&share| share > 0.0);
    let (class, words) = worst
        .and_then(|at| SHARING.get(at))
        .copied()
        .unwrap_or(("nothing", "nothing"));
    html! {
        tr class={ "touches " (class) } {
            th scope="row" { code { (names::frame(&line.frame)) } }
            td {
                (words)
                @for ((_, name), share) in SHARING.iter().zip(line.by_sharing).rev() {
                    @if share > 0.0 && share < 0.995 { span .dim { ", " (percent(share)) " " (name) } }
                }
            }
            td .n { (percent(line.share)) }
            td .n { (few(line.executions)) }
            td .n { (few(line.accesses)) }
            td { @if line.movable { strong .good { "may move out" } } @else if line.calls { "calls" } }
        }
    }
}
