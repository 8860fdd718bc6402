//! Costs of operations that involve no other thread.

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use rustix::thread::futex;

use super::Bench;
use crate::stats::Sample;

/// Costs of one thread on its own processor, nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Local {
    pub clock_ns: f64,
    pub atomic_ns: f64,
    pub lock_pair_ns: f64,
    pub rdlock_pair_ns: f64,
    pub syscall_ns: f64,
    pub futex_eagain_ns: f64,
    pub futex_wake_none_ns: f64,
    pub spawn_ns: f64,
}

pub(super) fn measure(bench: &Bench) -> Local {
    // glibc's locks are cheaper while a process has one thread; a replayed program has several, and
    // this is not the only thread of ours.
    let counter = AtomicU64::new(0);
    let word = AtomicU32::new(1);
    let clock = bench.clock;
    Local {
        clock_ns: bench.per_call(1000, || {
            black_box(clock.ticks());
        }),
        atomic_ns: bench.per_call(1000, || {
            counter.fetch_add(1, Ordering::SeqCst);
        }),
        lock_pair_ns: mutex_pair(bench),
        rdlock_pair_ns: read_lock_pair(bench),
        syscall_ns: bench.per_call(300, || {
            black_box(rustix::process::getppid());
        }),
        futex_eagain_ns: bench.per_call(300, || {
            // EAGAIN: the word is 1.
            let _ = futex::wait(&word, futex::Flags::PRIVATE, 0, None);
        }),
        futex_wake_none_ns: bench.per_call(300, || {
            let _ = futex::wake(&word, futex::Flags::PRIVATE, 1);
        }),
        spawn_ns: spawn(bench),
    }
}

fn mutex_pair(bench: &Bench) -> f64 {
    let mutex = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
    bench.per_call(1000, || {
        // SAFETY: an initialized mutex that does not move; no reference into it exists.
        unsafe {
            libc::pthread_mutex_lock(mutex.get());
            libc::pthread_mutex_unlock(mutex.get());
        }
    })
}

fn read_lock_pair(bench: &Bench) -> f64 {
    let lock = Box::new(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER));
    bench.per_call(1000, || {
        // SAFETY: an initialized lock that does not move; no reference into it exists.
        unsafe {
            libc::pthread_rwlock_rdlock(lock.get());
            libc::pthread_rwlock_unlock(lock.get());
        }
    })
}

fn spawn(bench: &Bench) -> f64 {
    let spawns = (0..bench.effort.of(40)).filter_map(|_| {
        let start = bench.clock.ticks();
        let thread = thread::Builder::new().spawn(|| ()).ok()?;
        let cost = bench.clock.since(start);
        // A thread that only returns does not panic.
        let _ = thread.join();
        Some(cost)
    });
    let sample = Sample::new(spawns.collect());
    bench.note_spread(&sample);
    sample.median()
}
