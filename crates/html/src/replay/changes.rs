//! What changes buy: a bar with its interval for each what-if, and the plan.

use convoy_estimate::Method;
use convoy_replay::analysis::{Analysis, WhatIfRow};
use convoy_replay::predict::{Answer, Saved};
use convoy_report::human::percent;
use convoy_report::replay::{gain, messages};
use maud::{html, Markup};

use super::{left_out, marked, ROWS};

const METHODS: [Method; 2] = [Method::ReplaySimulated, Method::ReplayNative];

pub(super) fn has_rows(analysis: &Analysis) -> bool {
    !messages::answered(&analysis.what_ifs).is_empty()
}

pub(super) fn what_ifs(analysis: &Analysis) -> Markup {
    let rows = messages::answered(&analysis.what_ifs);
    if rows.is_empty() {
        return html! {};
    }
    let all = rows
        .iter()
        .flat_map(|row| drawn(&row.answer, row.verified.map(|v| v.saved)));
    let scale = Scale::of(all);
    html! {
        section #what-ifs aria-labelledby="what-ifs-title" {
            h2 #what-ifs-title { "What-ifs" }
            p .legend {
                i .key.interval {} "interval of both replays " i .key.simulated {} "simulated "
                i .key.native {} "native " i .key.measured {} "measured"
            }
            div .scroll tabindex="0" role="region" aria-label="Table of what-ifs" {
                table .what-ifs {
                    thead { tr {
                        th scope="col" { "change" } th scope="col" { "gain" }
                        th scope="col" { "time saved" (scale.axis()) }
                        @for method in METHODS { th .n scope="col" { (messages::method(method)) } }
                        th scope="col" { "remarks" }
                    } }
                    tbody { @for row in rows.iter().take(ROWS) { (row_of(row, &scale)) } }
                }
            }
            (left_out(rows.len()))
        }
    }
}

fn row_of(row: &WhatIfRow, scale: &Scale) -> Markup {
    let measured = row.verified.map(|v| v.saved);
    let class = if gain::is_reportable(&row.answer) {
        "gain"
    } else {
        "dim"
    };
    let disputed =
        gain::is_disputed(&row.answer).then(|| messages::disagreement(row.answer.disagreement()));
    html! {
        tr {
            th scope="row" {
                code { (row.query) }
                @if row.title != row.query { div .dim { (marked(&row.title)) } }
            }
            td .nowrap { span class=(class) { (gain::of_answer(&row.answer)) } }
            td { (scale.bar(&row.answer, measured)) }
            @for method in METHODS {
                td .n { (expected(&row.answer, method)) }
            }
            td {
                @if let Some(text) = messages::verified(row) { strong { (text) } ". " }
                @if let Some(text) = disputed { span .warn { (text) } ". " }
                @for text in messages::remarks(row) { span .dim { (text) " " } }
            }
        }
    }
}

fn expected(answer: &Answer, method: Method) -> String {
    let said = answer.by_method.iter().find(|(by, _)| *by == method);
    said.map_or_else(|| "–".into(), |(_, saved)| gain::expected(saved.mid))
}

/// All intervals that a bar has to hold.
fn drawn(answer: &Answer, measured: Option<Saved>) -> impl Iterator<Item = Saved> + '_ {
    answer.saved().into_iter().chain(measured)
}

/// The scale of all bars: shares of the wall time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    low: f64,
    high: f64,
}

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 22.0;
/// A loss beyond it is drawn to the edge.
const WORST: f64 = -1.0;

impl Scale {
    /// One that holds these.
    pub(super) fn of(all: impl Iterator<Item = Saved>) -> Self {
        let (low, high) = all.fold((0.0f64, 0.25f64), |(low, high), saved| {
            (low.min(saved.low), high.max(saved.high))
        });
        Self {
            low: (low.max(WORST) * 20.0).floor() / 20.0,
            high: (high.min(1.0) * 20.0).ceil() / 20.0,
        }
    }

    fn x(&self, saved: f64) -> f64 {
        let share = (saved - self.low) / (self.high - self.low);
        (share.clamp(0.0, 1.0) * WIDTH * 10.0).round() / 10.0
    }

    /// Ticks with the gain of each.
    fn axis(&self) -> Markup {
        let step = if self.high - self.low > 0.6 {
            0.25
        } else {
            0.1
        };
        let first = (self.low / step).ceil() as i32;
        let last = (self.high / step).floor() as i32;
        let ticks: Vec<f64> = (first..=last).map(|i| f64::from(i) * step).collect();
        html! {
            svg .axis width=(WIDTH) height="18" aria-hidden="true" {
                @for tick in ticks {
                    @let x = self.x(tick);
                    text x=(x) y="13" text-anchor=(anchor(x)) { (percent_of(tick)) }
                }
            }
        }
    }

    /// The interval, the expectation, each method, and what was measured.
    pub(super) fn bar(&self, answer: &Answer, measured: Option<Saved>) -> Markup {
        let middle = HEIGHT / 2.0;
        let zero = self.x(0.0);
        let said = gain::of_answer(answer);
        html! {
            svg .saved width=(WIDTH) height=(HEIGHT) role="img" aria-label=(said) {
                line .zero x1=(zero) x2=(zero) y1="0" y2=(HEIGHT) {}
                @if let Some(all) = answer.saved() {
                    @let (low, mid, high) = (self.x(all.low), self.x(all.mid), self.x(all.high));
                    rect .expected x=(zero.min(mid)) y="7" width=((mid - zero).abs()) height="8" {}
                    rect .interval x=(low) y="4" width=(high - low) height="14" rx="2" {}
                }
                @for (method, saved) in &answer.by_method {
                    circle class=(class_of(*method)) cx=(self.x(saved.mid)) cy=(middle) r="4" {
                        title { (messages::method(*method)) ": " (gain::of_saved(saved)) }
                    }
                }
                @if let Some(saved) = measured {
                    @let [low, mid, high] = [saved.low, saved.mid, saved.high].map(|s| self.x(s));
                    line .measured x1=(low) x2=(high) y1=(middle) y2=(middle) {}
                    line .measured.middle x1=(mid) x2=(mid) y1="1" y2=(HEIGHT - 1.0) {
                        title { "measured: " (gain::of_saved(&saved)) }
                    }
                }
            }
        }
    }
}

/// How a label at `x` stays inside.
fn anchor(x: f64) -> &'static str {
    match x {
        x if x < 20.0 => "start",
        x if x > WIDTH - 20.0 => "end",
        _ => "middle",
    }
}

fn percent_of(share: f64) -> String {
    let text = percent(share.abs());
    if share < -1e-9 {
        format!("-{text}")
    } else {
        text
    }
}

fn class_of(method: Method) -> &'static str {
    messages::method(method)
}

pub(super) fn plan(analysis: &Analysis) -> Markup {
    if analysis.plan.is_empty() {
        return html! {};
    }
    let scale = Scale::of(analysis.plan.iter().filter_map(|step| step.answer.saved()));
    html! {
        section #plan aria-labelledby="plan-title" {
            h2 #plan-title { (messages::PLAN) }
            ol .plan { @for (step, number) in analysis.plan.iter().zip(1..) { li {
                (messages::plan_step(step, number))
                div { (scale.bar(&step.answer, None)) }
            } } }
        }
    }
}
