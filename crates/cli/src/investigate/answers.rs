//! What the steps' files say, as estimates.

use std::path::Path;

use convoy_estimate::{Check, Estimate, Interval, Method, WhatIf};
use serde_json::Value;

/// What replay is asked of a lock.
pub fn changes(lock: &str) -> [String; 2] {
    let lock = convoy_replay::whatif::quoted(lock);
    [format!("remove {lock}"), format!("shorten {lock} 50%")]
}

/// The same as changes that other methods answer, too.
fn what_if(lock: &str, query: &str) -> Option<WhatIf> {
    let [remove, shorten] = changes(lock);
    match query {
        query if query == remove => Some(WhatIf::LockRemoved),
        query if query == shorten => Some(shorter()),
        _ => None,
    }
}

/// Critical sections that take half of their time.
fn shorter() -> WhatIf {
    crate::causal::shorter(0.5)
}

/// A file that a step has left.
pub fn read(file: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))
}

/// What replay says of a lock.
pub fn of_replay(replay: &Value, lock: &str) -> Vec<Estimate> {
    let rows = replay["what_ifs"].as_array().map_or(&[][..], Vec::as_slice);
    let estimate = |row: &Value| {
        let method = match row["method"].as_str()? {
            "replay-simulated" => Method::ReplaySimulated,
            "replay-native" => Method::ReplayNative,
            _ => return None,
        };
        let what_if = what_if(lock, row["query"].as_str()?)?;
        let gain = saved(&row["saved_share"]);
        let check = match (row["refused"].as_str(), gain) {
            (Some(why), _) => Check::Failed(why.into()),
            (None, None) => return None,
            (None, Some(_)) => Check::Passed("it replays the recorded run".into()),
        };
        Some(Estimate {
            method,
            what_if,
            gain: gain.unwrap_or(Interval::new(1.0, 1.0, 1.0)),
            assumption: row["assumption"].as_str().unwrap_or_default().into(),
            check,
        })
    };
    rows.iter().filter_map(estimate).collect()
}

/// What experiments say of a lock: its sections half as long.
pub fn of_experiment(report: &Value, lock: &str) -> Vec<Estimate> {
    let row = targets(report).find(|row| row["kind"] == "lock" && row["name"] == lock);
    let level = row.and_then(|row| {
        let at = row["at"].as_array()?;
        at.iter().find(|level| level["speedup"] == 0.5)
    });
    let gain = level.and_then(|level| saved(&level["saved_share"]));
    let estimate = |gain| experiment(shorter(), gain, "all that matters runs in the program");
    gain.map(estimate).into_iter().collect()
}

/// What other ways to wait for a mutex bring.
pub fn of_try(report: &Value) -> Vec<Estimate> {
    let estimate = |row: &Value| {
        let what_if = WhatIf::Query(format!("waiting by {}", row["algorithm"].as_str()?));
        let gain = saved(&row["at"][0]["saved_share"])?;
        Some(experiment(
            what_if,
            gain,
            "a window is long enough to settle",
        ))
    };
    targets(report).filter_map(estimate).collect()
}

/// What experiments chose by themselves, and what they save when half as long: low, mid, high.
pub fn chosen(report: &Value) -> Vec<(String, [f64; 3])> {
    let row = |row: &Value| {
        let at = row["at"].as_array()?;
        let share = &at.iter().find(|level| level["speedup"] == 0.5)?["saved_share"];
        let bound = |bound: &str| share[bound].as_f64();
        let name = format!("{} {}", row["kind"].as_str()?, row["name"].as_str()?);
        Some((name, [bound("low")?, bound("mid")?, bound("high")?]))
    };
    targets(report).filter_map(row).collect()
}

/// Why a report has no result.
pub fn reason(report: &Value) -> String {
    let mut rows = targets(report);
    let of_row = rows.find_map(|row| row["reason"].as_str());
    let reason = report["reason"].as_str().or(of_row);
    reason.unwrap_or("it has no number").to_owned()
}

fn targets(report: &Value) -> impl Iterator<Item = &Value> {
    report["targets"].as_array().into_iter().flatten()
}

fn experiment(what_if: WhatIf, gain: Interval, assumption: &str) -> Estimate {
    Estimate {
        method: Method::Experiment,
        what_if,
        gain,
        assumption: assumption.into(),
        check: Check::None,
    }
}

/// Shares of the run; without an upper bound `high` is null.
fn saved(share: &Value) -> Option<Interval> {
    let bound = |bound: &str| share[bound].as_f64();
    let (low, mid) = (bound("low")?, bound("mid")?);
    let gain = Interval::of_saved(low, mid, bound("high").unwrap_or(mid));
    Some(match bound("high") {
        Some(_) => gain,
        None => Interval { high: None, ..gain },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_replays_have_a_reason_and_no_number() {
        let replay = serde_json::json!({"what_ifs": [
            {"query": "remove a", "method": "combined", "saved_share": null, "refused": null},
            {"query": "remove a", "method": "replay-native", "saved_share": null, "refused": "noise"},
            {"query": "shorten a 50%", "method": "replay-simulated",
             "saved_share": {"low": 0.1, "mid": 0.2, "high": null}, "refused": null},
            {"query": "remove b", "method": "replay-simulated",
             "saved_share": {"low": 0.1, "mid": 0.2, "high": 0.3}, "refused": null},
        ]});
        let found = of_replay(&replay, "a");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].check, Check::Failed("noise".into()));
        assert_eq!(found[1].what_if, shorter());
        assert_eq!(found[1].gain.high, None);
        assert!((found[1].gain.mid - 1.25).abs() < 1e-9);
    }

    #[test]
    fn experiments_answer_for_the_lock_that_was_asked() {
        let report = serde_json::json!({"targets": [
            {"kind": "lock", "name": "a", "at": [
                {"speedup": 0.25, "saved_share": {"low": 0.0, "mid": 0.1, "high": 0.2}},
                {"speedup": 0.5, "saved_share": {"low": 0.1, "mid": 0.2, "high": 0.3}}]},
            {"kind": "lock", "name": "b", "at": [], "reason": "it took no sample"},
        ]});
        assert_eq!(of_experiment(&report, "a").len(), 1);
        assert!(of_experiment(&report, "b").is_empty());
        assert_eq!(reason(&report), "it took no sample");
        assert_eq!(chosen(&report), [("lock a".to_owned(), [0.1, 0.2, 0.3])]);
    }
}
