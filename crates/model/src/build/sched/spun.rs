//! How long threads with short slices waited in loops.
//!
//! A sample stands for a whole period of what a thread runs, but the recorder knows no more of it than that its own slice was spent
//! waiting. A thread that spins for some microseconds before each sleep would hardly be seen to spin: 0.7 % of what four
//! threads ran was in such slices at a barrier of OpenMP, and 70 % of their samples.

use std::collections::HashMap;

use crate::{CodeFrom, SchedThread, Slice, ThreadId};

/// What samples say of a thread, and what it did.
struct Of {
    samples: f64,
    running: f64,
    active: f64,
}

/// Gives threads with slices shorter than the sampling period their share of samples as time in loops, nanoseconds.
pub(super) fn by_samples(threads: &mut [SchedThread], slices: &mut [Slice], period_ns: u64) {
    let is_short = |th: &&SchedThread| th.running_ns < th.slices.saturating_mul(period_ns);
    let short = threads.iter().filter(is_short).map(|th| {
        let of = Of {
            samples: 0.0,
            running: th.running_ns as f64,
            active: th.active_ns() as f64,
        };
        (th.thread, of)
    });
    let mut all: HashMap<ThreadId, Of> = short.collect();
    for slice in slices.iter().filter(|slice| slice.from == CodeFrom::Sample) {
        if let Some(of) = all.get_mut(&slice.thread) {
            of.samples += slice.n as f64;
        }
    }
    let mut spun: HashMap<ThreadId, f64> = HashMap::new();
    for slice in slices.iter_mut().filter(|slice| slice.spin.is_some()) {
        let Some(of) = all.get(&slice.thread).filter(|of| of.samples > 0.0) else {
            continue;
        };
        let share = (slice.n as f64 / of.samples).min(1.0);
        slice.running_ns = slice.running_ns.max((share * of.running) as u64);
        slice.active_ns = slice.active_ns.max((share * of.active) as u64);
        *spun.entry(slice.thread).or_default() += share * of.running;
    }
    for th in threads {
        if let Some(&ns) = spun.get(&th.thread) {
            th.spinning_ns = th.spinning_ns.max(ns as u64).min(th.running_ns);
        }
    }
}
