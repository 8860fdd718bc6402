//! glibc's barrier (nptl/pthread_barrier_wait.c, since 2.25) and semaphore (nptl/sem_waitcommon.c).

use super::engine::Flow;
use super::engine::Sim;
use super::events::Tid;
use super::futex::Word;
use super::outcome::WaitKind;
use super::state::Class;
use super::thread::Step;
use crate::program::BarrierIx;
use crate::program::SemIx;

impl Sim<'_> {
    pub(super) fn begin_barrier(&mut self, tid: Tid, barrier: BarrierIx) -> Flow {
        let thread = &mut self.threads[tid as usize];
        thread.operand = barrier;
        let cpu = thread.cpu;
        let line = &mut self.barriers[barrier as usize].line;
        let cost = Self::touch(line, cpu, self.costs.atomic, self.costs.remote_extra);
        self.then(tid, Class::Protocol, Step::BarrierArrive, cost)
    }

    /// The last to arrive begins the next round and wakes the others.
    pub(super) fn barrier_arrive(&mut self, tid: Tid) -> Flow {
        let barrier = self.threads[tid as usize].operand;
        let state = &mut self.barriers[barrier as usize];
        let round = state.round;
        state.arrived += 1;
        if state.arrived >= state.count {
            state.arrived = 0;
            state.round = round.wrapping_add(1);
            if state.count <= 1 {
                return self.op_done(tid);
            }
            return self.futex_wake(tid, Word::Barrier(barrier, round), u32::MAX, Step::NextOp);
        }
        self.threads[tid as usize].round = round;
        self.enter_wait(tid, WaitKind::Barrier);
        self.futex_wait(tid, Word::Barrier(barrier, round), Step::BarrierCheck)
    }

    pub(super) fn barrier_check(&mut self, tid: Tid) -> Flow {
        let thread = &self.threads[tid as usize];
        let word = Word::Barrier(thread.operand, thread.round);
        if self.is_unchanged(word) {
            return self.futex_wait(tid, word, Step::BarrierCheck);
        }
        self.op_done(tid)
    }

    /// `sem_wait` or `sem_post` begins with an atomic operation.
    pub(super) fn begin_sem(&mut self, tid: Tid, sem: SemIx, step: Step) -> Flow {
        let thread = &mut self.threads[tid as usize];
        thread.operand = sem;
        let cpu = thread.cpu;
        let line = &mut self.semaphores[sem as usize].line;
        let cost = Self::touch(line, cpu, self.costs.atomic, self.costs.remote_extra);
        self.then(tid, Class::Protocol, step, cost)
    }

    pub(super) fn sem_try(&mut self, tid: Tid) -> Flow {
        let sem = &mut self.semaphores[self.threads[tid as usize].operand as usize];
        if sem.value > 0 {
            sem.value -= 1;
            self.note_order(tid);
            return self.op_done(tid);
        }
        sem.waiters += 1;
        self.enter_wait(tid, WaitKind::Semaphore);
        self.sem_check(tid)
    }

    /// Registered as a waiter: takes the value if there is one, else sleeps.
    pub(super) fn sem_check(&mut self, tid: Tid) -> Flow {
        let operand = self.threads[tid as usize].operand;
        let sem = &mut self.semaphores[operand as usize];
        if sem.value == 0 {
            return self.futex_wait(tid, Word::Sem(operand), Step::SemCheck);
        }
        sem.value -= 1;
        sem.waiters -= 1;
        self.note_order(tid);
        self.op_done(tid)
    }

    pub(super) fn sem_post(&mut self, tid: Tid) -> Flow {
        let operand = self.threads[tid as usize].operand;
        let sem = &mut self.semaphores[operand as usize];
        sem.value = sem.value.saturating_add(1);
        if sem.waiters == 0 {
            return self.op_done(tid);
        }
        self.futex_wake(tid, Word::Sem(operand), 1, Step::NextOp)
    }
}
