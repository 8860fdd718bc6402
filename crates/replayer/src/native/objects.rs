//! What the threads of a replay share: its locks and all else that they wait for.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;

use super::conds::{Channel, Cond};
use super::locks::Lock;
use super::plan::Plan;
use super::turns::Gates;
use crate::clock::Clock;

/// Objects of one replay, in their first state.
#[derive(Debug)]
pub(super) struct Objects {
    pub locks: Box<[Lock]>,
    /// Whose turn it is: see [`Gates`].
    pub turns: Box<[Turn]>,
    pub conds: Box<[Cond]>,
    pub channels: Box<[Channel]>,
    pub barriers: Box<[Barrier]>,
    pub semaphores: Box<[Semaphore]>,
    pub ends: Box<[End]>,
}

impl Objects {
    pub fn new(plan: &Plan, clock: &Clock) -> Self {
        let locks = plan.locks.iter();
        let gates = match plan.gates {
            Gates::None => 0,
            Gates::ByLock => plan.locks.len(),
            Gates::One => 1,
        };
        Self {
            locks: locks.map(|&kind| Lock::new(kind, clock)).collect(),
            turns: (0..gates).map(|_| Turn::default()).collect(),
            conds: plan.conds.iter().map(|&cond| Cond::new(cond)).collect(),
            channels: plan
                .channels
                .iter()
                .map(|&tokens| Channel::new(tokens))
                .collect(),
            barriers: plan
                .barriers
                .iter()
                .map(|&count| Barrier::new(count))
                .collect(),
            semaphores: plan
                .semaphores
                .iter()
                .map(|&value| Semaphore::new(value))
                .collect(),
            ends: plan.threads.iter().map(|_| End::default()).collect(),
        }
    }
}

/// The number of operations in an order that are over, for threads that wait for theirs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Turn {
    number: AtomicU32,
    sleepers: AtomicU32,
}

impl Turn {
    /// Looks before a thread sleeps: a turn is usually over before it would be asleep.
    const LOOKS: u32 = 1000;

    pub fn is(&self, turn: u32) -> bool {
        self.number.load(Ordering::Acquire) == turn
    }

    /// Waits until it is the turn of an operation.
    pub fn wait(&self, turn: u32) {
        for _ in 0..Self::LOOKS {
            if self.is(turn) {
                return;
            }
            std::hint::spin_loop();
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        loop {
            let now = self.number.load(Ordering::SeqCst);
            if now == turn {
                break;
            }
            let _ = futex::wait(&self.number, futex::Flags::PRIVATE, now, None);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// The operation is over: the next one's turn.
    pub fn pass(&self) {
        self.number.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let all = i32::MAX as u32;
            let _ = futex::wake(&self.number, futex::Flags::PRIVATE, all);
        }
    }
}

/// A barrier of the C library.
#[repr(align(128))]
pub(super) struct Barrier(UnsafeCell<libc::pthread_barrier_t>);

// SAFETY: accessed through the C library's functions alone.
unsafe impl Sync for Barrier {}
// SAFETY: not used by any thread before all of them are started, and never moved afterwards.
unsafe impl Send for Barrier {}

impl std::fmt::Debug for Barrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Barrier")
    }
}

impl Barrier {
    fn new(count: u32) -> Self {
        // SAFETY: the type has no invalid values, and is initialized before it is used; it may be
        // moved until then, since glibc's holds no pointer to itself.
        unsafe {
            let barrier = Self(UnsafeCell::new(std::mem::zeroed()));
            libc::pthread_barrier_init(barrier.0.get(), std::ptr::null(), count);
            barrier
        }
    }

    pub fn wait(&self) {
        // SAFETY: initialized, and pinned by the reference to `self`.
        unsafe { libc::pthread_barrier_wait(self.0.get()) };
    }
}

/// A semaphore of the C library.
#[repr(align(128))]
pub(super) struct Semaphore(UnsafeCell<libc::sem_t>);

// SAFETY: accessed through the C library's functions alone.
unsafe impl Sync for Semaphore {}
// SAFETY: not used by any thread before all of them are started, and never moved afterwards.
unsafe impl Send for Semaphore {}

impl std::fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Semaphore")
    }
}

impl Semaphore {
    fn new(value: u32) -> Self {
        // SAFETY: as for barriers.
        unsafe {
            let semaphore = Self(UnsafeCell::new(std::mem::zeroed()));
            libc::sem_init(semaphore.0.get(), 0, value);
            semaphore
        }
    }

    /// Decrements it if it is not 0.
    pub fn try_wait(&self) -> bool {
        // SAFETY: initialized, and pinned by the reference to `self`.
        unsafe { libc::sem_trywait(self.0.get()) == 0 }
    }

    pub fn wait(&self) {
        // Interrupted by signals of the system only.
        // SAFETY: initialized, and pinned by the reference to `self`.
        while unsafe { libc::sem_wait(self.0.get()) } != 0 {}
    }

    pub fn post(&self) {
        // SAFETY: initialized, and pinned by the reference to `self`.
        unsafe { libc::sem_post(self.0.get()) };
    }
}

/// The end of a thread, for those that join it.
#[derive(Debug, Default)]
pub(super) struct End(AtomicU32);

impl End {
    pub fn has_come(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    pub fn wait(&self) {
        while !self.has_come() {
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, 0, None);
        }
    }

    pub fn comes(&self) {
        self.0.store(1, Ordering::SeqCst);
        let _ = futex::wake(&self.0, futex::Flags::PRIVATE, i32::MAX as u32);
    }
}
