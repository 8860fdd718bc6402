//! Tables and figures of the paper (PerfPlay, CGO'15), of any recording.

use convoy_replay::analysis::{Analysis, UlcpCounts};

use super::{gain, messages};
use crate::human::{count, percent};
use crate::text::page::{cell, cell_right, plain, toned, Page, Tone};

/// A table with its title.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exhibit {
    /// "Table 1", "Figure 13".
    pub label: String,
    /// What it shows.
    pub title: String,
    /// Headings, first that of the names.
    pub head: Vec<String>,
    /// A row each: first its name.
    pub rows: Vec<Vec<String>>,
}

/// All that there are data for.
pub fn all(analysis: &Analysis) -> Vec<Exhibit> {
    let tables = (1..=3).filter_map(|number| table(analysis, number).ok());
    tables.filter(|table| !table.rows.is_empty()).collect()
}

/// A table of the paper.
///
/// # Errors
/// The paper has no such table, or the recording no data for it: what to do.
pub fn table(analysis: &Analysis, number: u32) -> Result<Exhibit, String> {
    match number {
        1 => Ok(breakdown(analysis)),
        2 => Ok(opportunities(analysis)),
        _ => Err(messages::no_exhibit("table", number, "1 and 2")),
    }
}

/// A figure of the paper, as a table.
///
/// # Errors
/// As of [`table`].
pub fn figure(_: &Analysis, number: u32) -> Result<Exhibit, String> {
    Err(messages::no_exhibit("figure", number, "none"))
}

/// Pairs of each lock by class.
fn breakdown(analysis: &Analysis) -> Exhibit {
    let row = |name: &str, counts: &UlcpCounts| {
        let classes = messages::by_class(counts).map(count);
        let mut row = vec![name.to_owned(), count(counts.acquisitions)];
        row.extend(classes);
        row
    };
    let locks = analysis.locks.iter();
    let mut rows: Vec<_> = locks
        .filter_map(|lock| Some(row(&lock.name, lock.ulcp.as_ref()?)))
        .collect();
    rows.push(row("all", &analysis.ulcp.counts));
    let mut head = vec!["lock".into(), "acquisitions".into()];
    head.extend(messages::CLASSES.map(|class| class.1.to_owned()));
    Exhibit {
        label: "Table 1".into(),
        title: "breakdown of lock contention pairs".into(),
        head,
        rows,
    }
}

/// Grouped code regions by their share of the opportunity (eq. 2).
fn opportunities(analysis: &Analysis) -> Exhibit {
    let rows = analysis.regions.iter().map(|region| {
        let site = region.sites.first().map(messages::place);
        vec![
            site.unwrap_or_else(|| region.lock.clone()),
            region.lock.clone(),
            messages::class(region.kind).to_owned(),
            count(region.pairs),
            percent(region.p),
            gain::of_answer(&region.answer),
        ]
    });
    let head = ["code region", "lock", "class", "pairs", "P", "gain"];
    Exhibit {
        label: "Table 2".into(),
        title: "code regions by share of the cost of unnecessary contention".into(),
        head: head.map(String::from).to_vec(),
        rows: rows.collect(),
    }
}

/// Writes one, as wide as it is.
pub fn write(page: &mut Page, exhibit: &Exhibit) {
    page.title(&format!("{}: {}", exhibit.label, exhibit.title));
    let lines = || std::iter::once(&exhibit.head).chain(&exhibit.rows);
    let columns = exhibit.head.len();
    let width = |column: usize| {
        let cells = lines().filter_map(|line| line.get(column));
        cells.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for (i, line) in lines().enumerate() {
        let cells = line
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(at, (text, width))| {
                if at == 0 {
                    cell(text, *width)
                } else {
                    cell_right(text, width + 2)
                }
            });
        let text: String = cells.collect();
        let tone = if i == 0 { Tone::Dim } else { Tone::Plain };
        page.row(&[plain("  "), toned(tone, text)]);
    }
}
