//! Unnecessary contention: how much of each class, in which code regions, and their source.

use convoy_replay::analysis::{Analysis, Region, SourceLine};

use crate::human::{count, count_of, percent};
use crate::replay::source::{self, Role};
use crate::replay::{gain, messages};
use crate::text::page::{cell, cell_right, plain, toned, Page, Tone};

/// Columns of a gain.
pub const GAIN: usize = 22;
const NAME: usize = 17;
const SHARE: usize = 8;
const BAR: usize = 10;

/// Pairs by class.
pub fn contention(page: &mut Page, analysis: &Analysis) {
    let counts = &analysis.ulcp.counts;
    let all = counts.pairs();
    if all == 0 || all == counts.unknown {
        return;
    }
    page.gap();
    let mut text = messages::contention(&analysis.ulcp);
    if let Some(free) = &analysis.ulcp_free {
        text = [text, messages::without(free)].join(page.dot());
    }
    let label = toned(Tone::Title, "Unnecessary");
    page.hang(0, label, 13, vec![plain(text)]);
    let classes = messages::CLASSES.iter().zip(messages::by_class(counts));
    for ((_, name, meaning), n) in classes.filter(|(_, n)| *n > 0) {
        let share = n as f64 / all as f64;
        page.row(&[
            plain("  "),
            plain(cell(name, NAME)),
            plain(cell_right(&count(n), SHARE)),
            plain(cell_right(&percent(share), SHARE)),
            plain("  "),
            plain(cell(&page.tally(share, BAR), BAR)),
            toned(Tone::Dim, format!("  {meaning}")),
        ]);
    }
}

/// Regions by rank, each with its place and fix on lines that editors jump to.
pub fn table(page: &mut Page, analysis: &Analysis, rows: usize) {
    let regions = &analysis.regions;
    if regions.is_empty() {
        return;
    }
    let shown = rows.min(regions.len());
    page.title(&messages::title(messages::REGIONS, shown, regions.len()));
    let head = cell("   P", 9) + &cell("gain", GAIN) + &cell("class", NAME) + "lock";
    page.row(&[toned(Tone::Dim, head)]);
    for region in regions.iter().take(rows) {
        row(page, region);
    }
}

fn row(page: &mut Page, region: &Region) {
    let worth = gain::is_reportable(&region.answer);
    let tone = if worth { Tone::Good } else { Tone::Plain };
    page.row(&[
        plain(cell_right(&percent(region.p), 7) + "  "),
        toned(tone, cell(&gain::of_answer(&region.answer), GAIN)),
        plain(cell(messages::class(region.kind), NAME)),
        toned(Tone::Strong, &region.lock),
        toned(
            Tone::Dim,
            format!(", {}", count_of(region.pairs, "pair", "pairs")),
        ),
    ]);
    let Some(site) = region.sites.first() else {
        page.line(2, vec![plain(messages::fix(region))]);
        return;
    };
    let name = messages::function(site);
    let label = messages::jump(site).map_or_else(String::new, |to| to + ":");
    let spans = vec![
        toned(Tone::Dim, format!("{name}: ")),
        plain(messages::fix(region)),
    ];
    page.hang(0, plain(label), 9, spans);
    for rival in messages::rivals(region) {
        let label = messages::jump(rival).map_or_else(String::new, |to| to + ":");
        let text = format!("{}: {}", messages::function(rival), messages::RIVAL);
        page.hang(0, plain(label), 9, vec![toned(Tone::Dim, text)]);
    }
}

/// Locks by waited time.
pub fn locks(page: &mut Page, analysis: &Analysis) {
    if analysis.locks.is_empty() {
        return;
    }
    page.title("Locks");
    for row in &analysis.locks {
        let facts = messages::lock(row).join(page.dot());
        page.hang(2, toned(Tone::Strong, &row.name), 20, vec![plain(facts)]);
    }
}

/// The source of the first region, if it fits below what is there.
pub fn first_source(page: &mut Page, analysis: &Analysis, screen: usize) {
    let Some(region) = analysis.regions.first().filter(|r| !r.source.is_empty()) else {
        return;
    };
    let lines = page.lines() + page.measure(|page| source(page, region)) + 1;
    if lines <= screen {
        page.gap();
        source(page, region);
    }
}

/// The source of all regions.
pub fn sources(page: &mut Page, analysis: &Analysis) {
    let with_source = analysis.regions.iter().filter(|r| !r.source.is_empty());
    for region in with_source {
        page.gap();
        source(page, region);
    }
}

fn source(page: &mut Page, region: &Region) {
    page.row(&[
        toned(Tone::Title, messages::source_of(region)),
        toned(Tone::Dim, messages::SOURCE_COLUMNS),
    ]);
    let place = |line: &SourceLine| format!("{}:{}: ", line.file, line.line);
    let places = region.source.iter().map(|line| place(line).chars().count());
    let width = places.max().unwrap_or(0);
    for (role, line) in source::lines(region) {
        let tone = match role {
            Role::Shared => Tone::Bad,
            Role::Movable => Tone::Good,
            _ => Tone::Dim,
        };
        let share = Some(line.share).filter(|share| *share > 0.0).map(percent);
        page.row(&[
            toned(Tone::Dim, cell(&place(line), width)),
            plain(cell_right(&share.unwrap_or_default(), 7)),
            plain("  "),
            toned(tone, cell(messages::role(role), 10)),
            plain(line.text.replace('\t', "    ")),
        ]);
    }
}
