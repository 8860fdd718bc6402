//! glibc's default mutex (nptl/lowlevellock.h and lowlevellock.c, 2.36): a futex word that is 0, 1
//! or 2, no queue of its own, so that whoever comes first gets it; and the ticket lock, which has
//! one.

use super::engine::Flow;
use super::engine::Sim;
use super::events::Tid;
use super::futex::Word;
use super::thread::Step;

impl Sim<'_> {
    /// `lll_lock`: compare and exchange 0 by 1.
    pub(super) fn mutex_try(&mut self, tid: Tid) -> Flow {
        let lock = self.threads[tid as usize].acquisition.lock;
        let state = &mut self.locks[lock as usize];
        if state.word == 0 {
            state.word = 1;
            return self.acquired(tid);
        }
        let word = state.word;
        self.contended(tid);
        if word == 2 {
            return self.futex_wait(tid, Word::Mutex(lock), Step::MutexRetry);
        }
        self.mutex_retry(tid)
    }

    /// `__lll_lock_wait` once more: exchange by 2, since others may sleep.
    pub(super) fn mutex_retry(&mut self, tid: Tid) -> Flow {
        let lock = self.threads[tid as usize].acquisition.lock;
        self.threads[tid as usize].step = Step::MutexExchange;
        Flow::Run(self.touch_lock(tid, lock, self.costs.atomic))
    }

    pub(super) fn mutex_exchange(&mut self, tid: Tid) -> Flow {
        let lock = self.threads[tid as usize].acquisition.lock;
        if std::mem::replace(&mut self.locks[lock as usize].word, 2) == 0 {
            return self.acquired(tid);
        }
        // Counts for reacquisitions, whose first attempt this is.
        self.contended(tid);
        self.futex_wait(tid, Word::Mutex(lock), Step::MutexRetry)
    }

    /// `lll_unlock`: exchange by 0, and wake one if it was 2.
    pub(super) fn mutex_release(&mut self, tid: Tid) -> Flow {
        let lock = self.threads[tid as usize].releasing;
        let word = std::mem::replace(&mut self.locks[lock as usize].word, 0);
        self.released(tid);
        self.notify_spinners(lock);
        if word == 2 {
            return self.futex_wake(tid, Word::Mutex(lock), 1, Step::LockDone);
        }
        self.lock_done(tid)
    }

    /// Takes a ticket.
    pub(super) fn ticket_take(&mut self, tid: Tid) -> Flow {
        let acquisition = &mut self.threads[tid as usize].acquisition;
        let state = &mut self.locks[acquisition.lock as usize];
        acquisition.ticket = state.next_ticket;
        state.next_ticket = state.next_ticket.wrapping_add(1);
        self.ticket_check(tid)
    }

    pub(super) fn ticket_check(&mut self, tid: Tid) -> Flow {
        let acquisition = self.threads[tid as usize].acquisition;
        if self.locks[acquisition.lock as usize].serving == acquisition.ticket {
            return self.acquired(tid);
        }
        self.contended(tid);
        let word = Word::Ticket(acquisition.lock, acquisition.ticket);
        self.futex_wait(tid, word, Step::TicketCheck)
    }

    /// Serves the next ticket, and wakes its owner if it sleeps.
    pub(super) fn ticket_release(&mut self, tid: Tid) -> Flow {
        let lock = self.threads[tid as usize].releasing;
        let state = &mut self.locks[lock as usize];
        state.serving = state.serving.wrapping_add(1);
        let (serving, is_awaited) = (state.serving, state.serving != state.next_ticket);
        self.released(tid);
        if !is_awaited {
            return self.lock_done(tid);
        }
        let word = Word::Ticket(lock, serving);
        let queue = self.queue_of(word);
        let has_ticket = |t: &Tid| self.threads[*t as usize].acquisition.ticket == serving;
        match self.futexes[queue].iter().position(has_ticket) {
            Some(index) => self.futexes[queue].swap(0, index),
            // Still on its way into sleep; the one that sleeps first is woken for nothing.
            None => return self.lock_done(tid),
        }
        self.futex_wake(tid, word, 1, Step::LockDone)
    }
}
