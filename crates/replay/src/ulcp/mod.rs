//! Unnecessary lock contention pairs (ULCPs; PerfPlay, CGO'15, section 3): pairs of critical sections of two
//! threads that one lock keeps apart although their data do not ask for it.
//!
//! A pair is a section and, in each other thread, the next section of the same lock. Counts are thus linear
//! in the number of sections. A pair costs time only if its second section had to wait for the first; both
//! kinds are counted, apart.

mod algorithm1;
pub mod benign;
mod both_orders;
mod classifier;
mod counts;
mod pairs;
mod share;
#[cfg(test)]
mod tests;

pub use algorithm1::classify;
pub use benign::{BenignOracle, Order, StaticRules};
pub use both_orders::{BothOrders, Tried};
pub use classifier::Classifier;
pub use counts::{count, LockRow, PairCounts, SitePairRow, UlcpCounts};
pub use pairs::{for_each_pair, is_contended, Member, MAX_PEERS};
pub use share::Share;

/// What a pair of sections of one lock is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// The sets of one of the two are not known.
    #[default]
    Unknown,
    /// One of the two touches no shared data.
    NullLock,
    /// Both only read.
    ReadRead,
    /// No word that one of the two writes is touched by the other.
    DisjointWrite,
    /// They conflict, but their order changes nothing.
    Benign,
    /// They conflict, and whether their order matters was not tested. Treated as true contention.
    Undecided,
    /// They conflict, and their order matters.
    TrueContention,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Unknown,
        Self::NullLock,
        Self::ReadRead,
        Self::DisjointWrite,
        Self::Benign,
        Self::Undecided,
        Self::TrueContention,
    ];

    /// Whether the lock keeps the two apart for nothing.
    pub fn is_unnecessary(self) -> bool {
        use Class::{Benign, DisjointWrite, NullLock, ReadRead};
        matches!(self, NullLock | ReadRead | DisjointWrite | Benign)
    }

    /// What to do about pairs of the class, as an imperative; `None` = they need their lock.
    pub fn fix(self) -> Option<&'static str> {
        match self {
            Self::NullLock => Some("Test whether there is anything to do before taking the lock."),
            Self::ReadRead => Some("Take the lock shared for reading, or read a copy."),
            Self::DisjointWrite => Some("Give each part of the data its own lock."),
            Self::Benign => Some("Use an atomic operation, or one value per thread."),
            Self::Unknown | Self::Undecided | Self::TrueContention => None,
        }
    }
}
