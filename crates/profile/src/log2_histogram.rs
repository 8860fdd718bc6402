//! Histograms of lengths by powers of two, of which there are many with little in them.

use serde::{Deserialize, Serialize};

/// How many lengths are in each [2^i, 2^(i+1)). Only what is not empty takes memory: of a hundred thousand rows of waits most
/// have one or two, somewhere near 2^20 ns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log2Histogram(Vec<(u8, u64)>);

impl Log2Histogram {
    /// Counts one more length. 0 counts as 1.
    pub fn count(&mut self, length: u64) {
        let power = length.max(1).ilog2() as u8;
        match self.0.binary_search_by_key(&power, |(power, _)| *power) {
            Ok(at) => self.0[at].1 += 1,
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (power, 1));
            }
        }
    }

    /// How many there are in all.
    pub fn sum(&self) -> u64 {
        let counts = self.0.iter().map(|(_, n)| n);
        counts.fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// How many are in each, from [1, 2) up to the last that is not empty.
    pub fn each(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        let end = self.0.last().map_or(0, |(power, _)| power + 1);
        let mut held = self.0.iter().peekable();
        (0..end).map(move |power| {
            held.next_if(|held| held.0 == power)
                .map_or(0, |held| held.1)
        })
    }
}

/// Of how many are in each; at most 64 are looked at.
impl From<Vec<u64>> for Log2Histogram {
    fn from(each: Vec<u64>) -> Self {
        let held = (0..64).zip(each).filter(|(_, n)| *n > 0);
        Self(held.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::Log2Histogram;

    #[test]
    fn lengths_are_found_in_their_power_of_two() {
        let mut powers = Log2Histogram::default();
        for length in [0, 1, 9, 8, 15, u64::MAX] {
            powers.count(length);
        }
        let each: Vec<u64> = powers.each().collect();
        assert_eq!(each.len(), 64);
        assert_eq!((each[0], each[3], each[63]), (2, 3, 1));
        assert_eq!(powers.sum(), 6);
        assert_eq!(Log2Histogram::from(each), powers);
    }

    #[test]
    fn what_is_empty_is_not_held() {
        assert_eq!(
            Log2Histogram::from(vec![0, 0, 5, 0]),
            Log2Histogram(vec![(2, 5)])
        );
        assert_eq!(Log2Histogram::from(vec![0; 70]), Log2Histogram::default());
        assert_eq!(Log2Histogram::default().each().len(), 0);
    }
}
