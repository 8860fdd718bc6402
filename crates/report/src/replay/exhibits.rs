//! Tables and figures of the paper (PerfPlay, CGO'15), of any recording, for people.

use convoy_replay::analysis::{Analysis, UlcpCounts};
use convoy_replay::sensitivity;
use convoy_replay::tables::{self, Analyzed, Cell, Table};

use super::messages;
use crate::human::{count, duration, percent};
use crate::text::page::{cell, cell_right, plain, toned, Page, Tone};

/// The paper's tables.
pub const TABLES: [u32; 3] = [1, 2, 3];
/// The paper's figures that have data.
pub const FIGURES: [u32; 6] = [2, 13, 14, 15, 16, 19];

/// All that there are data for, and the pairs by lock.
pub fn all(analysis: &Analysis) -> Vec<Table> {
    let tables = TABLES.iter().filter_map(|n| table(analysis, *n).ok());
    let figures = FIGURES.iter().filter_map(|n| figure(analysis, *n).ok());
    let by_lock = std::iter::once(by_lock(analysis));
    let all = tables.chain(figures).chain(by_lock);
    all.filter(|table| !table.rows.is_empty()).collect()
}

/// What stays and what grows over several recordings; nothing of one.
pub fn comparison(analysis: &Analysis) -> Vec<Table> {
    if analysis.compared.len() < 2 {
        return Vec::new();
    }
    let tables: [fn(&[Analyzed]) -> Table; 2] = [sensitivity::costs, sensitivity::regions];
    let tables = tables.into_iter();
    let all = tables.filter_map(|of| exhibit(analysis, false, |all| Some(of(all))));
    all.filter(|table| !table.rows.is_empty()).collect()
}

/// A table of the paper.
///
/// # Errors
/// The paper has no such table, or the recording no data for it: what to do.
pub fn table(analysis: &Analysis, number: u32) -> Result<Table, String> {
    exhibit(analysis, true, |all| tables::table(number, all))
        .ok_or_else(|| messages::no_exhibit(analysis, "table", number, &TABLES))
}

/// A figure of the paper, as the table of its points.
///
/// # Errors
/// As of [`table`].
pub fn figure(analysis: &Analysis, number: u32) -> Result<Table, String> {
    // Schedules are compared by run times alone.
    exhibit(analysis, number != 13, |all| tables::figure(number, all))
        .ok_or_else(|| messages::no_exhibit(analysis, "figure", number, &FIGURES))
}

/// `needs_sets`: recordings without read and write sets have nothing to show.
fn exhibit(
    analysis: &Analysis,
    needs_sets: bool,
    of: impl Fn(&[Analyzed]) -> Option<Table>,
) -> Option<Table> {
    let mut all = analysis.compared.clone();
    for (i, of) in all.iter_mut().enumerate() {
        if of.program.is_empty() {
            of.program = messages::program(analysis, i);
        }
    }
    all.retain(|of| of.has_sets || !needs_sets);
    of(&all).filter(|_| !all.is_empty())
}

/// Pairs of each lock by class.
fn by_lock(analysis: &Analysis) -> Table {
    let row = |name: &str, counts: &UlcpCounts| {
        let numbers = [counts.acquisitions].into_iter();
        let numbers = numbers.chain(messages::by_class(counts)).map(Cell::Count);
        [Cell::Text(name.to_owned())]
            .into_iter()
            .chain(numbers)
            .collect()
    };
    let locks = analysis.locks.iter();
    let rows = locks.filter_map(|lock| Some(row(&lock.name, lock.ulcp.as_ref()?)));
    let classes = messages::CLASSES.iter().map(|class| class.1);
    Table {
        title: "Locks: pairs of critical sections by class".into(),
        columns: ["lock", "acquisitions"]
            .into_iter()
            .chain(classes)
            .collect(),
        rows: rows.collect(),
    }
}

/// A cell as it is read.
pub fn text(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Count(n) => count(*n),
        Cell::Share(share) => percent(*share),
        Cell::Rate(rate) => format!("{rate:.2}"),
        Cell::Ns(ns) if *ns < 0.0 => format!("-{}", duration(-ns)),
        Cell::Ns(ns) => duration(*ns),
        Cell::Unknown => "?".into(),
    }
}

/// Whether all cells of a column are names, which are flush left.
pub fn is_names(table: &Table, column: usize) -> bool {
    let mut cells = table.rows.iter().filter_map(|row| row.get(column));
    cells.all(|cell| matches!(cell, Cell::Text(_)))
}

/// Writes one, as wide as it is.
pub fn write(page: &mut Page, table: &Table) {
    page.title(&table.title);
    let head: Vec<String> = table
        .columns
        .iter()
        .map(|text| (*text).to_owned())
        .collect();
    let rows = table.rows.iter().map(|row| row.iter().map(text).collect());
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let columns: Vec<(usize, bool)> = (0..table.columns.len())
        .map(|column| (width(column), is_names(table, column)))
        .collect();
    for (i, line) in lines.iter().enumerate() {
        let cells = line
            .iter()
            .zip(&columns)
            .map(|(text, (width, names))| match names {
                true => format!("  {}", cell(text, *width)),
                false => format!("  {}", cell_right(text, *width)),
            });
        let tone = if i == 0 { Tone::Dim } else { Tone::Plain };
        page.row(&[plain(""), toned(tone, cells.collect::<String>())]);
    }
}
