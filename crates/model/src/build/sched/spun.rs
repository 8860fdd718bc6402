//! How long threads with short slices waited in loops.
//!
//! A sample stands for a whole period of what a thread runs, but the recorder knows no more of it than that its own slice was spent
//! waiting. A thread that spins for some microseconds before each sleep would hardly be seen to spin: 0.7 % of what four
//! threads ran was in such slices at a barrier of OpenMP, and 70 % of their samples. What is theirs was given to the thread's other code,
//! which has so much less: a thread's code ran as long as the thread.

use std::collections::HashMap;

use crate::{CodeFrom, SchedThread, Slice, ThreadId};

/// What samples say of a thread, and what it did.
struct Of {
    samples: f64,
    running: f64,
    active: f64,
}

/// What the rows of a thread say together, nanoseconds.
#[derive(Default)]
struct Rows {
    waits: Sum,
    works: Sum,
}

#[derive(Default)]
struct Sum {
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
    all.retain(|thread, _| spun.contains_key(thread));
    leave_the_rest(slices, &all);
    for th in threads {
        if let Some(&ns) = spun.get(&th.thread) {
            th.spinning_ns = th.spinning_ns.max(ns as u64).min(th.running_ns);
        }
    }
}

/// Other code has no more of what a thread ran than its loops leave.
fn leave_the_rest(slices: &mut [Slice], all: &HashMap<ThreadId, Of>) {
    let mut rows: HashMap<ThreadId, Rows> = HashMap::new();
    for slice in slices
        .iter()
        .filter(|slice| all.contains_key(&slice.thread))
    {
        let of = rows.entry(slice.thread).or_default();
        let sum = match slice.spin {
            Some(_) => &mut of.waits,
            None => &mut of.works,
        };
        sum.running += slice.running_ns as f64;
        sum.active += slice.active_ns as f64;
    }
    for slice in slices.iter_mut().filter(|slice| slice.spin.is_none()) {
        let (Some(of), Some(rows)) = (all.get(&slice.thread), rows.get(&slice.thread)) else {
            continue;
        };
        let left = |whole: f64, waits: f64, works: f64| match works > 0.0 {
            true => ((whole - waits) / works).clamp(0.0, 1.0),
            false => 1.0,
        };
        let running = left(of.running, rows.waits.running, rows.works.running);
        let active = left(of.active, rows.waits.active, rows.works.active);
        slice.running_ns = (slice.running_ns as f64 * running) as u64;
        slice.active_ns = (slice.active_ns as f64 * active) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::by_samples;
    use crate::{CodeFrom, LoopId, SchedThread, Slice, ThreadId};

    const MS: u64 = 1_000_000;

    fn row(thread: ThreadId, spin: Option<u32>, n: u64, running_ns: u64) -> Slice {
        Slice {
            thread,
            spin: spin.map(LoopId),
            from: CodeFrom::Sample,
            n,
            running_ns,
            active_ns: running_ns,
            ..Slice::default()
        }
    }

    /// What rows of a thread with slices of this length ran, after it was given to loops by samples.
    fn ran(slices: u64, rows: &[(Option<u32>, u64, u64)]) -> (Vec<u64>, u64) {
        let thread = ThreadId::default();
        let mut threads = [SchedThread {
            thread,
            running_ns: 100 * MS,
            slices,
            ..SchedThread::default()
        }];
        let of = |&(spin, n, ms): &(Option<u32>, u64, u64)| row(thread, spin, n, ms * MS);
        let mut rows: Vec<Slice> = rows.iter().map(of).collect();
        by_samples(&mut threads, &mut rows, MS);
        let ms = rows.iter().map(|row| row.running_ns / MS).collect();
        (ms, threads[0].spinning_ns / MS)
    }

    #[test]
    fn loops_have_their_share_of_samples_and_other_code_the_rest() {
        let rows = [(Some(0), 70, 1), (None, 20, 66), (None, 10, 33)];
        let (ms, spinning) = ran(1000, &rows);
        assert_eq!((ms[0], spinning), (70, 70));
        assert!(ms[1].abs_diff(20) <= 1 && ms[2].abs_diff(10) <= 1, "{ms:?}");
        assert!(ms.iter().sum::<u64>() <= 100);
    }

    #[test]
    fn nothing_is_moved_where_slices_are_long_or_nobody_waits() {
        let rows = [(Some(0), 70, 1), (None, 30, 99)];
        assert_eq!(ran(10, &rows), (vec![1, 99], 0));
        let rows = [(None, 70, 60), (None, 30, 40)];
        assert_eq!(ran(1000, &rows), (vec![60, 40], 0));
    }
}
