//! Windows as a profile for Coz's viewer, in its text format (plasma-umass/coz: profiler.cpp writes
//! it, viewer/ts/profile.ts reads it).
//!
//! The viewer adds up durations and visits by target and speed-up, and compares time per visit with
//! that at speed-up 0. A window's duration here is what its progress would have taken with the
//! faster target: for D that is the measured one times 1-x, as Coz subtracts the pauses that it has
//! inserted. Each target comes with the baseline windows of the blocks in which it was tried.

use std::fmt::Write;

use crate::experiment::{Experiment, Settings};
use crate::result::{Measurements, Report, Subject};

/// The profile of a report's experiments; empty if no target has a number.
pub fn coz(report: &Report) -> String {
    let mut out = String::new();
    let Some(estimator) = report.targets.first().map(|row| row.estimator) else {
        return out;
    };
    let Measurements {
        subjects, blocks, ..
    } = &report.measurements;
    let mechanisms = subjects.iter().map(|subject| subject.mechanism).collect();
    let settings = Settings {
        estimator,
        precision: 0.0,
        seed: u64::from(report.measurements.pid),
    };
    let experiment = Experiment::over(mechanisms, settings, blocks.clone());
    let progress = report.progress.first().map_or("", |row| &row.name);
    // Writing into a string cannot fail.
    let _ = write(&mut out, &experiment, subjects, &word(progress));
    out
}

fn write(
    out: &mut String,
    experiment: &Experiment,
    subjects: &[Subject],
    progress: &str,
) -> std::fmt::Result {
    for (number, subject) in subjects.iter().enumerate() {
        let target = word(&subject.target.to_string());
        let mut has_baseline = false;
        for level in experiment.levels(number) {
            let lines = [
                (0.0, 1.0, &level.baseline),
                (level.speedup, level.scale, &level.windows),
            ];
            for (speedup, scale, windows) in lines.into_iter().skip(usize::from(has_baseline)) {
                for window in windows {
                    let duration = (1e9 * scale * window.seconds).round();
                    writeln!(
                        out,
                        "experiment\tselected={target}\tspeedup={speedup:.2}\tduration={duration:.0}\t\
                         selected-samples=0"
                    )?;
                    let delta = window.progress.round();
                    writeln!(out, "throughput-point\tname={progress}\tdelta={delta:.0}")?;
                }
            }
            has_baseline = true;
        }
    }
    match out.is_empty() {
        true => Ok(()),
        false => {
            out.insert_str(0, "startup\ttime=0\n");
            Ok(())
        }
    }
}

/// A value of the format, which separates values by tabs and records by line ends.
fn word(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Estimator, Kind, Measured, Mechanism, Settings, Target};

    /// By target and speed-up in percent, what the viewer computes: `getSpeedupData` in
    /// viewer/ts/profile.ts.
    fn viewed(profile: &str) -> BTreeMap<(String, u32), f64> {
        let mut sums: BTreeMap<(String, u32), (f64, f64)> = BTreeMap::new();
        let mut at = (String::new(), 0, 0.0);
        for line in profile.lines() {
            let field = |key: &str| {
                let mut fields = line.split('\t').filter_map(|field| field.split_once('='));
                fields.find(|(k, _)| *k == key).map_or("", |(_, v)| v)
            };
            let number = |key| field(key).parse::<f64>().unwrap_or(f64::NAN);
            if line.starts_with("experiment\t") {
                let percent = (100.0 * number("speedup")).round() as u32;
                at = (field("selected").to_owned(), percent, number("duration"));
            } else if line.starts_with("throughput-point\t") {
                let sum = sums.entry((at.0.clone(), at.1)).or_default();
                *sum = (sum.0 + at.2, sum.1 + number("delta"));
            }
        }
        let period = |(duration, delta): &(f64, f64)| duration / delta;
        let gain = |((target, percent), sum): (&(String, u32), &(f64, f64))| {
            let base = period(&sums[&(target.clone(), 0)]);
            ((target.clone(), *percent), (base - period(sum)) / base)
        };
        sums.iter().map(gain).collect()
    }

    fn experiment(estimator: Estimator, blocks: usize) -> (Experiment, Vec<Subject>) {
        let settings = Settings {
            estimator,
            precision: 0.001,
            seed: 0,
        };
        let shares = [0.8, 0.1];
        let mut experiment = Experiment::new(vec![Mechanism::Sampled; shares.len()], settings);
        for n in 0..blocks * experiment.windows_per_block() {
            let Some(arm) = experiment.next_arm() else {
                break;
            };
            let share: f64 = arm.targets.numbers().map(|t| shares[t]).sum();
            let k = 1.0 + estimator.factor(arm.speedup);
            let time = match estimator {
                Estimator::Dilate => share + (1.0 - share) * k,
                _ => share * k + 1.0 - share,
            };
            experiment.add(Measured {
                seconds: 0.03 + 0.001 * (n % 7) as f64,
                progress: (5000.0 / time).round() + (n % 5) as f64,
                ..Measured::default()
            });
        }
        let subject = |name: &str| Subject {
            target: Target::new(Kind::Function, name),
            mechanism: Mechanism::Sampled,
            sample_share: None,
            algorithm: None,
            locks: Vec::new(),
        };
        (experiment, vec![subject("hot"), subject("a\tb\nc")])
    }

    fn report(experiment: &Experiment, subjects: &[Subject], estimator: Estimator) -> Report {
        let mut report = Report::default();
        report.fill(experiment, subjects, estimator);
        report.rank();
        report
    }

    #[test]
    fn the_viewer_computes_the_same_gain() {
        for estimator in [Estimator::Dilate, Estimator::Slow, Estimator::Factorial] {
            let (experiment, subjects) = experiment(estimator, 9);
            let seen = viewed(&coz(&report(&experiment, &subjects, estimator)));
            for (number, name) in ["fn:hot", "fn:a b c"].into_iter().enumerate() {
                for percent in [25, 50] {
                    let ours = experiment
                        .saved(number, f64::from(percent) / 100.0)
                        .unwrap();
                    let theirs = seen[&(name.to_owned(), percent)];
                    assert!(
                        (ours.mid - theirs).abs() < 1e-6,
                        "{estimator:?} {name} {percent}: {ours:?}, not {theirs}"
                    );
                }
                assert_eq!(seen[&(name.to_owned(), 0)], 0.0);
            }
        }
    }

    #[test]
    fn a_kept_report_has_the_same_profile_and_json() {
        let (experiment, subjects) = experiment(Estimator::Slow, 9);
        let mut report = report(&experiment, &subjects, Estimator::Slow);
        let dropped = Target::new(Kind::Line, "a.c:7");
        report.add_without_number(dropped, Estimator::Slow, "it took no sample".into());
        let again = Report::kept(&report.keep(), &[]);
        assert_eq!(again.json(), report.json());
        assert_eq!(coz(&again), coz(&report));
    }

    #[test]
    fn too_few_blocks_make_no_profile() {
        let (experiment, subjects) = experiment(Estimator::Dilate, 2);
        let report = report(&experiment, &subjects, Estimator::Dilate);
        assert_eq!(coz(&report), "");
    }
}
