//! Values of `convoy live`'s metrics as a person reads them.

use convoy_profile::LiveCurve;

use crate::human;

/// The metric and its focus, as a request names them.
pub fn live_request(curve: &LiveCurve) -> String {
    match curve.focus.as_str() {
        "{}" => curve.metric.clone(),
        focus => format!("{}{focus}", curve.metric),
    }
}

/// A value in the unit of its metric, by the unit's symbol.
pub fn live_value(unit: &str, x: f64) -> String {
    match unit {
        "1/s" => human::rate(x),
        "s/s" => format!("{}/s", human::duration(x * 1e9)),
        "ns" => human::duration(x),
        "B/s" => format!("{}/s", human::bytes(x as u64)),
        _ => human::few(x),
    }
}
