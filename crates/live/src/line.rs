//! Points as JSON lines: `docs/live.md` has the fields.

use serde_json::{json, Value};

use crate::curve::Point;
use crate::request::Request;

/// A point of a curve as one line of JSON, without its end. Fields are only ever added.
///
/// `is_uprobe`: the kernel counts, at least in part.
pub fn json(request: &Request, point: &Point, is_uprobe: bool) -> String {
    let row = request.metric.describe();
    let number = |x: f64| match x.is_finite() {
        true => json!(x),
        false => Value::Null,
    };
    let text = |text: &str| Value::from(text).to_string();
    let mut line = format!(
        "{{\"t_ms\":{},\"metric\":{},\"focus\":{},\"value\":{},\"unit\":{},\"kind\":{},\
         \"cost_share\":{}",
        point.t_ms,
        text(row.name),
        text(&request.focus.to_string()),
        point.value.map_or(Value::Null, number),
        text(row.unit.symbol()),
        text(row.kind.name()),
        number(point.cost_share),
    );
    if is_uprobe {
        line += ",\"probe\":\"uprobe\"";
    }
    if let Some(gap) = &point.gap {
        line += &format!(",\"gap\":{}", text(gap));
    }
    line.push('}');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(value: Option<f64>, gap: Option<&str>) -> Point {
        Point {
            t_ms: 1000,
            value,
            gap: gap.map(str::to_owned),
            cost_share: 0.004,
            by_thread: Vec::new(),
            histogram: None,
        }
    }

    #[test]
    fn a_line_has_the_fields_in_their_order() {
        let request: Request = r#"calls{function="compress"}"#.parse().unwrap();
        assert_eq!(
            json(&request, &point(Some(1.5), None), false),
            r#"{"t_ms":1000,"metric":"calls","focus":"{function=\"compress\"}","value":1.5,"unit":"1/s","kind":"exact","cost_share":0.004}"#
        );
    }

    #[test]
    fn the_unknown_is_null_with_a_reason() {
        let request: Request = "cpu".parse().unwrap();
        let line = json(&request, &point(None, Some("not in yet")), true);
        let value: Value = serde_json::from_str(&line).unwrap();
        assert!(value["value"].is_null());
        assert_eq!(value["gap"], "not in yet");
        assert_eq!(value["probe"], "uprobe");
    }
}
