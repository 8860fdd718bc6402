//! What an analysis found, as text for a person and as JSON for a program. Pure: a model and an
//! analysis in, a string out; whoever calls knows the terminal and the locale.
//!
//! The text is described in docs/report.md, the JSON in docs/json.md. [`replay`] does the same for
//! replays (docs/replay.md).

#![forbid(unsafe_code)]

pub mod find;
pub mod human;
pub mod json;
pub mod markdown;
pub mod names;
pub mod quality;
pub mod replay;
pub mod sched_names;
pub mod subject;
pub mod text;
pub mod values;
pub mod verdict;
pub mod waits;

pub use sched_names::reason_id;

use convoy_analysis::counters::Analysis;
use convoy_analysis::Params;
use convoy_model::Model;

/// The experiments in a profile, as `convoy causal` has told them; `None` = nobody made any.
pub fn experiments(model: &Model) -> Option<convoy_causal::Report> {
    let kept = model.experiments.as_ref()?;
    Some(convoy_causal::Report::kept(kept, &model.meta.command))
}

/// Everything that a report is made from.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// What was recorded.
    pub model: &'a Model,
    /// What was found in it. Its ids point into `model`.
    pub analysis: &'a Analysis,
    /// What the scheduler said; `None` = nobody listened to it. Its findings are in `analysis` already, merged
    /// with those about locks.
    pub critical: Option<&'a convoy_analysis::scheduler::Analysis>,
    /// What traced sections touched; `None` = nobody looked into any. Its verdicts are in `analysis` already.
    pub sections: Option<&'a convoy_diagnose::Analysis>,
    /// What the analysis compared with.
    pub thresholds: &'a Params,
}
