//! What-ifs: a program as it would be with another lock, other sections, other threads or CPUs.
//!
//! docs/replay.md describes the query language; [`parse`] reads it, [`apply()`] changes the program. What-ifs
//! combine: they are applied from left to right, and those after a sharding hold for all shards.

mod apply;
mod balance;
mod describe;
mod locks;
mod names;
mod parse;
mod permits;
mod sections;
mod shards;
#[cfg(test)]
mod tests;
mod threads;

pub use apply::{apply, Applied, Knowledge, Note, Refusal};
pub use names::{quoted, NameError, Names};
pub use parse::{parse, ParseError};

use crate::program::{BarrierIx, LockIx, SemIx, ThreadIx};

/// A change of the program.
#[derive(Debug, Clone, PartialEq)]
pub enum WhatIf {
    /// The lock excludes nobody; its sections run in parallel.
    Remove(Target),
    /// The lock and the work of its sections are gone.
    RemoveSections(Target),
    /// The lock is divided.
    Shard {
        /// Which.
        target: Target,
        /// Into so many.
        ways: u32,
    },
    /// Sections that only read take the lock shared.
    RwLock(Target),
    /// Sections hold the lock for less time.
    ShortenHold {
        /// Which lock.
        target: Target,
        /// By this share of their work, 0..1.
        share: f64,
    },
    /// Threads do less between two sections of the lock.
    ShortenGap {
        /// Which lock.
        target: Target,
        /// By this share of the work, 0..1.
        share: f64,
    },
    /// Waiters spin before they park.
    Adaptive {
        /// Which lock.
        target: Target,
        /// For so many nanoseconds; `None` = for as long as parking and waking up takes.
        spin_ns: Option<f32>,
    },
    /// Waiters spin and never park.
    Spin(Target),
    /// Each section becomes one atomic instruction.
    Atomic(Target),
    /// Tries become blocking acquires.
    Blocking(Target),
    /// A thread does the work of several sections in one.
    Batch {
        /// Which lock.
        target: Target,
        /// So many.
        size: u32,
    },
    /// Threads that meet at a barrier share the work before it evenly.
    Balance(Barriers),
    /// A semaphore hands out another number of permits.
    Permits {
        /// Which.
        target: Semaphores,
        /// So many, those that are out included.
        count: u32,
    },
    /// The machine has so many CPUs.
    Cpus(u32),
    /// A group has so many threads, which share the same work.
    Threads {
        /// Which group.
        group: Group,
        /// So many.
        count: u32,
    },
}

/// Locks of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// As resolved.
    pub name: String,
    /// Those that have it.
    pub locks: Vec<LockIx>,
}

/// Barriers of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Barriers {
    /// As resolved.
    pub name: String,
    /// Those that have it.
    pub barriers: Vec<BarrierIx>,
}

/// Semaphores of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Semaphores {
    /// As resolved.
    pub name: String,
    /// Those that have it.
    pub semaphores: Vec<SemIx>,
}

/// Threads of one group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// As resolved.
    pub name: String,
    /// Its threads.
    pub threads: Vec<ThreadIx>,
}
