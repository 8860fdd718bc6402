//! The parts of the page that are mainly drawn; the tables below the drawings say the same.

use convoy_report::human::{count, count_of, duration, few, percent};
use convoy_report::{names, sched_names, Report};
use maud::{html, Markup};

use crate::data::Data;

/// Rows of a table.
const ROWS: usize = 40;

/// Code that ran alone for less of the run than this is not worth a line.
const LEAST: f64 = 0.002;

pub(super) fn parallelism(report: &Report<'_>, data: &Data) -> Markup {
    let Some(critical) = report.critical.filter(|_| data.has_activity) else {
        return html! {};
    };
    let p = &critical.parallelism;
    let share = |ns: u64| percent(ns as f64 / p.wall_ns.max(1) as f64);
    html! {
        section #parallelism aria-labelledby="parallelism-title" {
            h2 #parallelism-title { "Parallelism" }
            p {
                "On average " strong { (few(p.working_mean)) } " threads worked, and " (few(p.running_mean)) " were on a CPU; at most "
                (few(p.useful)) " can work at once"
                @if p.cpus > 0 { " (" (count_of(p.workers_at_once as u64, "thread", "threads")) ", " (count_of(u64::from(p.cpus), "CPU", "CPUs")) ")" }
                ". For "
                @if p.low_below > 1.0 {
                    strong { (share(p.low_ns + p.none_ns())) } " of the run fewer than " (few(p.low_below)) " worked, none for "
                    (share(p.none_ns())) "."
                } @else { (share(p.none_ns())) " of the run none worked." }
            }
            figure .curve data-curve="activity" {
                figcaption {
                    "Threads over time; shaded where "
                    @if p.low_below > 1.0 { "fewer than " (few(p.low_below)) " worked" } @else { "none worked" }
                    ". The band spans the least and the most working threads. Drag to zoom, double click for all of it."
                }
                div .drawing role="img" aria-label="Active, working and running threads over time" tabindex="0" {}
                p .said aria-live="polite" {}
            }
            figure .curve data-curve="levels" {
                figcaption { "How long so many threads worked" }
                div .drawing role="img" aria-label="Time by number of working threads" {}
                table .unseen {
                    caption { "Time with so many threads" }
                    thead { tr { th scope="col" { "threads" } th scope="col" { "active" } th scope="col" { "working" } th scope="col" { "on a CPU" } } }
                    tbody { @for l in &p.levels { tr {
                        th scope="row" { (l.threads) } td { (duration(l.active_ns as f64)) }
                        td { (duration(l.working_ns as f64)) } td { (duration(l.running_ns as f64)) }
                    } } }
                }
            }
            @if critical.paths.iter().any(|row| row.share >= LEAST) {
                div .scroll tabindex="0" role="region" aria-label="Code that ran at low parallelism" {
                    table {
                        caption { "Code that ran at low parallelism" }
                        thead { tr {
                            th scope="col" { "code, with its callers" } th scope="col" { "threads" }
                            th .n scope="col" { "time" } th .n scope="col" { "of the run" }
                        } }
                        tbody { @for row in critical.paths.iter().filter(|row| row.share >= LEAST).take(12) { tr {
                            th scope="row" { code { (sched_names::path_of(report.model, row.site, 4)) } }
                            td { (sched_names::threads(report.model, row.threads, row.group)) }
                            td .n { (duration(row.low_cm_ns)) }
                            td .n { (percent(row.share)) }
                        } } }
                    }
                }
            }
        }
    }
}

pub(super) fn timeline(report: &Report<'_>, data: &Data) -> Markup {
    if !data.has_lanes {
        return html! {};
    }
    let timeline = report
        .model
        .sched
        .as_ref()
        .and_then(|s| s.timeline.as_ref());
    let left_out = timeline.map_or(0, |t| t.threads_left_out);
    html! {
        section #timeline aria-labelledby="timeline-title" {
            h2 #timeline-title { "Timeline" }
            p .remark {
                "One lane a thread, grouped by what they do."
                @if data.joined_below_ns > 0 {
                    " What was shorter than " (duration(data.joined_below_ns as f64)) " is joined with its neighbours and drawn in shares."
                }
                @if left_out > 0 { " " (count(left_out)) " threads have no lane: there were too many." }
            }
            div .tools role="toolbar" aria-label="Timeline" {
                button type="button" data-do="in" title="zoom in (+)" { "+" }
                button type="button" data-do="out" title="zoom out (-)" { "−" }
                button type="button" data-do="all" title="the whole run (0)" { "all" }
                button type="button" data-do="waker" title="go to the thread that ended this wait (w)" { "to the waker" }
                label { "object " select data-do="object" { option value="" { "any" } } }
                span .legend aria-hidden="true" {}
            }
            div .lanes tabindex="0" role="application" aria-roledescription="timeline"
                aria-label="Timeline of threads. Arrow keys move to the next interval or thread, plus and minus zoom, 0 shows the whole run, w goes to the waker." {
                canvas {}
            }
            p .said role="status" aria-live="polite" { "Click into a lane, or use the arrow keys." }
        }
    }
}

pub(super) fn threads(report: &Report<'_>, data: &Data) -> Markup {
    let Some(critical) = report.critical.filter(|c| !c.threads.is_empty()) else {
        return html! {};
    };
    html! {
        section #threads aria-labelledby="threads-title" {
            h2 #threads-title { "CMetric per thread" }
            p .remark {
                "A thread's share of the run: each moment is divided among the threads active in it (GAPP, ICPE'20, figures 4 and 5). "
                "Equal bars: balanced work. One long bar: the others waited for it. Processes of one executable are one bar: a click opens it."
            }
            figure .curve data-curve="cmetric" {
                figcaption {
                    "CMetric, " (critical.threads.len().min(200)) " of " (count_of(critical.threads.len() as u64, "thread", "threads"))
                    @if critical.threads.len() > ROWS { span .paper { "; the first " (ROWS) " of them on paper" } }
                }
                div .drawing role="img" aria-label="CMetric of each thread" {}
            }
            div .scroll tabindex="0" role="region" aria-label="Table of threads" {
                table {
                    caption { "Threads, most CMetric first" }
                    thead { tr {
                        th scope="col" { "thread" } th scope="col" { "group" } th .n scope="col" { "CMetric" } th .n scope="col" { "share" }
                        th .n scope="col" { "on a CPU" } th .n scope="col" { "in waiting loops" } th .n scope="col" { "wanted a CPU" } th .n scope="col" { "blocked" }
                    } }
                    tbody { @for row in critical.threads.iter().take(ROWS) { tr {
                        th scope="row" { (names::thread_of(report.model, row.thread)) }
                        td { (data.roles.name_of(row.group)) }
                        td .n { (duration(row.cm_ns)) } td .n { (percent(row.share)) }
                        td .n { (duration(row.running_ns as f64)) } td .n { (duration(row.spinning_ns as f64)) }
                        td .n { (duration((row.delayed_ns + row.preempted_ns) as f64)) } td .n { (duration(row.blocked_ns as f64)) }
                    } } }
                }
            }
        }
    }
}

pub(super) fn flame(data: &Data) -> Markup {
    if !data.has_flame {
        return html! {};
    }
    html! {
        section #flame aria-labelledby="flame-title" {
            h2 #flame-title { "Waits by code" }
            p .remark { "Time that threads waited: callers below, what was waited for above them, and on top who ended the wait. Click to zoom." }
            div .tools { label { "find " input type="search" data-do="find" placeholder="function, lock, waker"; } button type="button" data-do="unzoom" { "all" } }
            div .flame role="img" aria-label="Flame graph of waiting time" {}
            p .said aria-live="polite" {}
        }
    }
}
