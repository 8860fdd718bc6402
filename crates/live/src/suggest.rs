//! Names near to one that does not exist.

/// Names that differ from `name` by few letters or that contain it, nearest first, at most `most`.
pub fn near<'a>(name: &str, all: impl Iterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    /// Longer names are not compared letter by letter.
    const LONGEST: usize = 128;
    let wanted: Vec<char> = name.to_lowercase().chars().take(LONGEST).collect();
    let few = (wanted.len() / 3).max(1);
    let part: String = wanted.iter().collect();
    let mut found: Vec<(usize, &str)> = Vec::new();
    for candidate in all {
        let lower = candidate.to_lowercase();
        let length = lower.chars().count();
        let mut rank = usize::MAX;
        if length <= LONGEST && length.abs_diff(wanted.len()) <= few {
            let letters: Vec<char> = lower.chars().collect();
            rank = distance(&wanted, &letters);
        }
        if rank > few && wanted.len() > 2 && lower.contains(&part) {
            rank = few + 1 + length - wanted.len();
        }
        if rank != usize::MAX && (rank <= few || lower.contains(&part)) {
            found.push((rank, candidate));
        }
    }
    found.sort_unstable();
    found.dedup();
    found.truncate(most);
    found.into_iter().map(|(_, name)| name).collect()
}

/// Letters to insert, delete, replace or swap with their neighbour (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(x != y)).min(last[j + 1].min(row[j]) + 1);
            if i > 0 && j > 0 && a[i - 1] == *y && b[j - 1] == *x {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_keyboard_come_first_and_longer_names_after() {
        let all = ["compress", "decompress", "compress_block", "expand"];
        let near = |name: &str| near(name, all.iter().copied(), 3);
        assert_eq!(near("comrpess"), ["compress"]);
        assert_eq!(
            near("Compress"),
            ["compress", "decompress", "compress_block"]
        );
        assert!(near("zzz").is_empty());
    }
}
