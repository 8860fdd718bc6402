//! Thread groups: what their threads did with their time, and the best numbers of threads.

use convoy_analysis::counters::GroupRow;
use convoy_report::human::{count_of, duration, factor, percent};
use convoy_report::{names, sched_names, Report};
use maud::{html, Markup};

use crate::data::{by_role, process_of, Data, RoleRows};

/// Rows of the table, and processes of a row.
const ROWS: usize = 40;

pub(super) fn groups(report: &Report<'_>, data: &Data) -> Markup {
    let roles = by_role(report, &data.roles);
    if roles.is_empty() {
        return html! {};
    }
    html! {
        section #groups aria-labelledby="groups-title" {
            h2 #groups-title { "Thread groups" }
            figure .curve data-curve="groups" {
                figcaption {
                    "What the threads of each group did with their time"
                    @if roles.iter().any(|of| of.rows.len() > 1) {
                        ". Processes of one executable are one bar: a click opens it."
                    }
                }
                div .drawing role="img" aria-label="Work and waits by thread group" {}
            }
            div .scroll tabindex="0" role="region" aria-label="Table of thread groups" {
                table {
                    caption { "Thread groups" }
                    thead { tr {
                        th scope="col" { "group" } th .n scope="col" { "threads" }
                        th .n scope="col" { "work" } th .n scope="col" { "busy" }
                        th .n scope="col" { "waits for locks" } th .n scope="col" { "for events" }
                        th .n scope="col" { "idle" } th .n scope="col" { "for a CPU" }
                        th scope="col" { "waits most for" }
                    } }
                    tbody { @for of in roles.iter().take(ROWS) { (role(report, data, of)) } }
                }
            }
            @if roles.len() > ROWS {
                p .remark { "and " (count_of((roles.len() - ROWS) as u64, "group", "groups")) " more" }
            }
            @for assignment in &report.analysis.assignments { (best(report, assignment)) }
        }
    }
}

fn role(report: &Report<'_>, data: &Data, of: &RoleRows<'_>) -> Markup {
    let Some(role) = data.roles.list.get(of.role) else {
        return html! {};
    };
    let sum = |ns: fn(&GroupRow) -> u64| duration(of.sum(ns) as f64);
    let busy = of.sum(|row| row.busy_ns) as f64 / of.sum(|row| row.life_ns).max(1) as f64;
    let has_delay = of.rows.iter().any(|row| row.run_delay_ns.is_some());
    let waits = of.rows.iter().filter_map(|row| row.top_waits.first());
    html! {
        tr {
            th scope="row" {
                @if of.rows.len() > 1 { (processes(report, &role.name, role.processes, of)) }
                @else { (role.name) }
            }
            td .n { (role.threads) }
            td .n { (sum(|row| row.busy_ns)) }
            td .n { (percent(busy)) }
            td .n { (sum(|row| row.lock_wait_ns)) }
            td .n { (sum(|row| row.event_wait_ns)) }
            td .n { (sum(|row| row.idle_wait_ns)) }
            td .n {
                @if has_delay { (sum(|row| row.run_delay_ns.unwrap_or(0))) } @else { "?" }
            }
            td { @if let Some((object, ns)) = waits.max_by_key(|(_, ns)| *ns) {
                (names::object_of(report.model, *object)) " (" (duration(*ns as f64)) ")"
            } }
        }
    }
}

/// Processes of one executable as one row that opens.
fn processes(report: &Report<'_>, name: &str, n: usize, of: &RoleRows<'_>) -> Markup {
    html! {
        details .processes {
            summary { (name) ", " (count_of(n as u64, "process", "processes")) }
            ul {
                @for row in of.rows.iter().take(ROWS) {
                    li {
                        (process_of(report, row)) ": work " (duration(row.busy_ns as f64))
                        ", busy " (percent(row.busy_ratio))
                    }
                }
                @if of.rows.len() > ROWS { li { "and " (of.rows.len() - ROWS) " more" } }
            }
        }
    }
}

/// The best distribution of threads beside today's.
fn best(report: &Report<'_>, assignment: &convoy_analysis::counters::Assignment) -> Markup {
    let best = assignment.options.first();
    let is_best = best.is_some_and(|best| best.threads == assignment.now);
    html! {
        div .scroll tabindex="0" role="region" aria-label="Threads per group" {
            table {
                caption { "Threads per group: today's, and the best numbers" }
                thead { tr {
                    th scope="col" { "" }
                    @for id in &assignment.groups { th .n scope="col" { (sched_names::group_of(report.model, *id)) } }
                    th .n scope="col" { "throughput" }
                } }
                tbody {
                    tr .best[is_best] {
                        th scope="row" { (if is_best { "now, the best" } else { "now" }) }
                        @for n in &assignment.now { td .n { (n) } }
                        td .n { (factor(1.0)) }
                    }
                    @for (i, option) in assignment.options.iter().enumerate().skip(usize::from(is_best)) { tr .best[i == 0] {
                        th scope="row" { (if i == 0 { "best" } else { "also" }) }
                        @for n in &option.threads { td .n { (n) } }
                        td .n { (factor(option.throughput)) }
                    } }
                }
            }
        }
        @if !assignment.limited_by.is_empty() { p .remark { "Limited by " (assignment.limited_by) "." } }
    }
}
