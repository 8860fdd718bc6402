//! Outcomes as JSON lines: those of a metric, with the hypothesis and the verdict.

use serde_json::{json, Map, Value};

use crate::search::tree::{NodeId, Search};

impl Search {
    /// The outcome of a node; `None` = it was not tested. Fields are only ever added.
    pub fn json(&self, id: NodeId, t_ms: u64) -> Option<String> {
        let node = self.node(id)?;
        let outcome = node.outcome.as_ref()?;
        let number = |x: Option<f64>| {
            x.filter(|x| x.is_finite())
                .map_or(Value::Null, |x| json!(x))
        };
        let mut line = Map::new();
        let mut put = |key: &str, value: Value| line.insert(key.into(), value);
        put("t_ms", json!(t_ms));
        put("metric", json!(node.hypothesis.metric()));
        put("focus", json!(node.candidate.focus.to_string()));
        put("value", number(outcome.value));
        put("unit", json!("s/s"));
        put("kind", json!(outcome.kind.name()));
        put("cost_share", number(Some(outcome.cost_share)));
        put("hypothesis", json!(node.hypothesis.name()));
        put("verdict", json!(outcome.verdict.name()));
        put("share", number(outcome.share.map(|share| share.mean)));
        put("share_low", number(outcome.share.map(|share| share.low)));
        put("share_high", number(outcome.share.map(|share| share.high)));
        put("depth", json!(self.depth(id)));
        put("resource", json!(node.candidate.resource.name()));
        put("label", json!(node.candidate.label));
        if let Some(gap) = &outcome.gap {
            put("gap", json!(gap));
        }
        Some(Value::Object(line).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Hypothesis, Limits, Outcome};

    #[test]
    fn outcomes_have_the_keys_of_a_metric_and_a_verdict() {
        let mut search = Search::new(Limits::default());
        let known = search.hypothesis(Hypothesis::CpuBound, Outcome::exact(1.5, 2.0, 0.2));
        let unknown = search.hypothesis(Hypothesis::WaitsForIo, Outcome::unknown("no rights"));
        let line = |id| -> Value { serde_json::from_str(&search.json(id, 900).unwrap()).unwrap() };
        let (known, unknown) = (line(known), line(unknown));
        for (key, value) in [
            ("t_ms", json!(900)),
            ("metric", json!("cpu")),
            ("focus", json!("{}")),
            ("value", json!(1.5)),
            ("unit", json!("s/s")),
            ("hypothesis", json!("cpu_bound")),
            ("verdict", json!("true")),
            ("share", json!(0.75)),
        ] {
            assert_eq!(known[key], value, "{key}");
        }
        assert!(unknown["value"].is_null() && unknown["share"].is_null());
        assert_eq!(
            (&unknown["verdict"], &unknown["gap"]),
            (&json!("unknown"), &json!("no rights"))
        );
    }
}
