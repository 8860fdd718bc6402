//! Values of metrics as a person reads them.

use convoy_live::{Metric, Unit};
use convoy_report::human;

/// A value with its unit.
pub fn value(metric: Metric, x: f64) -> String {
    match metric.describe().unit {
        Unit::PerSecond => human::rate(x),
        Unit::SecondsPerSecond => format!("{}/s", human::duration(x * 1e9)),
        Unit::Nanoseconds => human::duration(x),
        Unit::Threads => human::count(x as u64),
    }
}
