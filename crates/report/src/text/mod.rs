//! The report for a person: one screen that answers "what serializes it, why, what would fixing it
//! buy, what do I do", and pages with the details on demand.

mod brief;
mod critical;
mod experiments;
mod findings;
mod groups;
mod head;
mod live_curves;
mod lock;
pub mod page;
pub mod sections;
mod table;
mod tables;
mod tail;

use crate::Report;
use page::Page;
pub(crate) use tail::{quoted, tied};

/// How to write, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Columns.
    pub width: usize,
    /// Lines that the findings may take together before they get shorter.
    pub findings_lines: usize,
    /// Use terminal colours.
    pub color: bool,
    /// The reader's locale is UTF-8.
    pub unicode: bool,
    /// Which page.
    pub view: View,
    /// How the reader gets at more.
    pub source: Source,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            width: 100,
            findings_lines: 30,
            color: false,
            unicode: false,
            view: View::Summary,
            source: Source::Live,
        }
    }
}

/// The pages of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// One screen.
    Summary,
    /// The verdict, a picture and the first finding, for a terminal.
    Brief,
    /// All findings, also those that are not worth it, and all tables.
    All,
    /// All about the locks (or other objects) that match: name, address, site or expression.
    Lock(String),
    /// Groups and threads: where their time went, and the best assignment.
    ThreadGroups,
    /// What the scheduler showed: parallelism, the code that ran while it was low, waits and who ended them.
    Critical,
    /// What critical sections touched, where they were looked into.
    Sections,
}

/// Where the profile is, for the hints on the last lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nowhere: recorded and reported in one go.
    Live,
    /// In this file.
    File(String),
    /// Where this command finds it: `convoy report --last`.
    Last(&'static str),
}

/// Writes the page that the options ask for.
///
/// # Errors
/// [`View::Lock`] with an expression that cannot be read, or that nothing matches; [`View::Critical`] of a
/// profile without scheduler events, and [`View::Sections`] of one without traced sections: what to do.
pub fn render(report: &Report<'_>, options: &Options) -> Result<String, String> {
    let mut page = Page::new(options.width, options.color, options.unicode);
    match &options.view {
        View::Summary | View::Brief if is_session(report) => {
            head::run(&mut page, report);
            curves(&mut page, report, false);
        }
        View::Summary => {
            head::write(&mut page, report);
            findings::write(&mut page, report, options.findings_lines);
            curves(&mut page, report, false);
            experiments::write(&mut page, report);
            tail::hints(&mut page, report, options);
            tail::quality(&mut page, report);
        }
        View::Brief => brief::write(&mut page, report, options),
        View::All if is_session(report) => {
            head::run(&mut page, report);
            curves(&mut page, report, true);
        }
        View::All => {
            head::write(&mut page, report);
            findings::write_all(&mut page, report);
            curves(&mut page, report, true);
            experiments::write(&mut page, report);
            tables::write(&mut page, report);
            groups::write(&mut page, report);
            if let Some(analysis) = report.critical {
                critical::write(&mut page, report, analysis);
            }
            if let Some(analysis) = report.sections {
                sections::write(&mut page, report, analysis);
            }
            tail::quality(&mut page, report);
        }
        View::Lock(pattern) => lock::write(&mut page, report, pattern)?,
        View::ThreadGroups => {
            head::write(&mut page, report);
            groups::write(&mut page, report);
        }
        View::Critical => {
            let analysis = report.critical.ok_or_else(|| critical::missing(report))?;
            head::write(&mut page, report);
            critical::write(&mut page, report, analysis);
            tail::quality(&mut page, report);
        }
        View::Sections => {
            let analysis = report.sections.ok_or_else(sections::missing)?;
            head::write(&mut page, report);
            sections::write(&mut page, report, analysis);
            tail::quality(&mut page, report);
        }
    }
    Ok(page.finish())
}

/// Whether curves are all that there is.
fn is_session(report: &Report<'_>) -> bool {
    let model = report.model;
    model.live_curves.is_some() && model.sched.is_none() && model.uses.is_empty()
}

fn curves(page: &mut Page, report: &Report<'_>, with_threads: bool) {
    if let Some(live) = &report.model.live_curves {
        live_curves::write(page, live, with_threads);
    }
}
