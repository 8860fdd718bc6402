//! The curves of a `convoy live` session.

use convoy_profile::{LiveCurve, LiveCurves, LiveMark, LiveMarkKind, LiveThread};
use serde::Serialize;

#[derive(Serialize)]
pub struct LiveCurvesOut<'a> {
    every_ns: u64,
    length_ns: u64,
    curves: Vec<LiveCurveOut<'a>>,
    marks: Vec<LiveMarkOut<'a>>,
    left_out: u64,
}

#[derive(Serialize)]
struct LiveCurveOut<'a> {
    metric: &'a str,
    focus: &'a str,
    unit: &'a str,
    kind: &'a str,
    points: Vec<LivePointOut<'a>>,
    threads: Vec<LiveThreadOut<'a>>,
    threads_left_out: u64,
}

#[derive(Serialize)]
struct LivePointOut<'a> {
    t_ms: u64,
    value: Option<f64>,
    gap: &'a str,
    cost_ratio: f64,
}

#[derive(Serialize)]
struct LiveThreadOut<'a> {
    tid: u32,
    name: &'a str,
    values: &'a [Option<f64>],
}

#[derive(Serialize)]
struct LiveMarkOut<'a> {
    t_ms: u64,
    kind: &'static str,
    text: &'a str,
}

pub fn live_curves(live: &LiveCurves) -> LiveCurvesOut<'_> {
    LiveCurvesOut {
        every_ns: live.every_ns,
        length_ns: live.length_ns,
        curves: live.curves.iter().map(curve).collect(),
        marks: live.marks.iter().map(mark).collect(),
        left_out: live.left_out,
    }
}

fn curve(curve: &LiveCurve) -> LiveCurveOut<'_> {
    let points = curve.points.iter().map(|point| LivePointOut {
        t_ms: point.t_ms,
        value: point.value,
        gap: &point.gap,
        cost_ratio: point.cost_ratio,
    });
    LiveCurveOut {
        metric: &curve.metric,
        focus: &curve.focus,
        unit: &curve.unit,
        kind: &curve.kind,
        points: points.collect(),
        threads: curve.threads.iter().map(thread).collect(),
        threads_left_out: curve.threads_left_out,
    }
}

fn thread(thread: &LiveThread) -> LiveThreadOut<'_> {
    LiveThreadOut {
        tid: thread.tid,
        name: &thread.name,
        values: &thread.values,
    }
}

fn mark(mark: &LiveMark) -> LiveMarkOut<'_> {
    LiveMarkOut {
        t_ms: mark.t_ms,
        kind: match mark.kind {
            LiveMarkKind::ThreadBegan => "thread_began",
            LiveMarkKind::ThreadEnded => "thread_ended",
            LiveMarkKind::CurveAdded => "curve_added",
            LiveMarkKind::CurveRemoved => "curve_removed",
        },
        text: &mark.text,
    }
}
