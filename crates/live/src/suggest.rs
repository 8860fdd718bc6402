//! Names near to one that does not exist.

/// Names that differ from `name` by few letters or that contain it, nearest first, at most `most`.
pub fn near<'a>(name: &str, all: impl Iterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    /// Longer names are not compared letter by letter.
    const LONGEST: usize = 128;
    let wanted: String = name.to_lowercase().chars().take(LONGEST).collect();
    let letters = wanted.chars().count();
    let few = (letters / 3).max(1);
    let mut found: Vec<(usize, &str)> = Vec::new();
    for candidate in all {
        let lower = candidate.to_lowercase();
        let length = lower.chars().count();
        let mut rank = usize::MAX;
        if length <= LONGEST && length.abs_diff(letters) <= few {
            rank = strsim::osa_distance(&wanted, &lower);
        }
        if rank > few && letters > 2 && lower.contains(&wanted) {
            rank = few + 1 + length - letters;
        }
        if rank != usize::MAX && (rank <= few || lower.contains(&wanted)) {
            found.push((rank, candidate));
        }
    }
    found.sort_unstable();
    found.dedup();
    found.truncate(most);
    found.into_iter().map(|(_, name)| name).collect()
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
