//! A logarithmic histogram of waits.

/// Buckets of a power of two; a value is known within a sixteenth.
const PARTS: u32 = 8;
const PART_BITS: u32 = PARTS.trailing_zeros();
const BUCKETS: usize = ((65 - PART_BITS) * PARTS) as usize;

/// Counts of durations, nanoseconds, in buckets an eighth of a power of two wide.
#[derive(Clone, PartialEq, Eq)]
pub struct WaitHistogram {
    counts: Vec<u32>,
    count: u64,
}

impl std::fmt::Debug for WaitHistogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitHistogram")
            .field("count", &self.count)
            .field("p50_ns", &self.quantile_ns(0.5))
            .finish()
    }
}

impl Default for WaitHistogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            count: 0,
        }
    }
}

impl WaitHistogram {
    /// Adds a duration.
    pub fn add(&mut self, ns: u64) {
        let bucket = bucket_of(ns);
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
        self.count += 1;
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count += other.count;
    }

    /// Durations added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The duration that this share (0..1) of those added did not exceed: the middle of its bucket.
    /// 0 if there are none.
    pub fn quantile_ns(&self, share: f64) -> f64 {
        let rank = (share.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            below += u64::from(count);
            if below >= rank {
                return middle_of(bucket);
            }
        }
        0.0
    }
}

fn bucket_of(ns: u64) -> usize {
    if ns < u64::from(PARTS) {
        return ns as usize;
    }
    let power = ns.ilog2() - PART_BITS;
    let part = (ns >> power) as u32 - PARTS;
    ((power + 1) * PARTS + part) as usize
}

fn middle_of(bucket: usize) -> f64 {
    let bucket = bucket as u32;
    if bucket < PARTS {
        return f64::from(bucket);
    }
    let power = bucket / PARTS - 1;
    let low = f64::from(PARTS + bucket % PARTS);
    (low + 0.5) * 2f64.powi(power as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_within_a_sixteenth() {
        for ns in (0..40).map(|power| 3u64.pow(power)).filter(|ns| *ns > 8) {
            let middle = middle_of(bucket_of(ns));
            assert!(
                (middle / ns as f64 - 1.0).abs() <= 1.0 / 16.0,
                "{ns} became {middle}"
            );
        }
        assert_eq!(middle_of(bucket_of(5)), 5.0);
        assert!(bucket_of(u64::MAX) < BUCKETS);
    }

    #[test]
    fn quantiles_follow_what_was_added() {
        let mut waits = WaitHistogram::default();
        assert_eq!(waits.quantile_ns(0.5), 0.0);
        for ns in 1..=1000 {
            waits.add(ns);
        }
        for share in [0.5, 0.9, 0.99] {
            let found = waits.quantile_ns(share);
            assert!(
                (found / (share * 1000.0) - 1.0).abs() < 0.07,
                "{share}: {found}"
            );
        }
        let mut more = WaitHistogram::default();
        more.add(1 << 40);
        waits.merge(&more);
        assert_eq!(waits.count(), 1001);
        assert!(waits.quantile_ns(1.0) > 1e12);
    }
}
