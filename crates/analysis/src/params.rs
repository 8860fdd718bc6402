//! What counts as "high": every number an analysis compares with, with its unit and its source.

/// Limits of the analysis. All are flags of `convoy report`; none of them is used while recording.
///
/// "SyncPerf" is the EuroSys'17 paper; its own implementation uses other values than the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    /// Contention rate above which a lock is in Q1 or Q2. Ratio 0..1. SyncPerf section 3.1: 10 %.
    pub contention_ratio: f64,
    /// Frequency above which a lock is in Q2 or Q4. Acquisitions per second of observed run time,
    /// all threads together. SyncPerf section 3.1: 1000/s.
    pub frequency_hz: f64,
    /// Highest contention rate of the locks of one kind over their lowest. Ratio. SyncPerf section 3.1: 2.
    pub asymmetry_ratio: f64,
    /// Asymmetry is only judged if so many waits were seen on the locks of the kind. Count. Ours: a
    /// rate made of a handful of waits says nothing.
    pub asymmetry_min_waits: u64,
    /// Failed trylock calls over trylock calls. Ratio 0..1. SyncPerf section 3.1 uses the contention limit: 10 %.
    pub trylock_failure_ratio: f64,
    /// Relative difference of the compute time of groups, or of threads of one group, that is a
    /// load imbalance. Ratio 0..1. SyncPerf section 3.2.3: 20 %.
    pub imbalance_ratio: f64,
    /// Waits of the threads concerned over their run time, above which a lock is looked at whatever
    /// its contention rate. Ratio 0..1. Ours: a parked waiter costs far more than one acquisition
    /// (SQLite loses half its throughput at 1 % contended).
    pub waited_ratio: f64,
    /// A finding is ranked if its expected gain reaches this throughput ratio. Ours: 1.05: less
    /// than that is within the error of the prediction and the noise of most benchmarks.
    pub gain_mid: f64,
    /// A finding with a smaller expected gain is ranked all the same if it is sure to be worth
    /// knowing: its upper bound reaches this ratio and waits are high. Ours: 1.10.
    pub gain_high: f64,
    /// Parallelism is low while fewer threads than this work. Threads. GAPP section 3.1: half the
    /// threads, the value of `None`.
    pub n_min: Option<f64>,
    /// Rows of the longer tables. Ours.
    pub top: usize,
    /// A thread does real work if it works for this share of what the busiest thread does. Ratio
    /// 0..1. Ours.
    pub worker_ratio: f64,
    /// A lock is off the critical path if this share of its waits passed while parallelism was at its
    /// useful maximum. Ratio 0..1. Ours.
    pub off_path_ratio: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            contention_ratio: 0.10,
            frequency_hz: 1000.0,
            asymmetry_ratio: 2.0,
            asymmetry_min_waits: 30,
            trylock_failure_ratio: 0.10,
            imbalance_ratio: 0.20,
            waited_ratio: 0.01,
            gain_mid: 1.05,
            gain_high: 1.10,
            n_min: None,
            top: 20,
            worker_ratio: 0.05,
            off_path_ratio: 0.80,
        }
    }
}
