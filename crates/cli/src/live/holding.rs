//! Locks that a focus names by `holding`: sets of addresses that the agent watches.

use std::path::Path;

use convoy_capture::HeldLocks;
use convoy_live::{Holding, Lock, LockReading, Notice, Role};

/// Sets of watched locks by the pattern that names them.
#[derive(Debug)]
pub struct Held {
    pid: u32,
    locks: HeldLocks,
    sets: Vec<Set>,
}

#[derive(Debug)]
struct Set {
    pattern: String,
    holding: Holding,
    /// It was told that some locks found no room.
    is_told: bool,
}

impl Held {
    /// In a process whose agent writes into this session directory.
    ///
    /// # Errors
    /// A text for people: what stands in the way.
    pub fn begin(dir: &Path, pid: u32) -> Result<Self, String> {
        Ok(Self {
            pid,
            locks: HeldLocks::open(dir, pid)?,
            sets: Vec::new(),
        })
    }

    /// The set of a pattern; `None` = there are too many.
    pub fn set(&mut self, pattern: &str) -> Option<Holding> {
        if let Some(set) = self.sets.iter().find(|set| set.pattern == pattern) {
            return Some(set.holding);
        }
        let holding = self.locks.begin_set()?;
        self.sets.push(Set {
            pattern: pattern.to_owned(),
            holding,
            is_told: false,
        });
        Some(holding)
    }

    /// The probes are in that ask for it: lets the agent watch.
    pub fn publish(&mut self) -> Result<(), Notice> {
        self.locks.publish().map_err(|error| Notice {
            found: format!("the agent's tables cannot be written: {error}"),
            effect: "what threads do while they hold locks is not counted".into(),
            is_fatal: false,
        })
    }

    /// Watches locks that are new.
    pub fn refresh(&mut self, reading: &LockReading) -> Vec<Notice> {
        let mut notices = Vec::new();
        for set in &mut self.sets {
            let is_meant = |lock: &&Lock| {
                let is_lock = lock.role == Role::Lock && lock.has_holder;
                lock.pid == self.pid && is_lock && lock.answers_to(&set.pattern)
            };
            let meant = reading.locks.iter().filter(is_meant);
            let refused = self
                .locks
                .watch(set.holding, meant.map(|lock| lock.address));
            if refused > 0 && !std::mem::replace(&mut set.is_told, true) {
                notices.push(Notice {
                    found: format!("{refused} of the locks {} cannot be watched", set.pattern),
                    effect: "what happens while only they are held is not counted".into(),
                    is_fatal: false,
                });
            }
        }
        notices
    }
}
