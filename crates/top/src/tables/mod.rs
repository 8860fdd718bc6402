//! The tables: from two readings to rows.

pub mod groups;
pub mod objects;
pub mod threads;

use crate::grid::{Grid, Sort};
use crate::span::Span;

/// Which table is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Locks.
    Locks,
    /// Everything else that is waited for.
    Events,
    /// Threads.
    Threads,
    /// Thread groups.
    Groups,
}

impl Table {
    /// In order of their tabs.
    pub const ALL: [Self; 4] = [Self::Locks, Self::Events, Self::Threads, Self::Groups];

    /// On its tab.
    pub fn title(self) -> &'static str {
        match self {
            Self::Locks => "locks",
            Self::Events => "other waits",
            Self::Threads => "threads",
            Self::Groups => "thread groups",
        }
    }

    /// Its name in JSON.
    pub fn id(self) -> &'static str {
        match self {
            Self::Locks => "locks",
            Self::Events => "waits",
            Self::Threads => "threads",
            Self::Groups => "groups",
        }
    }

    /// What is in it.
    pub fn grid(self, span: Span<'_>) -> Grid {
        match self {
            Self::Locks => objects::grid(span, true),
            Self::Events => objects::grid(span, false),
            Self::Threads => threads::grid(span),
            Self::Groups => groups::grid(span),
        }
    }

    /// How it is sorted until told otherwise: by what goes on now, or by all if nothing is known of now.
    pub fn sort(self, live: bool) -> Sort {
        match (self, live) {
            (Self::Locks | Self::Events, true) => Sort::by(objects::NOW),
            (Self::Locks | Self::Events, false) => Sort::by(objects::ALL),
            (Self::Threads | Self::Groups, true) => Sort::by(threads::CPU_NOW),
            (Self::Threads | Self::Groups, false) => Sort::by(threads::CPU_ALL),
        }
    }

    /// The tab to the right or left.
    pub fn step(self, right: bool) -> Self {
        let n = Self::ALL.len();
        let at = Self::ALL.iter().position(|t| *t == self).unwrap_or(0);
        Self::ALL[(at + if right { 1 } else { n - 1 }) % n]
    }
}
