//! What an operation is done to, and in what sense.

use convoy_profile::{ObjectKind, Op};

use crate::{FutexOf, Object};

/// The kind of object that an operation is for.
pub fn kind_of(op: Op) -> ObjectKind {
    match op {
        Op::MutexLock | Op::MutexTimedlock | Op::MutexTrylock => ObjectKind::Mutex,
        Op::RwlockRd
        | Op::RwlockWr
        | Op::RwlockTimedrd
        | Op::RwlockTimedwr
        | Op::RwlockTryrd
        | Op::RwlockTrywr => ObjectKind::RwLock,
        Op::SpinLock | Op::SpinTrylock => ObjectKind::Spin,
        Op::CondWait | Op::CondTimedwait | Op::CondSignal | Op::CondBroadcast => ObjectKind::Cond,
        Op::BarrierWait => ObjectKind::Barrier,
        Op::SemWait | Op::SemTimedwait | Op::SemTrywait | Op::SemPost => ObjectKind::Sem,
        Op::Join => ObjectKind::Thread,
        Op::Once => ObjectKind::Once,
        Op::FutexWait | Op::FutexWake => ObjectKind::Futex,
        Op::OmpLock | Op::OmpTrylock => ObjectKind::OmpLock,
        Op::OmpCritical => ObjectKind::OmpCritical,
        Op::OmpBarrier => ObjectKind::OmpBarrier,
        Op::OmpRegion => ObjectKind::OmpRegion,
    }
}

/// Whether objects of a kind are locks by their type: somebody holds them, and lets them go himself. Of futexes and semaphores only
/// their use tells.
pub fn is_lock_kind(kind: ObjectKind) -> bool {
    matches!(
        kind,
        ObjectKind::Mutex
            | ObjectKind::RwLock
            | ObjectKind::Spin
            | ObjectKind::OmpLock
            | ObjectKind::OmpCritical
    )
}

/// Whether an object is a lock by its type, futexes of known runtimes included.
pub fn is_lock_by_type(object: &Object) -> bool {
    is_lock_kind(object.kind)
        || matches!(
            object.futex_of,
            Some(
                FutexOf::RustMutex
                    | FutexOf::RustRwLock
                    | FutexOf::ParkingLotMutex
                    | FutexOf::ParkingLotRwLock
                    | FutexOf::GlibMutex
                    | FutexOf::AbseilMutex
            )
        )
}

/// Whether the operation takes a lock and waits until it has it. Its calls are counted when they
/// return holding the lock: a timeout is no call.
pub fn is_blocking_acquire(op: Op) -> bool {
    matches!(
        op,
        Op::MutexLock
            | Op::MutexTimedlock
            | Op::RwlockRd
            | Op::RwlockWr
            | Op::RwlockTimedrd
            | Op::RwlockTimedwr
            | Op::SpinLock
            | Op::OmpLock
            | Op::OmpCritical
    )
}

/// The most of [`extent`], but for threads.
pub(crate) const WIDEST: u64 = 64;

/// Bytes that an object of this kind takes at most, for telling whose futex word an address is: the sizes of
/// glibc on 64-bit machines. A joined thread is known by its `pthread_t`, whose tid is the word.
pub(crate) fn extent(kind: ObjectKind) -> u64 {
    match kind {
        ObjectKind::Mutex => 40,
        ObjectKind::Cond => 48,
        ObjectKind::RwLock => 56,
        ObjectKind::Sem | ObjectKind::Barrier => 32,
        ObjectKind::Thread => 2304,
        ObjectKind::Futex | ObjectKind::Once | ObjectKind::Spin => 4,
        // Runtimes have objects of their own layouts, no larger than a cache line.
        ObjectKind::Unknown
        | ObjectKind::OmpLock
        | ObjectKind::OmpCritical
        | ObjectKind::OmpBarrier
        | ObjectKind::OmpRegion => WIDEST,
    }
}

/// What to call an object of this kind in a line.
pub(crate) fn noun(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Unknown => "object",
        ObjectKind::Mutex => "mutex",
        ObjectKind::RwLock => "rwlock",
        ObjectKind::Spin => "spin lock",
        ObjectKind::Cond => "condition variable",
        ObjectKind::Barrier => "barrier",
        ObjectKind::Sem => "semaphore",
        ObjectKind::Thread => "thread",
        ObjectKind::Once => "once",
        ObjectKind::Futex => "futex",
        ObjectKind::OmpLock => "OpenMP lock",
        ObjectKind::OmpCritical => "OpenMP critical section",
        ObjectKind::OmpBarrier => "OpenMP barrier",
        ObjectKind::OmpRegion => "OpenMP parallel region",
    }
}
