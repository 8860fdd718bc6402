//! Time by the number of threads.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Nanoseconds by the number of threads: by [`bucket`](crate::bucket), from 0 to the last one that is not zero.
///
/// A program may have a hundred thousand rows with one, of which most know few of the heights that the number of threads
/// has been at. So zeroes at both ends take no room, and rows in which all active threads work share theirs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
pub struct ByThreads {
    first: usize,
    ns: Arc<[u64]>,
}

impl ByThreads {
    /// Number of buckets, up to the last one that is not zero.
    pub fn len(&self) -> usize {
        match self.ns.len() {
            0 => 0,
            used => self.first + used,
        }
    }

    /// Whether there is no time at all.
    pub fn is_empty(&self) -> bool {
        self.ns.is_empty()
    }

    /// Buckets and their time (ns), from the first one that is not zero to the last.
    pub fn bins(&self) -> impl Iterator<Item = (usize, u64)> + Clone + '_ {
        (self.first..).zip(self.ns.iter().copied())
    }

    /// The time (ns) of every bucket, from 0 on.
    pub fn iter(&self) -> impl Iterator<Item = u64> + Clone + '_ {
        let cut = self.len() - self.ns.len();
        std::iter::repeat_n(0, cut).chain(self.ns.iter().copied())
    }
}

impl From<&[u64]> for ByThreads {
    fn from(all: &[u64]) -> Self {
        let used = |ns: &u64| *ns != 0;
        let Some(first) = all.iter().position(used) else {
            return Self::default();
        };
        let end = all.iter().rposition(used).map_or(first, |last| last + 1);
        Self {
            first,
            ns: all[first..end].into(),
        }
    }
}

impl From<Vec<u64>> for ByThreads {
    fn from(all: Vec<u64>) -> Self {
        all.as_slice().into()
    }
}

impl<const N: usize> From<[u64; N]> for ByThreads {
    fn from(all: [u64; N]) -> Self {
        all.as_slice().into()
    }
}

impl FromIterator<u64> for ByThreads {
    fn from_iter<I: IntoIterator<Item = u64>>(all: I) -> Self {
        Vec::from_iter(all).into()
    }
}

impl From<ByThreads> for Vec<u64> {
    fn from(histogram: ByThreads) -> Self {
        histogram.iter().collect()
    }
}

impl<const N: usize> PartialEq<[u64; N]> for ByThreads {
    fn eq(&self, all: &[u64; N]) -> bool {
        self.iter().eq(all.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::ByThreads;

    #[test]
    fn zeroes_at_both_ends_are_cut_and_come_back() {
        let all = [0, 0, 7, 0, 5];
        let cut = ByThreads::from([0, 0, 7, 0, 5, 0]);
        assert_eq!(cut, all);
        assert_eq!(cut.ns.len(), 3);
        assert_eq!(cut.len(), 5);
        assert_eq!(Vec::from(cut.clone()), all);
        assert!(cut.bins().eq([(2, 7), (3, 0), (4, 5)]));
        assert_eq!(cut, ByThreads::from_iter(all));
    }

    #[test]
    fn nothing_but_zeroes_is_nothing() {
        let none = ByThreads::from([0, 0]);
        assert!(none.is_empty() && none == ByThreads::default() && none.iter().next().is_none());
        assert_eq!(none.len(), 0);
    }
}
