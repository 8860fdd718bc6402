//! The scaling curve: throughput over CPUs or threads, with what ends it.

use convoy_replay::analysis::{Analysis, CurvePoint};
use convoy_report::human::factor;
use convoy_report::replay::messages;
use maud::{html, Markup};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 50.0;
const BOTTOM: f64 = 30.0;
const TOP: f64 = 10.0;

pub(super) fn curve(analysis: &Analysis) -> Markup {
    let points = &analysis.curve;
    if points.is_empty() {
        return html! {};
    }
    let extrapolated = points.iter().any(|point| point.extrapolated);
    html! {
        section #curve aria-labelledby="curve-title" {
            h2 #curve-title { (messages::scaling(extrapolated)) }
            figure { (picture(points)) }
            div .scroll tabindex="0" role="region" aria-label="Table of the scaling curve" {
                table {
                    thead { tr {
                        th scope="col" { "" }
                        th scope="col" { "throughput" }
                        th scope="col" { "limit" }
                    } }
                    tbody { @for point in points { tr {
                        th scope="row" { (messages::curve_point(point)) }
                        td { (messages::speedup(point)) }
                        td { (messages::curve_limit(point)) }
                    } } }
                }
            }
        }
    }
}

/// CPUs, or threads where their number differs.
fn value(point: &CurvePoint) -> f64 {
    f64::from(point.threads.unwrap_or(point.cpus)).max(1.0)
}

fn picture(points: &[CurvePoint]) -> Markup {
    let most = points.iter().map(value).fold(2.0f64, f64::max);
    let top = points
        .iter()
        .map(|point| point.speedup.2)
        .filter(|high| high.is_finite())
        .fold(1.0f64, f64::max);
    // CPUs double: a logarithmic axis.
    let x = |point: &CurvePoint| LEFT + (WIDTH - LEFT - 20.0) * value(point).log2() / most.log2();
    let y = |gain: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - (gain / top).clamp(0.0, 1.0));
    let at = |point: &CurvePoint, gain: f64| format!("{:.1},{:.1}", x(point), y(gain));
    let upper = points.iter().map(|point| at(point, point.speedup.2));
    let lower = points.iter().rev().map(|point| at(point, point.speedup.0));
    let band: Vec<_> = upper.chain(lower).collect();
    let known = points.iter().filter(|point| !point.extrapolated);
    let last_known = known.clone().next_back();
    let known: Vec<_> = known.map(|point| at(point, point.speedup.1)).collect();
    let beyond = points.iter().filter(|point| point.extrapolated);
    let beyond: Vec<_> = last_known
        .into_iter()
        .chain(beyond)
        .map(|point| at(point, point.speedup.1))
        .collect();
    let ticks: Vec<f64> = [0.25, 0.5, 0.75, 1.0].map(|share| top * share).to_vec();
    html! {
        svg .curve viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } width=(WIDTH) role="img"
            aria-label="Throughput over the number of CPUs or threads" {
            g .grid { @for tick in &ticks {
                @let y = format!("{:.1}", y(*tick));
                line x1=(LEFT) x2=(WIDTH) y1=(y) y2=(y) {}
                text x=(LEFT - 6.0) y=(y) dy="4" text-anchor="end" { (factor(*tick)) }
            } }
            polygon .band points=(band.join(" ")) {}
            polyline .known points=(known.join(" ")) {}
            polyline .beyond points=(beyond.join(" ")) {}
            @for point in points {
                @let (x, y) = (format!("{:.1}", x(point)), format!("{:.1}", y(point.speedup.1)));
                circle cx=(x) cy=(y) r="4" {
                    title {
                        (messages::curve_point(point)) ": " (messages::speedup(point)) " "
                        (messages::curve_limit(point))
                    }
                }
                text x=(x) y=(HEIGHT - 8.0) text-anchor="middle" { (value(point)) }
            }
        }
    }
}
