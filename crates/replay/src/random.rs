//! Seeded hashing: choices that are random, and the same in every analysis of one recording.

/// A well-mixed number of a seed and an index (SplitMix64; Steele, Lea, Flood, OOPSLA'14).
pub(crate) fn mix(seed: u64, ix: u64) -> u64 {
    let mut z = seed.wrapping_add(ix.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number below `limit`, evenly distributed if `mixed` is; 0 of a limit of 0.
pub(crate) fn below(mixed: u64, limit: u64) -> u64 {
    ((u128::from(mixed) * u128::from(limit)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_below_a_limit_are_even() {
        let mut counts = [0; 4];
        for ix in 0..4000 {
            counts[below(mix(7, ix), 4) as usize] += 1;
        }
        assert!(counts.iter().all(|n| (900..1100).contains(n)), "{counts:?}");
        assert_eq!(below(u64::MAX, 0), 0);
    }
}
