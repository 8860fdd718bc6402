//! What all kinds of locks share: begin and end of acquisitions and releases, and what is counted.

use super::costs::ns;
use super::costs::ps;
use super::costs::Ps;
use super::costs::NEVER;
use super::engine::Flow;
use super::engine::Sim;
use super::events::Tid;
use super::outcome::WaitKind;
use super::state::Acquisition;
use super::state::Class;
use super::state::Held;
use super::state::NO_CPU;
use super::thread::Step;
use crate::program::LockIx;
use crate::program::LockKind;
use crate::program::SectionId;

impl Sim<'_> {
    /// Price of an atomic operation on a lock's word, which then is in the line of the thread's
    /// CPU.
    pub(super) fn touch_lock(&mut self, tid: Tid, lock: LockIx, local: Ps) -> Ps {
        let cpu = self.threads[tid as usize].cpu;
        let line = &mut self.locks[lock as usize].line;
        Self::touch(line, cpu, local, self.costs.remote_extra)
    }

    /// The same of the first look at a lock for a section, which the recording may have the price
    /// of.
    fn reach_lock(&mut self, tid: Tid, lock: LockIx, local: Ps) -> Ps {
        let cpu = self.threads[tid as usize].cpu;
        let transfer = self.program.locks[lock as usize].transfer;
        let remote = transfer.map_or(self.costs.remote_extra, |of| ps(f64::from(of.word_ns)));
        Self::touch(&mut self.locks[lock as usize].line, cpu, local, remote)
    }

    /// Price of the data that a section's lock guards, which then are in the caches of the thread's
    /// CPU. What others only read meanwhile stays where it is.
    fn reach_data(&mut self, tid: Tid, lock: LockIx, shared: bool) -> Ps {
        let Some(transfer) = self.program.locks[lock as usize].transfer else {
            return 0;
        };
        let cpu = self.threads[tid as usize].cpu;
        let state = &mut self.locks[lock as usize];
        if state.kind == LockKind::Absent || (shared && state.data_line == NO_CPU) {
            return 0;
        }
        let cost = Self::touch(
            &mut state.data_line,
            cpu,
            0,
            ps(f64::from(transfer.data_ns)),
        );
        if shared {
            state.data_line = NO_CPU;
        }
        cost
    }

    /// Begins to acquire a lock; `then` follows when the thread has it.
    pub(super) fn begin_acquire(
        &mut self,
        tid: Tid,
        lock: LockIx,
        shared: bool,
        section: SectionId,
        then: Step,
    ) -> Flow {
        let is_rwlock = self.locks[lock as usize].kind == LockKind::RwLock;
        let acquisition = Acquisition {
            lock,
            section,
            shared: shared && is_rwlock,
            is_reacquisition: false,
            is_contended: false,
            shares_flag: false,
            requested: self.threads[tid as usize]
                .turn_asked
                .take()
                .unwrap_or(self.now),
            wait_began: 0,
            spin_until: NEVER,
            ticket: 0,
        };
        self.threads[tid as usize].acquisition = acquisition;
        self.threads[tid as usize].after_lock = then;
        self.enter(tid, Class::Protocol);
        self.first_attempt(tid)
    }

    /// The way into the lock's own protocol.
    pub(super) fn first_attempt(&mut self, tid: Tid) -> Flow {
        let Acquisition { lock, shared, .. } = self.threads[tid as usize].acquisition;
        let half = self.costs.lock_half;
        let (step, cost) = match self.locks[lock as usize].kind {
            LockKind::Mutex => (Step::MutexTry, half),
            LockKind::Adaptive { .. } => (Step::AdaptiveTry, half),
            LockKind::Spin => (Step::SpinTry, half),
            LockKind::Ticket => (Step::TicketTake, half),
            LockKind::RwLock if shared => (Step::ReadRegister, self.costs.rdlock_half),
            LockKind::RwLock => (Step::WriteTry, half),
            LockKind::Absent => return self.acquired(tid),
        };
        self.threads[tid as usize].step = step;
        Flow::Run(self.reach_lock(tid, lock, cost))
    }

    /// Nobody holds the lock in a way that excludes this.
    pub(super) fn is_free(&self, lock: LockIx, shared: bool) -> bool {
        let state = &self.locks[lock as usize];
        let is_shared = shared && state.kind == LockKind::RwLock;
        !state.exclusive && (is_shared || state.shared == 0)
    }

    /// The first attempt failed: from here on it waits.
    pub(super) fn contended(&mut self, tid: Tid) {
        let acquisition = &mut self.threads[tid as usize].acquisition;
        if !acquisition.is_contended {
            acquisition.is_contended = true;
            acquisition.wait_began = self.now;
            self.enter_wait(tid, WaitKind::Lock);
        }
    }

    /// The thread has the lock.
    pub(super) fn acquired(&mut self, tid: Tid) -> Flow {
        let acquisition = self.threads[tid as usize].acquisition;
        let Acquisition {
            lock,
            section,
            shared,
            ..
        } = acquisition;
        self.enter(tid, Class::Protocol);
        let state = &mut self.locks[lock as usize];
        if state.kind != LockKind::Absent {
            let is_free = !state.exclusive && (shared || state.shared == 0);
            debug_assert!(is_free, "lock {lock} is held twice");
            state.exclusive |= !shared;
            state.shared += u32::from(shared);
        }
        let counts = &mut state.counts;
        let waited = match acquisition.is_contended {
            true => self.now - acquisition.wait_began,
            false => 0,
        };
        if acquisition.is_reacquisition {
            counts.reacquisitions += 1;
            counts.reacquire_waited += waited;
        } else {
            counts.acquisitions += 1;
            if acquisition.is_contended {
                counts.contended += 1;
                counts.waited += waited;
                counts
                    .waits
                    .get_or_insert_with(Box::default)
                    .add(waited / 1000);
            }
        }
        let now = self.now;
        let held = Held {
            lock,
            section,
            shared,
            since: now,
        };
        self.threads[tid as usize].held.push(held);
        if !acquisition.is_reacquisition {
            if let Some(times) = self.section_times(section) {
                times.thread = tid;
                times.lock = lock;
                times.requested_ns = ns(acquisition.requested);
                times.acquired_ns = ns(now);
            }
            self.turns_acquired(lock, section);
            self.note_order(tid);
        }
        self.threads[tid as usize].step = self.threads[tid as usize].after_lock;
        Flow::Run(self.reach_data(tid, lock, shared))
    }

    /// Begins to release a lock; `then` follows when it is done. A lock that the thread does not
    /// hold is left alone.
    pub(super) fn begin_release(&mut self, tid: Tid, lock: LockIx, then: Step) -> Flow {
        let thread = &mut self.threads[tid as usize];
        thread.releasing = lock;
        thread.after_lock = then;
        let Some(held) = thread.held.iter().rev().find(|held| held.lock == lock) else {
            self.unmatched_releases += 1;
            thread.step = then;
            return Flow::Run(0);
        };
        let shared = held.shared;
        let half = self.costs.lock_half;
        let (step, cost) = match self.locks[lock as usize].kind {
            LockKind::Mutex => (Step::MutexRelease, half),
            LockKind::Adaptive { .. } => (Step::MutexRelease, half),
            LockKind::Spin => (Step::SpinRelease, half),
            LockKind::Ticket => (Step::TicketRelease, half),
            LockKind::RwLock if shared => (Step::ReadRelease, self.costs.rdlock_half),
            LockKind::RwLock => (Step::WriteRelease, half),
            LockKind::Absent => {
                self.released(tid);
                return self.lock_done(tid);
            }
        };
        if !matches!(self.threads[tid as usize].class, Class::Wait(_)) {
            self.enter(tid, Class::Protocol);
        }
        self.threads[tid as usize].step = step;
        Flow::Run(self.touch_lock(tid, lock, cost))
    }

    /// The lock is free for others from now on.
    pub(super) fn released(&mut self, tid: Tid) {
        let now = self.now;
        let thread = &mut self.threads[tid as usize];
        let lock = thread.releasing;
        let Some(index) = thread.held.iter().rposition(|held| held.lock == lock) else {
            return;
        };
        let held = thread.held.remove(index);
        let state = &mut self.locks[lock as usize];
        state.counts.hold += now - held.since;
        if state.kind != LockKind::Absent {
            if held.shared {
                state.shared -= 1;
            } else {
                state.exclusive = false;
            }
        }
        if let Some(times) = self.section_times(held.section) {
            times.released_ns = ns(now);
        }
        self.turns_released(tid, lock, held.shared);
    }

    /// The acquisition or release is over.
    pub(super) fn lock_done(&mut self, tid: Tid) -> Flow {
        self.threads[tid as usize].step = self.threads[tid as usize].after_lock;
        Flow::Run(0)
    }
}
