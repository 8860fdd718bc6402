//! Metrics of a running program in the formats of Prometheus and OpenTelemetry. Pure: readings in,
//! text or bytes out.
//!
//! Readings of threads, locks and probed functions are cumulative; `totals` adds up their
//! differences, so that counters never decrease. `store` limits the number of time series.
//! `prometheus` and `otlp` render what is in it.

#![forbid(unsafe_code)]

mod family;
mod functions;
mod locks;
mod otlp;
mod prometheus;
mod selection;
mod store;
mod threads;
mod totals;

pub use family::{Family, Kind, FAMILIES};
pub use otlp::{export_request, rejected, Process, Resource};
pub use prometheus::{render, Format};
pub use selection::Selection;
pub use store::{Durations, Labels, Series, Store, Value, MOST_SERIES};
pub use totals::{ProcessFigures, Scope, Snapshot, Totals};
