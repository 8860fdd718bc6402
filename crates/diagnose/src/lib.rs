//! What critical sections really touch, and so which fix is right (SyncPerf's second tool and Table 1, EuroSys'17,
//! sections 3.3 and 4): pure functions of a [`Model`] with traced sections. The method is in docs/diagnose.md.

#![forbid(unsafe_code)]

mod calls;
mod data;
mod groups;
mod inside;
mod join;
mod lines;
mod objects;
mod partition;
mod rows;
mod shares;
mod stats;
mod text;
mod thresholds;
mod verdict;
mod weights;

pub use calls::{called_name, syscall_name};
pub use join::join;
pub use rows::*;
pub use stats::{Share, Spread};
pub use thresholds::Thresholds;

use convoy_model::Model;

/// Judges what was traced: one row for each lock and place where it is acquired, most sections first. Nothing without
/// traced sections.
pub fn analyze(model: &Model, t: &Thresholds) -> Analysis {
    let Some(sections) = &model.sections else {
        return Analysis::default();
    };
    let sections = &weights::tempered(sections);
    let groups = groups::groups(model, sections);
    let inside = inside::inside(model, sections);
    let cases: Vec<verdict::Case<'_>> = groups
        .iter()
        .map(|group| verdict::Case::new(model, sections, group, t))
        .collect();
    let locks = verdict::Locks::of(&cases);
    let mut sites: Vec<SiteRow> = cases.iter().map(|case| case.row(&locks, &inside)).collect();
    sites.sort_by(|a, b| b.run.cmp(&a.run).then(a.site.cmp(&b.site)));
    Analysis {
        sampling: sections.sampling,
        traced: sites.iter().map(|site| site.traced).sum(),
        run: sites.iter().map(|site| site.run).sum(),
        sites,
        inside: inside.rows,
        drops: sections.drops.clone(),
    }
}
