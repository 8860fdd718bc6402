//! The result, ready to be shown. The JSON of `--format json` is this, field by field.

use serde::Serialize;

use crate::lead::Lead;
use crate::plan::{Investigation, StepDone};

/// Everything that was found out.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// The command.
    pub command: Vec<String>,
    /// The steps that were taken.
    pub steps: Vec<StepDone>,
    /// Findings, most gain first.
    pub leads: Vec<Lead>,
    /// What experiments chose by themselves: target, and share of the run saved at -50 % (low, mid,
    /// high).
    pub targets: Vec<(String, [f64; 3])>,
    /// Time that all took, seconds.
    pub seconds: f64,
    /// Time that it was allowed to take, seconds.
    pub budget_seconds: f64,
    /// Where the profile of the recorded run is kept.
    pub profile: Option<String>,
}

impl Report {
    /// Of an investigation that is over.
    pub fn of(investigation: Investigation) -> Self {
        Self {
            steps: investigation.done,
            leads: investigation.leads,
            ..Self::default()
        }
    }

    /// As JSON, with a line end.
    pub fn json(&self) -> String {
        // Numbers, texts and lists only: this cannot fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}
