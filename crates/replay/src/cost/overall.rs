//! What all unnecessary pairs together cost: T_pd and T_rw.

use std::collections::BTreeMap;

use super::{ReplayTimes, SpanCost, SpanPair};

/// What unnecessary lock contention costs a program.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Overall {
    /// Wall time of the original replay, nanoseconds.
    pub original_ns: f64,
    /// Wall time of the ULCP-free replay, nanoseconds.
    pub free_ns: f64,
    /// Sum of dT over all unnecessary pairs, nanoseconds of thread time.
    pub saved_ns: f64,
    /// Performance degradation T_pd: the share of the original run time that the ULCP-free replay saves,
    /// (T - T') / T. Negative if the locksets cost more than they save.
    pub t_pd: f64,
    /// Resource waste T_rw: thread time that unnecessary pairs waste without making the run longer, per
    /// thread and as a share of the original run time: (sum of dT - (T - T')) / (threads * T), at least 0.
    ///
    /// The paper's definition is taken from its description, "CPU time wasted per thread", not from its
    /// text. A waiter that parks wastes no CPU time but its thread's; a spinning one wastes both.
    pub t_rw: f64,
}

impl Overall {
    /// Of two replays and the costs of their pairs.
    pub fn of(
        original: &ReplayTimes,
        free: &ReplayTimes,
        costs: &BTreeMap<SpanPair, SpanCost>,
    ) -> Self {
        let saved_ns: f64 = costs.values().map(|cost| cost.saved_ns).sum();
        let shorter_ns = original.wall_ns - free.wall_ns;
        let threads = f64::from(original.threads.max(1));
        let share = |ns: f64| {
            if original.wall_ns > 0.0 {
                ns / original.wall_ns
            } else {
                0.0
            }
        };
        Self {
            original_ns: original.wall_ns,
            free_ns: free.wall_ns,
            saved_ns,
            t_pd: share(shorter_ns),
            t_rw: share((saved_ns - shorter_ns).max(0.0) / threads),
        }
    }
}
