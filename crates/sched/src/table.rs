//! Rows found by their key, bounded in number.

use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A map whose hash is a multiplication per word: the keys are short, and every event looks some up.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Fold>>;

/// Multiplies and folds the product, as wyhash does.
#[derive(Debug, Default, Clone, Copy)]
pub struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(u64::from(b));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_i16(&mut self, word: i16) {
        self.write_u64(word as u64);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }
}

/// The row that somebody asked for last: most threads come back to the same places.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Last<K>(Option<(K, u32)>);

impl<K> Default for Last<K> {
    fn default() -> Self {
        Self(None)
    }
}

/// Rows by key. Beyond a limit new keys are folded into coarser ones, so that a recording of any length
/// stays in memory.
#[derive(Debug)]
pub(crate) struct Table<K, R> {
    index: Map<K, u32>,
    pub rows: Vec<R>,
    limit: usize,
    /// Times that a key was folded.
    pub folded: u64,
}

impl<K: Hash + Eq + Clone, R> Table<K, R> {
    pub fn new(limit: usize) -> Self {
        Self {
            index: Map::default(),
            rows: Vec::new(),
            limit,
            folded: 0,
        }
    }

    /// The row of `key`, or of the coarser key that `fold` makes of it where the table is full. There must be
    /// few of those: they are made whatever the limit.
    pub fn row(&mut self, key: K, fold: fn(&K) -> K, make: fn(&K) -> R) -> u32 {
        if self.rows.len() >= self.limit {
            if let Some(&row) = self.index.get(&key) {
                return row;
            }
            self.folded += 1;
            return self.make(fold(&key), make);
        }
        self.make(key, make)
    }

    /// As [`Self::row`], for somebody who asks for the same row again and again.
    pub fn row_again(
        &mut self,
        last: &mut Last<K>,
        key: K,
        fold: fn(&K) -> K,
        make: fn(&K) -> R,
    ) -> u32 {
        if let Some((_, row)) = last.0.as_ref().filter(|(known, _)| *known == key) {
            return *row;
        }
        let folded = self.folded;
        let row = self.row(key.clone(), fold, make);
        // Folded keys are counted every time.
        last.0 = (self.folded == folded).then_some((key, row));
        row
    }

    fn make(&mut self, key: K, make: fn(&K) -> R) -> u32 {
        match self.index.entry(key) {
            Entry::Occupied(row) => *row.get(),
            Entry::Vacant(place) => {
                let row = self.rows.len() as u32;
                self.rows.push(make(place.key()));
                place.insert(row);
                row
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Last, Table};

    #[test]
    fn a_full_table_folds_new_keys_and_keeps_old_ones() {
        let mut t: Table<u32, u32> = Table::new(3);
        let mut row = |key| t.row(key, |k| k % 2 + 1000, |&k| k);
        assert_eq!([row(1), row(2), row(3), row(2)], [0, 1, 2, 1]);
        assert_eq!([row(4), row(5), row(7), row(6), row(3)], [3, 4, 4, 3, 2]);
        assert_eq!(t.rows, [1, 2, 3, 1000, 1001]);
        assert_eq!(t.folded, 4);

        let mut last = Last::default();
        let mut again = |key| t.row_again(&mut last, key, |k| k % 2 + 1000, |&k| k);
        assert_eq!(
            [again(3), again(3), again(8), again(8), again(2)],
            [2, 2, 3, 3, 1]
        );
        assert_eq!(t.folded, 6);
    }
}
