//! Random numbers: the same ones for the same input.

/// A xorshift generator (Marsaglia, 2003).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The high part of a product: no division.
        ((u128::from(self.0) * u128::from(n)) >> 64) as u64
    }
}

/// Where to keep the `seen`-th item (from 1) in a uniform sample of `room` (Vitter's algorithm R); `None` = nowhere.
pub(crate) fn place(random: &mut Random, seen: u64, kept: usize, room: usize) -> Option<usize> {
    if kept < room && kept as u64 == seen - 1 {
        return Some(kept);
    }
    let at = random.below(seen);
    (at < room.min(kept) as u64).then_some(at as usize)
}

/// Spreads the bits of an address over a word (the finalizer of MurmurHash3).
pub(crate) fn mix(mut key: u64) -> u64 {
    key ^= key >> 33;
    key = key.wrapping_mul(0xff51_afd7_ed55_8ccd);
    key ^= key >> 33;
    key = key.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ (key >> 33)
}
