//! Values of metrics as a person reads them.

use convoy_live::Metric;
use convoy_report::values::live_value;

/// A value with its unit.
pub fn value(metric: Metric, x: f64) -> String {
    live_value(metric.describe().unit.symbol(), x)
}
