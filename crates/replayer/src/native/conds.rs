//! Condition variables as replayed threads wait on them, and what they wait for.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

use convoy_replay::program::Need;
use rustix::thread::futex;

use super::needs::CondPlan;

/// A condition variable, alone on its cache lines.
#[repr(align(128))]
pub(super) struct Cond {
    raw: UnsafeCell<libc::pthread_cond_t>,
    /// Changed by every signal, for waits that the C library's cannot do.
    sequence: AtomicU32,
    /// Threads in waits.
    waiters: AtomicU32,
    plan: CondPlan,
}

// SAFETY: `raw` is accessed through the C library's functions alone.
unsafe impl Sync for Cond {}
// SAFETY: a condition variable without waiters can be moved and used from any thread.
unsafe impl Send for Cond {}

impl std::fmt::Debug for Cond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plan = &self.plan;
        f.debug_struct("Cond")
            .field("plan", plan)
            .finish_non_exhaustive()
    }
}

impl Cond {
    pub fn new(plan: CondPlan) -> Self {
        Self {
            raw: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
            sequence: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            plan,
        }
    }

    pub fn is_pthread(&self) -> bool {
        self.plan.is_pthread
    }

    pub fn signal(&self) {
        if self.plan.wakes_all {
            return self.broadcast();
        }
        if self.plan.is_pthread {
            // SAFETY: initialized, and pinned by the reference to `self`.
            unsafe { libc::pthread_cond_signal(self.raw.get()) };
        } else {
            self.wake(1);
        }
    }

    pub fn broadcast(&self) {
        if self.plan.is_pthread {
            // SAFETY: initialized, and pinned by the reference to `self`.
            unsafe { libc::pthread_cond_broadcast(self.raw.get()) };
        } else {
            self.wake(i32::MAX as u32);
        }
    }

    /// As the C library's signals, those that nobody waits for make no system call: whoever enters
    /// later sees the changed number, and what was posted before it.
    fn wake(&self, most: u32) {
        self.sequence.fetch_add(1, Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) > 0 {
            let _ = futex::wake(&self.sequence, futex::Flags::PRIVATE, most);
        }
    }

    /// Signals if somebody waits.
    pub fn signal_waiters(&self) {
        if self.waiters.load(Ordering::SeqCst) > 0 {
            self.signal();
        }
    }

    /// A wait begins. Signals from here on count for it.
    pub fn enter(&self) {
        self.waiters.fetch_add(1, Ordering::SeqCst);
    }

    /// A wait has ended.
    pub fn leave(&self) {
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits for a signal, with a mutex.
    ///
    /// # Safety
    ///
    /// The mutex is alive, and the calling thread holds it.
    pub unsafe fn wait(&self, mutex: *mut libc::pthread_mutex_t) {
        // SAFETY: initialized, and pinned by the reference to `self`; the mutex as the caller says.
        unsafe { libc::pthread_cond_wait(self.raw.get(), mutex) };
    }

    /// A number that every signal changes.
    pub fn sequence(&self) -> u32 {
        self.sequence.load(Ordering::SeqCst)
    }

    /// Waits until the number is another.
    pub fn wait_beyond(&self, sequence: u32) {
        // Returns early for signals of the system; callers look at what they wait for.
        let _ = futex::wait(&self.sequence, futex::Flags::PRIVATE, sequence, None);
    }
}

/// Tokens that waits need.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Channel {
    tokens: AtomicU32,
    /// Tokens ever posted, those of the start not counted.
    posted: AtomicU32,
}

impl Channel {
    pub fn new(tokens: u32) -> Self {
        Self {
            tokens: AtomicU32::new(tokens),
            posted: AtomicU32::new(0),
        }
    }

    pub fn post(&self) {
        self.tokens.fetch_add(1, Ordering::SeqCst);
        self.posted.fetch_add(1, Ordering::SeqCst);
    }

    /// True if a wait is over; takes the token that it needed.
    ///
    /// Atomically, although a lock protects it in the program: what-ifs remove locks.
    pub fn meets(&self, need: Need) -> bool {
        match need {
            Need::Token(_) => {
                let taken =
                    self.tokens
                        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |tokens| {
                            tokens.checked_sub(1)
                        });
                taken.is_ok()
            }
            Need::Count(_, count) => self.posted.load(Ordering::SeqCst) >= count,
        }
    }
}
