//! Causal experiments (Coz, SOSP'15) without the world: what to try in which window, and what the
//! measured windows say about the gain of making a target faster.
//!
//! A target (`target`) is a function, line, lock or wait. The plan (`plan`) orders windows in
//! blocks, each with every level of every target, a baseline and a null experiment. An estimator
//! (`estimator`) turns times per unit of progress into the share of the run that is saved;
//! intervals (`interval`) come from resampling whole blocks. `experiment` joins them, decides when
//! a target is settled, and gives the result (`result`, `text`). The same course tries other ways
//! to wait for a mutex (`algorithm`, `trial_text`). The caller owns clock and process.

#![forbid(unsafe_code)]

mod algorithm;
mod comparison;
mod consistent;
mod coz;
mod estimator;
mod experiment;
mod factorial;
mod interval;
mod kept;
mod plan;
mod point;
mod progress;
mod random;
mod repeat;
mod result;
mod target;
mod text;
mod trial_text;
mod verdict;
mod words;

pub use algorithm::Algorithm;
pub use comparison::{Comparison, Output};
pub use coz::coz;
pub use estimator::Estimator;
pub use experiment::{Experiment, Settings};
pub use interval::Saved;
pub use plan::{windows_of_targets, Arm, Measured, Mechanism, TargetSet, LEVELS};
pub use point::{Latency, Point, PointKind};
pub use progress::{gap_seconds, may_follow_the_work, Progress, Rate, Step};
pub use random::Random;
pub use result::{Level, Measurements, NullRow, ProgressRow, Report, Subject, TargetRow};
pub use target::{Invalid, Kind, Target};
pub use text::{saved, subject, text, Look};
pub use trial_text::trial_text;
pub use words::{block_needed, length_needed, note, reason, too_many_targets};
