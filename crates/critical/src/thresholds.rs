//! What counts as low and as much: every number that can be set, with its unit and its source.

/// Limits of the analysis. All are flags of `convoy report`; none of them is used while recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Thresholds {
    /// Parallelism is low while fewer threads than this work. Threads. GAPP: half the threads, the value of
    /// `None`.
    pub n_min: Option<f64>,
    /// Rows of the longer tables. Ours.
    pub top: usize,
    /// A thread does real work if it works for this share of what the busiest thread does. Ratio 0..1. Ours.
    pub worker_ratio: f64,
    /// Relative distance of the busiest thread of a group from the mean that is an imbalance. Ratio 0..1.
    /// SyncPerf section 3.2.3: 20 %.
    pub imbalance_ratio: f64,
    /// A lock is off the critical path if this share of its waits passed while parallelism was at its useful
    /// maximum. Ratio 0..1. Ours.
    pub off_path_ratio: f64,
    /// A finding is ranked if its expected gain reaches this throughput ratio. Ours, as in `detect`: 1.05.
    pub gain_mid: f64,
    /// A finding with a smaller expected gain is ranked all the same if its bound reaches this ratio and it is
    /// a large part of the run. Ours, as in `detect`: 1.10.
    pub gain_high: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            n_min: None,
            top: 20,
            worker_ratio: 0.05,
            imbalance_ratio: 0.20,
            off_path_ratio: 0.80,
            gain_mid: 1.05,
            gain_high: 1.10,
        }
    }
}
