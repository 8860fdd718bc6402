//! What changed between two runs, or two sets of runs: which findings went and came, lock by lock and site by
//! site, and how much faster it got. Pure: summaries of reports in, text out. docs/diff.md says how.

#![forbid(unsafe_code)]

mod change;
mod compare;
mod gate;
mod headline;
mod identity;
mod inconclusive;
mod json;
mod key;
mod limit;
mod markdown;
mod notes;
mod pairing;
mod sarif;
mod summary;
mod text;

pub use change::Change;
pub use compare::{
    compare, Comparison, Error, FindingChange, LockChange, RunFacts, SiteChange, Status,
};
pub use gate::{Breach, Gate, NotJudged};
pub use inconclusive::Doubt;
pub use json::render as json;
pub use key::Place;
pub use limit::Limit;
pub use markdown::render as markdown;
pub use sarif::render as sarif;
pub use summary::{File, LockNumbers, Summary};
pub use text::render as text;
