//! The tables of [`crate::Sched`]: what the kernel's scheduler said, of all processes together.

mod lines;
mod offs;
mod small;
mod spans;
mod timeline;
mod wakes;
mod writes;

use super::zip_columns;
use crate::bytes::{In, Malformed, Out};
use crate::{ByThreads, ThreadRef};
pub(crate) use timeline::LaneRow;

/// Bins of a histogram by the number of threads, at most: [`crate::bucket`] has 176 for the four million
/// threads that Linux can have.
pub(crate) const THREAD_BUCKETS: usize = 256;
/// Bins of a histogram by length of time: a 64-bit length of time needs no more.
const TIME_BUCKETS: usize = 64;

fn put_threads(out: &mut Out, threads: impl Iterator<Item = ThreadRef> + Clone) {
    out.deltas(threads.clone().map(|thread| thread.process));
    out.deltas(threads.map(|thread| thread.thread));
}

fn threads(rows: usize, input: &mut In<'_>) -> Result<Vec<ThreadRef>, Malformed> {
    let process = input.deltas(rows)?;
    let thread = input.deltas(rows)?;
    Ok(zip_columns!(rows, ThreadRef { process, thread }))
}

/// Lengths, then the bins of all rows.
fn put_hists<'a>(out: &mut Out, hists: impl Iterator<Item = &'a ByThreads> + Clone, bins: usize) {
    out.values(hists.clone().map(|hist| hist.len().min(bins) as u64));
    for hist in hists {
        out.values(hist.iter().take(bins).copied());
    }
}

fn hists<T: From<Vec<u64>>>(
    rows: usize,
    input: &mut In<'_>,
    bins: usize,
) -> Result<Vec<T>, Malformed> {
    let lengths: Vec<u64> = input.values(rows)?;
    lengths
        .into_iter()
        .map(|length| match usize::try_from(length) {
            Ok(length) if length <= bins => input.values(length).map(T::from),
            _ => Err(Malformed::Number),
        })
        .collect()
}
