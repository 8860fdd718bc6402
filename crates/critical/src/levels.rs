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
