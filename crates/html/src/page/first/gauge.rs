//! Throughput today and after each of the best fixes, on one ratio scale.

use convoy_model::finding::{Finding, Gain};
use convoy_report::human;
use maud::{html, Markup};

use super::scale::Scale;

/// Pieces in which an interval without a bound fades out, and how much of its colour is left.
const FADE: [f64; 3] = [0.5, 0.3, 0.15];

/// An interval that is a point is seen all the same; shares of the scale.
const MIN_WIDTH: f64 = 0.004;
/// So near to an end a label has no room on both sides.
const END: f64 = 0.04;

pub(super) fn gauge(best: &[Finding], scale: Scale) -> Markup {
    if best.is_empty() {
        return html! {};
    }
    html! {
        figure .gauge {
            figcaption { "Throughput after each fix, as a multiple of today's" }
            div .rows role="img" aria-label=(label(best)) {
                span .name { "today" } (today(scale)) span .value { "1x" }
                @for (i, finding) in best.iter().enumerate() {
                    span .name { "fix " (i + 1) }
                    (interval(&finding.gain, scale))
                    span .value { (human::gain(&finding.gain)) }
                }
                span {} (axis(scale)) span {}
            }
        }
    }
}

/// The same in words.
fn label(best: &[Finding]) -> String {
    let texts = best.iter().enumerate();
    let texts = texts.map(|(i, f)| format!("fix {}: {}", i + 1, human::gain(&f.gain)));
    let texts: Vec<_> = texts.collect();
    format!("Predicted throughput over today's. {}", texts.join(", "))
}

fn percent(place: f64) -> String {
    format!("{:.2}%", 100.0 * place)
}

fn line(scale: Scale) -> Markup {
    let x = percent(scale.at(1.0));
    html! { line .today x1=(x) x2=(x) y1="0" y2="100%" {} }
}

fn today(scale: Scale) -> Markup {
    html! {
        svg { (line(scale)) circle .today cx=(percent(scale.at(1.0))) cy="50%" r="5" {} }
    }
}

/// Pessimistic to bound, with the expectation; a small one of a card, too.
pub(super) fn interval(gain: &Gain, scale: Scale) -> Markup {
    let (low, mid) = (scale.at(gain.low), scale.at(gain.mid));
    let high = scale.at(gain.high);
    let is_open = gain.high.is_infinite();
    // The part that is sure of its colour ends at the expectation.
    let solid = if is_open { mid } else { high };
    let step = (1.0 - solid) / FADE.len() as f64;
    html! {
        svg .open[is_open] {
            (line(scale))
            rect .interval x=(percent(low)) width=(percent((solid - low).max(MIN_WIDTH)))
                y="5" height="12" {}
            @if is_open {
                @for (i, opacity) in FADE.iter().enumerate() {
                    rect .interval x=(percent(solid + step * i as f64)) width=(percent(step))
                        y="5" height="12" opacity=(opacity) {}
                }
            }
            circle .expected cx=(percent(mid)) cy="11" r="6" {}
        }
    }
}

/// `1x`, `1.5x`: a tick needs no more digits than it has.
fn label_of(tick: f64) -> String {
    format!("{tick}x")
}

/// A label at an end of the scale stays inside of it.
fn anchor(place: f64) -> &'static str {
    match place {
        p if p < END => "start",
        p if p > 1.0 - END => "end",
        _ => "middle",
    }
}

fn axis(scale: Scale) -> Markup {
    html! {
        svg .axis {
            @for tick in scale.ticks() {
                @let place = scale.at(tick);
                @let anchor = anchor(place);
                line x1=(percent(place)) x2=(percent(place)) y1="0" y2="4" {}
                text x=(percent(place)) y="16" text-anchor=(anchor) { (label_of(tick)) }
            }
        }
    }
}
