//! The runs as lanes, one under the other on one axis of time: recorded, and without unnecessary
//! contention.

use std::collections::BTreeMap;
use std::fmt::Write;

use convoy_replay::analysis::{Analysis, Doing, Lane, Lanes};
use convoy_report::human::{count_of, duration, percent};
use convoy_report::replay::messages;
use maud::{html, Markup};

/// Lanes of a run that are drawn.
const LANES: usize = 40;
/// Height of a lane, pixels.
const LANE: usize = 16;
/// Intervals of a run below which all are drawn exactly.
const EXACT: usize = 20_000;
/// Else time is drawn in so many parts.
const PARTS: f64 = 6_000.0;
/// Units of the drawing from the begin to the end of the axis.
const UNITS: f64 = 1_000_000.0;
/// Labels of the axis.
const TICKS: usize = 6;

pub(super) fn runs(analysis: &Analysis) -> Markup {
    if analysis.lanes.is_empty() {
        return html! {};
    }
    let lengths = analysis.lanes.iter().map(|run| run.length_ns);
    let longest = lengths.fold(1.0f64, f64::max);
    html! {
        section #runs aria-labelledby="runs-title" {
            h2 #runs-title { "The runs" }
            p .legend {
                i .key.work {} "work " i .key.section {} "in a critical section "
                i .key.waits {} "waits for a lock " i .key.off {} "off the CPU"
            }
            div .tools hidden {
                button type="button" data-zoom="in" { "Zoom in" }
                button type="button" data-zoom="out" { "Zoom out" }
                button type="button" data-zoom="all" { "All" }
                span .dim { (messages::ZOOM) }
            }
            @for run in &analysis.lanes { (drawn(analysis, run, longest)) }
            div .axis.row { span {} div .ticks data-length=(longest) {
                @for i in 0..=TICKS {
                    @let share = i as f64 / TICKS as f64;
                    @let left = format!("left:{:.2}%", 100.0 * share);
                    span style=(left) { (duration(share * longest)) }
                }
            } }
            (sums(&analysis.lanes))
        }
    }
}

fn drawn(analysis: &Analysis, run: &Lanes, longest: f64) -> Markup {
    let lanes = &run.threads[..run.threads.len().min(LANES)];
    let intervals: usize = lanes.iter().map(|lane| lane.intervals.len()).sum();
    let grain = if intervals > EXACT {
        longest / PARTS
    } else {
        0.0
    };
    let scale = UNITS / longest;
    let height = lanes.len() * LANE;
    let left_out = run.threads.len() - lanes.len();
    let end = run.length_ns * scale;
    let (until, after) = (
        format!("{end:.0}"),
        format!("{:.0}", (UNITS - end).max(0.0)),
    );
    html! {
        figure .run-lanes {
            figcaption {
                h3 { (run.title) } ": " (duration(run.length_ns))
                @if run.length_ns < longest {
                    ", " span .good { (percent(1.0 - run.length_ns / longest)) " less" }
                }
                @if left_out > 0 {
                    " (" (count_of(left_out as u64, "thread", "threads")) " not drawn)"
                }
            }
            div .row {
                div .names { @for lane in lanes { div title=(lane.thread) { (lane.thread) } } }
                svg .lanes-of-run viewBox={ "0 0 " (UNITS) " " (height) } preserveAspectRatio="none"
                    height=(height) role="img" aria-label={ "Lanes of the run: " (run.title) } {
                    @for (i, lane) in lanes.iter().enumerate() {
                        rect .work x="0" y=(i * LANE + 2) width=(until) height=(LANE - 4) {}
                        @for (doing, path) in paths(lane, i * LANE, scale, grain) {
                            path class=(class(doing)) d=(path) {
                                title { (lane.thread) (said(analysis, doing)) }
                            }
                        }
                    }
                    rect .after x=(until) y="0" width=(after) height=(height) {}
                }
            }
        }
    }
}

/// One path for each thing that a thread does. Intervals closer than `grain` nanoseconds are
/// joined.
fn paths(lane: &Lane, top: usize, scale: f64, grain: f64) -> Vec<(Doing, String)> {
    let mut by_doing: BTreeMap<(u8, u32), Vec<(f64, f64)>> = BTreeMap::new();
    for (start, end, doing) in &lane.intervals {
        let of = by_doing.entry(key(*doing)).or_default();
        match of.last_mut() {
            Some((_, last)) if grain > 0.0 && *start - *last < grain => *last = end.max(*last),
            _ => of.push((*start, end.max(start + grain))),
        }
    }
    let path = |intervals: Vec<(f64, f64)>| {
        let mut path = String::new();
        for (start, end) in intervals {
            let (x, width) = (start * scale, ((end - start) * scale).max(1.0));
            // Writing to a string does not fail.
            let _ = write!(
                path,
                "M{x:.0} {}h{width:.0}v{}h-{width:.0}z",
                top + 2,
                LANE - 4
            );
        }
        path
    };
    by_doing
        .into_iter()
        .map(|(key, all)| (doing_of(key), path(all)))
        .collect()
}

fn key(doing: Doing) -> (u8, u32) {
    match doing {
        Doing::Section(lock) => (0, lock),
        Doing::Off => (1, 0),
        Doing::Waits(lock) => (2, lock),
    }
}

fn doing_of((kind, lock): (u8, u32)) -> Doing {
    match kind {
        0 => Doing::Section(lock),
        1 => Doing::Off,
        _ => Doing::Waits(lock),
    }
}

fn class(doing: Doing) -> &'static str {
    match doing {
        Doing::Section(_) => "section",
        Doing::Waits(_) => "waits",
        Doing::Off => "off",
    }
}

fn said(analysis: &Analysis, doing: Doing) -> String {
    let name = |lock: u32| {
        let row = analysis.locks.get(lock as usize);
        row.map_or("a lock", |row| row.name.as_str())
    };
    match doing {
        Doing::Section(lock) => format!(" holds {}", name(lock)),
        Doing::Waits(lock) => format!(" waits for {}", name(lock)),
        Doing::Off => " is off the CPU".into(),
    }
}

/// The same in numbers.
fn sums(runs: &[Lanes]) -> Markup {
    let share = |run: &Lanes, kind: u8| {
        let all = run.length_ns * run.threads.len() as f64;
        let intervals = run.threads.iter().flat_map(|lane| &lane.intervals);
        let of_kind = intervals.filter(|(_, _, doing)| key(*doing).0 == kind);
        let sum: f64 = of_kind.map(|(start, end, _)| end - start).sum();
        sum / all.max(1.0)
    };
    html! {
        div .scroll tabindex="0" role="region" aria-label="Time of the threads" {
        table {
            caption { "Time of the threads" }
            thead { tr {
                th scope="col" { "run" } th .n scope="col" { "length" }
                th .n scope="col" { "in critical sections" } th .n scope="col" { "waits for locks" }
                th .n scope="col" { "off the CPU" }
            } }
            tbody { @for run in runs { tr {
                th scope="row" { (run.title) }
                td .n { (duration(run.length_ns)) }
                @for kind in [0, 2, 1] { td .n { (percent(share(run, kind))) } }
            } } }
        }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(n: u32) -> Lane {
        let interval = |i: u32| {
            (
                f64::from(i) * 10.0,
                f64::from(i) * 10.0 + 5.0,
                Doing::Waits(0),
            )
        };
        Lane {
            thread: "t".into(),
            intervals: (0..n).map(interval).collect(),
        }
    }

    #[test]
    fn few_intervals_are_drawn_exactly_and_many_are_joined() {
        let exact = paths(&lane(100), 0, 1.0, 0.0);
        assert_eq!(exact[0].1.matches('M').count(), 100);
        let joined = paths(&lane(100), 0, 1.0, 50.0);
        assert_eq!(joined[0].1, "M0 2h995v12h-995z");
    }

    #[test]
    fn a_million_intervals_make_no_giant() {
        let mut analysis = convoy_testkit::replay::rich();
        analysis.lanes[0].threads = vec![lane(250_000); 4];
        analysis.lanes[0].length_ns = 2_500_000.0;
        assert!(runs(&analysis).into_string().len() < 1 << 20);
    }
}
