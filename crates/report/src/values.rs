//! Values of `convoy live`'s metrics as a person reads them.

use crate::human;

/// A value in the unit of its metric, by the unit's symbol.
pub fn live_value(unit: &str, x: f64) -> String {
    match unit {
        "1/s" => human::rate(x),
        "s/s" => format!("{}/s", human::duration(x * 1e9)),
        "ns" => human::duration(x),
        _ => human::few(x),
    }
}
