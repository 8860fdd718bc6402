//! Memory of which some bytes are known.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Stop;

/// Eight aligned bytes and which of them are known.
#[derive(Debug, Clone, Copy, Default)]
struct Word {
    value: u64,
    known: u8,
}

/// Known bytes, and the words that were stored to.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    words: FxHashMap<u64, Word>,
    stored: FxHashSet<u64>,
}

impl Memory {
    /// Makes bytes of an aligned word known; those known already stay.
    pub(super) fn assume(&mut self, address: u64, value: u64, known: u8) {
        let word = self.words.entry(address & !7).or_default();
        let new = bits(known & !word.known);
        word.value = (word.value & !new) | (value & new);
        word.known |= known;
    }

    /// Loads up to 8 bytes.
    pub(super) fn load(&self, address: u64, size: usize) -> Result<u64, Stop> {
        let mut value = 0;
        for at in 0..size.min(8) {
            let byte = address.wrapping_add(at as u64);
            let word = self.words.get(&(byte & !7)).ok_or(Stop::UnknownValue)?;
            let lane = byte & 7;
            if word.known >> lane & 1 == 0 {
                return Err(Stop::UnknownValue);
            }
            value |= (word.value >> (lane * 8) & 0xff) << (at * 8);
        }
        Ok(value)
    }

    /// Stores up to 8 bytes.
    pub(super) fn store(&mut self, address: u64, size: usize, value: u64) {
        for at in 0..size.min(8) {
            let byte = address.wrapping_add(at as u64);
            let lane = byte & 7;
            let word = self.words.entry(byte & !7).or_default();
            let mask = 0xff << (lane * 8);
            word.value = (word.value & !mask) | (value >> (at * 8) & 0xff) << (lane * 8);
            word.known |= 1 << lane;
            self.stored.insert(byte & !7);
        }
    }

    /// Whether both hold the same in all words that one of them was stored to, but for words that
    /// are dead.
    pub(super) fn is_same(
        &self,
        other: &Self,
        is_dead: impl Fn(u64) -> bool,
    ) -> Result<bool, Stop> {
        let mut is_known = true;
        let stored = self.stored.union(&other.stored);
        for word in stored.filter(|word| !is_dead(**word)) {
            let a = self.words.get(word).copied().unwrap_or_default();
            let b = other.words.get(word).copied().unwrap_or_default();
            if (a.value ^ b.value) & bits(a.known & b.known) != 0 {
                return Ok(false);
            }
            // Stored to in one order only, over bytes that nobody has seen.
            is_known &= a.known == b.known;
        }
        is_known.then_some(true).ok_or(Stop::UnknownValue)
    }
}

/// The bits of the bytes of a set.
fn bits(bytes: u8) -> u64 {
    (0..8u32)
        .filter(|at| bytes >> at & 1 != 0)
        .fold(0, |mask, at| mask | 0xff << (at * 8))
}
