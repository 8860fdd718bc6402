//! Sliders over what-ifs that were computed beforehand: shards, section length, CPUs, threads.
//!
//! What-ifs whose queries differ in one number are points of one dial.

use std::collections::BTreeMap;

use convoy_replay::analysis::{Analysis, CurvePoint, WhatIfRow};
use convoy_report::replay::{gain, messages};
use maud::{html, Markup};

use super::changes::Scale;

/// A slider.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Dial {
    /// What it changes: a query with its number left out.
    name: String,
    /// By the number, ascending.
    points: Vec<Point>,
}

#[derive(Debug, Clone, PartialEq)]
struct Point {
    value: f64,
    label: String,
    gain: String,
    /// What it is drawn with, if it is a what-if.
    bar: Option<usize>,
    remark: String,
}

/// All dials: those with at least two points.
pub(super) fn of(analysis: &Analysis) -> Vec<Dial> {
    let mut families: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for (i, row) in analysis.what_ifs.iter().enumerate() {
        let answered = row.answer.saved().is_some();
        let Some((name, value, label)) = split(&row.query).filter(|_| answered) else {
            continue;
        };
        families
            .entry(name)
            .or_default()
            .push(point(row, i, value, label));
    }
    let mut dials: Vec<Dial> = families
        .into_iter()
        .map(|(name, points)| Dial { name, points })
        .collect();
    dials.extend(scaling(&analysis.curve));
    for dial in &mut dials {
        dial.points.sort_by(|a, b| a.value.total_cmp(&b.value));
        dial.points.dedup_by(|a, b| a.label == b.label);
    }
    dials.retain(|dial| dial.points.len() > 1);
    dials
}

/// `shorten L 50%` as `shorten L …`, 50 and `50%`: a query whose last word is the number that its
/// last change takes, alone, with a percent sign, or after an equals sign.
fn split(query: &str) -> Option<(String, f64, String)> {
    let start = query.rfind(' ')? + 1;
    let word = &query[start..];
    let at = word.rfind('=').map_or(0, |at| at + 1);
    let label = &word[at..];
    let value: f64 = label.trim_end_matches('%').parse().ok()?;
    // Other changes take only a lock, which may be called by a number.
    let change = query.rfind(" + ").map_or(query, |plus| &query[plus + 3..]);
    let takes_number = change[..change.len() - word.len()].ends_with(" / ")
        || ["shorten ", "batch ", "cpus ", "threads "]
            .iter()
            .any(|verb| change.starts_with(verb));
    let name = format!("{}{}…", &query[..start], &word[..at]);
    (takes_number && value.is_finite()).then(|| (name, value, label.to_owned()))
}

fn point(row: &WhatIfRow, at: usize, value: f64, label: String) -> Point {
    Point {
        value,
        label,
        gain: gain::of_answer(&row.answer),
        bar: Some(at),
        remark: row.title.clone(),
    }
}

/// The curve as a dial: over threads where their number was asked about, else over CPUs.
fn scaling(curve: &[CurvePoint]) -> Vec<Dial> {
    let dial = |name: &str, points: Vec<(f64, &CurvePoint)>| {
        let points = points.into_iter().map(|(value, point)| Point {
            value,
            label: messages::curve_point(point),
            gain: messages::speedup(point),
            bar: None,
            remark: messages::curve_limit(point),
        });
        Dial {
            name: name.into(),
            points: points.collect(),
        }
    };
    let threads = curve
        .iter()
        .filter_map(|p| Some((f64::from(p.threads?), p)));
    let cpus = curve.iter().filter(|p| p.threads.is_none());
    let cpus = cpus.map(|p| (f64::from(p.cpus), p));
    vec![
        dial("threads", threads.collect()),
        dial("CPUs", cpus.collect()),
    ]
}

pub(super) fn dials(analysis: &Analysis) -> Markup {
    let dials = of(analysis);
    if dials.is_empty() {
        return html! {};
    }
    let scale = Scale::of(
        analysis
            .what_ifs
            .iter()
            .filter_map(|row| row.answer.saved()),
    );
    html! {
        section #dials aria-labelledby="dials-title" {
            h2 #dials-title { "Sliders" }
            p .remark { (messages::DIALS) }
            @for dial in &dials { (markup(analysis, dial, &scale)) }
        }
    }
}

/// Without a script all points are listed; with it the slider shows one.
fn markup(analysis: &Analysis, dial: &Dial, scale: &Scale) -> Markup {
    let last = dial.points.len() - 1;
    html! {
        div .dial {
            label { code { (dial.name) } " "
                input type="range" min="0" max=(last) value="0" step="1" hidden
                    aria-valuetext=(dial.points[0].label);
            }
            ol .points { @for point in &dial.points { li {
                b { (point.label) ":" } " " strong .gain { (point.gain) } " "
                @if let Some(row) = point.bar.and_then(|at| analysis.what_ifs.get(at)) {
                    (scale.bar(&row.answer, row.verified.map(|v| v.saved))) " "
                }
                span .dim { (point.remark) }
            } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_split_at_its_last_number() {
        let split = |query| split(query).map(|(name, value, _)| (name, value));
        assert_eq!(
            split("cache_lock / 8"),
            Some(("cache_lock / …".into(), 8.0))
        );
        assert_eq!(split("shorten a 50%"), Some(("shorten a …".into(), 50.0)));
        assert_eq!(
            split("threads workers=4"),
            Some(("threads workers=…".into(), 4.0))
        );
        assert_eq!(
            split("remove a + cpus 16"),
            Some(("remove a + cpus …".into(), 16.0))
        );
        for query in [
            "remove cache_lock",
            "remove shard 3",
            "cpus 4 + rwlock 7",
            "x",
            "",
        ] {
            assert_eq!(split(query), None, "{query}");
        }
    }

    #[test]
    fn what_ifs_of_one_lock_and_parameter_are_one_dial() {
        let dials = of(&convoy_testkit::replay::rich());
        let names: Vec<_> = dials
            .iter()
            .map(|d| (d.name.as_str(), d.points.len()))
            .collect();
        assert_eq!(
            names,
            [
                ("cache_lock / …", 4),
                ("shorten cache_lock …", 3),
                ("CPUs", 6)
            ]
        );
    }
}
