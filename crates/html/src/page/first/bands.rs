//! The run by role, with the first finding marked: over time where scheduler events tell, as sums
//! elsewhere.

use std::fmt::Write;

use convoy_report::human::{count_of, duration, percent};
use convoy_report::{names, Report};
use maud::{html, Markup, PreEscaped};

use crate::data::{Band, Bands, Data, GroupTime, Part, COLUMNS, PARTS};
use crate::roles::Role;

/// Height of a band in its own units.
const HEIGHT: f64 = 100.0;
/// A share below this is not told.
const MIN_SHARE: f64 = 0.005;
/// So few marked bands have room to be high.
const SPARSE: usize = 2;
/// Letters of a role's name.
const MAX_NAME: usize = 36;
/// Labels of the axis of time, the first and the last included.
const TICKS: u64 = 4;

/// What the style sheet calls the parts.
const CLASSES: [&str; PARTS] = [
    "culprit", "blocked", "running", "spinning", "ready", "other",
];

pub(super) fn picture(report: &Report<'_>, data: &Data) -> Markup {
    let first = !report.analysis.findings.is_empty();
    match (&data.bands, &data.group_time) {
        // Perf events do not tell what threads wait for, but the agent does.
        (Some(bands), Some(time)) if first && !bands.is_marked() && is_marked(time) => {
            sums(data, time)
        }
        (Some(bands), _) => timeline(data, bands),
        (None, Some(time)) => sums(data, time),
        (None, None) => html! {},
    }
}

fn is_marked(time: &GroupTime) -> bool {
    !time.culprit.is_empty() || !time.blocked.is_empty()
}

fn timeline(data: &Data, bands: &Bands) -> Markup {
    let marked = bands.bands.iter().filter(|band| band.is_marked()).count();
    let size = format!("0 0 {COLUMNS} {HEIGHT}");
    html! {
        figure .bands .sparse[(1..=SPARSE).contains(&marked)] {
            figcaption {
                @if bands.is_marked() { "What fix 1 is about, over the run, by thread group" }
                @else { "The run, by thread group" }
            }
            div .rows {
                @for band in &bands.bands {
                    @let sums = CLASSES.map(|_| 0.0);
                    @let sums = sums_of(band, sums);
                    (name(data, band))
                    svg .tall[marked == 0 || band.is_marked()] viewBox=(size) preserveAspectRatio="none"
                        aria-hidden="true" {
                        (PreEscaped(paths(band, bands.end_ns as f64 / COLUMNS as f64)))
                    }
                    (shares(&sums, bands.verb))
                }
                span {} (axis(bands.end_ns)) span {}
            }
            (legend(&bands.culprit, &bands.blocked, |part| {
                bands.bands.iter().any(|band| band.sum(part) > 0.0)
            }))
        }
    }
}

fn sums_of(band: &Band, mut sums: [f64; PARTS]) -> [f64; PARTS] {
    for column in &band.columns {
        for (sum, ns) in sums.iter_mut().zip(column) {
            *sum += ns;
        }
    }
    sums
}

fn name(data: &Data, band: &Band) -> Markup {
    let role = band.role.and_then(|at| data.roles.list.get(at));
    html! {
        span .name {
            @if let Some(role) = role {
                (role_name(role))
            } @else {
                (count_of(band.roles as u64, "other group", "other groups"))
            }
        }
    }
}

fn role_name(role: &Role) -> Markup {
    html! {
        span title=(role.name) { (names::clip(&role.name, MAX_NAME)) }
        " " span .dim { (size(role.threads, role.processes)) }
    }
}

/// `4 threads`, `34 processes`.
fn size(threads: usize, processes: usize) -> String {
    match (threads, processes) {
        (1, _) => String::new(),
        (n, p) if p > 1 && n == p => format!("{p} processes"),
        (n, p) if p > 1 => format!("{n} threads, {p} processes"),
        (n, _) => format!("{n} threads"),
    }
}

/// What a role did most of what matters, as text: for those who do not see the colours.
fn shares(parts: &[f64; PARTS], verb: &str) -> Markup {
    let all = parts.iter().sum::<f64>().max(1.0);
    let share = |part: Part| parts[part as usize] / all;
    let is_told = |part: Part| share(part) >= MIN_SHARE;
    html! {
        span .value {
            @if is_told(Part::Culprit) {
                span .culprit { (verb) " " (percent(share(Part::Culprit))) } " "
            }
            @if is_told(Part::Blocked) {
                span .blocked { "waits " (percent(share(Part::Blocked))) }
            }
            @if !is_told(Part::Culprit) && !is_told(Part::Blocked) {
                span .dim { "runs " (percent(share(Part::Running))) }
            }
        }
    }
}

/// From the back to the front, each with all that is stacked below it.
fn paths(band: &Band, width_ns: f64) -> String {
    let whole = (band.at_once * width_ns).max(f64::MIN_POSITIVE);
    let mut text = String::new();
    for top in (0..PARTS).rev() {
        if band.columns.iter().all(|column| column[top] <= 0.0) {
            continue;
        }
        let mut path = format!("M0 {HEIGHT}");
        let mut at = None;
        for (x, column) in band.columns.iter().enumerate() {
            let sum: f64 = column[..=top].iter().sum();
            let y = (HEIGHT - HEIGHT * (sum / whole).min(1.0)).round();
            if at != Some(y) {
                let _ = write!(path, "H{x}V{y}");
                at = Some(y);
            }
        }
        let class = CLASSES[top];
        let _ = write!(
            text,
            "<path class=\"{class}\" d=\"{path}H{COLUMNS}V{HEIGHT}z\"/>"
        );
    }
    text
}

fn axis(end_ns: u64) -> Markup {
    html! {
        span .times aria-hidden="true" {
            @for i in 0..=TICKS {
                span { (duration((end_ns * i / TICKS) as f64)) }
            }
        }
    }
}

fn sums(data: &Data, time: &GroupTime) -> Markup {
    html! {
        figure .bands {
            figcaption { "Where the threads' time went, by thread group" }
            div .rows {
                @for bar in &time.bars {
                    @let role = &data.roles.list[bar.role];
                    span .name { (role_name(role)) }
                    (stacked(&bar.parts))
                    (shares(&bar.parts, "works"))
                }
            }
            @if time.left_out > 0 {
                @let others = count_of(time.left_out as u64, "group", "groups");
                p .remark { "and " (others) " with less" }
            }
            (legend(&time.culprit, &time.blocked, |part| {
                time.bars.iter().any(|bar| bar.parts[part as usize] > 0.0)
            }))
        }
    }
}

/// All of a role's time, from left to right.
fn stacked(parts: &[f64; PARTS]) -> Markup {
    let all = parts.iter().sum::<f64>().max(1.0);
    let percent = |ns: f64| format!("{:.2}", 100.0 * ns / all);
    let from = |i: usize| parts[..i].iter().sum::<f64>();
    html! {
        svg viewBox={ "0 0 100 " (HEIGHT) } preserveAspectRatio="none" aria-hidden="true" {
            @for (i, (part, class)) in parts.iter().zip(CLASSES).enumerate() {
                @if *part > 0.0 {
                    rect class=(class) x=(percent(from(i))) width=(percent(*part))
                        y="0" height=(HEIGHT) {}
                }
            }
        }
    }
}

fn legend(culprit: &str, blocked: &str, is_there: impl Fn(Part) -> bool) -> Markup {
    let names = [
        (Part::Culprit, culprit),
        (Part::Blocked, blocked),
        (Part::Running, "runs"),
        (Part::Spinning, "busy-waits"),
        (Part::Ready, "waits for a CPU"),
        (Part::Other, "idle, or other waits"),
    ];
    html! {
        p .legend {
            @for (part, name) in names.into_iter().filter(|(part, _)| is_there(*part)) {
                span { i class={ "part " (CLASSES[part as usize]) } {} (name) }
                " "
            }
        }
    }
}
