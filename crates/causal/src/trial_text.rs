//! The report of `convoy try` for people.

use std::fmt::Write;

use crate::result::{Report, TargetRow};
use crate::text::{course, gain, in_locale, saved, Look};
use crate::words;
use crate::Estimator;

/// Width of an algorithm's name.
const NAME: usize = 16;

/// The report of algorithms that were tried for one lock.
pub fn trial_text(report: &Report, look: Look) -> String {
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write(&mut out, report);
    in_locale(out, look)
}

fn write(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "{}", verdict(report))?;
    course(out, report)?;
    let measured = report.targets.iter().filter(|row| row.reason.is_none());
    let mut rows = measured.peekable();
    if rows.peek().is_some() {
        writeln!(out, "\n{:NAME$}  Run time saved", "Waiting by")?;
    }
    for row in rows {
        let share = row.at.first().map(|level| saved(&level.saved_share));
        writeln!(out, "{:NAME$}  {}", name(row), share.unwrap_or_default())?;
    }
    writeln!(out)?;
    let mut without: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in &report.targets {
        let Some(reason) = row.reason.as_deref() else {
            continue;
        };
        match without.iter_mut().find(|(same, _)| *same == reason) {
            Some((_, names)) => names.push(name(row)),
            None => without.push((reason, vec![name(row)])),
        }
    }
    for (reason, names) in without {
        writeln!(out, "No result for {}: {reason}.", names.join(", "))?;
    }
    if report.targets.iter().any(|row| row.reason.is_none()) {
        writeln!(out, "How: {}.", words::estimator(Estimator::Exchange))?;
        writeln!(out, "Intervals: 95 % for all algorithms together.")?;
    }
    let compared = report.comparison.as_ref();
    if let Some(comparison) = compared.filter(|c| !c.shows_corruption()) {
        writeln!(out, "Beside a run as it is, {}.", comparison.sentence())?;
    }
    for note in &report.notes {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

fn name(row: &TargetRow) -> &str {
    row.algorithm
        .map_or(&row.name, |algorithm| algorithm.name())
}

/// The ways that may corrupt a program, as one text.
fn unsafe_ways(report: &Report) -> String {
    let ways = report.targets.iter().filter_map(|row| row.algorithm);
    let ways = ways.filter(|way| way.may_corrupt());
    ways.map(|way| way.name()).collect::<Vec<_>>().join(" and ")
}

/// The main result, in one sentence.
fn verdict(report: &Report) -> String {
    let compared = report.comparison.as_ref();
    if let Some(comparison) = compared.filter(|c| c.shows_corruption()) {
        let lock = report.targets.first().map_or("", |row| &row.name);
        return format!(
            "Lock {lock}: with {}, {}; two runs without it agree. Do not use this change.",
            unsafe_ways(report),
            comparison.sentence()
        );
    }
    if let Some(reason) = &report.reason {
        return format!("The experiments have no result: {reason}.");
    }
    let mut measured = report.targets.iter().filter(|row| row.reason.is_none());
    let Some(best) = measured.next() else {
        return "The experiments have no result.".into();
    };
    let (Some(algorithm), Some(level)) = (best.algorithm, best.at.first()) else {
        return "The experiments have no result.".into();
    };
    match best.has_gain() {
        true => format!(
            "Lock {}: waiting by {algorithm} gains {}. To have it, {}.",
            best.name,
            gain(&level.saved_share),
            algorithm.fix()
        ),
        false => format!(
            "Lock {}: no algorithm that was tried is sure to gain. The best, {algorithm}: {}.",
            best.name,
            gain(&level.saved_share)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Algorithm;
    use crate::comparison::{Comparison, Output};
    use crate::interval::Saved;
    use crate::result::Level;
    use crate::target::Kind;

    const LOOK: Look = Look {
        width: 100,
        unicode: false,
    };

    fn report(rows: &[(Algorithm, f64)]) -> Report {
        let row = |(algorithm, mid): &(Algorithm, f64)| TargetRow {
            kind: Kind::Lock,
            name: "cache_lock".into(),
            algorithm: Some(*algorithm),
            estimator: Estimator::Exchange,
            sample_share: None,
            at: vec![Level {
                speedup: 1.0,
                saved_share: Saved {
                    low: mid - 0.05,
                    mid: *mid,
                    high: mid + 0.05,
                },
            }],
            reason: None,
        };
        let mut report = Report {
            targets: rows.iter().map(row).collect(),
            ..Report::default()
        };
        report.rank();
        report
    }

    #[test]
    fn the_best_algorithm_comes_first_with_what_to_write() {
        let text = trial_text(
            &report(&[(Algorithm::Ticket, -0.4), (Algorithm::Adaptive, 0.2)]),
            LOOK,
        );
        let first = text.lines().next().unwrap();
        assert!(
            first.starts_with("Lock cache_lock: waiting by adaptive gains 1.25x (1.18-1.33x)."),
            "{text}"
        );
        assert!(first.contains("PTHREAD_MUTEX_ADAPTIVE_NP"), "{text}");
        assert!(
            text.contains("ticket            -40 % (-45 to -35 %)"),
            "{text}"
        );
    }

    #[test]
    fn a_gain_that_may_be_nothing_is_not_promised() {
        let text = trial_text(&report(&[(Algorithm::Adaptive, 0.04)]), LOOK);
        assert!(
            text.starts_with("Lock cache_lock: no algorithm that was tried is sure to gain."),
            "{text}"
        );
    }

    fn compared(output: Output, end_changed: &str) -> String {
        let mut report = report(&[(Algorithm::None, 0.4)]);
        report.comparison = Some(Comparison {
            output,
            first_line: (output != Output::Same).then_some(7),
            end: "status 0".into(),
            end_changed: end_changed.into(),
            end_varies: false,
        });
        trial_text(&report, LOOK)
    }

    #[test]
    fn a_gain_of_a_corrupted_program_is_no_result() {
        for (text, found) in [
            (
                compared(Output::Differs, "status 0"),
                "differs from line 7 on",
            ),
            (
                compared(Output::Same, "signal 11"),
                "signal 11 instead of status 0",
            ),
        ] {
            let first = text.lines().next().unwrap();
            assert!(first.contains("Do not use this change"), "{text}");
            assert!(first.contains(found) && !first.contains("gain"), "{text}");
        }
    }

    #[test]
    fn the_same_output_is_no_proof() {
        let text = compared(Output::Same, "status 0");
        assert!(
            text.starts_with("Lock cache_lock: waiting by none gains"),
            "{text}"
        );
        assert!(text.contains("which is no proof"), "{text}");
        let text = compared(Output::Varies, "status 0");
        assert!(text.contains("it cannot be compared"), "{text}");
    }

    #[test]
    fn an_algorithm_that_was_not_used_has_a_reason_and_no_number() {
        let mut report = report(&[(Algorithm::Adaptive, 0.3)]);
        report.targets[0].at.clear();
        report.targets[0].reason = Some(words::reason::not_tried());
        let text = trial_text(&report, LOOK);
        assert!(
            text.contains("No result for adaptive: no thread waited"),
            "{text}"
        );
        assert!(!text.contains("gains"), "{text}");
    }
}
