//! Asymmetric contention: locks of one kind, some of which take most of the waiting (SyncPerf
//! section 3.1: highest contention rate at least twice the lowest; a bad hash function or an
//! uneven partition).

use convoy_model::ObjectId;

use crate::params::Params;
use crate::tables::counters::{FamilyRow, LockStats};

/// Waits that a lock would have at the family's mean rate, below which its own rate is noise.
const EXPECTED_WAITS_MIN: f64 = 5.0;
/// One-sided normal quantile for "beyond chance"; with hundreds of locks, extremes of 3 sigma are common.
const SIGMAS: f64 = 4.0;

/// Fills the distribution fields of a family and decides whether it is asymmetric.
///
/// A lock is judged if the family's mean contention rate would give it enough waits to tell: 1 of
/// 30 against 2 of 30 is not a factor of two. The highest rate must exceed the lowest by the
/// threshold *and* by more than chance (difference of two Poisson counts).
pub(crate) fn judge(row: &mut FamilyRow, locks: &[(ObjectId, LockStats)], t: &Params) {
    let stats = &row.stats;
    let total_taken = stats.acquisitions as f64;
    if stats.contention_ratio.is_none() || total_taken == 0.0 {
        return;
    }
    let mean_rate = stats.contended as f64 / total_taken;
    let mut rates: Vec<(f64, f64)> = locks
        .iter()
        .filter(|(_, s)| s.acquisitions as f64 * mean_rate >= EXPECTED_WAITS_MIN)
        .map(|(_, s)| {
            (
                s.contended as f64 / s.acquisitions as f64,
                s.acquisitions as f64,
            )
        })
        .collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    row.judged = rates.len();
    if let (Some(first), Some(last)) = (rates.first(), rates.last()) {
        row.contention_min = first.0;
        row.contention_median = rates[rates.len() / 2].0;
        row.contention_max = last.0;
    }
    let tenth = locks.len().div_ceil(10);
    let mut taken: Vec<(u64, u64)> = locks
        .iter()
        .map(|(_, s)| (s.acquisitions, s.wait_ns))
        .collect();
    taken.sort_unstable_by(|a, b| b.cmp(a));
    let top = &taken[..tenth];
    row.top_tenth_acquisitions = top.iter().map(|x| x.0 as f64).sum::<f64>() / total_taken;
    if stats.wait_ns > 0 {
        row.top_tenth_waits = top.iter().map(|x| x.1 as f64).sum::<f64>() / stats.wait_ns as f64;
    }

    let skewed_rates = rates.len() >= 2 && {
        let (lo, hi) = (rates[0], rates[rates.len() - 1]);
        let spread = (hi.0 / hi.1 + lo.0.max(mean_rate / 4.0) / lo.1).sqrt();
        hi.0 >= t.asymmetry_ratio * lo.0 && hi.0 - lo.0 > SIGMAS * spread
    };
    // The extreme case leaves only one lock to judge: it takes (nearly) all acquisitions.
    let fair = tenth as f64 / locks.len() as f64;
    let skewed_use = locks.len() >= 4
        && row.top_tenth_acquisitions >= (t.asymmetry_ratio * fair).max(0.5)
        && row.top_tenth_waits >= (t.asymmetry_ratio * fair).max(0.5);
    row.asymmetric = (skewed_rates || skewed_use)
        && stats.contended >= t.asymmetry_min_waits
        && stats.waited_ratio >= t.waited_ratio;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(locks: &[(u64, u64)]) -> FamilyRow {
        let one = |(acquisitions, contended): (u64, u64)| LockStats {
            acquisitions,
            contended,
            contention_ratio: Some(contended as f64 / acquisitions as f64),
            wait_ns: contended * 1000,
            ..Default::default()
        };
        let rows: Vec<_> = locks
            .iter()
            .enumerate()
            .map(|(i, x)| (ObjectId(i as u32), one(*x)))
            .collect();
        let sum = locks.iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        let mut row = FamilyRow {
            stats: LockStats {
                waited_ratio: 0.2,
                ..one(sum)
            },
            ..Default::default()
        };
        judge(&mut row, &rows, &Params::default());
        row
    }

    #[test]
    fn one_of_thirty_against_two_of_thirty_is_no_asymmetry() {
        let row = family(&[(30, 1), (30, 2), (30, 1), (30, 2)]);
        assert_eq!(row.judged, 0);
        assert!(!row.asymmetric);
    }

    #[test]
    fn a_hot_bucket_is_asymmetric() {
        let row = family(&[(10_000, 3000), (10_000, 100), (10_000, 100), (10_000, 100)]);
        assert!(row.asymmetric);
        assert_eq!((row.contention_min, row.contention_max), (0.01, 0.3));
        assert_eq!(row.top_tenth_acquisitions, 0.25);
    }

    #[test]
    fn even_locks_with_many_waits_are_not() {
        assert!(!family(&[(10_000, 300), (10_000, 340), (10_000, 280), (10_000, 310)]).asymmetric);
    }

    #[test]
    fn all_keys_in_one_bucket_is_asymmetric_though_the_others_cannot_be_judged() {
        let row = family(&[(100_000, 20_000), (10, 0), (12, 0), (9, 0), (11, 0)]);
        assert_eq!(row.judged, 1);
        assert!(row.asymmetric);
    }
}
