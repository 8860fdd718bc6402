//! Spinning: `pthread_spin_lock`, and the adaptive mutex, which spins before it parks.
//!
//! A spinner holds its CPU, and nothing happens until the lock word changes; so it is no event at
//! all until a release notifies it, and the transfer of the cache line decides who is first.

use super::costs::ps;
use super::costs::Ps;
use super::costs::NEVER;
use super::engine::Flow;
use super::engine::Sim;
use super::events::Tid;
use super::state::Place;
use super::thread::Step;
use crate::program::LockIx;
use crate::program::LockKind;

impl Sim<'_> {
    /// The thread's next step is another look at a lock word.
    pub(super) fn is_spinning(&self, tid: Tid) -> bool {
        let thread = &self.threads[tid as usize];
        matches!(thread.step, Step::SpinTry | Step::AdaptiveTry) && thread.acquisition.is_contended
    }

    /// It would spin forever if no other thread released the lock.
    pub(super) fn is_spinning_in_vain(&self, tid: Tid) -> bool {
        let thread = &self.threads[tid as usize];
        thread.step == Step::SpinTry && self.locks[thread.acquisition.lock as usize].word != 0
    }

    pub(super) fn spin_try(&mut self, tid: Tid) -> Flow {
        let lock = self.threads[tid as usize].acquisition.lock;
        if self.locks[lock as usize].word == 0 {
            self.locks[lock as usize].word = 1;
            self.locks[lock as usize]
                .spinners
                .retain(|&spinner| spinner != tid);
            return self.acquired(tid);
        }
        self.start_spinning(tid, lock);
        Flow::Run(NEVER)
    }

    pub(super) fn adaptive_try(&mut self, tid: Tid) -> Flow {
        let acquisition = self.threads[tid as usize].acquisition;
        let lock = acquisition.lock;
        let state = &mut self.locks[lock as usize];
        let is_free = state.word == 0;
        let is_over = acquisition.is_contended && self.now >= acquisition.spin_until;
        if is_free || is_over {
            state.spinners.retain(|&spinner| spinner != tid);
        }
        if is_free {
            state.word = 1;
            return self.acquired(tid);
        }
        if is_over {
            return self.mutex_try(tid);
        }
        if !acquisition.is_contended {
            let LockKind::Adaptive { spin_ns } = state.kind else {
                return self.mutex_try(tid);
            };
            let until = self.now.saturating_add(ps(f64::from(spin_ns)));
            self.threads[tid as usize].acquisition.spin_until = until;
        }
        self.start_spinning(tid, lock);
        let until = self.threads[tid as usize].acquisition.spin_until;
        Flow::Run(until - self.now)
    }

    fn start_spinning(&mut self, tid: Tid, lock: LockIx) {
        if !self.threads[tid as usize].acquisition.is_contended {
            self.contended(tid);
            self.locks[lock as usize].spinners.push(tid);
        }
    }

    pub(super) fn spin_release(&mut self, tid: Tid) -> Flow {
        let lock = self.threads[tid as usize].releasing;
        self.locks[lock as usize].word = 0;
        self.released(tid);
        self.notify_spinners(lock);
        self.lock_done(tid)
    }

    /// Spinners on CPUs see the lock free after the line has come to them; which one first is
    /// chance.
    pub(super) fn notify_spinners(&mut self, lock: LockIx) {
        for index in 0..self.locks[lock as usize].spinners.len() {
            let tid = self.locks[lock as usize].spinners[index];
            if self.threads[tid as usize].place != Place::Running {
                continue;
            }
            let transfer = self.costs.atomic + self.costs.remote_extra;
            let delay = transfer + (transfer as f64 * self.rng.unit()) as Ps;
            let spinner = &self.threads[tid as usize];
            let at = self.now.saturating_add(delay).max(spinner.accounted);
            let cpu = spinner.cpu as usize;
            if at < self.events.cpu(cpu) {
                self.events.set_cpu(cpu, at);
            }
        }
    }
}
