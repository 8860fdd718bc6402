//! Unnecessary contention: how much of each class, in which code regions, and their source.

use convoy_replay::analysis::{Analysis, Region, SourceLine};
use convoy_report::human::{count, percent};
use convoy_report::replay::source::{self, Role};
use convoy_report::replay::{gain, messages};
use maud::{html, Markup};

use super::{left_out, marked, ROWS};

/// Regions whose source is shown.
const SOURCES: usize = 24;

pub(super) fn has_classes(analysis: &Analysis) -> bool {
    let counts = &analysis.ulcp.counts;
    counts.pairs() > counts.unknown
}

pub(super) fn contention(analysis: &Analysis) -> Markup {
    if !has_classes(analysis) {
        return html! {};
    }
    let counts = &analysis.ulcp.counts;
    let all = counts.pairs() as f64;
    let classes = messages::CLASSES.iter().zip(messages::by_class(counts));
    html! {
        section #contention aria-labelledby="contention-title" {
            h2 #contention-title { "Unnecessary contention" }
            p {
                (messages::contention(&analysis.ulcp))
                @if let Some(free) = &analysis.ulcp_free {
                    ", " strong { (messages::without(free)) }
                }
            }
            div .scroll tabindex="0" role="region" aria-label="Pairs by class" { table {
                thead { tr {
                    th scope="col" { "class" } th .n scope="col" { "pairs" }
                    th .n scope="col" { "share" } th scope="col" { "" }
                    th scope="col" { "what it is" }
                } }
                tbody { @for ((id, name, meaning), n) in classes.filter(|(_, n)| *n > 0) { tr {
                    th scope="row" { (name) }
                    td .n { (count(n)) }
                    td .n { (percent(n as f64 / all)) }
                    td { (bar(id, n as f64 / all)) }
                    td .dim { (meaning) }
                } } }
            } }
        }
    }
}

/// A bar of the class' colour.
pub(super) fn bar(id: &str, share: f64) -> Markup {
    const WIDTH: f64 = 200.0;
    let share = share.clamp(0.0, 1.0);
    html! {
        svg .bar width=(WIDTH) height="14" aria-hidden="true" {
            @let width = format!("{:.1}", WIDTH * share);
            rect class={ "class-" (id) } x="0" y="1" height="12" width=(width) {}
        }
    }
}

pub(super) fn table(analysis: &Analysis) -> Markup {
    html! {
        section #regions aria-labelledby="regions-title" {
            h2 #regions-title { "Code regions" }
            @if analysis.regions.is_empty() { p { (messages::NO_REGIONS) } }
            @else {
                div .scroll tabindex="0" role="region" aria-label="Table of code regions" {
                    table {
                        caption { (messages::REGIONS) }
                        thead { tr {
                            th .n scope="col" { "P" } th scope="col" { "gain" }
                            th scope="col" { "class" } th scope="col" { "lock" }
                            th .n scope="col" { "pairs" }
                            th scope="col" { "where" } th scope="col" { "fix" }
                        } }
                        tbody { @for (i, region) in analysis.regions.iter().take(ROWS).enumerate() {
                            (row(region, i))
                        } }
                    }
                }
                (left_out(analysis.regions.len()))
            }
        }
    }
}

fn row(region: &Region, at: usize) -> Markup {
    let has_source = !region.source.is_empty() && at < SOURCES;
    let class = if gain::is_reportable(&region.answer) {
        "gain"
    } else {
        "dim"
    };
    html! {
        tr id={ "region-" (at + 1) } {
            td .n { (percent(region.p)) }
            td .nowrap { span class=(class) { (gain::of_answer(&region.answer)) } }
            td .nowrap { i class={ "key class-" (region.kind) } {} (messages::class(region.kind)) }
            th scope="row" { (region.lock) }
            td .n { (count(region.pairs)) }
            td {
                @for (i, site) in region.sites.iter().enumerate() {
                    @if i > 0 { br; }
                    code { (messages::place(site)) }
                }
                @if has_source { " " a href={ "#source-" (at + 1) } { "source" } }
            }
            td { (marked(messages::fix(region))) }
        }
    }
}

pub(super) fn sources(analysis: &Analysis) -> Markup {
    let regions = analysis.regions.iter().enumerate().take(SOURCES);
    let shown: Vec<_> = regions.filter(|(_, r)| !r.source.is_empty()).collect();
    if shown.is_empty() {
        return html! {};
    }
    let roles = [Role::Shared, Role::Private, Role::Movable, Role::Lock];
    html! {
        section #source aria-labelledby="source-title" {
            h2 #source-title { "Source" }
            p .legend { @for role in roles {
                i class={ "role " (role.id()) } {} (messages::role(role)) " "
            } }
            @for (i, (at, region)) in shown.iter().enumerate() {
                details .object open[i == 0] id={ "source-" (at + 1) } {
                    summary { h3 { (messages::source_of(region)) } ": " (messages::fix(region)) }
                    @let title = messages::source_of(region);
                    div .scroll tabindex="0" role="region" aria-label=(title) {
                        table .code.listing {
                            thead { tr {
                                th scope="col" { "line" } th .n scope="col" { "instructions" }
                                th scope="col" { "lock" } th scope="col" { "source" }
                            } }
                            tbody { @for (role, line) in source::lines(region) {
                                (source_line(role, line))
                            } }
                        }
                    }
                }
            }
        }
    }
}

fn source_line(role: Role, line: &SourceLine) -> Markup {
    html! {
        tr class={ "role " (role.id()) } {
            th scope="row" { code { (line.file) ":" (line.line) } }
            td .n { @if line.share > 0.0 { (percent(line.share)) } }
            td .nowrap { (messages::role(role)) }
            td { pre { (line.text) } }
        }
    }
}

pub(super) fn races(analysis: &Analysis) -> Markup {
    let races = &analysis.ulcp.races;
    if races.is_empty() {
        return html! {};
    }
    html! {
        section #races aria-labelledby="races-title" {
            h2 #races-title { "Potential data races" }
            p { (messages::RACES) "." }
            ul { @for race in races.iter().take(ROWS) { li { (messages::race(race)) } } }
            (left_out(races.len()))
        }
    }
}
