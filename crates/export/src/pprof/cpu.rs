//! CPU time at the stack of who ran.

use std::collections::BTreeMap;

use convoy_model::{CodeFrom, Model, Slice, ThreadId};

use super::rows::{Rows, Sum};
use super::{pseudo, thread_labels};
use crate::stacks::frames_of;
use crate::Error;

/// All rows. The sum of a thread is exact: the scheduler saw it on a CPU. It is divided among call
/// stacks by samples; that of a thread without samples by where it blocked at the end of each
/// slice.
pub(super) fn rows(model: &Model) -> Result<Rows, Error> {
    let Some(sched) = &model.sched else {
        return Err(Error::Missing("the profile has no scheduler events"));
    };
    let mut threads: BTreeMap<ThreadId, Vec<&Slice>> = BTreeMap::new();
    for slice in &sched.slices {
        threads.entry(slice.thread).or_default().push(slice);
    }
    let mut rows = Rows::default();
    for (thread, slices) in threads {
        for (slice, ns) in divided(&slices) {
            let sum = Sum { count: slice.n, ns };
            let labels = thread_labels(model, thread);
            match frames_of(model, slice.site) {
                [] => rows.add(&[pseudo("[call stack not known]")], labels, sum),
                known => rows.add(known, labels, sum),
            }
        }
    }
    Ok(rows)
}

/// The slices that tell where the time of a thread went, each with its part of it, nanoseconds.
fn divided<'a>(slices: &[&'a Slice]) -> Vec<(&'a Slice, u64)> {
    let times = slices.iter().map(|slice| slice.running_ns);
    let all_ns = times.fold(0, u64::saturating_add);
    let sampled = slices.iter().filter(|s| s.from == CodeFrom::Sample);
    let samples = sampled.clone().map(|slice| slice.n);
    let samples = samples.fold(0, u64::saturating_add);
    if samples == 0 {
        let slices = slices.iter().filter(|slice| slice.running_ns > 0);
        return slices.map(|slice| (*slice, slice.running_ns)).collect();
    }
    let part = |n: u64| u128::from(all_ns) * u128::from(n) / u128::from(samples);
    let parts = sampled.map(|slice| (*slice, u64::try_from(part(slice.n)).unwrap_or(u64::MAX)));
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(from: CodeFrom, n: u64, running_ns: u64) -> Slice {
        Slice {
            from,
            n,
            running_ns,
            ..Slice::default()
        }
    }

    fn parts(slices: &[Slice]) -> Vec<u64> {
        let all: Vec<&Slice> = slices.iter().collect();
        divided(&all).into_iter().map(|(_, ns)| ns).collect()
    }

    #[test]
    fn samples_divide_the_time_of_their_thread() {
        let slices = [
            slice(CodeFrom::StackTop, 90, 9_000),
            slice(CodeFrom::Sample, 3, 500),
            slice(CodeFrom::Sample, 1, 500),
        ];
        assert_eq!(parts(&slices), [7_500, 2_500]);
    }

    #[test]
    fn without_samples_slices_count_where_they_ended() {
        let slices = [
            slice(CodeFrom::StackTop, 2, 70),
            slice(CodeFrom::Unknown, 1, 30),
            slice(CodeFrom::Unknown, 1, 0),
        ];
        assert_eq!(parts(&slices), [70, 30]);
    }
}
