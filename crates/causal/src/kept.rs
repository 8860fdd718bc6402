//! Results as a profile keeps them, and back.

use convoy_profile::{
    ExperimentEstimator, ExperimentKind, ExperimentLevel, ExperimentMechanism, ExperimentNull,
    ExperimentProgress, ExperimentTarget, ExperimentWindow, Experiments,
};

use crate::estimator::Estimator;
use crate::interval::Saved;
use crate::plan::{Arm, Measured, Mechanism, TargetSet};
use crate::result::{Level, Measurements, NullRow, ProgressRow, Report, Subject, TargetRow};
use crate::target::{Kind, Target};

impl Report {
    /// For a profile.
    pub fn keep(&self) -> Experiments {
        Experiments {
            pid: self.measurements.pid,
            estimator: self.kept_estimator(),
            progress: self.progress.iter().map(kept_progress).collect(),
            window_ns: ns(self.window_seconds),
            duration_ns: ns(self.seconds),
            added_cpu_ns: ns(self.added_cpu_seconds),
            foreign_cpu_share: self.foreign_cpu_share.clamp(0.0, 1.0),
            targets: self.targets.iter().map(|row| self.kept_row(row)).collect(),
            null: self.null.iter().map(kept_null).collect(),
            windows: self.kept_windows(),
            reason: self.reason.clone().unwrap_or_default(),
            notes: self.notes.clone(),
        }
    }

    fn kept_estimator(&self) -> ExperimentEstimator {
        match self.targets.first().map(|row| row.estimator) {
            Some(Estimator::Slow) => ExperimentEstimator::Slow,
            Some(Estimator::Factorial) => ExperimentEstimator::Factorial,
            _ => ExperimentEstimator::Dilate,
        }
    }

    /// As it was before it was kept. `command`: that of the profile.
    pub fn kept(experiments: &Experiments, command: &[String]) -> Self {
        let estimator = match experiments.estimator {
            ExperimentEstimator::Dilate => Estimator::Dilate,
            ExperimentEstimator::Slow => Estimator::Slow,
            ExperimentEstimator::Factorial => Estimator::Factorial,
        };
        let rows = experiments.targets.iter();
        let null = experiments.null.iter().map(|null| NullRow {
            mechanism: mechanism(null.mechanism),
            speedup: null.level.speedup,
            saved_share: level(&null.level).saved_share,
        });
        let progress = experiments.progress.iter().map(|progress| ProgressRow {
            name: progress.name.clone(),
            per_second: progress.per_second,
            is_latency: progress.is_latency,
        });
        Self {
            command: command.to_vec(),
            targets: rows.map(|target| row(target, estimator)).collect(),
            null: null.collect(),
            progress: progress.collect(),
            windows: experiments.windows.len(),
            window_seconds: seconds(experiments.window_ns),
            seconds: seconds(experiments.duration_ns),
            added_cpu_seconds: seconds(experiments.added_cpu_ns),
            foreign_cpu_share: experiments.foreign_cpu_share,
            reason: text(&experiments.reason),
            notes: experiments.notes.clone(),
            comparison: None,
            measurements: measurements(experiments),
        }
    }

    fn kept_row(&self, row: &TargetRow) -> ExperimentTarget {
        let mut subjects = self.measurements.subjects.iter();
        let subject = subjects.find(|subject| subject.is_of(row));
        ExperimentTarget {
            kind: match row.kind {
                Kind::Function => ExperimentKind::Function,
                Kind::Line => ExperimentKind::Line,
                Kind::Lock => ExperimentKind::Lock,
                Kind::Wait => ExperimentKind::Wait,
                Kind::Path => ExperimentKind::Path,
                Kind::Threads => ExperimentKind::Threads,
            },
            name: row.name.clone(),
            locks: subject.map_or_else(Vec::new, |subject| subject.locks.clone()),
            mechanism: kept_mechanism(subject.map_or(Mechanism::Sampled, |s| s.mechanism)),
            sample_share: row.sample_share,
            levels: row
                .at
                .iter()
                .map(|at| kept_level(at.speedup, &at.saved_share))
                .collect(),
            reason: row.reason.clone().unwrap_or_default(),
        }
    }

    /// Targets are numbered as they are ranked.
    fn kept_windows(&self) -> Vec<ExperimentWindow> {
        let Measurements {
            subjects, blocks, ..
        } = &self.measurements;
        let estimator = self.kept_estimator();
        let row_of = |subject: &Subject| self.targets.iter().position(|row| subject.is_of(row));
        let rows: Vec<Option<usize>> = subjects.iter().map(row_of).collect();
        let blocks = (0u32..).zip(blocks);
        let window = |block, (arm, measured): &(Arm, Measured)| {
            let targets = arm.targets.numbers().map(|number| *rows.get(number)?);
            let targets: Vec<usize> = targets.collect::<Option<_>>()?;
            let target = match estimator {
                ExperimentEstimator::Factorial => {
                    Some(targets.into_iter().collect::<TargetSet>().0)
                }
                _ => targets.first().and_then(|row| u32::try_from(*row).ok()),
            };
            Some(ExperimentWindow {
                block,
                target,
                mechanism: kept_mechanism(arm.mechanism),
                speedup: arm.speedup,
                duration_ns: ns(measured.seconds),
                progress: measured.progress,
                capacity_ns: ns(measured.capacity_seconds),
                cpu_ns: ns(measured.cpu_seconds),
                calls_ns: ns(measured.calls_seconds),
            })
        };
        blocks
            .flat_map(|(number, block)| block.iter().filter_map(move |at| window(number, at)))
            .collect()
    }
}

fn measurements(experiments: &Experiments) -> Measurements {
    let subject = |target: &ExperimentTarget| Subject {
        target: Target::new(kind(target.kind), target.name.clone()),
        mechanism: mechanism(target.mechanism),
        sample_share: target.sample_share,
        algorithm: None,
        locks: target.locks.clone(),
    };
    let blocks = experiments.windows.chunk_by(|a, b| a.block == b.block);
    let window = |window: &ExperimentWindow| {
        let arm = Arm {
            targets: match experiments.estimator {
                ExperimentEstimator::Factorial => TargetSet(window.target.unwrap_or_default()),
                _ => window
                    .target
                    .map_or(TargetSet::NONE, |target| TargetSet::one(target as usize)),
            },
            speedup: window.speedup,
            mechanism: mechanism(window.mechanism),
        };
        let measured = Measured {
            seconds: seconds(window.duration_ns),
            progress: window.progress,
            capacity_seconds: seconds(window.capacity_ns),
            cpu_seconds: seconds(window.cpu_ns),
            calls_seconds: seconds(window.calls_ns),
        };
        (arm, measured)
    };
    Measurements {
        pid: experiments.pid,
        rate: None,
        ended_early: false,
        subjects: experiments.targets.iter().map(subject).collect(),
        blocks: blocks
            .map(|block| block.iter().map(window).collect())
            .collect(),
    }
}

fn row(target: &ExperimentTarget, estimator: Estimator) -> TargetRow {
    TargetRow {
        kind: kind(target.kind),
        name: target.name.clone(),
        algorithm: None,
        estimator,
        sample_share: target.sample_share,
        at: target.levels.iter().map(level).collect(),
        reason: text(&target.reason),
    }
}

fn kind(kind: ExperimentKind) -> Kind {
    match kind {
        ExperimentKind::Function => Kind::Function,
        ExperimentKind::Line => Kind::Line,
        ExperimentKind::Lock => Kind::Lock,
        ExperimentKind::Wait => Kind::Wait,
        ExperimentKind::Path => Kind::Path,
        ExperimentKind::Threads => Kind::Threads,
    }
}

fn mechanism(mechanism: ExperimentMechanism) -> Mechanism {
    match mechanism {
        ExperimentMechanism::Sampled => Mechanism::Sampled,
        ExperimentMechanism::Measured => Mechanism::Measured,
    }
}

fn kept_mechanism(mechanism: Mechanism) -> ExperimentMechanism {
    match mechanism {
        Mechanism::Sampled => ExperimentMechanism::Sampled,
        Mechanism::Measured => ExperimentMechanism::Measured,
    }
}

fn level(level: &ExperimentLevel) -> Level {
    let [low, mid, high] = level.saved;
    Level {
        speedup: level.speedup,
        saved_share: Saved { low, mid, high },
    }
}

fn kept_level(speedup: f64, saved: &Saved) -> ExperimentLevel {
    ExperimentLevel {
        speedup,
        saved: [saved.low, saved.mid, saved.high],
    }
}

fn kept_null(null: &NullRow) -> ExperimentNull {
    ExperimentNull {
        mechanism: kept_mechanism(null.mechanism),
        level: kept_level(null.speedup, &null.saved_share),
    }
}

fn kept_progress(progress: &ProgressRow) -> ExperimentProgress {
    ExperimentProgress {
        name: progress.name.clone(),
        per_second: progress.per_second,
        is_latency: progress.is_latency,
    }
}

fn text(kept: &str) -> Option<String> {
    (!kept.is_empty()).then(|| kept.to_owned())
}

fn ns(seconds: f64) -> u64 {
    (1e9 * seconds).round() as u64
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
