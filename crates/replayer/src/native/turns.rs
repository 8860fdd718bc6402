//! From an enforced order to turns: the numbers of each thread's operations in the order.

use std::vec;

use convoy_replay::program::{LockIx, Op, ThreadIx};
use rustc_hash::FxHashMap;

use super::outcome::NativeError;
use super::plan::NO_TURN;
use super::Schedule;

/// What counts turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Gates {
    /// Nothing: the order is free.
    #[default]
    None,
    /// Each lock those of its acquisitions.
    ByLock,
    /// One those of all operations that the order is of.
    One,
}

/// Turns that are not given out yet.
#[derive(Debug)]
pub(super) enum Turns {
    Free,
    /// Of each thread's acquisitions of each lock, in order.
    ByLock(FxHashMap<(LockIx, ThreadIx), vec::IntoIter<u32>>),
    /// Of each thread's operations, in order.
    Total(Vec<vec::IntoIter<u32>>),
}

impl Turns {
    /// `threads`: of the program.
    pub fn new(schedule: &Schedule, threads: usize) -> Self {
        match schedule {
            Schedule::Free => Self::Free,
            Schedule::Recorded(orders) => {
                let mut turns: FxHashMap<_, Vec<u32>> = FxHashMap::default();
                for (lock, order) in (0..).zip(orders) {
                    for (turn, &thread) in (0..).zip(order) {
                        turns.entry((lock, thread)).or_default().push(turn);
                    }
                }
                let turns = turns.into_iter().map(|(of, turns)| (of, turns.into_iter()));
                Self::ByLock(turns.collect())
            }
            Schedule::Total(order) => {
                let mut turns = vec![Vec::new(); threads];
                for (turn, &thread) in (0..).zip(order) {
                    if turns.len() <= thread as usize {
                        turns.resize(thread as usize + 1, Vec::new());
                    }
                    turns[thread as usize].push(turn);
                }
                Self::Total(turns.into_iter().map(Vec::into_iter).collect())
            }
        }
    }

    pub fn gates(&self) -> Gates {
        match self {
            Self::Free => Gates::None,
            Self::ByLock(_) => Gates::ByLock,
            Self::Total(_) => Gates::One,
        }
    }

    /// Turn of a thread's next operation, if operations like it have one. `is_absent`: the lock
    /// excludes nobody, and has no order of its own.
    ///
    /// # Errors
    ///
    /// [`NativeError::Invalid`]: the order has no place for it.
    pub fn of(
        &mut self,
        op: &Op,
        thread: ThreadIx,
        is_absent: impl Fn(LockIx) -> bool,
    ) -> Result<Option<u32>, NativeError> {
        let lock = match *op {
            Op::Acquire { lock, .. } | Op::TryAcquire { lock, .. } => Some(lock),
            _ => None,
        };
        let next = match (&mut *self, lock) {
            (Self::Free, _) | (Self::ByLock(_), None) => return Ok(None),
            (Self::ByLock(_), Some(lock)) if is_absent(lock) => return Ok(Some(NO_TURN)),
            (Self::ByLock(turns), Some(lock)) => turns.get_mut(&(lock, thread)),
            (Self::Total(turns), _) => {
                if lock.is_none() && !matches!(op, Op::Await { .. } | Op::SemWait { .. }) {
                    return Ok(None);
                }
                turns.get_mut(thread as usize)
            }
        };
        let next = next.and_then(Iterator::next);
        next.map(Some).ok_or_else(|| {
            let what = lock.map_or_else(|| "waits".into(), |lock| format!("acquires lock {lock}"));
            NativeError::Invalid(format!(
                "thread {thread} {what} more often than the enforced order says"
            ))
        })
    }

    /// All turns of one order are given out, so that it does not wait for any for ever.
    ///
    /// # Errors
    ///
    /// [`NativeError::Invalid`]: threads do less than the order says.
    pub fn end(&self) -> Result<(), NativeError> {
        let Self::Total(turns) = self else {
            return Ok(());
        };
        match turns.iter().position(|left| left.len() > 0) {
            Some(thread) => Err(NativeError::Invalid(format!(
                "thread {thread} does less than the enforced order says"
            ))),
            None => Ok(()),
        }
    }
}
