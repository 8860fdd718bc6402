//! The curves of a `convoy live` session, drawn without a script.

use std::fmt::Write;

use convoy_profile::{LiveCurve, LiveCurves, LiveMarkKind};
use convoy_report::human::{duration, percent};
use convoy_report::values::{live_request, live_value};
use convoy_report::Report;
use maud::{html, Markup};

/// The drawing's own units.
const WIDTH: f64 = 600.0;
/// See [`WIDTH`].
const HEIGHT: f64 = 90.0;

/// Threads of a curve that are drawn.
const THREADS: usize = 8;

pub(super) fn live_curves(report: &Report<'_>) -> Markup {
    let Some(live) = &report.model.live_curves else {
        return html! {};
    };
    html! {
        section #curves aria-labelledby="curves-title" {
            h2 #curves-title { "Curves of a session of convoy live" }
            @if live.curves.is_empty() { p { "Nothing was measured." } }
            div .pictures {
                @for curve in &live.curves { (picture(live, curve)) }
            }
            @if live.left_out > 0 {
                p .warn { (live.left_out) " curves or marks were left out: a session keeps a limited number." }
            }
        }
    }
}

fn picture(live: &LiveCurves, curve: &LiveCurve) -> Markup {
    let values = || curve.points.iter().filter_map(|point| point.value);
    let highest = values().fold(0.0, f64::max);
    let n = values().count();
    let mean = (n > 0).then(|| values().sum::<f64>() / n as f64);
    let cost = curve
        .points
        .iter()
        .map(|p| p.cost_ratio)
        .fold(0.0, f64::max);
    let times = || curve.points.iter().map(|point| point.t_ms);
    let whole = line(
        live,
        highest,
        times().zip(curve.points.iter().map(|p| p.value)),
    );
    let gap = curve
        .points
        .iter()
        .rev()
        .find(|point| !point.gap.is_empty());
    html! {
        figure .live {
            figcaption {
                code { (live_request(curve)) } ", " (curve.kind) ": "
                @match mean {
                    Some(mean) => { "mean " (live_value(&curve.unit, mean)) ", highest " (live_value(&curve.unit, highest)) }
                    None => { "no value" }
                }
                @if cost > 0.0 { ", cost " (percent(cost)) }
                @if let Some(point) = gap { "; at " (duration(point.t_ms as f64 * 1e6)) ": " (point.gap) }
            }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(live_request(curve)) {
                @for thread in curve.threads.iter().take(THREADS) {
                    path .thread d=(line(live, highest, times().zip(thread.values.iter().copied()))) {
                        title { (thread.name) " (" (thread.tid) ")" }
                    }
                }
                path .whole d=(whole) {}
                @for mark in &live.marks { (tick(live, mark.t_ms, mark.kind, &mark.text)) }
            }
            p .remark { "0 to " (duration(live.length_ns as f64)) ", 0 to " (live_value(&curve.unit, highest)) @if !curve.threads.is_empty() { "; thin: threads" } }
        }
    }
}

fn tick(live: &LiveCurves, t_ms: u64, kind: LiveMarkKind, text: &str) -> Markup {
    let (class, what) = match kind {
        LiveMarkKind::ThreadBegan => ("began", "thread began"),
        LiveMarkKind::ThreadEnded => ("ended", "thread ended"),
        LiveMarkKind::CurveAdded => ("changed", "curve added"),
        LiveMarkKind::CurveRemoved => ("changed", "curve removed"),
    };
    let x = format!("{:.1}", x(live, t_ms));
    html! {
        line class=(class) x1=(x) x2=(x) y1=(HEIGHT - 6.0) y2=(HEIGHT) { title { (what) ": " (text) } }
    }
}

fn x(live: &LiveCurves, t_ms: u64) -> f64 {
    let length_ms = (live.length_ns as f64 / 1e6).max(1.0);
    (t_ms as f64 / length_ms).min(1.0) * WIDTH
}

/// A path with a gap wherever nothing is known.
fn line(
    live: &LiveCurves,
    highest: f64,
    points: impl Iterator<Item = (u64, Option<f64>)>,
) -> String {
    let mut path = String::new();
    let mut is_down = false;
    for (t_ms, value) in points {
        let Some(value) = value else {
            is_down = false;
            continue;
        };
        let height = if highest > 0.0 { value / highest } else { 0.0 };
        let y = (1.0 - height.clamp(0.0, 1.0)) * (HEIGHT - 8.0) + 1.0;
        let x = x(live, t_ms);
        // Writing to a String does not fail. A point of its own is a short line.
        let _ = match std::mem::replace(&mut is_down, true) {
            true => write!(path, "L{x:.1} {y:.1}"),
            false => write!(path, "M{x:.1} {y:.1}h1"),
        };
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_without_a_value_is_a_gap() {
        let live = LiveCurves {
            length_ns: 4_000_000_000,
            ..LiveCurves::default()
        };
        let points = [
            (1000, Some(1.0)),
            (2000, Some(2.0)),
            (3000, None),
            (4000, Some(0.0)),
        ];
        let path = line(&live, 2.0, points.into_iter());
        assert_eq!(path, "M150.0 42.0h1L300.0 1.0M600.0 83.0h1");
    }
}
