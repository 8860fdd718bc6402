//! glibc's condition variable (nptl/pthread_cond_wait.c, since 2.25), and the predicates of its
//! waits.
//!
//! Waiters join group G2. A signal goes to a waiter of G1; when all of G1 were signalled, G2
//! becomes G1. So a waiter cannot take a signal from one that waited before its group closed, but
//! within a group whoever comes first gets it. A signal without waiters is lost. Waiting for the
//! last waiters of a closed group before its slot is used again is left out; so is the internal
//! lock's contention.

use super::costs::Ps;
use super::engine::Flow;
use super::engine::Sim;
use super::events::Tid;
use super::futex::Word;
use super::outcome::WaitKind;
use super::state::Acquisition;
use super::state::Class;
use super::state::CondState;
use super::thread::Step;
use crate::program::CondIx;
use crate::program::LockIx;
use crate::program::LockKind;
use crate::program::Need;
use crate::program::NO_SECTION;

impl Sim<'_> {
    /// The predicate loop around `pthread_cond_wait`: while the need is not met, wait.
    pub(super) fn begin_await(&mut self, tid: Tid, cond: CondIx, lock: LockIx, need: Need) -> Flow {
        if self.meet(need) {
            self.note_order(tid);
            return self.op_done(tid);
        }
        let thread = &mut self.threads[tid as usize];
        // The loop's condition is evaluated again after the wait.
        thread.pos -= 1;
        thread.operand = cond;
        thread.releasing = lock;
        let state = &mut self.conds[cond as usize];
        let group = state.first + 1;
        state.groups[(group % 2) as usize].size += 1;
        thread.round = group;
        self.enter_wait(tid, WaitKind::Cond);
        self.threads[tid as usize].step = Step::CondRegistered;
        Flow::Run(self.touch_cond(tid, cond, self.costs.atomic))
    }

    /// Whether a need is met.
    pub(super) fn is_met(&self, need: Need) -> bool {
        match need {
            Need::Token(channel) => self.channels[channel as usize].tokens > 0,
            Need::Count(channel, count) => {
                self.channels[channel as usize].posted >= u64::from(count)
            }
        }
    }

    /// The same, and takes the token if so.
    fn meet(&mut self, need: Need) -> bool {
        let is_met = self.is_met(need);
        if let (true, Need::Token(channel)) = (is_met, need) {
            self.channels[channel as usize].tokens -= 1;
        }
        is_met
    }

    /// It is registered as a waiter: gives the lock up.
    pub(super) fn cond_registered(&mut self, tid: Tid) -> Flow {
        let thread = &self.threads[tid as usize];
        let lock = thread.releasing;
        let held = thread.held.iter().rev().find(|held| held.lock == lock);
        let (section, shared) =
            held.map_or((NO_SECTION, false), |held| (held.section, held.shared));
        self.threads[tid as usize].acquisition = Acquisition {
            lock,
            section,
            shared,
            is_reacquisition: true,
            is_contended: false,
            ..self.threads[tid as usize].acquisition
        };
        self.begin_release(tid, lock, Step::CondCheck)
    }

    /// Takes a signal of its group, or sleeps until there is one.
    pub(super) fn cond_check(&mut self, tid: Tid) -> Flow {
        let thread = &self.threads[tid as usize];
        let (cond, round) = (thread.operand, thread.round);
        let state = &mut self.conds[cond as usize];
        // A closed group was signalled as a whole.
        if round >= state.first {
            let group = &mut state.groups[(round % 2) as usize];
            if group.signals == 0 {
                return self.futex_wait(tid, Word::Cond(cond, round), Step::CondCheck);
            }
            group.signals -= 1;
        }
        self.cond_reacquire(tid)
    }

    /// Takes the lock again. A mutex is taken with state 2 (`lll_cond_lock`): others may sleep.
    pub(super) fn cond_reacquire(&mut self, tid: Tid) -> Flow {
        let lock = self.threads[tid as usize].acquisition.lock;
        if self.turns.are_enforced() && !self.take_turn_for_lock(tid, lock) {
            return self.wait_turn(tid, Step::CondReacquire);
        }
        let now = self.now;
        let thread = &mut self.threads[tid as usize];
        thread.acquisition.requested = now;
        thread.acquisition.is_contended = false;
        thread.after_lock = Step::NextOp;
        self.enter(tid, Class::Protocol);
        match self.locks[lock as usize].kind {
            LockKind::Mutex | LockKind::Adaptive { .. } => self.mutex_retry(tid),
            _ => self.first_attempt(tid),
        }
    }

    /// A signal or broadcast begins with a look whether anybody waits.
    pub(super) fn begin_signal(&mut self, tid: Tid, cond: CondIx, step: Step) -> Flow {
        self.threads[tid as usize].operand = cond;
        let is_awaited = self.conds[cond as usize].has_waiters();
        // With waiters: the internal lock, the signal, the internal lock again.
        let local = if is_awaited { 3 * self.costs.atomic } else { 0 };
        let cost = self.touch_cond(tid, cond, local);
        self.then(tid, Class::Protocol, step, cost)
    }

    pub(super) fn cond_signal(&mut self, tid: Tid) -> Flow {
        let cond = self.threads[tid as usize].operand;
        let state = &mut self.conds[cond as usize];
        if !state.open_group() {
            return self.op_done(tid);
        }
        let round = state.first;
        let group = &mut state.groups[(round % 2) as usize];
        group.size -= 1;
        group.signals += 1;
        self.futex_wake(tid, Word::Cond(cond, round), 1, Step::NextOp)
    }

    /// Signals the rest of G1, then G2.
    pub(super) fn cond_broadcast(&mut self, tid: Tid) -> Flow {
        let cond = self.threads[tid as usize].operand;
        let state = &mut self.conds[cond as usize];
        if !state.open_group() {
            return self.op_done(tid);
        }
        let round = state.first;
        let group = &mut state.groups[(round % 2) as usize];
        group.signals += std::mem::take(&mut group.size);
        self.futex_wake(tid, Word::Cond(cond, round), u32::MAX, Step::CondBroadcast)
    }

    fn touch_cond(&mut self, tid: Tid, cond: CondIx, local: Ps) -> Ps {
        let cpu = self.threads[tid as usize].cpu;
        let line = &mut self.conds[cond as usize].line;
        Self::touch(line, cpu, local, self.costs.remote_extra)
    }
}

impl CondState {
    fn has_waiters(&self) -> bool {
        self.groups.iter().any(|group| group.size > 0)
    }

    /// Makes sure that G1 has a waiter that was not signalled; `false` = there is none at all.
    fn open_group(&mut self) -> bool {
        let first = (self.first % 2) as usize;
        if self.groups[first].size > 0 {
            return true;
        }
        if self.groups[1 - first].size == 0 {
            return false;
        }
        // G1 is closed, its waiters see it; its slot is that of the next G2.
        self.groups[first].signals = 0;
        self.first += 1;
        true
    }
}
