//! Divides a whole number in proportion to weights, exactly (largest remainder).

/// Shares of `n` in proportion to `weights`; their sum is `n`. Equal shares where no weight says
/// anything, nothing for nobody.
pub(super) fn apportion(n: u64, weights: &[u64]) -> Vec<u64> {
    let total: u128 = weights.iter().map(|&w| u128::from(w)).sum();
    if total == 0 {
        return match weights.len() {
            0 => Vec::new(),
            len => apportion(n, &vec![1; len]),
        };
    }
    let mut rests = Vec::with_capacity(weights.len());
    let mut shares = Vec::with_capacity(weights.len());
    let mut left = n;
    for (at, &weight) in weights.iter().enumerate() {
        let exact = u128::from(n) * u128::from(weight);
        // At most `n`, as a weight is at most the total.
        let share = (exact / total) as u64;
        rests.push((exact % total, at));
        shares.push(share);
        left -= share;
    }
    rests.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    for &(_, at) in rests.iter().take(left as usize) {
        shares[at] += 1;
    }
    shares
}

/// Shares of `n` of which each gets at least its floor, and the rest goes by weight. Floors that do
/// not fit are cut in proportion.
pub(super) fn apportion_above(n: u64, floors: &[u64], weights: &[u64]) -> Vec<u64> {
    let floor_sum = floors
        .iter()
        .fold(0u64, |sum, &floor| sum.saturating_add(floor));
    let Some(rest) = n.checked_sub(floor_sum) else {
        return apportion(n, floors);
    };
    if rest == 0 {
        return floors.to_vec();
    }
    let above = apportion(rest, weights);
    floors
        .iter()
        .zip(above)
        .map(|(floor, above)| floor + above)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{apportion, apportion_above};

    #[test]
    fn shares_add_up() {
        assert_eq!(apportion(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(apportion(7, &[0, 5, 2]), [0, 5, 2]);
        assert_eq!(apportion(5, &[0, 0]), [3, 2]);
        assert_eq!(apportion(5, &[]), []);
        assert_eq!(apportion(0, &[3, 4]), [0, 0]);
        let shares = apportion(u64::MAX, &[u64::MAX, u64::MAX, 1]);
        assert_eq!(
            shares.iter().map(|&s| u128::from(s)).sum::<u128>(),
            u128::from(u64::MAX)
        );
    }

    #[test]
    fn nobody_gets_less_than_is_known_of_him() {
        assert_eq!(apportion_above(100, &[10, 0], &[0, 1]), [10, 90]);
        assert_eq!(apportion_above(100, &[10, 50], &[3, 1]), [40, 60]);
        assert_eq!(apportion_above(6, &[10, 5], &[1, 1]), [4, 2]);
        assert_eq!(apportion_above(15, &[10, 5], &[0, 0]), [10, 5]);
        assert_eq!(apportion_above(17, &[10, 5], &[0, 0]), [11, 6]);
    }
}
