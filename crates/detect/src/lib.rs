//! What keeps a program from running in parallel, why, and what fixing it would buy: pure
//! functions of a [`Model`]. The method, its formulas and sources are in docs/detect.md, what each
//! finding means in docs/findings.md.

#![forbid(unsafe_code)]

mod rows;
mod thresholds;

pub use rows::*;
pub use thresholds::Thresholds;

use convoy_model::Model;

/// Judges a recording.
pub fn analyze(_model: &Model, _t: &Thresholds) -> Analysis {
    Analysis::default()
}
