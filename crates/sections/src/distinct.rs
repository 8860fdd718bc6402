//! How many distinct words there are, and a fair sample of them, in little memory: those with the smallest hash
//! values (Bar-Yossef et al., "Counting distinct elements in a data stream", 2002).

use std::collections::BTreeSet;

use crate::random::mix;

/// Values kept: the count is exact below, and has a standard error of 1/sqrt(KEPT) = 4.4 % from there.
pub(crate) const KEPT: usize = 512;

/// A set of words, told approximately when large.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    smallest: BTreeSet<(u64, u64)>,
    /// No greater hash is of interest any more.
    limit: Option<u64>,
}

impl Distinct {
    pub(crate) fn add(&mut self, word: u64) {
        let hash = mix(word);
        if self.limit.is_some_and(|limit| hash >= limit) {
            return;
        }
        if self.smallest.insert((hash, word)) && self.smallest.len() > KEPT {
            self.smallest.pop_last();
            self.limit = self.smallest.last().map(|&(hash, _)| hash);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        let kept = self.smallest.len();
        match self.limit {
            Some(limit) => ((kept as f64 - 1.0) / (limit as f64 / u64::MAX as f64)).round() as u64,
            None => kept as u64,
        }
    }

    /// All of them or a fair sample.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.smallest.iter().map(|&(_, word)| word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_sets_are_exact_and_large_ones_near() {
        let mut set = Distinct::default();
        for word in (0..400).chain(0..400) {
            set.add(word);
        }
        assert_eq!((set.count(), set.words().count()), (400, 400));
        for word in 0..100_000 {
            set.add(word);
        }
        let error = set.count() as f64 / 100_000.0 - 1.0;
        assert!(error.abs() < 0.15, "{error}");
        let low = set.words().filter(|&word| word < 50_000).count();
        assert!((180..330).contains(&low), "{low}");
    }
}
