//! Locks and other objects that are waited for, as the agent counts them.

use std::collections::{BTreeMap, HashMap};

use crate::glob;

/// Why threads wait for an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// A thread that has it keeps others out.
    #[default]
    Lock,
    /// A condition variable.
    Condition,
    /// A barrier, or the end of a parallel region.
    Barrier,
    /// A semaphore.
    Semaphore,
    /// Another object: a thread's end, a futex of a runtime.
    Other,
}

/// A lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    /// Its process.
    pub pid: u32,
    /// Its address there.
    pub address: u64,
    /// What it is: mutex, condition variable.
    pub kind: String,
    /// Why threads wait for it.
    pub role: Role,
    /// The agent sees which thread holds it.
    pub has_holder: bool,
    /// Its name.
    pub name: String,
    /// Where it was initialised and where it is acquired, as `file:line`.
    pub sites: Vec<String>,
}

impl Lock {
    /// Whether a pattern means it: its name, a word of it, its address, one of its sites.
    pub fn answers_to(&self, pattern: &str) -> bool {
        let address = pattern.strip_prefix("0x");
        if let Some(address) = address.and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
            return address == self.address;
        }
        let mut words = self.name.split(' ');
        glob::matches(pattern, &self.name)
            || words.any(|word| glob::matches(pattern, word))
            || self.sites.iter().any(|site| glob::matches(pattern, site))
    }
}

/// What one thread did to a lock since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockSums {
    /// Acquisitions.
    pub acquisitions: u64,
    /// Those that had to wait.
    pub contended: u64,
    /// Their waits, nanoseconds.
    pub wait_ns: u64,
    /// Holds that were timed.
    pub holds: u64,
    /// Their sum, nanoseconds.
    pub hold_ns: u64,
}

impl LockSums {
    /// What came since an earlier reading.
    pub fn since(self, before: Self) -> Self {
        Self {
            acquisitions: self.acquisitions.saturating_sub(before.acquisitions),
            contended: self.contended.saturating_sub(before.contended),
            wait_ns: self.wait_ns.saturating_sub(before.wait_ns),
            holds: self.holds.saturating_sub(before.holds),
            hold_ns: self.hold_ns.saturating_sub(before.hold_ns),
        }
    }

    /// Adds those of another thread or lock.
    pub fn add(&mut self, other: Self) {
        self.acquisitions = self.acquisitions.saturating_add(other.acquisitions);
        self.contended = self.contended.saturating_add(other.contended);
        self.wait_ns = self.wait_ns.saturating_add(other.wait_ns);
        self.holds = self.holds.saturating_add(other.holds);
        self.hold_ns = self.hold_ns.saturating_add(other.hold_ns);
    }
}

/// All locks at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockReading {
    /// The locks.
    pub locks: Vec<Lock>,
    /// Of which one, by which thread, what.
    pub uses: Vec<(usize, u32, LockSums)>,
}

/// Differences of two readings.
#[derive(Debug, Clone, Default)]
pub struct LockChanges {
    before: HashMap<(u32, u64, u32), LockSums>,
    has_one: bool,
    /// Whether there are two readings.
    pub is_known: bool,
    /// The later one, with what came since the earlier one.
    pub latest: LockReading,
}

impl LockChanges {
    /// Takes a reading. A thread may have several rows of a lock, one for each call site: after
    /// that it has one.
    pub fn update(&mut self, mut reading: LockReading) {
        self.is_known = std::mem::replace(&mut self.has_one, true);
        let mut sums: BTreeMap<(usize, u32), LockSums> = BTreeMap::new();
        for (lock, tid, row) in reading.uses.drain(..) {
            sums.entry((lock, tid)).or_default().add(row);
        }
        let mut now = HashMap::new();
        for ((ix, tid), sums) in sums {
            let Some(lock) = reading.locks.get(ix) else {
                continue;
            };
            let key = (lock.pid, lock.address, tid);
            let before = self.before.get(&key).copied().unwrap_or_default();
            reading.uses.push((ix, tid, sums.since(before)));
            now.insert(key, sums);
        }
        self.before = now;
        self.latest = reading;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(acquisitions: u64) -> LockReading {
        let lock = Lock {
            pid: 1,
            address: 0x40,
            kind: "mutex".into(),
            role: Role::Lock,
            has_holder: true,
            name: "mutex from cache_new() cache.c:88".into(),
            sites: vec!["cache.c:120".into()],
        };
        let sums = LockSums {
            acquisitions,
            ..LockSums::default()
        };
        LockReading {
            locks: vec![lock],
            uses: vec![(0, 7, sums)],
        }
    }

    #[test]
    fn a_lock_answers_to_its_name_its_sites_and_its_address() {
        let lock = &reading(0).locks[0];
        for name in [
            "cache.c:88",
            "cache.c:120",
            "0x40",
            "mutex from*",
            "cache_new()",
        ] {
            assert!(lock.answers_to(name), "{name}");
        }
        for name in ["cache.c:8", "0x41", "cache"] {
            assert!(!lock.answers_to(name), "{name}");
        }
    }

    #[test]
    fn what_goes_on_now_is_the_difference_of_two_readings() {
        let mut changes = LockChanges::default();
        changes.update(reading(100));
        assert!(!changes.is_known);
        changes.update(reading(130));
        assert!(changes.is_known);
        assert_eq!(changes.latest.uses[0].2.acquisitions, 30);
    }

    #[test]
    fn call_sites_of_a_thread_are_added_up_before_the_difference() {
        let at_two_sites = |first: u64, second: u64| {
            let mut all = reading(first);
            all.uses.push((0, 7, reading(second).uses[0].2));
            all
        };
        let mut changes = LockChanges::default();
        changes.update(at_two_sites(100, 50));
        changes.update(at_two_sites(110, 55));
        let grown: Vec<u64> = changes
            .latest
            .uses
            .iter()
            .map(|u| u.2.acquisitions)
            .collect();
        assert_eq!(grown, [15]);
    }
}
