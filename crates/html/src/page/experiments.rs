//! Causal profiles: the share of the run that each target's speed-up saves, with its interval and
//! the null experiment.

use convoy_causal::{saved as saved_text, subject, Level, NullRow, TargetRow};
use convoy_report::{experiments, Report};
use maud::{html, Markup};

const WIDTH: f64 = 260.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 24.0;

/// Targets that get a picture.
const PICTURES: usize = 12;

pub(super) fn part(report: &Report<'_>) -> Markup {
    let Some(found) = experiments(report.model) else {
        return html! {};
    };
    let rows: Vec<&TargetRow> = found
        .targets
        .iter()
        .filter(|row| !row.at.is_empty())
        .collect();
    let scale = Scale::of(&rows, &found.null);
    html! {
        section #experiments aria-labelledby="experiments-title" {
            h2 #experiments-title { "Experiments" }
            p { (found.verdict()) }
            @if let Some(why) = found.why() {
                p { (why) }
            }
            @if !rows.is_empty() {
                p .remark {
                    (if found.is_of_latency() { "Latency" } else { "Run time" })
                    " saved if the target is faster; bars are 95 % intervals. Dashed: the null \
                     experiment, which predicts 0 but for bias and noise."
                }
                div .causals {
                    @for row in rows.iter().take(PICTURES) {
                        figure {
                            figcaption { (subject(row)) }
                            (scale.picture(row))
                        }
                    }
                }
                (table(&rows))
            }
            @for row in found.targets.iter() {
                @if let Some(reason) = &row.reason {
                    p .remark { "No result for " (subject(row)) ": " (reason) "." }
                }
            }
            @for note in &found.notes { p .remark { (note) } }
        }
    }
}

fn table(rows: &[&TargetRow]) -> Markup {
    html! {
        div .scroll tabindex="0" role="region" aria-label="Table of the experiments" {
            table {
                thead { tr {
                    th scope="col" { "target" }
                    th scope="col" { "samples" }
                    @for level in convoy_causal::LEVELS {
                        th scope="col" { (percent(level)) " faster saves" }
                    }
                } }
                tbody { @for row in rows { tr {
                    th scope="row" { (subject(row)) }
                    td { (row.sample_share.map_or_else(String::new, percent)) }
                    @for level in &row.at { td { (saved_text(&level.saved_share)) } }
                } } }
            }
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// All pictures have the same axes: they are to be compared.
struct Scale {
    low: f64,
    high: f64,
    /// By speed-up, the mean of all mechanisms.
    null: Vec<(f64, f64)>,
}

impl Scale {
    fn of(rows: &[&TargetRow], null: &[NullRow]) -> Self {
        let levels = rows.iter().flat_map(|row| &row.at);
        let bounds = levels.map(|level| level.saved_share);
        let (low, high) = bounds.fold((0.0f64, 0.05f64), |(low, high), saved| {
            (low.min(saved.low), high.max(saved.high))
        });
        let of_level = |speedup: f64| {
            let all = null.iter().filter(|row| row.speedup == speedup);
            let all: Vec<f64> = all.map(|row| row.saved_share.mid).collect();
            (!all.is_empty()).then(|| (speedup, all.iter().sum::<f64>() / all.len() as f64))
        };
        let levels = convoy_causal::LEVELS.into_iter();
        Self {
            low: low.max(-1.0),
            high,
            null: levels.filter_map(of_level).collect(),
        }
    }

    fn x(&self, speedup: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * speedup / convoy_causal::LEVELS[1]
    }

    fn y(&self, saved: f64) -> f64 {
        let share = (saved.max(self.low) - self.low) / (self.high - self.low);
        TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - share)
    }

    /// A line from the origin: nothing faster saves nothing.
    fn line(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        let all = std::iter::once((0.0, 0.0)).chain(points);
        let all: Vec<String> = all
            .map(|(speedup, saved)| format!("{:.1},{:.1}", self.x(speedup), self.y(saved)))
            .collect();
        all.join(" ")
    }

    fn picture(&self, row: &TargetRow) -> Markup {
        let points = row.at.iter().map(|at| (at.speedup, at.saved_share.mid));
        let label = format!("What speed-ups of {} save", subject(row));
        html! {
            svg .causal viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } width=(WIDTH) role="img"
                aria-label=(label) {
                g .grid { @for saved in [self.low, 0.0, self.high] {
                    @let y = format!("{:.1}", self.y(saved));
                    line x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y) y2=(y) {}
                    text x=(LEFT - 6.0) y=(y) dy="4" text-anchor="end" { (percent(saved)) }
                } }
                polyline .null points=(self.line(self.null.iter().copied())) {}
                polyline .known points=(self.line(points)) {}
                @for level in &row.at { (self.mark(level)) }
            }
        }
    }

    fn mark(&self, level: &Level) -> Markup {
        let x = format!("{:.1}", self.x(level.speedup));
        let y = |saved: f64| format!("{:.1}", self.y(saved));
        let saved = &level.saved_share;
        html! {
            line .interval x1=(x) x2=(x) y1=(y(saved.low)) y2=(y(saved.high)) {}
            circle cx=(x) cy=(y(saved.mid)) r="4" {
                title { (percent(level.speedup)) " faster: " (saved_text(saved)) }
            }
            text x=(x) y=(HEIGHT - 8.0) text-anchor="middle" { (percent(level.speedup)) }
        }
    }
}
