//! What experiments found, ready to be shown. The JSON of `--format json` is this, field by field.

use serde::Serialize;

use crate::algorithm::Algorithm;
use crate::comparison::Comparison;
use crate::estimator::Estimator;
use crate::interval::Saved;
use crate::plan::{Arm, Measured, Mechanism};
use crate::progress::Rate;
use crate::target::{Kind, Target};
use crate::words;
use crate::Experiment;

/// All results of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// The command.
    pub command: Vec<String>,
    /// Of most gain first; those without a number last.
    pub targets: Vec<TargetRow>,
    /// Null experiments: what dilating with no target predicts.
    pub null: Vec<NullRow>,
    /// What counted as progress.
    pub progress: Vec<ProgressRow>,
    /// Windows measured.
    pub windows: usize,
    /// Length of a window, seconds.
    pub window_seconds: f64,
    /// Time that the experiments took, seconds.
    pub seconds: f64,
    /// CPU time by which code of the program was lengthened, seconds.
    pub added_cpu_seconds: f64,
    /// Share of the CPUs that other programs had meanwhile, 0 to 1.
    pub foreign_cpu_share: f64,
    /// Why there are no experiments; `None` if there are.
    pub reason: Option<String>,
    /// What the reader should know.
    pub notes: Vec<String>,
    /// What a change did that may corrupt the program; `None` = none was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// What all of this was computed from.
    #[serde(skip)]
    pub measurements: Measurements,
}

/// What windows tried and measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measurements {
    /// Process that was experimented on; 0 = none.
    pub pid: u32,
    /// What progress was measured by, for other runs of the command.
    pub rate: Option<Rate>,
    /// The program ended before the experiments did.
    pub ended_early: bool,
    /// What was tried, in the order of the experiment's numbers.
    pub subjects: Vec<Subject>,
    /// Windows in whole blocks.
    pub blocks: Vec<Vec<(Arm, Measured)>>,
}

/// A target's results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetRow {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// How threads wait for it; `None` = as they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
    /// How the gain was measured.
    pub estimator: Estimator,
    /// Its share of the samples, 0 to 1; `None` = not measured by samples.
    pub sample_share: Option<f64>,
    /// By speed-up.
    pub at: Vec<Level>,
    /// Why there is no number; `None` if there is one.
    pub reason: Option<String>,
}

/// What a speed-up of a target saves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Level {
    /// Share of the target's time that goes away, 0 to 1; 1 where an algorithm was exchanged.
    pub speedup: f64,
    /// Share of the run that goes away.
    pub saved_share: Saved,
}

/// A null experiment's result.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NullRow {
    /// Of targets measured in this way.
    pub mechanism: Mechanism,
    /// Speed-up of no target.
    pub speedup: f64,
    /// What it predicts: 0 but for bias and noise.
    pub saved_share: Saved,
}

/// What counted as progress.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgressRow {
    /// Name.
    pub name: String,
    /// Units per second before the experiments.
    pub per_second: f64,
    /// Shares are of the time between two points, not of the run.
    pub is_latency: bool,
}

impl From<&Rate> for ProgressRow {
    fn from(rate: &Rate) -> Self {
        Self {
            name: words::progress(&rate.progress),
            per_second: rate.per_second,
            is_latency: rate.progress.is_latency(),
        }
    }
}

/// What is known of a target besides the experiments.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// What it is.
    pub target: Target,
    /// How its code is measured.
    pub mechanism: Mechanism,
    /// Share of the samples.
    pub sample_share: Option<f64>,
    /// How threads are to wait for it; `None` = as they do.
    pub algorithm: Option<Algorithm>,
    /// Addresses of the locks that its name stands for.
    pub locks: Vec<u64>,
}

impl Subject {
    /// Whether a row has its results.
    pub(crate) fn is_of(&self, row: &TargetRow) -> bool {
        self.target.kind == row.kind && self.target.name == row.name
    }
}

impl Report {
    /// Puts down what the experiments found of these subjects, which have the experiment's numbers.
    pub fn fill(&mut self, experiment: &Experiment, subjects: &[Subject], estimator: Estimator) {
        self.windows = experiment.windows();
        self.measurements.subjects = subjects.to_vec();
        self.measurements.blocks = experiment.blocks().to_vec();
        for (number, subject) in subjects.iter().enumerate() {
            let level = |speedup| {
                let saved_share = experiment.saved(number, speedup)?;
                Some(Level {
                    speedup,
                    saved_share,
                })
            };
            let levels = estimator.levels().iter().copied();
            let at: Vec<Level> = levels.filter_map(level).collect();
            self.targets.push(TargetRow {
                kind: subject.target.kind,
                name: subject.target.name.clone(),
                algorithm: subject.algorithm,
                estimator,
                sample_share: subject.sample_share,
                reason: at.is_empty().then(|| words::too_few_windows(self.windows)),
                at,
            });
        }
        let null = |mechanism| {
            estimator.levels().iter().filter_map(move |&speedup| {
                let saved_share = experiment.null(mechanism, speedup)?;
                Some(NullRow {
                    mechanism,
                    speedup,
                    saved_share,
                })
            })
        };
        if estimator.has_null() {
            self.null.extend(null(Mechanism::Sampled));
            self.null.extend(null(Mechanism::Measured));
        }
    }

    /// Adds a target of which there is no number.
    pub fn add_without_number(&mut self, target: Target, estimator: Estimator, reason: String) {
        self.targets.push(TargetRow {
            kind: target.kind,
            name: target.name,
            algorithm: None,
            estimator,
            sample_share: None,
            at: Vec::new(),
            reason: Some(reason),
        });
    }

    /// Most gain first, by the lower bound at the highest speed-up: what is sure comes before what
    /// is possible.
    pub fn rank(&mut self) {
        self.targets.sort_by(|a, b| b.sure().total_cmp(&a.sure()));
    }

    /// Whether shares are of a latency, not of the run time.
    pub fn is_of_latency(&self) -> bool {
        self.progress.iter().any(|row| row.is_latency)
    }

    /// As JSON, with a line end.
    pub fn json(&self) -> String {
        // Numbers, texts and lists only: this cannot fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

impl TargetRow {
    fn sure(&self) -> f64 {
        let last = self.at.last();
        last.map_or(f64::NEG_INFINITY, |level| level.saved_share.low)
    }

    /// Whether the experiments show a gain at the highest speed-up.
    pub fn has_gain(&self) -> bool {
        self.sure() > 0.0
    }
}
