//! The head of the page: what ran, how well it replays, and the verdict.

use convoy_replay::analysis::Analysis;

use crate::replay::{gain, messages};
use crate::text::page::{cell, cell_right, plain, toned, Page, Tone};

/// Columns of the labels.
pub const LABEL: usize = 10;

pub fn write(page: &mut Page, analysis: &Analysis) {
    let dot = page.dot();
    let line = |page: &mut Page, label: &str, spans| {
        page.hang(0, toned(Tone::Title, label), LABEL, spans);
    };
    let subject = toned(Tone::Strong, messages::subject(analysis));
    line(page, "replay", vec![subject]);
    let recorded = messages::recorded(&analysis.recorded).join(dot);
    line(page, "recorded", vec![plain(recorded)]);
    let replays: Vec<_> = analysis.baselines.iter().map(messages::fidelity).collect();
    let tone = if analysis.is_trusted() {
        Tone::Good
    } else {
        Tone::Warn
    };
    let mut spans = vec![plain(replays.join(dot))];
    if !replays.is_empty() {
        spans.push(plain(": "));
    }
    spans.push(toned(tone, messages::fidelity_verdict(analysis)));
    line(page, "fidelity", spans);
    page.gap();
    let worth = analysis.regions.first();
    let tone = if worth.is_some_and(|region| gain::is_reportable(&region.answer)) {
        Tone::Bad
    } else {
        Tone::Strong
    };
    line(
        page,
        "Verdict",
        vec![toned(tone, messages::verdict(analysis))],
    );
}

/// All that replays were compared by.
pub fn fidelity(page: &mut Page, analysis: &Analysis) {
    let compared = analysis
        .baselines
        .iter()
        .filter_map(|b| b.fidelity.as_ref());
    for fidelity in compared {
        if fidelity.checks.is_empty() {
            continue;
        }
        page.title(messages::FIDELITY);
        let row = |page: &mut Page, tone, cells: [&str; 4]| {
            let [name, recorded, replayed, holds] = cells;
            page.row(&[
                toned(tone, format!("  {}", cell(name, 40))),
                toned(tone, cell_right(recorded, 12)),
                toned(tone, cell_right(replayed, 12)),
                toned(tone, format!("  {holds}")),
            ]);
        };
        let name = messages::method(fidelity.method);
        row(page, Tone::Dim, ["", "recorded", name, ""]);
        for check in &fidelity.checks {
            let [name, recorded, replayed] = messages::check(check);
            let tone = if check.ok { Tone::Plain } else { Tone::Warn };
            row(
                page,
                tone,
                [&name, &recorded, &replayed, messages::holds(check)],
            );
        }
    }
}
