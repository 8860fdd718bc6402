//! Experiments on the running program (`convoy causal`): what was tried, what every window
//! measured, and what that says about the gain of making something faster.

use serde::{Deserialize, Serialize};

/// Experiments of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiments {
    /// Process id of the program that was experimented on; 0 = there was none.
    pub pid: u32,
    /// How gains were measured.
    pub estimator: ExperimentEstimator,
    /// What counted as progress.
    pub progress: Vec<ExperimentProgress>,
    /// Length of a window, nanoseconds.
    pub window_ns: u64,
    /// Time that all windows took, nanoseconds.
    pub duration_ns: u64,
    /// CPU time by which code of the program was lengthened, nanoseconds.
    pub added_cpu_ns: u64,
    /// Share of the CPUs that other programs had meanwhile, 0 to 1.
    pub foreign_cpu_share: f64,
    /// Targets, as they were ranked.
    pub targets: Vec<ExperimentTarget>,
    /// Null experiments: what lengthening everything predicts.
    pub null: Vec<ExperimentNull>,
    /// All windows of whole blocks, in order.
    pub windows: Vec<ExperimentWindow>,
    /// Why there is no result; empty if there is one.
    pub reason: String,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// How gains are measured (docs/causal.md).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExperimentEstimator {
    /// Everything but the target becomes slower.
    #[default]
    Dilate,
    /// The target becomes slower: an upper bound of the gain.
    Slow,
    /// All targets in the same windows, each slower in half of them at random.
    Factorial,
}

/// How the agent measures the code that it lengthens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExperimentMechanism {
    /// By samples.
    #[default]
    Sampled,
    /// By the clock, from one lock operation to the next.
    Measured,
}

/// Kinds of targets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExperimentKind {
    /// A function's own instructions.
    #[default]
    Function,
    /// Instructions of a source line.
    Line,
    /// Critical sections of a lock.
    Lock,
    /// A wait.
    Wait,
    /// What runs below functions on the call stack.
    Path,
    /// All that threads of a name or group run.
    Threads,
}

/// What counted as progress.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExperimentProgress {
    /// Name.
    pub name: String,
    /// Units per second before the experiments.
    pub per_second: f64,
    /// Windows have the sum of all latencies instead of their length: gains are of the latency.
    pub is_latency: bool,
}

/// A target's results.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExperimentTarget {
    /// What it is.
    pub kind: ExperimentKind,
    /// Its name: a function, a lock, `FILE:LINE`, `sleep`.
    pub name: String,
    /// Addresses of the locks that the name stands for.
    pub locks: Vec<u64>,
    /// How its code was measured.
    pub mechanism: ExperimentMechanism,
    /// Its share of the samples, 0 to 1; `None` = not measured by samples.
    pub sample_share: Option<f64>,
    /// By speed-up.
    pub levels: Vec<ExperimentLevel>,
    /// Why there is no number; empty if there is one.
    pub reason: String,
}

/// A speed-up, and the share of the run that it saves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ExperimentLevel {
    /// Share of the target's time that goes away, 0 to 1.
    pub speedup: f64,
    /// Share of the run that goes away: at least, expected, at most.
    pub saved: [f64; 3],
}

/// What a speed-up of no target seems to save: 0 but for bias and noise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ExperimentNull {
    /// Of targets measured in this way.
    pub mechanism: ExperimentMechanism,
    /// What it predicts.
    pub level: ExperimentLevel,
}

/// What one window tried and measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ExperimentWindow {
    /// Number of its block: each has every level of every target that is not settled.
    pub block: u32,
    /// Index into [`Experiments::targets`]; `None` = no target: baseline or null experiment. Of
    /// [`ExperimentEstimator::Factorial`] one bit for each slowed target.
    pub target: Option<u32>,
    /// How code was measured.
    pub mechanism: ExperimentMechanism,
    /// Virtual speed-up of the target; 0 = baseline.
    pub speedup: f64,
    /// Length; of a latency the sum of all latencies. Nanoseconds.
    pub duration_ns: u64,
    /// Units of progress.
    pub progress: f64,
    /// CPU time that the program could have had, nanoseconds; 0 = not known.
    pub capacity_ns: u64,
    /// CPU time that it had, nanoseconds.
    pub cpu_ns: u64,
    /// Of it in calls that were not lengthened though they are not the target, nanoseconds.
    pub calls_ns: u64,
}

impl ExperimentLevel {
    fn is_sound(&self) -> bool {
        let [low, mid, high] = self.saved;
        let is_ordered = low <= mid && mid <= high;
        is_share(self.speedup) && is_ordered && low.is_finite() && high.is_finite()
    }
}

impl Experiments {
    /// What it takes in memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let target = |target: &ExperimentTarget| {
            size_of::<ExperimentTarget>()
                + target.name.len()
                + target.reason.len()
                + size_of_val(target.locks.as_slice())
                + size_of_val(target.levels.as_slice())
        };
        let text = |text: &String| size_of::<String>() + text.len();
        let named =
            |progress: &ExperimentProgress| size_of::<ExperimentProgress>() + progress.name.len();
        size_of::<Self>()
            + self.targets.iter().map(target).sum::<usize>()
            + self.progress.iter().map(named).sum::<usize>()
            + self.notes.iter().map(text).sum::<usize>()
            + size_of_val(self.null.as_slice())
            + size_of_val(self.windows.as_slice())
    }

    /// Whether all of its numbers can be what they are said to be, and its indices lead somewhere.
    pub(crate) fn is_sound(&self) -> bool {
        let targets = self.targets.iter().all(|target| {
            let share = target.sample_share.is_none_or(is_share);
            share && target.levels.iter().all(ExperimentLevel::is_sound)
        });
        // Bits of a window, one a target.
        let is_many = self.targets.len() > u32::BITS as usize;
        if self.estimator == ExperimentEstimator::Factorial && is_many {
            return false;
        }
        let windows = self.windows.iter().all(|window| {
            let targets = self.targets.len();
            let is_known = window.target.is_none_or(|target| match self.estimator {
                ExperimentEstimator::Factorial => {
                    u64::from(target) >> targets.min(u32::BITS as usize) == 0
                }
                _ => (target as usize) < targets,
            });
            is_known && is_share(window.speedup) && is_amount(window.progress)
        });
        let progress = self.progress.iter();
        targets
            && windows
            && is_share(self.foreign_cpu_share)
            && progress.map(|p| p.per_second).all(is_amount)
            && self.null.iter().all(|null| null.level.is_sound())
    }
}

fn is_share(number: f64) -> bool {
    (0.0..=1.0).contains(&number)
}

fn is_amount(number: f64) -> bool {
    number >= 0.0 && number.is_finite()
}
