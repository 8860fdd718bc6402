//! The last lines: races, limits and what to do about them, how to see more.

use convoy_replay::analysis::Analysis;

use super::head::LABEL;
use crate::replay::{caveats, messages};
use crate::text::page::{plain, toned, Page, Tone};
use crate::text::Source;

/// Potential data races of the trace without unnecessary contention.
pub fn races(page: &mut Page, analysis: &Analysis, rows: usize) {
    let races = &analysis.ulcp.races;
    if races.is_empty() {
        return;
    }
    let shown = rows.min(races.len());
    page.title(&messages::title(messages::RACES, shown, races.len()));
    for race in races.iter().take(rows) {
        page.line(2, vec![toned(Tone::Warn, messages::race(race))]);
    }
}

/// What limits the answers. Returns how many limits are not shown.
pub fn caveats(page: &mut Page, analysis: &Analysis, rows: usize) -> usize {
    let texts = caveats::texts(analysis);
    if texts.is_empty() {
        return 0;
    }
    page.gap();
    let shown = rows.min(texts.len());
    for (i, text) in texts.iter().take(shown).enumerate() {
        let label = if i == 0 { "Limits" } else { "" };
        page.hang(0, toned(Tone::Warn, label), LABEL, vec![plain(text)]);
    }
    texts.len() - shown
}

/// How to see more.
pub fn hints(page: &mut Page, analysis: &Analysis, from: &Source, hidden_limits: usize) {
    let recording = match from {
        Source::File(file) => crate::text::tied(&crate::text::quoted(file)),
        Source::Last(_) | Source::Live => messages::NO_RECORDING.into(),
    };
    page.gap();
    let text = messages::hints(analysis, &recording, hidden_limits);
    page.hang(0, toned(Tone::Title, "More"), LABEL, vec![plain(text)]);
}
