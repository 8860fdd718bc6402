//! Sums by key.

/// Rows of one key become one, in order of their keys.
pub fn sum_by_key<K: Ord>(rows: &mut Vec<(K, u64)>) {
    rows.sort_unstable();
    rows.dedup_by(|later, sum| {
        let same = later.0 == sum.0;
        if same {
            sum.1 = sum.1.saturating_add(later.1);
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::sum_by_key;

    #[test]
    fn one_row_is_left_of_each_key() {
        let mut rows = vec![('b', 1), ('a', 2), ('b', u64::MAX), ('a', 3), ('c', 0)];
        sum_by_key(&mut rows);
        assert_eq!(rows, [('a', 5), ('b', u64::MAX), ('c', 0)]);
    }
}
