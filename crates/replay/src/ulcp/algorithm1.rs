//! Classification of a pair by its read and write sets (PerfPlay, CGO'15, Algorithm 1).

use super::{BenignOracle, Class, Order};
use crate::sets::{SampleIx, SectionSets};

/// The class of a pair of sections with these sets. Symmetric.
///
/// Algorithm 1 with C1, C2 the sections, Srd and Swr their read and write sets:
///
/// 1. Srd(Ci) and Swr(Ci) empty for one of the two: null-lock.
/// 2. Swr(C1) and Swr(C2) empty: read-read.
/// 3. Srd(C1) and Swr(C2), Swr(C1) and Srd(C2), Swr(C1) and Swr(C2) disjoint: disjoint-write.
/// 4. Otherwise they conflict: benign if the oracle says of every conflicting word that the order of the
///    two does not matter.
///
/// A set that is not complete can only show that a pair conflicts, never that it does not.
pub fn classify(
    sets: &SectionSets,
    oracle: &dyn BenignOracle,
    first: SampleIx,
    second: SampleIx,
) -> Class {
    let (Some(a), Some(b)) = (sets.sample(first), sets.sample(second)) else {
        return Class::Unknown;
    };
    let is_complete = a.complete && b.complete;
    let is_null = (a.complete && a.is_empty()) || (b.complete && b.is_empty());
    if is_null {
        return Class::NullLock;
    }
    let mut class = None;
    for (x, y) in a.conflicts(b) {
        match oracle.order(first, second, &x, &y) {
            Order::Matters => return Class::TrueContention,
            Order::Unknown => class = Some(Class::Undecided),
            Order::Irrelevant => class = class.or(Some(Class::Benign)),
        }
    }
    match class {
        Some(Class::Benign) if !is_complete => Class::Undecided,
        Some(class) => class,
        None if !is_complete => Class::Unknown,
        None if !a.writes() && !b.writes() => Class::ReadRead,
        None => Class::DisjointWrite,
    }
}
