//! Deterministic logical time (Kendo, ASPLOS'09): a thread may synchronize when its clock, the work
//! that it has done, is the least of all threads that are not blocked.
//!
//! A thread that finds a lock taken does not advance its clock step by step, as Kendo's does, but
//! waits for the release and continues just after the releaser's clock: the same order, without the
//! polling. A thread that is woken continues just after its waker.

use std::collections::BTreeSet;

use super::costs::Ps;
use super::engine::Sim;
use super::events::Tid;
use super::schedule::Turns;
use crate::program::LockIx;
use crate::program::Op;

/// Logical time of a lock.
#[derive(Debug, Clone, Default)]
struct LockTime {
    /// Latest clock of a release; of a release by an exclusive holder.
    released: Ps,
    released_exclusive: Ps,
    /// Wait for a release.
    waiters: Vec<Tid>,
}

#[derive(Debug)]
pub(super) struct LogicalTime {
    /// Clocks are published after so much work.
    pub(super) piece: Ps,
    clocks: Vec<Ps>,
    /// Threads that are not blocked, by clock.
    active: BTreeSet<(Ps, Tid)>,
    /// Wait for their turn.
    waiting: Vec<bool>,
    /// Whose turn it is, until its next operation.
    holder: Option<Tid>,
    /// The holder has begun the operation for which it has the turn.
    is_used: bool,
    locks: Vec<LockTime>,
}

impl LogicalTime {
    pub(super) fn new(piece: Ps, threads: usize, locks: usize) -> Self {
        Self {
            piece,
            clocks: vec![0; threads],
            active: BTreeSet::new(),
            waiting: vec![false; threads],
            holder: None,
            is_used: false,
            locks: vec![LockTime::default(); locks],
        }
    }

    fn remove(&mut self, tid: Tid) {
        self.active.remove(&(self.clocks[tid as usize], tid));
        if self.holder == Some(tid) {
            self.holder = None;
        }
    }

    fn insert(&mut self, tid: Tid, clock: Ps) {
        self.clocks[tid as usize] = clock;
        self.active.insert((clock, tid));
    }

    /// Continues after another thread's clock.
    fn insert_after(&mut self, tid: Tid, other: Tid) {
        let after = self.clocks[other as usize].saturating_add(1);
        self.insert(tid, self.clocks[tid as usize].max(after));
    }

    fn advance(&mut self, tid: Tid, by: Ps) {
        let clock = self.clocks[tid as usize];
        if self.active.remove(&(clock, tid)) {
            self.insert(tid, clock.saturating_add(by));
        } else {
            self.clocks[tid as usize] = clock.saturating_add(by);
        }
    }

    /// Takes the turn if it is the thread's; if not, the thread is to be resumed when it is.
    fn take(&mut self, tid: Tid) -> bool {
        let is_first = self.active.first() == Some(&(self.clocks[tid as usize], tid));
        if self.holder == Some(tid) || (self.holder.is_none() && is_first) {
            (self.holder, self.is_used) = (Some(tid), true);
            return true;
        }
        self.waiting[tid as usize] = true;
        false
    }

    /// The operation for which the thread had its turn is over.
    fn give_up(&mut self, tid: Tid) {
        if self.holder == Some(tid) && self.is_used {
            self.holder = None;
            self.advance(tid, 1);
        }
    }

    /// The thread that waits for its turn, and has it now.
    fn grant(&mut self) -> Option<Tid> {
        let &(_, first) = self.active.first()?;
        if self.holder.is_some() || !std::mem::take(&mut self.waiting[first as usize]) {
            return None;
        }
        (self.holder, self.is_used) = (Some(first), false);
        Some(first)
    }
}

impl Sim<'_> {
    /// Changes logical time, and resumes the thread that has its turn now.
    fn with_logical_time(&mut self, change: impl FnOnce(&mut LogicalTime)) {
        let Turns::Logical(time) = &mut self.turns else {
            return;
        };
        change(time);
        if let Some(tid) = time.grant() {
            self.resume(tid);
        }
    }

    /// Whether the thread may begin the operation.
    pub(super) fn take_logical_turn(&mut self, tid: Tid, op: Op) -> bool {
        self.with_logical_time(|time| time.give_up(tid));
        match op {
            Op::Acquire { lock, shared, .. } => self.take_lock_turn(tid, lock, shared),
            Op::TryAcquire { lock, .. } => self.take_lock_turn(tid, lock, false),
            // Under the lock, whose order is decided already.
            Op::Await { need, .. } if self.is_met(need) => true,
            Op::Await { .. }
            | Op::Signal { .. }
            | Op::Broadcast { .. }
            | Op::Barrier { .. }
            | Op::SemWait { .. }
            | Op::SemPost { .. }
            | Op::Spawn { .. }
            | Op::Join { .. } => match &mut self.turns {
                Turns::Logical(time) => time.take(tid),
                _ => true,
            },
            Op::Work { .. }
            | Op::Sleep { .. }
            | Op::TryFail { .. }
            | Op::Release { .. }
            | Op::Post { .. } => true,
        }
    }

    /// Whether the thread may acquire the lock: it has its turn, and the lock is free.
    pub(super) fn take_lock_turn(&mut self, tid: Tid, lock: LockIx, shared: bool) -> bool {
        let is_free = self.is_free(lock, shared);
        let Turns::Logical(time) = &mut self.turns else {
            return true;
        };
        if !time.take(tid) {
            return false;
        }
        let lock = &mut time.locks[lock as usize];
        // A release with a later clock has not happened yet, in logical time.
        let released = if shared {
            lock.released_exclusive
        } else {
            lock.released
        };
        let is_due = time.clocks[tid as usize] > released;
        if is_free && (is_due || released == 0) {
            return true;
        }
        if is_free {
            time.remove(tid);
            time.insert(tid, released + 1);
            if time.take(tid) {
                return true;
            }
        } else {
            lock.waiters.push(tid);
            time.remove(tid);
        }
        // It is somebody else's turn now.
        self.with_logical_time(|_| {});
        false
    }

    /// A lock was released.
    pub(super) fn turns_released(&mut self, tid: Tid, lock: LockIx, shared: bool) {
        self.with_logical_time(|time| {
            let clock = time.clocks[tid as usize];
            let lock = &mut time.locks[lock as usize];
            lock.released = lock.released.max(clock);
            if !shared {
                lock.released_exclusive = lock.released_exclusive.max(clock);
            }
            for waiter in std::mem::take(&mut lock.waiters) {
                time.insert_after(waiter, tid);
                time.waiting[waiter as usize] = true;
            }
        });
        self.open_elsc_gate(lock);
    }

    /// The thread that was joined has ended, before or after the joiner in logical time.
    pub(super) fn turns_joined(&mut self, tid: Tid) {
        let ended = self.threads[tid as usize].operand;
        self.with_logical_time(|time| {
            let after = time.clocks[ended as usize].saturating_add(1);
            let ahead = after.saturating_sub(time.clocks[tid as usize]);
            time.advance(tid, ahead);
        });
    }

    /// Work or a sleep of so long: published.
    pub(super) fn turns_advance(&mut self, tid: Tid, by: Ps) {
        self.with_logical_time(|time| time.advance(tid, by));
    }

    pub(super) fn turns_started(&mut self, tid: Tid, clock: Ps) {
        self.with_logical_time(|time| time.insert(tid, clock));
    }

    pub(super) fn turns_spawned(&mut self, creator: Tid, tid: Tid) {
        self.with_logical_time(|time| time.insert_after(tid, creator));
    }

    /// The thread is asleep on a futex.
    pub(super) fn turns_blocked(&mut self, tid: Tid) {
        self.with_logical_time(|time| time.remove(tid));
    }

    pub(super) fn turns_woken(&mut self, tid: Tid, waker: Tid) {
        self.with_logical_time(|time| time.insert_after(tid, waker));
    }

    pub(super) fn turns_ended(&mut self, tid: Tid) {
        self.with_logical_time(|time| time.remove(tid));
    }
}
