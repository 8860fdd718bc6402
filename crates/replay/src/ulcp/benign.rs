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

/// Decides by the kind of the accesses: additions commute, as do changes of different bits, setting bits
/// with setting, clearing with clearing; a store of the same value twice and a store of the value that is
/// there already change nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct StaticRules;

impl BenignOracle for StaticRules {
    fn order(&self, _: SampleIx, _: SampleIx, a: &Access, b: &Access) -> Order {
        match (a.written, b.written) {
            (true, true) => order_of_updates(a.update, b.update),
            (true, false) if a.update == Update::Rewrite => Order::Irrelevant,
            (false, true) if b.update == Update::Rewrite => Order::Irrelevant,
            // What the reader does with the value is not known.
            _ => Order::Unknown,
        }
    }
}

fn order_of_updates(a: Update, b: Update) -> Order {
    use Update::{Add, ClearBits, Rewrite, SetBits, Store};
    match (a, b) {
        (Add, Add) | (Rewrite, Rewrite) => Order::Irrelevant,
        (SetBits(_), SetBits(_)) | (ClearBits(_), ClearBits(_)) => Order::Irrelevant,
        (SetBits(x), ClearBits(y)) | (ClearBits(x), SetBits(y)) if x & y == 0 => Order::Irrelevant,
        (Store { value: v, mask: x }, Store { value: w, mask: y }) => match x & y {
            0 => Order::Irrelevant,
            common if v & common == w & common => Order::Irrelevant,
            _ => Order::Matters,
        },
        (Store { mask, .. }, SetBits(bits) | ClearBits(bits))
        | (SetBits(bits) | ClearBits(bits), Store { mask, .. })
            if mask & bits == 0 =>
        {
            Order::Irrelevant
        }
        _ => Order::Unknown,
    }
}
