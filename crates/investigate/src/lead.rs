//! A finding, and what methods say of changes to its lock.

use convoy_estimate::{combine, Combined, Estimate, WhatIf};
use serde::Serialize;

/// Width of an interval, as a share of the run, that decides what to do.
const NARROW: f64 = 0.20;

/// A finding that is looked into.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Lead {
    /// Stable id of the finding (docs/findings.md).
    pub id: String,
    /// One line.
    pub title: String,
    /// Its lock, as other verbs name it; `None` = it is about something else.
    pub lock: Option<String>,
    /// Root causes that are possible; one = decided.
    pub causes: Vec<String>,
    /// What to do, if the first cause is the one.
    pub fix: String,
    /// What each method says.
    pub estimates: Vec<Estimate>,
}

/// A change of the lead's lock, and what all methods say of it together.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The change.
    pub what_if: WhatIf,
    /// `None` = no method has an answer that it stands by.
    pub combined: Option<Combined>,
}

impl Lead {
    /// The changes that methods were asked about, in the order in which they were asked.
    pub fn changes(&self) -> Vec<Change> {
        let mut changes: Vec<Change> = Vec::new();
        for estimate in &self.estimates {
            if changes.iter().all(|c| c.what_if != estimate.what_if) {
                changes.push(Change {
                    what_if: estimate.what_if.clone(),
                    combined: combine(&self.estimates, &estimate.what_if),
                });
            }
        }
        changes
    }

    /// Whether some change has an interval that decides what to do.
    pub fn is_sure(&self) -> bool {
        let of = |change: Change| {
            let (low, _, high) = change.combined?.gain.saved();
            Some(high? - low <= NARROW)
        };
        self.changes()
            .into_iter()
            .filter_map(of)
            .any(|narrow| narrow)
    }

    /// Whether what was seen leaves several causes.
    pub fn is_undecided(&self) -> bool {
        self.causes.len() > 1
    }
}
