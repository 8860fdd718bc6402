//! Locks as replayed threads take them: those of the C library, and two of ours for what-ifs.

use std::cell::UnsafeCell;
use std::num::NonZeroU32;
use std::ptr::addr_of_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use convoy_replay::program::LockKind;
use rustix::thread::futex;

use crate::clock::Clock;

/// A lock with the data that it protects, alone on a pair of cache lines: where the locks of the
/// program lay is not known, and neighbours would fight for what they do not share.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Lock(Body);

#[derive(Debug)]
enum Body {
    Mutex(Guarded<libc::pthread_mutex_t>),
    Adaptive(Guarded<libc::pthread_mutex_t>, u64),
    Spin(Guarded<libc::pthread_spinlock_t>),
    RwLock(Guarded<libc::pthread_rwlock_t>),
    Ticket(Guarded<Ticket>),
    Absent,
}

/// A lock and its data: on one line, as where a lock is a member of what it protects.
struct Guarded<T> {
    raw: UnsafeCell<T>,
    data: UnsafeCell<Data>,
}

/// What sections of a lock touch.
#[derive(Debug, Default)]
pub(super) struct Data {
    /// Each exclusive section works on it.
    pub value: u64,
    /// Exclusive acquisitions.
    pub acquisitions: u64,
    /// A function of the threads that acquired it exclusively, in order; kept where that order is
    /// enforced.
    pub order: u64,
}

impl Data {
    /// The next of an enforced order is this thread.
    pub fn acquired_by(&mut self, thread: u64) {
        // An odd factor loses no bit of what was before (Knuth's of multiplicative hashing).
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        self.order = self.order.rotate_left(5).wrapping_add(thread + 1);
        self.order = self.order.wrapping_mul(FACTOR);
    }
}

impl<T> std::fmt::Debug for Guarded<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guarded").finish_non_exhaustive()
    }
}

// SAFETY: `raw` is accessed through the C library's functions, or atomically, alone; `data` by who
// holds the lock exclusively, and after all threads have ended.
unsafe impl<T> Sync for Guarded<T> {}
// SAFETY: a lock that nobody holds can be moved and used from any thread.
unsafe impl<T> Send for Guarded<T> {}

impl<T> Guarded<T> {
    fn new(raw: T) -> Self {
        Self {
            raw: UnsafeCell::new(raw),
            data: UnsafeCell::default(),
        }
    }
}

impl Lock {
    pub fn new(kind: LockKind, clock: &Clock) -> Self {
        let mutex = || Guarded::new(libc::PTHREAD_MUTEX_INITIALIZER);
        Self(match kind {
            LockKind::Mutex => Body::Mutex(mutex()),
            LockKind::Adaptive { spin_ns } => {
                Body::Adaptive(mutex(), clock.ticks_in(f64::from(spin_ns)))
            }
            LockKind::Spin => {
                let lock = Guarded::new(0);
                // SAFETY: the pointer is to a spin lock of ours that nobody else knows yet.
                unsafe { libc::pthread_spin_init(lock.raw.get(), libc::PTHREAD_PROCESS_PRIVATE) };
                Body::Spin(lock)
            }
            LockKind::RwLock => Body::RwLock(Guarded::new(libc::PTHREAD_RWLOCK_INITIALIZER)),
            LockKind::Ticket => Body::Ticket(Guarded::new(Ticket::default())),
            LockKind::Absent => Body::Absent,
        })
    }

    /// Takes the lock if it is free. True if so; always for one that excludes nobody.
    ///
    /// A mutex is looked at first: a try that fails costs its holder the cache line once more than
    /// the program's own acquire, and would give the waiter another chance to get it without
    /// sleeping.
    #[inline]
    pub fn try_acquire(&self, shared: bool) -> bool {
        if matches!(self.0, Body::Mutex(_)) && self.word().load(Ordering::Relaxed) != 0 {
            return false;
        }
        // SAFETY: the locks are initialized, and pinned by the reference to `self`.
        let result = unsafe {
            match &self.0 {
                Body::Mutex(lock) | Body::Adaptive(lock, _) => {
                    libc::pthread_mutex_trylock(lock.raw.get())
                }
                Body::Spin(lock) => libc::pthread_spin_trylock(lock.raw.get()),
                Body::RwLock(lock) if shared => libc::pthread_rwlock_tryrdlock(lock.raw.get()),
                Body::RwLock(lock) => libc::pthread_rwlock_trywrlock(lock.raw.get()),
                Body::Ticket(lock) => return (*lock.raw.get()).try_acquire(),
                Body::Absent => 0,
            }
        };
        result == 0
    }

    /// Takes the lock, waiting as its kind does.
    pub fn acquire(&self, shared: bool, clock: &Clock) {
        // SAFETY: as in `try_acquire`; the caller does not hold it: plans have no recursion.
        unsafe {
            match &self.0 {
                Body::Mutex(lock) => {
                    libc::pthread_mutex_lock(lock.raw.get());
                }
                Body::Adaptive(lock, spin) => {
                    let end = clock.ticks() + spin;
                    while clock.ticks() < end {
                        // Without looking first, each attempt would take the line from its holder.
                        if self.word().load(Ordering::Relaxed) == 0
                            && libc::pthread_mutex_trylock(lock.raw.get()) == 0
                        {
                            return;
                        }
                        std::hint::spin_loop();
                    }
                    libc::pthread_mutex_lock(lock.raw.get());
                }
                Body::Spin(lock) => {
                    libc::pthread_spin_lock(lock.raw.get());
                }
                Body::RwLock(lock) if shared => {
                    libc::pthread_rwlock_rdlock(lock.raw.get());
                }
                Body::RwLock(lock) => {
                    libc::pthread_rwlock_wrlock(lock.raw.get());
                }
                Body::Ticket(lock) => (*lock.raw.get()).acquire(),
                Body::Absent => {}
            }
        }
    }

    /// Releases the lock, which the caller holds.
    #[inline]
    pub fn release(&self) {
        // SAFETY: as in `try_acquire`; the caller holds it: plans release what they acquired.
        unsafe {
            match &self.0 {
                Body::Mutex(lock) | Body::Adaptive(lock, _) => {
                    libc::pthread_mutex_unlock(lock.raw.get());
                }
                Body::Spin(lock) => {
                    libc::pthread_spin_unlock(lock.raw.get());
                }
                Body::RwLock(lock) => {
                    libc::pthread_rwlock_unlock(lock.raw.get());
                }
                Body::Ticket(lock) => (*lock.raw.get()).release(),
                Body::Absent => {}
            }
        }
    }

    /// A locked instruction on the lock that changes nothing: an attempt that failed.
    pub fn touch(&self) {
        if !matches!(self.0, Body::Absent) {
            self.word().fetch_add(0, Ordering::SeqCst);
        }
    }

    /// Data of the lock, valid as long as the lock; `None` for one that excludes nobody.
    ///
    /// May be accessed by who holds it exclusively, or when all threads have ended.
    #[inline]
    pub fn data(&self) -> Option<*mut Data> {
        match &self.0 {
            Body::Mutex(lock) | Body::Adaptive(lock, _) => Some(lock.data.get()),
            Body::Spin(lock) => Some(lock.data.get()),
            Body::RwLock(lock) => Some(lock.data.get()),
            Body::Ticket(lock) => Some(lock.data.get()),
            Body::Absent => None,
        }
    }

    /// The mutex for `pthread_cond_wait`, of a lock that has one.
    pub fn mutex(&self) -> Option<*mut libc::pthread_mutex_t> {
        match &self.0 {
            Body::Mutex(lock) | Body::Adaptive(lock, _) => Some(lock.raw.get()),
            _ => None,
        }
    }

    /// First word of the lock. In glibc that is the one that is compared and exchanged, 0 = free,
    /// of a mutex; of the others some word that operations change.
    fn word(&self) -> &AtomicU32 {
        static NONE: AtomicU32 = AtomicU32::new(0);
        let raw: *mut u32 = match &self.0 {
            Body::Mutex(lock) | Body::Adaptive(lock, _) => lock.raw.get().cast(),
            Body::Spin(lock) => lock.raw.get().cast(),
            Body::RwLock(lock) => lock.raw.get().cast(),
            Body::Ticket(lock) => lock.raw.get().cast(),
            Body::Absent => return &NONE,
        };
        // SAFETY: each of these types is at least four bytes long and aligned to four; the word
        // lives as long as `self`, and all other accesses to it are atomic.
        unsafe { AtomicU32::from_ptr(raw) }
    }
}

impl Data {
    /// Pointer to the value of data that may be accessed.
    ///
    /// # Safety
    ///
    /// `data` points to data of a living lock.
    pub unsafe fn value(data: *mut Self) -> *mut u64 {
        // SAFETY: in bounds of what the caller says is there.
        unsafe { addr_of_mut!((*data).value) }
    }
}

/// A lock that is granted in order of arrival; waiters sleep.
#[derive(Debug, Default)]
struct Ticket {
    next: AtomicU32,
    serving: AtomicU32,
}

impl Ticket {
    fn try_acquire(&self) -> bool {
        let serving = self.serving.load(Ordering::SeqCst);
        let taken = self.next.compare_exchange(
            serving,
            serving.wrapping_add(1),
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
        taken.is_ok()
    }

    fn acquire(&self) {
        let ticket = self.next.fetch_add(1, Ordering::SeqCst);
        loop {
            let serving = self.serving.load(Ordering::SeqCst);
            if serving == ticket {
                return;
            }
            // Back at once if the number has changed meanwhile; the loop looks again.
            let _ = futex::wait_bitset(
                &self.serving,
                futex::Flags::PRIVATE,
                serving,
                None,
                ticket_bit(ticket),
            );
        }
    }

    fn release(&self) {
        let serving = self.serving.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        if self.next.load(Ordering::SeqCst) != serving {
            let all = i32::MAX as u32;
            let bit = ticket_bit(serving);
            let _ = futex::wake_bitset(&self.serving, futex::Flags::PRIVATE, all, bit);
        }
    }
}

/// Waiters with different bits are not woken for each other.
fn ticket_bit(ticket: u32) -> NonZeroU32 {
    NonZeroU32::new(1 << (ticket % 32)).unwrap_or(NonZeroU32::MIN)
}
