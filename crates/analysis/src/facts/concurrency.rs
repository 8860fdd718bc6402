//! Sums over histograms by number of threads ([`convoy_model::bucket`]).

use convoy_model::bucket_floor;

/// Number of threads and time, as the histogram has it: of a bucket with several numbers the least.
pub(crate) fn levels(histogram: &[u64]) -> impl Iterator<Item = (f64, f64)> + '_ {
    let level = |(at, &ns): (usize, &u64)| (bucket_floor(at) as f64, ns as f64);
    histogram.iter().enumerate().map(level)
}

fn between(histogram: &[u64], below: f64) -> impl Iterator<Item = (f64, f64)> + '_ {
    levels(histogram).filter(move |&(n, _)| n >= 1.0 && n < below)
}

/// Time at a level of at least one but fewer than `below` threads.
pub(crate) fn low(histogram: &[u64], below: f64) -> f64 {
    between(histogram, below).map(|(_, ns)| ns).sum()
}

/// The CMetric of activity at those levels: `dt / n`.
pub(crate) fn low_cm(histogram: &[u64], below: f64) -> f64 {
    between(histogram, below).map(|(n, ns)| ns / n).sum()
}

/// Time that processors are not used while some are, of so many that could be, if there are so many more to use them.
pub(crate) fn unused(histogram: &[u64], useful: f64, more: f64) -> f64 {
    let few = between(histogram, useful);
    few.map(|(n, ns)| ns * unused_at(n, useful, more)).sum()
}

/// The share of what could be used that is not, with so many at work.
pub(crate) fn unused_at(n: f64, useful: f64, more: f64) -> f64 {
    let could = (n + more).min(useful).max(n);
    if could > 0.0 {
        1.0 - n / could
    } else {
        0.0
    }
}

/// Time without any thread.
pub(crate) fn none(histogram: &[u64]) -> f64 {
    histogram.first().map_or(0.0, |&ns| ns as f64)
}

/// Time at low levels or without any thread.
pub(crate) fn low_or_none(histogram: &[u64], below: f64) -> f64 {
    none(histogram) + low(histogram, below)
}

/// What a wait at those levels is answerable for: like the CMetric of a thread that would have been active,
/// `dt / (n + 1)`.
pub(crate) fn answerable(histogram: &[u64], below: f64) -> f64 {
    let rest: f64 = between(histogram, below)
        .map(|(n, ns)| ns / (n + 1.0))
        .sum();
    none(histogram) + rest
}

/// Wall time that goes if waits do: at each level of fewer than `useful` working threads, those that waited would
/// have worked as well. `waits` is the thread time waited by level, `wall` the run by level.
pub(crate) fn freed(waits: &[u64], wall: &[u64], useful: f64) -> f64 {
    let at = |(level, time): (f64, f64), waited: f64| {
        // Somebody waited for so long at most, and so many at once then.
        let somebody = waited.min(time);
        let waiters = waited / somebody.max(1.0);
        somebody * unused_at(level, useful.max(1.0), waiters)
    };
    levels(wall)
        .zip(waits.iter().map(|&ns| ns as f64))
        .filter(|&((level, _), waited)| level < useful && waited > 0.0)
        .map(|(level, waited)| at(level, waited))
        .sum()
}

/// Adds one histogram to another.
pub(crate) fn add(sum: &mut Vec<u64>, histogram: &[u64]) {
    if sum.len() < histogram.len() {
        sum.resize(histogram.len(), 0);
    }
    for (sum, &ns) in sum.iter_mut().zip(histogram) {
        *sum = sum.saturating_add(ns);
    }
}

/// Time at `from` threads or more.
pub(crate) fn at_least(histogram: &[u64], from: f64) -> f64 {
    levels(histogram)
        .filter(|&(n, _)| n >= from)
        .map(|(_, ns)| ns)
        .sum()
}

/// Sum over all levels.
pub(crate) fn all(histogram: &[u64]) -> f64 {
    histogram.iter().map(|&ns| ns as f64).sum()
}

/// Thread time: each level times its threads.
pub(crate) fn thread_time(histogram: &[u64]) -> f64 {
    levels(histogram).map(|(n, ns)| n * ns).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_go_fill_up_to_what_is_useful() {
        // One works, three wait: with two processors the work of the piece takes half of it.
        assert_eq!(freed(&[0, 300], &[0, 100], 2.0), 50.0);
        // Nobody works, one waits: all of the piece goes.
        assert_eq!(freed(&[100], &[100], 2.0), 100.0);
        // As many work as can: nothing.
        assert_eq!(freed(&[0, 0, 500], &[0, 0, 100], 2.0), 0.0);
        // One works, one waits for a tenth of the piece.
        assert_eq!(freed(&[0, 10], &[0, 100], 2.0), 5.0);
    }

    #[test]
    fn who_is_not_there_uses_no_processor() {
        // One works: of eight processors another one could use one, and any number seven.
        assert_eq!(unused(&[50, 30], 8.0, 1.0), 15.0);
        assert_eq!(unused(&[50, 32], 8.0, f64::INFINITY), 28.0);
        assert_eq!(unused(&[50, 0, 30], 2.0, 2.0), 0.0);
    }

    #[test]
    fn sums_over_levels() {
        let h = [10, 20, 30, 40];
        assert_eq!(low(&h, 2.5), 50.0);
        assert_eq!(low_cm(&h, 2.5), 35.0);
        assert_eq!(low_or_none(&h, 2.0), 30.0);
        assert_eq!(answerable(&h, 2.5), 10.0 + 10.0 + 10.0);
        assert_eq!(at_least(&h, 2.0), 70.0);
        assert_eq!(thread_time(&h), 200.0);
        assert_eq!(low_or_none(&[], 9.0), 0.0);
    }
}
