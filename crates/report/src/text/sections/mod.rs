//! `--sections`: what the critical sections that were looked into really touch (SyncPerf's second tool, EuroSys'17,
//! section 3.3), and which row of its Table 1 that is.

mod lines;
mod site;

pub use site::{end_name, region_name, sharing_name};

use convoy_diagnose::{Analysis, InsideRow};

use super::page::{plain, toned, Page, Tone};
use super::table::INDENT;
use crate::human::{count, count_of, percent};
use crate::{names, Report};

/// Places that are shown in full.
const SITES: usize = 12;

/// Columns of the label of a line under a place.
pub(super) const LABEL: usize = 10;

/// All places, those with most sections first.
pub fn write(page: &mut Page, report: &Report<'_>, analysis: &Analysis) {
    page.title(&format!(
        "Critical sections: {} traced of {} run, at {}",
        count(analysis.traced),
        count(analysis.run),
        count_of(analysis.sites.len() as u64, "place", "places")
    ));
    page.line(INDENT, vec![toned(Tone::Dim, how(analysis))]);
    for (reason, n) in &analysis.drops {
        let text = format!("lost: {} {}", count(*n), reason.replace('-', " "));
        page.line(INDENT, vec![toned(Tone::Warn, text)]);
    }
    if analysis.sites.is_empty() {
        page.line(
            INDENT,
            vec![plain("none of the locks that were asked for was taken")],
        );
        return;
    }
    for row in analysis.sites.iter().take(SITES) {
        site::write(page, report, row);
    }
    if analysis.sites.len() > SITES {
        let rest = analysis.sites.len() - SITES;
        page.gap();
        let text = format!("and {rest} more places: --format json has all");
        page.line(INDENT, vec![toned(Tone::Dim, text)]);
    }
    inside(page, report, &analysis.inside);
}

fn how(analysis: &Analysis) -> String {
    let sampling = &analysis.sampling;
    let which = match sampling.all_sites {
        true => "all places",
        false => "the places that were asked for",
    };
    match sampling.every {
        true => format!("every section of {which}"),
        false => format!(
            "of {which}: the first {} sections each, then samples within {} more time",
            sampling.first,
            percent(f64::from(sampling.budget_ppm) / 1e6)
        ),
    }
}

/// Locks inside locks.
fn inside(page: &mut Page, report: &Report<'_>, rows: &[InsideRow]) {
    /// Pairs that are shown.
    const PAIRS: usize = 10;
    if rows.is_empty() {
        return;
    }
    page.title("Locks taken inside the sections of others");
    for row in rows.iter().take(PAIRS) {
        let always = if row.always {
            ": always, so one of the two is enough"
        } else {
            ""
        };
        let text = format!(
            "{} inside {} of {}: {} of its acquisitions{always}",
            names::object_of(report.model, row.inner),
            names::object_of(report.model, row.outer),
            names::site_of(report.model, row.outer_site),
            percent(row.share)
        );
        page.line(INDENT, vec![plain(text)]);
    }
}

/// Why there is no such page, and how to get one.
pub fn missing() -> String {
    "--sections: the profile has no traced sections; to have them: convoy diagnose -- COMMAND"
        .into()
}
