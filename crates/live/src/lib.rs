//! Metrics of parts of a running program: `convoy live` without the world.
//!
//! A request (`request`) names a metric (`metric`) and a focus (`focus`). A session (`session`)
//! turns requests into probes (`probe`, `row`), keeps their cost within a budget (`governor`), and
//! makes curves of what is read (`value`). What can be asked for is a tree (`resources`). The
//! caller owns clock, process and screen. `search` finds out by itself what to ask for.

#![forbid(unsafe_code)]

mod curve;
mod error;
mod focus;
mod glob;
mod governor;
mod histogram;
mod io;
mod library_calls;
mod line;
mod lock;
mod measuring;
mod metric;
mod place;
mod probe;
mod request;
mod resources;
mod row;
pub mod search;
mod session;
#[cfg(test)]
mod session_tests;
mod steering;
mod suggest;
mod thread;
mod value;

pub use convoy_probes::{Cell, Counts, FileCell, Holding, Inserted, Measure, Probe, Refusal};
pub use curve::{Curve, CurveId, Notice, Point, Probed};
pub use error::Invalid;
pub use focus::{Focus, Key, ThreadName};
pub use glob::{is_pattern, matches};
pub use governor::{Governor, Prices};
pub use histogram::Histogram;
pub use library_calls::is_c_library;
pub use line::json;
pub use lock::{Lock, LockChanges, LockReading, LockSums, Role};
pub use metric::{Description, Kind, Metric, Subject, Unit, METRICS};
pub use place::Place;
pub use probe::Probes;
pub use request::Request;
pub use resources::{hierarchy, Code, Figure, Resource};
pub use row::{Function, RowId};
pub use session::{Session, TRIAL_MS};
pub use suggest::near;
pub use thread::{group_of, Changes, Roster, Snapshot, Thread};
