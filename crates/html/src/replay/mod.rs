//! The page of a replay: both runs, what each change buys, the source of what to change.
//!
//! Everything is drawn here, as SVG: a script only zooms the runs and moves the sliders.

mod changes;
mod curve;
mod dials;
mod regions;
mod runs;

use convoy_replay::analysis::Analysis;
use convoy_replay::tables::{Cell, Table};
use convoy_report::replay::{caveats, exhibits, gain, messages};
use maud::{html, Markup, PreEscaped, DOCTYPE};

use crate::page::POLICY;

const STYLES: [&str; 2] = [
    include_str!("../../assets/style.css"),
    include_str!("../../assets/replay.css"),
];

const SCRIPT: &str = include_str!("../../assets/replay.js");

/// Writes the page.
pub fn page(analysis: &Analysis) -> String {
    let subject = messages::subject(analysis);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "convoy replay: " (subject) }
                @for style in STYLES { style { (PreEscaped(style)) } }
            }
            body {
                a .skip href="#regions" { "Skip to the code regions" }
                (head(analysis, &subject))
                (navigation(analysis))
                main {
                    (regions::contention(analysis))
                    (regions::table(analysis))
                    (runs::runs(analysis))
                    (changes::what_ifs(analysis))
                    (dials::dials(analysis))
                    (changes::plan(analysis))
                    (curve::curve(analysis))
                    (regions::sources(analysis))
                    (regions::races(analysis))
                    (tables(analysis))
                    (limits(analysis))
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn head(analysis: &Analysis, subject: &str) -> Markup {
    let first = analysis.regions.first();
    let first = first.filter(|region| gain::is_reportable(&region.answer));
    let trust = if analysis.is_trusted() {
        "good"
    } else {
        "warn"
    };
    html! {
        header {
            p .run { code { (subject) } " " (messages::recorded(&analysis.recorded).join(", ")) }
            h1 #verdict { (messages::verdict(analysis)) }
            p #fidelity .run {
                "Fidelity: "
                @for (i, baseline) in analysis.baselines.iter().enumerate() {
                    @if i > 0 { ", " } (messages::fidelity(baseline))
                }
                @if !analysis.baselines.is_empty() { ": " }
                strong class=(trust) { (messages::fidelity_verdict(analysis)) }
            }
            @if let Some(region) = first {
                p .lead {
                    strong .gain { (gain::of_answer(&region.answer)) } " "
                    a href="#region-1" { (region.lock) }
                    span .fix { "Fix: " (messages::fix(region)) }
                }
            }
        }
    }
}

fn navigation(analysis: &Analysis) -> Markup {
    let has_source = analysis.regions.iter().any(|r| !r.source.is_empty());
    let parts = [
        ("contention", "Contention", regions::has_classes(analysis)),
        ("regions", "Code regions", !analysis.regions.is_empty()),
        ("runs", "The runs", !analysis.lanes.is_empty()),
        ("what-ifs", "What-ifs", changes::has_rows(analysis)),
        ("dials", "Sliders", !dials::of(analysis).is_empty()),
        ("plan", "Fix plan", !analysis.plan.is_empty()),
        ("curve", "Scaling", !analysis.curve.is_empty()),
        ("source", "Source", has_source),
        ("tables", "Tables", true),
        ("limits", "Limits", true),
    ];
    html! {
        nav aria-label="Parts of this page" {
            @for (id, name, _) in parts.into_iter().filter(|part| part.2) {
                a href={ "#" (id) } { (name) }
            }
        }
    }
}

/// Rows of a table on the page.
const ROWS: usize = 200;

/// That rows are left out, if so.
fn left_out(all: usize) -> Markup {
    html! {
        @if all > ROWS { p .remark { (messages::title("Rows", ROWS, all)) } }
    }
}

/// A text with code between backticks.
fn marked(text: &str) -> Markup {
    html! {
        @for (i, part) in text.split('`').enumerate() {
            @if i % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn tables(analysis: &Analysis) -> Markup {
    html! {
        section #tables aria-labelledby="tables-title" {
            h2 #tables-title { "Tables and figures of the paper" }
            @for (i, table) in exhibits::all(analysis).iter().enumerate() { (exhibit(table, i == 0)) }
            @if !analysis.locks.is_empty() {
                details {
                    summary { h3 { "Locks" } ": by waited time" }
                    ul { @for row in analysis.locks.iter().take(ROWS) {
                        li { strong { (row.name) } ": " (messages::lock(row).join(", ")) }
                    } }
                    (left_out(analysis.locks.len()))
                }
            }
        }
    }
}

/// A table; shares have a bar each.
fn exhibit(table: &Table, open: bool) -> Markup {
    let numbers: Vec<bool> = (0..table.columns.len())
        .map(|column| !exhibits::is_names(table, column))
        .collect();
    let cells = |row: &[Cell]| -> Vec<(bool, Option<f64>, String)> {
        let cells = row.iter().zip(&numbers);
        let share = |cell: &Cell| match cell {
            Cell::Share(share) => Some(*share),
            _ => None,
        };
        cells
            .map(|(cell, number)| (*number, share(cell), exhibits::text(cell)))
            .collect()
    };
    html! {
        details open[open] {
            summary { h3 { (table.title) } }
            div .scroll tabindex="0" role="region" aria-label=(table.title) {
                table {
                    thead { tr { @for (text, number) in table.columns.iter().zip(&numbers) {
                        th .n[*number] scope="col" { (text) }
                    } } }
                    tbody { @for row in table.rows.iter().take(ROWS) { tr {
                        @for (number, share, text) in cells(row) {
                            td .n[number] {
                                (text)
                                @if let Some(share) = share { (regions::bar("share", share)) }
                            }
                        }
                    } } }
                }
            }
            (left_out(table.rows.len()))
        }
    }
}

/// All that replays were compared by.
fn fidelity(analysis: &Analysis) -> Markup {
    let compared = analysis
        .baselines
        .iter()
        .filter_map(|b| b.fidelity.as_ref());
    let compared: Vec<_> = compared.filter(|f| !f.checks.is_empty()).collect();
    html! {
        @if !compared.is_empty() {
            details {
                summary { h3 { (messages::FIDELITY) } }
                @for of in compared {
                    table {
                        thead { tr {
                            th scope="col" { "" } th .n scope="col" { "recorded" }
                            th .n scope="col" { (messages::method(of.method)) } th scope="col" { "" }
                        } }
                        tbody { @for check in &of.checks {
                            @let [name, recorded, replayed] = messages::check(check);
                            @let class = if check.ok { "dim" } else { "warn" };
                            tr {
                                th scope="row" { (name) } td .n { (recorded) } td .n { (replayed) }
                                td class=(class) { (messages::holds(check)) }
                            }
                        } }
                    }
                }
            }
        }
    }
}

fn limits(analysis: &Analysis) -> Markup {
    let texts = caveats::texts(analysis);
    html! {
        section #limits aria-labelledby="limits-title" {
            h2 #limits-title { "Limits" }
            @if texts.is_empty() { p { (messages::NO_LIMITS) } }
            @else { ul { @for text in &texts { li { (marked(text)) } } } }
            (fidelity(analysis))
        }
    }
}
