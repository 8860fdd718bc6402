//! Whether the order of two conflicting accesses matters.
//!
//! PerfPlay replays both orders of a pair and compares the results. Whoever can do that implements
//! [`BenignOracle`]; without it, [`StaticRules`] decide what the kind of the accesses alone tells.

use crate::sets::{Access, SampleIx, Update};

/// Whether the order of two accesses of a word matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Either order leaves the same value, and nobody reads another one.
    Irrelevant,
    /// It changes the result.
    Matters,
    /// Not known.
    Unknown,
}

/// Decides whether the order of two sections matters for a word on which they conflict.
pub trait BenignOracle {
    /// `a` is the access by the sampled section `first`, `b` that by `second`, to one word; one of the two
    /// writes.
    fn order(&self, first: SampleIx, second: SampleIx, a: &Access, b: &Access) -> Order;
}

/// Decides by the kind of the accesses: additions commute, changes of different bits commute, a store of
/// the same value twice and a store of the value that is there already change nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct StaticRules;

impl BenignOracle for StaticRules {
    fn order(&self, _: SampleIx, _: SampleIx, a: &Access, b: &Access) -> Order {
        use Update::{Add, Bits, Rewrite, Store};
        match (a.written, b.written) {
            (true, true) => match (a.update, b.update) {
                (Add, Add) | (Rewrite, Rewrite) => Order::Irrelevant,
                (Bits(x), Bits(y)) if x & y == 0 => Order::Irrelevant,
                (Store(x), Store(y)) if x == y => Order::Irrelevant,
                (Store(_), Store(_) | Add) | (Add, Store(_)) => Order::Matters,
                _ => Order::Unknown,
            },
            (true, false) if a.update == Rewrite => Order::Irrelevant,
            (false, true) if b.update == Rewrite => Order::Irrelevant,
            // What the reader does with the value is not known.
            _ => Order::Unknown,
        }
    }
}
