//! Deterministic logical time (Kendo, ASPLOS'09): a thread may synchronize when its clock, the work that
//! it has done, is the least of all threads that are not blocked.
//!
//! A thread that finds a lock taken does not advance its clock step by step, as Kendo's does, but waits
//! for the release and continues just after the releaser's clock: the same order, without the polling.
//! A thread that is woken continues just after its waker.

use std::collections::BTreeSet;

use super::costs::Ps;
use super::engine::Sim;
use super::events::Tid;
use super::schedule::Turns;
use crate::program::LockIx;
use crate::program::LockKind;
use crate::program::Op;

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
    /// Wait for a release.
    lock_waiters: Vec<Vec<Tid>>,
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
            lock_waiters: vec![Vec::new(); locks],
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
        let state = &self.locks[lock as usize];
        let is_shared = shared && state.kind == LockKind::RwLock;
        let is_free = !state.exclusive && (is_shared || state.shared == 0);
        let Turns::Logical(time) = &mut self.turns else {
            return true;
        };
        if !time.take(tid) {
            return false;
        }
        if is_free {
            return true;
        }
        self.with_logical_time(|time| {
            time.remove(tid);
            time.lock_waiters[lock as usize].push(tid);
        });
        false
    }

    /// A lock was released.
    pub(super) fn turns_released(&mut self, tid: Tid, lock: LockIx) {
        self.with_logical_time(|time| {
            for waiter in std::mem::take(&mut time.lock_waiters[lock as usize]) {
                time.insert_after(waiter, tid);
                time.waiting[waiter as usize] = true;
            }
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
