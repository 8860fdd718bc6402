//! Life spans of threads, from and to in nanoseconds: while any of them lasts, and how many do at once.

/// Joins those that overlap, in order of time.
pub(crate) fn union(lives: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut sorted: Vec<(f64, f64)> = lives.collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut union: Vec<(f64, f64)> = Vec::new();
    for (a, b) in sorted {
        match union.last_mut() {
            Some(last) if a <= last.1 => last.1 = last.1.max(b),
            _ => union.push((a, b)),
        }
    }
    union
}

/// How long all these are together, if none overlaps.
pub(crate) fn length(apart: &[(f64, f64)]) -> f64 {
    apart.iter().map(|(a, b)| b - a).sum()
}

/// The share of a life that passed in another one; of none, 0.
pub(crate) fn share_within(life: (f64, f64), within: (f64, f64)) -> f64 {
    let shared = (life.1.min(within.1) - life.0.max(within.0)).max(0.0);
    match life.1 - life.0 {
        length if length > 0.0 => shared / length,
        _ => 0.0,
    }
}

/// How many last at the same time, at most.
pub(crate) fn most_at_once(lives: impl Iterator<Item = (f64, f64)>) -> usize {
    let mut edges: Vec<(f64, i32)> = lives.flat_map(|(a, b)| [(a, 1), (b, -1)]).collect();
    // Ends first: one that begins when another ends did not run beside it.
    edges.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut now = 0;
    edges
        .iter()
        .map(|(_, d)| {
            now += d;
            now
        })
        .max()
        .unwrap_or(0)
        .max(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_lives_are_one() {
        let lives = [(9.0, 10.0), (2.0, 3.0), (0.0, 5.0), (4.0, 8.0)];
        let joined = union(lives.into_iter());
        assert_eq!(joined, vec![(0.0, 8.0), (9.0, 10.0)]);
        assert_eq!(length(&joined), 9.0);
    }

    #[test]
    fn who_begins_when_another_ends_is_not_beside_it() {
        let lives = [(0.0, 5.0), (5.0, 8.0), (4.0, 6.0)];
        assert_eq!(most_at_once(lives.into_iter()), 2);
        assert_eq!(most_at_once(std::iter::empty()), 0);
    }
}
