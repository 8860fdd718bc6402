//! glibc's reader-writer lock (nptl/pthread_rwlock_common.c, since 2.25), readers preferred: read
//! and write phases, a primary writer that waits for the readers before it, writers that wait for
//! another.
//!
//! Names of the steps follow the source: registering as a reader, the write-phase futex, the
//! writers' futex. Explicit hand-over in the middle of two atomic operations is left out: here they
//! are one.

use super::engine::Flow;
use super::engine::Sim;
use super::events::Tid;
use super::futex::Word;
use super::thread::Step;

impl Sim<'_> {
    /// Adds a reader; in a read phase that is all.
    pub(super) fn read_register(&mut self, tid: Tid) -> Flow {
        let lock = self.threads[tid as usize].acquisition.lock;
        let rw = &mut self.locks[lock as usize].rw;
        rw.readers += 1;
        if !rw.write_phase {
            return self.acquired(tid);
        }
        if !rw.write_locked {
            // No writer any more: this reader begins a read phase, and lets other readers in.
            rw.write_phase = false;
            rw.phase_futex = false;
            if std::mem::take(&mut rw.phase_futex_used) {
                return self.futex_wake(tid, Word::RwPhase(lock, true), u32::MAX, Step::ReadWait);
            }
            return self.acquired(tid);
        }
        self.contended(tid);
        self.read_wait(tid)
    }

    /// Waits for the end of the write phase.
    pub(super) fn read_wait(&mut self, tid: Tid) -> Flow {
        let lock = self.threads[tid as usize].acquisition.lock;
        let rw = &mut self.locks[lock as usize].rw;
        if !rw.phase_futex {
            return self.acquired(tid);
        }
        rw.phase_futex_used = true;
        self.futex_wait(tid, Word::RwPhase(lock, true), Step::ReadWait)
    }

    /// The last reader hands over to a primary writer.
    pub(super) fn read_release(&mut self, tid: Tid) -> Flow {
        let lock = self.threads[tid as usize].releasing;
        let rw = &mut self.locks[lock as usize].rw;
        rw.readers -= 1;
        let hands_over = rw.readers == 0 && rw.write_locked;
        let mut wakes = false;
        if hands_over {
            rw.write_phase = true;
            rw.phase_futex = true;
            wakes = std::mem::take(&mut rw.phase_futex_used);
        }
        self.released(tid);
        if wakes {
            return self.futex_wake(tid, Word::RwPhase(lock, false), u32::MAX, Step::LockDone);
        }
        self.lock_done(tid)
    }

    /// Tries to become the primary writer.
    pub(super) fn write_try(&mut self, tid: Tid) -> Flow {
        let lock = self.threads[tid as usize].acquisition.lock;
        let rw = &mut self.locks[lock as usize].rw;
        if !rw.write_locked {
            rw.write_locked = true;
            return self.primary_writer(tid);
        }
        self.contended(tid);
        // The flag stays set when this writer gets the lock: others may sleep.
        self.threads[tid as usize].acquisition.shares_flag = true;
        self.locks[lock as usize].rw.writers_futex_used = true;
        self.futex_wait(tid, Word::RwWriters(lock), Step::WriteRetry)
    }

    pub(super) fn write_retry(&mut self, tid: Tid) -> Flow {
        let lock = self.threads[tid as usize].acquisition.lock;
        self.threads[tid as usize].step = Step::WriteTry;
        Flow::Run(self.touch_lock(tid, lock, self.costs.atomic))
    }

    fn primary_writer(&mut self, tid: Tid) -> Flow {
        let acquisition = self.threads[tid as usize].acquisition;
        let rw = &mut self.locks[acquisition.lock as usize].rw;
        rw.writers_futex = true;
        rw.writers_futex_used = acquisition.shares_flag;
        if rw.write_phase {
            return self.acquired(tid);
        }
        if rw.readers == 0 {
            rw.write_phase = true;
            rw.phase_futex = true;
            rw.phase_futex_used = false;
            return self.acquired(tid);
        }
        self.contended(tid);
        self.write_phase_wait(tid)
    }

    /// The primary writer waits for the last reader.
    pub(super) fn write_phase_wait(&mut self, tid: Tid) -> Flow {
        let lock = self.threads[tid as usize].acquisition.lock;
        let rw = &mut self.locks[lock as usize].rw;
        if rw.phase_futex {
            return self.acquired(tid);
        }
        rw.phase_futex_used = true;
        self.futex_wait(tid, Word::RwPhase(lock, false), Step::WritePhaseWait)
    }

    /// Hands over to the readers that have registered, else stays in the write phase.
    pub(super) fn write_release(&mut self, tid: Tid) -> Flow {
        let lock = self.threads[tid as usize].releasing;
        let rw = &mut self.locks[lock as usize].rw;
        rw.write_locked = false;
        rw.writers_futex = false;
        let wakes_writer = std::mem::take(&mut rw.writers_futex_used);
        let mut wakes_readers = false;
        if rw.readers > 0 {
            rw.write_phase = false;
            rw.phase_futex = false;
            wakes_readers = std::mem::take(&mut rw.phase_futex_used);
        }
        self.released(tid);
        let then = if wakes_writer {
            Step::WriteWakeWriters
        } else {
            Step::LockDone
        };
        if wakes_readers {
            return self.futex_wake(tid, Word::RwPhase(lock, true), u32::MAX, then);
        }
        self.threads[tid as usize].step = then;
        Flow::Run(0)
    }

    pub(super) fn write_wake_writers(&mut self, tid: Tid) -> Flow {
        let lock = self.threads[tid as usize].releasing;
        self.futex_wake(tid, Word::RwWriters(lock), 1, Step::LockDone)
    }
}
