//! Programs with one thing wrong each, and one with nothing wrong.

mod code;
mod data;
mod waits;

pub use code::{busy_waiting, nothing_wrong, pipeline, serial_phase};
pub use data::{by_perf_events, hostile, lost_events, with_a_foreign_child, without_agent};
pub use waits::blocking_io;

use convoy_analysis::scheduler::{FunctionRow, LineRow};
use convoy_model::CodeFrom;

use crate::world::MS;

pub fn line(file: &str, line: u32, n: u64, low_cm_ms: f64) -> LineRow {
    LineRow {
        file: format!("src/{file}"),
        line,
        n,
        low_cm_ns: low_cm_ms * MS as f64,
        from: CodeFrom::Sample,
    }
}

pub fn function(name: &str, n: u64, low_cm_ms: f64, lines: Vec<LineRow>) -> FunctionRow {
    FunctionRow {
        function: name.into(),
        module: "app".into(),
        n,
        low_cm_ns: low_cm_ms * MS as f64,
        lines,
    }
}
