//! The futex system calls, step by step: FUTEX_WAIT compares under the bucket's lock after it has
//! entered the kernel, so that it may come too late and fail with EAGAIN; FUTEX_WAKE may find
//! nobody.

use super::engine::Flow;
use super::engine::Sim;
use super::events::Tid;
use super::thread::Step;
use crate::program::BarrierIx;
use crate::program::CondIx;
use crate::program::LockIx;
use crate::program::SemIx;

/// A futex word, and the value for which its waiters wait to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    None,
    /// `__lock` is 2.
    Mutex(LockIx),
    /// Another ticket than this is being served.
    Ticket(LockIx, u32),
    /// `__wrphase_futex` is 1 (readers wait for the end of the write phase), or 0 (the primary
    /// writer waits for its begin).
    RwPhase(LockIx, bool),
    /// `__writers_futex` is 1.
    RwWriters(LockIx),
    /// `__g_signals` of the group of this number is 0, and the group is not closed.
    Cond(CondIx, u32),
    /// The round of this number goes on.
    Barrier(BarrierIx, u32),
    /// The value is 0.
    Sem(SemIx),
    /// The thread has not ended.
    Exit(Tid),
}

impl Sim<'_> {
    /// The value is still the one that the waiter expects.
    pub(super) fn is_unchanged(&self, word: Word) -> bool {
        match word {
            Word::None => false,
            Word::Mutex(lock) => self.locks[lock as usize].word == 2,
            Word::Ticket(lock, ticket) => self.locks[lock as usize].serving != ticket,
            Word::RwPhase(lock, value) => {
                let rw = &self.locks[lock as usize].rw;
                rw.phase_futex == value && rw.phase_futex_used
            }
            Word::RwWriters(lock) => {
                let rw = &self.locks[lock as usize].rw;
                rw.writers_futex && rw.writers_futex_used
            }
            Word::Cond(cond, group) => {
                let cond = &self.conds[cond as usize];
                group >= cond.first && cond.groups[(group % 2) as usize].signals == 0
            }
            Word::Barrier(barrier, round) => self.barriers[barrier as usize].round == round,
            Word::Sem(sem) => self.semaphores[sem as usize].value == 0,
            Word::Exit(thread) => !self.threads[thread as usize].is_exiting,
        }
    }

    /// Index of the word's queue.
    pub(super) fn queue_of(&self, word: Word) -> usize {
        let program = self.program;
        let conds = 2 * program.locks.len();
        let barriers = conds + 2 * program.conds.len();
        let semaphores = barriers + program.barriers.len();
        let threads = semaphores + program.semaphores.len();
        match word {
            Word::None => 0,
            Word::Mutex(lock) | Word::Ticket(lock, _) | Word::RwPhase(lock, _) => 2 * lock as usize,
            Word::RwWriters(lock) => 2 * lock as usize + 1,
            Word::Cond(cond, group) => conds + 2 * cond as usize + (group % 2) as usize,
            Word::Barrier(barrier, _) => barriers + barrier as usize,
            Word::Sem(sem) => semaphores + sem as usize,
            Word::Exit(thread) => threads + thread as usize,
        }
    }

    /// FUTEX_WAIT; `then` follows in any case.
    pub(super) fn futex_wait(&mut self, tid: Tid, word: Word, then: Step) -> Flow {
        let thread = &mut self.threads[tid as usize];
        thread.word = word;
        thread.after_call = then;
        thread.step = Step::FutexCompare;
        Flow::Run(self.costs.wait_check)
    }

    pub(super) fn futex_compare(&mut self, tid: Tid) -> Flow {
        let word = self.threads[tid as usize].word;
        if !self.is_unchanged(word) {
            self.futex_counts.eagain += 1;
            let thread = &mut self.threads[tid as usize];
            thread.step = thread.after_call;
            return Flow::Run(self.costs.wait_return);
        }
        let queue = self.queue_of(word);
        self.futexes[queue].push_back(tid);
        self.turns_blocked(tid);
        self.threads[tid as usize].step = Step::FutexBlock;
        Flow::Run(self.costs.wait_block)
    }

    pub(super) fn futex_block(&mut self, tid: Tid) -> Flow {
        let thread = &mut self.threads[tid as usize];
        let then = thread.after_call;
        if std::mem::take(&mut thread.is_woken) {
            thread.step = then;
            return Flow::Run(0);
        }
        self.block(tid, then)
    }

    /// FUTEX_WAKE of up to `count` waiters; `then` follows.
    pub(super) fn futex_wake(&mut self, tid: Tid, word: Word, count: u32, then: Step) -> Flow {
        let thread = &mut self.threads[tid as usize];
        thread.word = word;
        thread.wakes_left = count;
        thread.after_call = then;
        thread.step = Step::FutexLookup;
        Flow::Run(self.costs.wake_lookup)
    }

    /// Looks for the first waiter.
    pub(super) fn futex_lookup(&mut self, tid: Tid) -> Flow {
        let queue = self.queue_of(self.threads[tid as usize].word);
        if self.futexes[queue].is_empty() {
            self.futex_counts.wakes_nobody += 1;
            let thread = &mut self.threads[tid as usize];
            thread.step = thread.after_call;
            return Flow::Run(self.costs.wake_none);
        }
        self.futex_wake_next(tid)
    }

    /// Wakes the next waiter, or returns if there is none left.
    pub(super) fn futex_wake_next(&mut self, tid: Tid) -> Flow {
        let thread = &self.threads[tid as usize];
        let (word, then, cpu) = (thread.word, thread.after_call, thread.cpu as usize);
        let queue = self.queue_of(word);
        let woken = match thread.wakes_left {
            0 => None,
            _ => self.futexes[queue].pop_front(),
        };
        let Some(woken) = woken else {
            return self.leave_kernel(tid, then);
        };
        self.turns_woken(woken, tid);
        let cost = self.wake(woken, cpu, self.costs.wake_lookup);
        let thread = &mut self.threads[tid as usize];
        thread.wakes_left -= 1;
        thread.step = Step::FutexWakeNext;
        Flow::Run(cost)
    }
}
