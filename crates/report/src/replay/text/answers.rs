//! What changes buy: what-ifs beside what was measured, the plan, the scaling curve.

use convoy_estimate::Method;
use convoy_replay::analysis::{Analysis, CurvePoint};
use convoy_replay::predict::Answer;

use super::regions::GAIN;

use crate::replay::{gain, messages};
use crate::text::page::{cell, cell_right, plain, toned, Page, Tone};

const QUERY: usize = 38;
const METHOD: usize = 11;
const METHODS: [Method; 2] = [Method::ReplaySimulated, Method::ReplayNative];

/// What-ifs, those that were measured first, then most gain first, with what each method expects.
pub fn what_ifs(page: &mut Page, analysis: &Analysis, rows: usize) {
    let all = messages::answered(&analysis.what_ifs);
    if all.is_empty() {
        return;
    }
    let shown = rows.min(all.len());
    page.title(&messages::title(messages::WHAT_IFS, shown, all.len()));
    let width = all.iter().take(rows).map(|row| row.query.chars().count());
    let width = (width.max().unwrap_or(0) + 2).clamp(12, QUERY);
    let head = METHODS.map(|method| cell_right(messages::method(method), METHOD));
    let head = format!(
        "  {}{}{}",
        cell("change", width),
        cell("gain", GAIN),
        head.concat()
    );
    page.row(&[toned(Tone::Dim, head)]);
    for row in all.iter().take(rows) {
        let worth = gain::is_reportable(&row.answer);
        let tone = if worth { Tone::Good } else { Tone::Plain };
        let methods = METHODS.map(|method| cell_right(&expected(&row.answer, method), METHOD));
        let query = cell(&row.query, width);
        let mut spans = vec![
            plain(format!("  {query}")),
            toned(tone, cell(&gain::of_answer(&row.answer), GAIN)),
            plain(methods.concat()),
        ];
        let disputed = gain::is_disputed(&row.answer)
            .then(|| messages::disagreement(row.answer.disagreement()));
        let measured = messages::verified(row);
        let remarks: Vec<_> = measured.into_iter().chain(disputed).collect();
        let remarks = remarks.join(", ");
        let taken = 2 + width + GAIN + METHODS.len() * METHOD + 2;
        let fits = taken + remarks.chars().count() <= page.width();
        if fits {
            spans.push(toned(Tone::Strong, format!("  {remarks}")));
        }
        page.row(&spans);
        if !fits {
            page.line(6, vec![toned(Tone::Strong, remarks)]);
        }
        if rows != usize::MAX {
            if let Some(why) = messages::unanswered(row, analysis) {
                page.line(6, vec![toned(Tone::Dim, why)]);
            }
        } else {
            let title = Some(row.title.clone()).filter(|title| *title != row.query);
            for text in title.into_iter().chain(messages::remarks(row)) {
                page.line(6, vec![toned(Tone::Dim, text)]);
            }
        }
    }
}

/// What one method expects; a dash where it makes no prediction.
fn expected(answer: &Answer, method: Method) -> String {
    let said = answer.by_method.iter().find(|(by, _)| *by == method);
    said.map_or_else(|| "-".into(), |(_, saved)| gain::expected(saved.mid))
}

/// In which order fixes pay.
pub fn plan(page: &mut Page, analysis: &Analysis, rows: usize) {
    let steps = &analysis.plan;
    if steps.is_empty() {
        return;
    }
    let shown = rows.min(steps.len());
    page.title(&messages::title(messages::PLAN, shown, steps.len()));
    for (step, number) in steps.iter().zip(1..=shown) {
        let label = plain(format!("{number}."));
        let text = messages::plan_step(step, number);
        page.hang(2, label, 3, vec![plain(text)]);
    }
}

/// Throughput on other numbers of CPUs and threads.
pub fn curve(page: &mut Page, analysis: &Analysis, rows: usize) {
    let points = thinned(&analysis.curve, rows);
    if points.is_empty() {
        return;
    }
    let extrapolated = points.iter().any(|point| point.extrapolated);
    page.title(messages::scaling(extrapolated));
    let names: Vec<_> = points
        .iter()
        .map(|point| messages::curve_point(point))
        .collect();
    let width = names.iter().map(|name| name.chars().count()).max();
    let width = width.unwrap_or(0) + 3;
    let head = format!("  {}{}limit", cell("", width), cell("throughput", GAIN));
    page.row(&[toned(Tone::Dim, head)]);
    for (point, name) in points.iter().zip(&names) {
        page.row(&[
            plain("  "),
            plain(cell(name, width)),
            plain(cell(&messages::speedup(point), GAIN)),
            toned(Tone::Dim, messages::curve_limit(point)),
        ]);
    }
}

/// At most so many points, evenly, with the first and the last.
fn thinned(points: &[CurvePoint], most: usize) -> Vec<&CurvePoint> {
    let (n, most) = (points.len(), most.max(2));
    if n <= most {
        return points.iter().collect();
    }
    (0..most)
        .map(|i| &points[i * (n - 1) / (most - 1)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_curve_keeps_its_ends() {
        let points: Vec<_> = (1..=64)
            .map(|cpus| CurvePoint {
                cpus,
                ..CurvePoint::default()
            })
            .collect();
        let shown = thinned(&points, 4);
        let cpus: Vec<_> = shown.iter().map(|point| point.cpus).collect();
        assert_eq!(cpus, [1, 22, 43, 64]);
    }
}
