//! What an operation is done to, and in what sense.

use convoy_profile::{ObjectKind, Op};

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
