//! The comparison as SARIF 2.1.0 (OASIS), which code hosts show beside the lines of a change.
//!
//! A finding is a result; `baselineState` says what became of it. A limit that does not hold is an error, one
//! that cannot be judged an open question.

use std::collections::BTreeMap;

use serde_json::{json, Value};

use crate::compare::{Comparison, FindingChange, Status};
use crate::gate::Gate;
use crate::notes;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Rule of limits.
const LIMIT: &str = "limit-exceeded";

/// Rule of limits of which nobody can say whether they hold.
const NOT_JUDGED: &str = "limit-not-judged";

/// Writes the log, with a line feed at its end. `version`: of the tool.
pub fn render(c: &Comparison, gate: &Gate, version: &str) -> String {
    let mut rules: BTreeMap<&str, String> = BTreeMap::new();
    for finding in &c.findings {
        rules.insert(finding.id, finding.id.replace('-', " "));
    }
    if !gate.breaches.is_empty() {
        rules.insert(LIMIT, "a limit of --fail-on does not hold".into());
    }
    if !gate.not_judged.is_empty() {
        rules.insert(NOT_JUDGED, "a limit of --fail-on cannot be judged".into());
    }
    let ids: Vec<&str> = rules.keys().copied().collect();
    let rules: Vec<Value> = rules
        .iter()
        .map(|(id, text)| json!({"id": id, "shortDescription": {"text": text}}))
        .collect();
    let index = |id: &str| ids.iter().position(|known| *known == id);
    let limits = gate.breaches.iter().map(|breach| {
        json!({
            "ruleId": LIMIT,
            "ruleIndex": index(LIMIT),
            "level": "error",
            "message": {"text": format!("{}: {}", breach.limit, breach.found)},
        })
    });
    let open = gate.not_judged.iter().map(|open| {
        let (why, fix) = (&open.doubt.why, &open.doubt.fix);
        json!({
            "ruleId": NOT_JUDGED,
            "ruleIndex": index(NOT_JUDGED),
            // "open": not enough is known to decide. Only "fail" has a level.
            "kind": "open",
            "level": "none",
            "message": {"text": format!("{} is not judged: {why}. Fix: {fix}", open.limit)},
        })
    });
    let findings = c.findings.iter().map(|f| result(f, index(f.id)));
    let damaged = c.runs().filter(|run| !run.lost.is_empty());
    let notes: Vec<Value> = damaged
        .map(|run| {
            let text = notes::not_whole(&run.name, &run.lost);
            json!({"level": "warning", "message": {"text": text}})
        })
        .collect();
    let mut log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "convoy", "semanticVersion": version, "rules": rules}},
            "results": limits.chain(open).chain(findings).collect::<Vec<Value>>(),
            "properties": {"sentence": c.sentence, "remarks": c.remarks},
        }],
    });
    if !notes.is_empty() {
        let told = json!([{"executionSuccessful": true, "toolExecutionNotifications": notes}]);
        log["runs"][0]["invocations"] = told;
    }
    // Only maps with keys that are no strings, and writers that fail, make serde_json fail.
    let mut text = serde_json::to_string_pretty(&log).unwrap_or_default();
    text.push('\n');
    text
}

fn result(f: &FindingChange, rule: Option<usize>) -> Value {
    let (baseline, level) = match f.status {
        Status::Came => ("new", "warning"),
        Status::Went => ("absent", "none"),
        Status::Changed => ("updated", "warning"),
        Status::Same => ("unchanged", "note"),
    };
    let fix = match (f.status, f.fix.as_str()) {
        (Status::Went, _) | (_, "") => String::new(),
        (_, fix) => format!(" {fix}"),
    };
    let mut result = json!({
        "ruleId": f.id,
        "ruleIndex": rule,
        "level": level,
        // "none" says that a result is no problem: it needs a kind that is none.
        "kind": if f.status == Status::Went { "pass" } else { "fail" },
        "baselineState": baseline,
        "message": {"text": format!("{}.{fix}", f.title)},
        "properties": {
            "gainBefore": f.gain[0], "gainAfter": f.gain[1],
            "shareBefore": f.share[0], "shareAfter": f.share[1],
        },
    });
    let located = f.place.as_ref().filter(|place| !place.path.is_empty());
    if let Some(place) = located {
        let mut location = json!({"artifactLocation": {"uri": uri(&place.path)}});
        if place.line > 0 {
            location["region"] = json!({"startLine": place.line});
        }
        result["locations"] = json!([{
            "physicalLocation": location,
            "logicalLocations": [{"fullyQualifiedName": place.function, "kind": "function"}],
        }]);
    }
    result
}

/// A path as an URI reference (RFC 3986): what is no letter of it is written as its bytes.
fn uri(path: &str) -> String {
    let mut out = String::new();
    if path.starts_with('/') {
        out.push_str("file://");
    }
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' | b'+' => {
                out.push(byte as char);
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn paths_are_uris() {
        assert_eq!(uri("src/a b.c"), "src/a%20b.c");
        assert_eq!(uri("/x/ä#.c"), "file:///x/%C3%A4%23.c");
    }
}
