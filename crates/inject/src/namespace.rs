//! Numbers of threads in PID namespaces: a process in a container knows its threads by others than
//! those that they have here.

use std::collections::{BTreeSet, HashMap};
use std::fs;

/// What threads of a process know themselves by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnNumbers {
    pid: u32,
    is_below: bool,
}

impl OwnNumbers {
    /// Of a process.
    pub fn of(pid: u32) -> Self {
        let is_below = is_below(pid);
        Self { pid, is_below }
    }

    /// Of a thread; the number here where that cannot be read.
    pub fn of_thread(self, tid: u32) -> u32 {
        if !self.is_below {
            return tid;
        }
        let status = fs::read_to_string(format!("/proc/{}/task/{tid}/status", self.pid));
        innermost(&status.unwrap_or_default()).unwrap_or(tid)
    }
}

/// Whether a process has a PID namespace of its own: below ours.
fn is_below(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    numbers(&status).count() > 1
}

/// Numbers of threads here, by those that they know themselves by.
#[derive(Debug, Clone)]
pub struct Numbers {
    own: OwnNumbers,
    here: HashMap<u32, u32>,
    known: BTreeSet<u32>,
}

impl Numbers {
    /// Of the threads of a process.
    pub fn of(pid: u32) -> Self {
        Self {
            own: OwnNumbers::of(pid),
            here: HashMap::new(),
            known: BTreeSet::new(),
        }
    }

    /// Whether the process knows its threads by other numbers than those here.
    pub const fn differ(&self) -> bool {
        self.own.is_below
    }

    /// Looks at threads that are new. Those that have ended keep their numbers until another one
    /// has them.
    pub fn look(&mut self, alive: &BTreeSet<u32>) {
        if !self.own.is_below {
            return;
        }
        for tid in alive.difference(&self.known) {
            self.here.insert(self.own.of_thread(*tid), *tid);
        }
        self.known.clone_from(alive);
    }

    /// All that were looked at: the number inside, and the one here.
    pub fn known(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.here.iter().map(|(inside, here)| (*inside, *here))
    }

    /// The number here; 0 for a thread that ended before it was looked at.
    pub fn here(&self, inside: u32) -> u32 {
        match self.own.is_below {
            true => self.here.get(&inside).copied().unwrap_or(0),
            false => inside,
        }
    }
}

fn innermost(status: &str) -> Option<u32> {
    numbers(status).last()
}

/// Of /proc/TID/status: the numbers from our namespace to the innermost one.
fn numbers(status: &str) -> impl Iterator<Item = u32> + '_ {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let words = line.unwrap_or_default().split_ascii_whitespace();
    words.filter_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_number_is_the_threads_own() {
        assert_eq!(innermost("Name:\tx\nNSpid:\t4711\t12\t1\n"), Some(1));
        assert_eq!(innermost("Name:\tx\n"), None);
        assert!(!is_below(std::process::id()));
    }

    #[test]
    fn without_a_namespace_numbers_are_the_same() {
        let numbers = Numbers::of(std::process::id());
        assert_eq!(numbers.here(7), 7);
    }

    #[test]
    fn a_thread_that_nobody_looked_at_is_no_other_one() {
        let mut numbers = Numbers::of(std::process::id());
        numbers.own.is_below = true;
        numbers.here.insert(1, 4711);
        assert_eq!((numbers.here(1), numbers.here(2)), (4711, 0));
    }
}
