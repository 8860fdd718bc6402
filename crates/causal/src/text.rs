//! The report for people.

use std::fmt::Write;

use crate::estimator::Estimator;
use crate::interval::Saved;
use crate::plan::{Mechanism, LEVELS};
use crate::result::{Report, TargetRow};
use crate::target::Kind;
use crate::words;

/// Columns of a number with its interval.
const CELL: usize = 20;

/// How to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Columns.
    pub width: usize,
    /// The locale is UTF-8.
    pub unicode: bool,
}

/// The report.
pub fn text(report: &Report, look: Look) -> String {
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write(&mut out, report, look);
    in_locale(out, look)
}

/// The same text in letters that the locale has.
pub(crate) fn in_locale(text: String, look: Look) -> String {
    match look.unicode {
        true => text,
        false => text.replace('–', "-").replace('±', "+-"),
    }
}

fn write(out: &mut String, report: &Report, look: Look) -> std::fmt::Result {
    writeln!(out, "{}", report.verdict())?;
    if let Some(why) = report.why() {
        writeln!(out, "{why}")?;
    }
    course(out, report)?;
    if report.targets.iter().any(|row| row.reason.is_none()) {
        table(out, report, look)?;
    }
    for row in &report.targets {
        if let Some(reason) = &row.reason {
            writeln!(out, "No result for {}: {reason}.", subject(row))?;
        }
    }
    for note in &report.notes {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

/// Writes what counted as progress, and how long it was watched.
pub(crate) fn course(out: &mut String, report: &Report) -> std::fmt::Result {
    for progress in &report.progress {
        writeln!(
            out,
            "Progress: {}, {}/s. {} windows of {:.0} ms in {:.1} s.",
            progress.name,
            count(progress.per_second),
            count(report.windows as f64),
            1000.0 * report.window_seconds,
            report.seconds
        )?;
    }
    Ok(())
}

fn table(out: &mut String, report: &Report, look: Look) -> std::fmt::Result {
    let name_width = look
        .width
        .saturating_sub(12 + LEVELS.len() * (CELL + 2))
        .max(24);
    writeln!(out)?;
    write!(
        out,
        "{:name_width$}  {:>8}",
        match report.is_of_latency() {
            true => "Latency saved if faster by",
            false => "Run time saved if faster by",
        },
        "samples"
    )?;
    for level in LEVELS {
        write!(out, "  {:>CELL$}", format!("{:.0} %", 100.0 * level))?;
    }
    writeln!(out)?;
    for row in report.targets.iter().filter(|row| row.reason.is_none()) {
        let share = row
            .sample_share
            .map_or_else(String::new, |share| format!("{:.1} %", 100.0 * share));
        write!(
            out,
            "{:name_width$}  {share:>8}",
            clip(&subject(row), name_width)
        )?;
        for level in &row.at {
            write!(out, "  {:>CELL$}", saved(&level.saved_share))?;
        }
        writeln!(out)?;
    }
    for mechanism in [Mechanism::Sampled, Mechanism::Measured] {
        let rows: Vec<_> = report
            .null
            .iter()
            .filter(|row| row.mechanism == mechanism)
            .collect();
        if rows.is_empty() {
            continue;
        }
        let of = match mechanism {
            Mechanism::Sampled => "null: nothing faster, code",
            Mechanism::Measured => "null: nothing faster, locks",
        };
        write!(out, "{of:name_width$}  {:>8}", "")?;
        for row in rows {
            write!(out, "  {:>CELL$}", saved(&row.saved_share))?;
        }
        writeln!(out)?;
    }
    let estimator = report.targets.first().map(|row| row.estimator);
    writeln!(out)?;
    if let Some(estimator) = estimator {
        writeln!(out, "How: {}.", words::estimator(estimator))?;
    }
    let intervals = match estimator.is_some_and(Estimator::is_biased) {
        true => {
            "Half of the null is taken off each gain; intervals (95 % for all) hold none and all of it."
        }
        false => "Intervals hold 95 %, for all targets together.",
    };
    writeln!(out, "{intervals}")
}

/// `lock cache_lock`
pub fn subject(row: &TargetRow) -> String {
    match row.kind {
        Kind::Function => format!("function {}", row.name),
        Kind::Line => format!("line {}", row.name),
        Kind::Lock => format!("lock {}", row.name),
        Kind::Wait => row.name.clone() + " calls",
        Kind::Path if row.name.contains('>') => format!("call path {}", row.name),
        Kind::Path => format!("function {} with its callees", row.name),
        Kind::Threads => format!("threads {}", row.name),
    }
}

/// `26 % (22–30 %)`, `-3 % (-5 to 1 %)`
pub fn saved(saved: &Saved) -> String {
    let percent = |share: f64| format!("{:.0}", 100.0 * share).replace("-0", "0");
    let (low, high) = (percent(saved.low), percent(saved.high));
    let to = match low.starts_with('-') {
        true => " to ",
        false => "–",
    };
    format!("{} % ({low}{to}{high} %)", percent(saved.mid))
}

/// `1.6x (1.1–3.6x)`
pub(crate) fn gain(saved: &Saved) -> String {
    let factor = |share: f64| 1.0 / (1.0 - share.min(0.99));
    format!(
        "{:.2}x ({:.2}–{:.2}x)",
        factor(saved.mid),
        factor(saved.low),
        factor(saved.high)
    )
}

/// Three significant digits.
fn count(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{:.3} M", n / 1e6),
        n if n >= 1e4 => format!("{:.1} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

fn clip(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text
            .chars()
            .take(width.saturating_sub(2))
            .chain("..".chars())
            .collect(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimator::Estimator;
    use crate::result::{Level, NullRow, ProgressRow};
    use crate::target::Target;

    fn around(mid: f64, half: f64) -> Saved {
        Saved {
            low: mid - half,
            mid,
            high: mid + half,
        }
    }

    fn row(kind: Kind, name: &str, mid: f64) -> TargetRow {
        let level = |speedup: f64| Level {
            speedup,
            saved_share: around(mid * speedup, 0.02),
        };
        TargetRow {
            kind,
            name: name.into(),
            algorithm: None,
            estimator: Estimator::Dilate,
            sample_share: Some(0.25),
            at: LEVELS.map(level).to_vec(),
            reason: None,
        }
    }

    fn report(targets: Vec<TargetRow>) -> Report {
        let mut report = Report {
            targets,
            null: vec![NullRow {
                mechanism: Mechanism::Sampled,
                speedup: 0.25,
                saved_share: around(0.0, 0.01),
            }],
            progress: vec![ProgressRow {
                name: "locks released".into(),
                per_second: 812_345.0,
                is_latency: false,
            }],
            windows: 60,
            window_seconds: 0.03,
            seconds: 2.1,
            ..Report::default()
        };
        report.rank();
        report
    }

    const LOOK: Look = Look {
        width: 100,
        unicode: true,
    };

    #[test]
    fn the_first_line_names_the_bottleneck_and_its_gain() {
        let report = report(vec![
            row(Kind::Function, "decoy", 0.0),
            row(Kind::Lock, "cache_lock", 0.8),
        ]);
        let text = text(&report, LOOK);
        assert!(
            text.starts_with(
                "Main bottleneck: lock cache_lock. Making it 25 % faster gains 1.25x (1.22–1.28x)."
            ),
            "{text}"
        );
        assert!(
            text.contains("20 % (18–22 %)") && text.contains("40 % (38–42 %)"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }

    #[test]
    fn a_target_without_a_number_has_a_sentence() {
        let mut report = Report::default();
        let target = Target::new(Kind::Function, "f");
        report.add_without_number(target, Estimator::Dilate, words::reason::never_ran());
        let text = text(&report, LOOK);
        assert!(
            text.contains("No result for function f: it took no sample"),
            "{text}"
        );
    }

    #[test]
    fn other_locales_get_ascii() {
        let look = Look {
            unicode: false,
            ..LOOK
        };
        assert!(text(&report(vec![row(Kind::Lock, "l", 0.5)]), look).is_ascii());
    }

    #[test]
    fn json_has_the_fields_of_the_schema() {
        let json: serde_json::Value =
            serde_json::from_str(&report(vec![row(Kind::Lock, "l", 0.5)]).json()).unwrap();
        assert_eq!(json["targets"][0]["kind"], "lock");
        assert_eq!(json["targets"][0]["estimator"], "dilate");
        assert_eq!(json["targets"][0]["at"][1]["speedup"], 0.5);
        assert_eq!(json["targets"][0]["at"][1]["saved_share"]["mid"], 0.25);
        assert_eq!(json["null"][0]["saved_share"]["mid"], 0.0);
        for field in ["progress", "windows", "foreign_cpu_share"] {
            assert!(!json[field].is_null(), "{field}");
        }
    }

    #[test]
    fn a_run_without_experiments_says_why() {
        let report = Report {
            reason: Some(words::reason::no_progress()),
            ..Report::default()
        };
        let text = text(&report, LOOK);
        assert!(
            text.starts_with("The experiments have no result: nothing counts"),
            "{text}"
        );
    }
}
