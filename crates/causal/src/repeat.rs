//! Several runs of one command as one: their windows are added up.

use crate::experiment::{Experiment, Settings};
use crate::plan::Arm;
use crate::result::{Measurements, Report};
use crate::words::note;

impl Report {
    /// Adds what a later run of the same command measured of the same targets.
    pub fn add_run(&mut self, later: Self) {
        let Some(estimator) = self.targets.first().map(|row| row.estimator) else {
            return;
        };
        let seconds = self.seconds + later.seconds;
        let foreign = self.foreign_cpu_share * self.seconds;
        let foreign = foreign + later.foreign_cpu_share * later.seconds;
        self.foreign_cpu_share = foreign / seconds.max(f64::MIN_POSITIVE);
        self.seconds = seconds;
        self.added_cpu_seconds += later.added_cpu_seconds;
        let new = |note: &String| !self.notes.contains(note);
        let notes: Vec<String> = later
            .notes
            .iter()
            .filter(|note| new(note))
            .cloned()
            .collect();
        self.notes.extend(notes);
        // One for all runs.
        if self.notes.iter().any(|note| note::is_busy(note)) {
            self.notes.retain(|note| !note::is_busy(note));
            self.notes.push(note::busy(self.foreign_cpu_share));
        }
        self.measurements.add(later.measurements);
        let subjects = self.measurements.subjects.clone();
        let mechanisms = subjects.iter().map(|subject| subject.mechanism).collect();
        let settings = Settings {
            estimator,
            precision: 0.0,
            seed: u64::from(self.measurements.pid),
        };
        let blocks = self.measurements.blocks.clone();
        let experiment = Experiment::over(mechanisms, settings, blocks);
        self.targets
            .retain(|row| !subjects.iter().any(|subject| subject.is_of(row)));
        self.null.clear();
        self.fill(&experiment, &subjects, estimator);
        self.rank();
        let has_number = self.targets.iter().any(|row| !row.at.is_empty());
        self.reason = later.reason.filter(|_| !has_number);
    }

    /// Whether the interval of every target is narrow enough at the highest speed-up.
    pub fn is_settled(&self, precision: f64) -> bool {
        self.measurements.subjects.iter().all(|subject| {
            let row = self.targets.iter().find(|row| subject.is_of(row));
            let level = row.and_then(|row| row.at.last());
            level.is_some_and(|level| level.saved_share.half_width() <= precision)
        })
    }
}

impl Measurements {
    /// Blocks of a later run, whose targets have other numbers and locks other addresses.
    fn add(&mut self, later: Self) {
        (self.pid, self.ended_early) = (later.pid, later.ended_early);
        let number = |of: usize| {
            let target = &later.subjects.get(of)?.target;
            self.subjects.iter().position(|own| own.target == *target)
        };
        let arm = |arm: &Arm| {
            let targets = arm.targets.numbers().map(number).collect::<Option<_>>()?;
            Some(Arm { targets, ..*arm })
        };
        let blocks = later.blocks.iter().map(|block| {
            let windows = block.iter();
            windows.filter_map(|(of, measured)| Some((arm(of)?, *measured)))
        });
        let blocks: Vec<Vec<_>> = blocks.map(Iterator::collect).collect();
        self.blocks.extend(blocks);
        for subject in &mut self.subjects {
            let mut all = later.subjects.iter();
            if let Some(same) = all.find(|other| other.target == subject.target) {
                subject.locks.clone_from(&same.locks);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Estimator, Kind, Measured, Mechanism, Subject, Target};

    fn subject(name: &str, lock: u64) -> Subject {
        Subject {
            target: Target::new(Kind::Lock, name),
            mechanism: Mechanism::Measured,
            sample_share: None,
            algorithm: None,
            locks: vec![lock],
        }
    }

    /// A run in which the targets take these shares of the time; too short for a number by itself.
    fn run(targets: &[(&str, f64)], pid: u32) -> Report {
        let settings = Settings {
            estimator: Estimator::Dilate,
            precision: 0.01,
            seed: pid.into(),
        };
        let mechanisms = vec![Mechanism::Measured; targets.len()];
        let mut experiment = Experiment::new(mechanisms, settings);
        for n in 0..4 * experiment.windows_per_block() {
            let Some(arm) = experiment.next_arm() else {
                break;
            };
            let share: f64 = arm.targets.numbers().map(|t| targets[t].1).sum();
            let k = 1.0 + Estimator::Dilate.factor(arm.speedup);
            experiment.add(Measured {
                seconds: 0.03,
                progress: 1000.0 / (share + (1.0 - share) * k) + (n % 3) as f64,
                ..Measured::default()
            });
        }
        let subjects = targets.iter().map(|(name, _)| subject(name, pid.into()));
        let subjects: Vec<Subject> = subjects.collect();
        let mut report = Report::default();
        report.measurements.pid = pid;
        report.fill(&experiment, &subjects, Estimator::Dilate);
        report.reason = Some("the program ended".into());
        report.rank();
        report
    }

    #[test]
    fn a_busy_machine_is_told_once_for_all_runs() {
        let busy = |seconds: f64, share: f64, pid| {
            let mut report = run(&[("a", 0.8)], pid);
            (report.seconds, report.foreign_cpu_share) = (seconds, share);
            report.notes = vec![note::busy(share)];
            report
        };
        let mut report = busy(1.0, 0.2, 1);
        report.add_run(busy(3.0, 0.6, 2));
        assert_eq!(report.notes, [note::busy(0.5)]);
    }

    #[test]
    fn short_runs_have_a_number_together() {
        let mut report = run(&[("a", 0.8), ("b", 0.1)], 1);
        assert!(!report.is_settled(0.05));
        report.add_run(run(&[("b", 0.1), ("a", 0.8)], 2));
        assert!(report.is_settled(0.05), "{report:?}");
        assert_eq!((report.reason.clone(), report.targets.len()), (None, 2));
        let row = &report.targets[0];
        assert_eq!(row.name, "a");
        assert!((row.at[1].saved_share.mid - 0.4).abs() < 0.02, "{row:?}");
        assert_eq!(report.measurements.pid, 2);
        assert_eq!(report.measurements.subjects[0].locks, [2]);
    }
}
