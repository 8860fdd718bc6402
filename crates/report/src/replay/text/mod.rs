//! A replay for a person: one screen that tells what is unnecessary, where, what it is worth and
//! how sure that is; pages with more on demand.

mod answers;
mod head;
mod regions;
mod tail;

use convoy_replay::analysis::Analysis;
use convoy_replay::tables::Table;

use super::{exhibits, messages};
use crate::text::page::{plain, Page};
use crate::text::Source;

/// How to write, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Columns.
    pub width: usize,
    /// Use terminal colours.
    pub color: bool,
    /// The reader's locale is UTF-8.
    pub unicode: bool,
    /// Which page.
    pub view: View,
    /// How the reader gets at more.
    pub from: Source,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            width: 100,
            color: false,
            unicode: false,
            view: View::Summary,
            from: Source::Live,
        }
    }
}

/// The pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// One screen.
    Summary,
    /// All rows of all tables.
    All,
    /// The source of all regions, annotated.
    Source,
    /// A table of the paper.
    Table(u32),
    /// A figure of the paper, as a table.
    Figure(u32),
}

/// Lines of one screen.
const SCREEN: usize = 45;

/// Rows of each table.
#[derive(Debug, Clone, Copy)]
struct Rows {
    regions: usize,
    what_ifs: usize,
    plan: usize,
    curve: usize,
    races: usize,
    limits: usize,
}

impl Rows {
    const ALL: Self = Self::each(usize::MAX);
    /// On the fullest screen: the first limits decide whether numbers mean anything.
    const FEWEST: Self = Self {
        plan: 2,
        curve: 2,
        limits: 3,
        ..Self::each(1)
    };
    /// On an empty one.
    const MOST: usize = 8;

    const fn each(rows: usize) -> Self {
        Self {
            regions: rows,
            what_ifs: rows,
            plan: rows,
            curve: rows,
            races: rows,
            limits: rows,
        }
    }

    /// The same with a row more in one table each, most needed first.
    fn grown(self) -> [Self; 6] {
        let more = |rows: usize| (rows + 1).min(Self::MOST);
        [
            Self {
                regions: more(self.regions),
                ..self
            },
            Self {
                what_ifs: more(self.what_ifs),
                ..self
            },
            Self {
                plan: more(self.plan),
                ..self
            },
            Self {
                limits: more(self.limits),
                ..self
            },
            Self {
                curve: more(self.curve),
                ..self
            },
            Self {
                races: more(self.races),
                ..self
            },
        ]
    }
}

/// Writes the page that the options ask for.
///
/// # Errors
/// [`View::Table`] and [`View::Figure`] of a number that the paper does not have, or that the
/// recording has no data for; [`View::Source`] without any source: what to do.
pub fn render(analysis: &Analysis, options: &Options) -> Result<String, String> {
    let mut page = Page::new(options.width, options.color, options.unicode);
    match options.view {
        View::Summary => {
            let mut rows = Rows::FEWEST;
            for _ in 0..Rows::MOST {
                for table in 0..rows.grown().len() {
                    let grown = rows.grown()[table];
                    let lines = page.measure(|page| summary(page, analysis, options, grown));
                    if lines <= SCREEN {
                        rows = grown;
                    }
                }
            }
            summary(&mut page, analysis, options, rows);
        }
        View::All => {
            summary(&mut page, analysis, options, Rows::ALL);
            head::fidelity(&mut page, analysis);
            regions::locks(&mut page, analysis);
            for exhibit in exhibits::all(analysis) {
                exhibits::write(&mut page, &exhibit);
            }
            regions::sources(&mut page, analysis);
        }
        View::Source => {
            regions::sources(&mut page, analysis);
            if page.lines() == 0 {
                return Err(messages::NO_SOURCE.into());
            }
        }
        View::Table(number) => exhibit(&mut page, analysis, &exhibits::table(analysis, number)?),
        View::Figure(number) => exhibit(&mut page, analysis, &exhibits::figure(analysis, number)?),
    }
    Ok(page.finish())
}

/// A table by itself, with what limits its numbers, and why it has none.
fn exhibit(page: &mut Page, analysis: &Analysis, table: &Table) {
    exhibits::write(page, table);
    if table.rows.is_empty() {
        page.line(2, vec![plain(messages::NO_ROWS)]);
    }
    tail::caveats(page, analysis, usize::MAX);
}

fn summary(page: &mut Page, analysis: &Analysis, options: &Options, rows: Rows) {
    head::write(page, analysis);
    regions::contention(page, analysis);
    regions::table(page, analysis, rows.regions);
    answers::what_ifs(page, analysis, rows.what_ifs);
    answers::plan(page, analysis, rows.plan);
    answers::curve(page, analysis, rows.curve);
    if options.view == View::All {
        for table in exhibits::comparison(analysis) {
            exhibits::write(page, &table);
        }
    }
    tail::races(page, analysis, rows.races);
    let hidden = tail::caveats(page, analysis, rows.limits);
    if options.view == View::Summary {
        tail::hints(page, analysis, &options.from, hidden);
        regions::first_source(page, analysis, SCREEN);
        for table in exhibits::comparison(analysis) {
            let lines = page.lines() + page.measure(|page| exhibits::write(page, &table)) + 1;
            if lines <= SCREEN {
                exhibits::write(page, &table);
            }
        }
    }
}
