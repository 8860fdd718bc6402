//! What a raw futex word belongs to: the functions that wait on it tell.
//!
//! Rust's and C++20's primitives call `syscall(SYS_futex)` themselves, so the word is all that is seen
//! of them. The names are those of Rust 1.62 to 1.95, parking_lot 0.11 to 0.12, GCC 11 to 14 and GLib.

use crate::{path, FutexOf, Site};

/// (what a function's path contains, what the futex then is); more specific ones first.
const OWNERS: [(&str, FutexOf); 28] = [
    ("parking_lot::condvar", FutexOf::ParkingLotCondvar),
    ("parking_lot::raw_rwlock", FutexOf::ParkingLotRwLock),
    ("parking_lot::raw_mutex", FutexOf::ParkingLotMutex),
    ("parking_lot::raw_fair_mutex", FutexOf::ParkingLotMutex),
    ("mutex::futex::Mutex", FutexOf::RustMutex),
    ("locks::futex_mutex", FutexOf::RustMutex),
    ("std::sync::mutex::Mutex", FutexOf::RustMutex),
    ("std::sync::poison::mutex::Mutex", FutexOf::RustMutex),
    ("futex_rwlock", FutexOf::RustRwLock),
    ("rwlock::futex::RwLock", FutexOf::RustRwLock),
    ("futex_condvar", FutexOf::RustCondvar),
    ("condvar::futex::Condvar", FutexOf::RustCondvar),
    ("once::futex::Once", FutexOf::RustOnce),
    ("thread_parking::futex::Parker", FutexOf::RustPark),
    ("thread_parker::futex::Parker", FutexOf::RustPark),
    ("std::thread::park", FutexOf::RustPark),
    ("std::counting_semaphore", FutexOf::CxxSemaphore),
    ("std::__semaphore", FutexOf::CxxSemaphore),
    ("std::__atomic_semaphore", FutexOf::CxxSemaphore),
    ("std::latch", FutexOf::CxxLatch),
    ("std::barrier", FutexOf::CxxBarrier),
    ("std::__tree_barrier", FutexOf::CxxBarrier),
    ("std::__atomic_futex_unsigned", FutexOf::CxxFuture),
    ("std::__future_base", FutexOf::CxxFuture),
    ("__cxa_guard_acquire", FutexOf::CxxStaticInit),
    ("g_mutex_lock", FutexOf::GlibMutex),
    ("g_cond_wait", FutexOf::GlibCond),
    ("absl::", FutexOf::AbseilMutex),
];

/// What C++'s other primitives are made of: says something only where nothing else does.
const ATOMIC_WAIT: [&str; 4] = [
    "std::__atomic_wait",
    "std::__detail::__platform_wait",
    "std::atomic",
    "std::__atomic_base",
];

/// Told from one call stack that waited, `None` if its functions do not say.
pub(super) fn owner(site: &Site) -> Option<FutexOf> {
    // Only the innermost frames: an outer `std::future::get()` may wait for a thread that waits here.
    let inner = || {
        site.frames
            .iter()
            .take(site.shown.max(1))
            .map(|f| path::short(&f.function))
    };
    let specific = inner().find_map(|name| {
        OWNERS
            .iter()
            .find(|(part, _)| name.contains(part))
            .map(|&(_, owner)| owner)
    });
    specific.or_else(|| {
        let waits = |name: String| ATOMIC_WAIT.iter().any(|part| name.starts_with(part));
        inner().any(waits).then_some(FutexOf::CxxAtomicWait)
    })
}

/// What to call it in a line.
pub(super) fn noun(owner: FutexOf) -> &'static str {
    match owner {
        FutexOf::RustMutex => "Rust Mutex",
        FutexOf::RustRwLock => "Rust RwLock",
        FutexOf::RustCondvar => "Rust Condvar",
        FutexOf::RustOnce => "Rust Once",
        FutexOf::RustPark => "Rust thread parking",
        FutexOf::ParkingLotMutex => "parking_lot Mutex",
        FutexOf::ParkingLotRwLock => "parking_lot RwLock",
        FutexOf::ParkingLotCondvar => "parking_lot Condvar",
        FutexOf::CxxSemaphore => "C++ semaphore",
        FutexOf::CxxLatch => "C++ latch",
        FutexOf::CxxBarrier => "C++ barrier",
        FutexOf::CxxAtomicWait => "C++ atomic wait",
        FutexOf::CxxFuture => "C++ future",
        FutexOf::CxxStaticInit => "C++ static initialisation",
        FutexOf::GlibMutex => "GMutex",
        FutexOf::GlibCond => "GCond",
        FutexOf::AbseilMutex => "absl::Mutex",
    }
}
