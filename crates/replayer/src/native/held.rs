//! Locks that a thread holds at a place of its program.

use convoy_replay::program::LockIx;

/// A lock that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    pub lock: LockIx,
    pub shared: bool,
    /// Acquisitions that were not released yet.
    depth: u32,
}

/// The locks of one thread, in the order in which it acquired them.
#[derive(Debug, Clone, Default)]
pub(super) struct Held(Vec<Hold>);

impl Held {
    /// True if the lock was not held before.
    pub fn acquire(&mut self, lock: LockIx, shared: bool) -> bool {
        if let Some(hold) = self.0.iter_mut().find(|hold| hold.lock == lock) {
            hold.depth += 1;
            return false;
        }
        self.0.push(Hold {
            lock,
            shared,
            depth: 1,
        });
        true
    }

    /// What a release does.
    pub fn release(&mut self, lock: LockIx) -> Released {
        let Some(at) = self.0.iter().rposition(|hold| hold.lock == lock) else {
            return Released::NotHeld;
        };
        let hold = &mut self.0[at];
        hold.depth -= 1;
        if hold.depth > 0 {
            return Released::Inner;
        }
        Released::Fully(self.0.remove(at))
    }

    pub fn get(&self, lock: LockIx) -> Option<Hold> {
        self.0.iter().copied().find(|hold| hold.lock == lock)
    }

    pub fn locks(&self) -> impl DoubleEndedIterator<Item = Hold> + '_ {
        self.0.iter().copied()
    }
}

/// Effect of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Released {
    /// The lock is free.
    Fully(Hold),
    /// It was acquired more than once.
    Inner,
    /// The thread did not hold it.
    NotHeld,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_acquired_twice_is_free_after_two_releases() {
        let mut held = Held::default();
        assert!(held.acquire(1, false));
        assert!(held.acquire(2, true));
        assert!(!held.acquire(1, false));
        assert_eq!(held.release(1), Released::Inner);
        assert!(matches!(held.release(1), Released::Fully(hold) if hold.lock == 1));
        assert_eq!(held.release(1), Released::NotHeld);
        assert_eq!(held.locks().map(|hold| hold.lock).collect::<Vec<_>>(), [2]);
        assert!(held.get(2).is_some_and(|hold| hold.shared));
    }
}
