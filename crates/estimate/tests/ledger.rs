//! The ledger of gains, bench/results/gains.tsv, which `bench/gains` extends: its rows are sound,
//! and the summary beside it, gains.md, says what they say.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::PathBuf;

fn results(file: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../bench/results")
        .join(file);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// One row, by the names of its columns.
struct Row<'a>(HashMap<&'a str, &'a str>);

impl Row<'_> {
    fn number(&self, column: &str) -> Option<f64> {
        let text = self.0[column];
        (!text.is_empty()).then(|| {
            text.parse()
                .unwrap_or_else(|e| panic!("{column}: {text}: {e}"))
        })
    }

    fn measured(&self) -> [f64; 3] {
        ["measured_min", "measured", "measured_max"]
            .map(|column| self.number(column).unwrap_or_else(|| panic!("no {column}")))
    }

    /// Low, mid and high of the gain that was told for the fault.
    fn told(&self) -> Option<(f64, f64, f64)> {
        let rank = self.number("rank").unwrap_or(0.0);
        let (low, mid) = (self.number("low"), self.number("mid"));
        let (low, mid) = low.zip(mid).filter(|_| rank > 0.0)?;
        Some((low, mid, self.number("high").unwrap_or(f64::INFINITY)))
    }
}

fn rows(text: &str) -> Vec<Row<'_>> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    lines
        .map(|line| Row(head.iter().copied().zip(line.split('\t')).collect()))
        .collect()
}

#[test]
fn rows_are_sound() {
    let text = results("gains.tsv");
    let rows = rows(&text);
    assert!(!rows.is_empty());
    for row in rows {
        let [least, measured, most] = row.measured();
        assert!(
            0.0 < least && least <= measured && measured <= most,
            "{:?}",
            row.0
        );
        if let Some((low, mid, high)) = row.told() {
            assert!(1.0 <= low && low <= mid && mid <= high, "{:?}", row.0);
        }
    }
}

/// Of each way of recording: programs, intervals told, and those that reach a measured pair.
fn counts(rows: &[Row]) -> BTreeMap<String, [usize; 3]> {
    let mut latest: BTreeMap<(&str, &str), &Row> = BTreeMap::new();
    for row in rows {
        latest.insert((row.0["recorded"], row.0["program"]), row);
    }
    let mut counts: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for ((recorded, _), row) in latest {
        let count = counts.entry(recorded.to_owned()).or_default();
        count[0] += 1;
        let Some((low, _, high)) = row.told() else {
            continue;
        };
        let [least, _, most] = row.measured();
        count[1] += 1;
        count[2] += usize::from(low <= most && high >= least);
    }
    counts
}

#[test]
fn the_summary_says_what_the_rows_say() {
    let (text, summary) = (results("gains.tsv"), results("gains.md"));
    for (recorded, [programs, told, held]) in counts(&rows(&text)) {
        let share = format!("{:.0} %", 100.0 * held as f64 / told.max(1) as f64);
        let row = format!("| {recorded} | {programs} | {told} | {share} |");
        assert!(summary.contains(&row), "not in gains.md: {row}");
    }
}
