//! Which operations acquire, try, wait or wake, and which objects are locks.

use std::collections::BTreeSet;

use convoy_model::{
    is_lock_by_type, semaphores_used_as_locks, FutexOf, Model, Object, ObjectId, ThreadId,
};
use convoy_profile::{ObjectKind, Op};

/// What a call does, as far as an analysis cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Blocks until the lock is held, alone.
    Acquire,
    /// Blocks until the lock is held, together with others.
    AcquireShared,
    /// Returns at once, with or without the lock.
    Try,
    /// Blocks until something happens.
    Wait,
    /// Makes something happen.
    Wake,
}

/// The role of an operation. A wait at a futex or a semaphore is an acquire or a wait: that depends on the object.
pub(crate) fn role(op: Op, lock: bool) -> Role {
    match op {
        Op::MutexLock
        | Op::MutexTimedlock
        | Op::RwlockWr
        | Op::RwlockTimedwr
        | Op::SpinLock
        | Op::OmpLock
        | Op::OmpCritical => Role::Acquire,
        Op::RwlockRd | Op::RwlockTimedrd => Role::AcquireShared,
        Op::MutexTrylock
        | Op::RwlockTryrd
        | Op::RwlockTrywr
        | Op::SpinTrylock
        | Op::SemTrywait
        | Op::OmpTrylock => Role::Try,
        Op::FutexWait | Op::SemWait | Op::SemTimedwait if lock => Role::Acquire,
        Op::CondWait
        | Op::CondTimedwait
        | Op::BarrierWait
        | Op::SemWait
        | Op::SemTimedwait
        | Op::Join
        | Op::Once
        | Op::FutexWait
        | Op::OmpBarrier
        | Op::OmpRegion => Role::Wait,
        Op::CondSignal | Op::CondBroadcast | Op::SemPost | Op::FutexWake => Role::Wake,
    }
}

/// Threads meet at it: nobody goes on before all have come.
pub(crate) fn is_meeting(object: &Object) -> bool {
    matches!(
        object.kind,
        ObjectKind::Barrier | ObjectKind::OmpBarrier | ObjectKind::OmpRegion
    ) || matches!(object.futex_of, Some(FutexOf::CxxBarrier))
}

/// Whether an object is a semaphore, whatever it is used for.
pub(crate) fn is_semaphore(model: &Model, id: ObjectId) -> bool {
    let object = model.objects.get(id.0 as usize);
    object.is_some_and(|object| object.kind == ObjectKind::Sem)
}

/// The waits of such a lock burn CPU time instead of sleeping.
pub(crate) fn spins(kind: ObjectKind) -> bool {
    kind == ObjectKind::Spin
}

/// Which objects are locks: acquired and released by the same thread, mutually exclusive.
#[derive(Debug, Default)]
pub struct Locks {
    lock: Vec<bool>,
    /// Told from use, not from type: an unnamed futex word.
    guessed: BTreeSet<ObjectId>,
}

impl Locks {
    /// Looks at the type of every object, and at the use of semaphores and of futex words whose code is not known.
    pub fn of(model: &Model) -> Self {
        let mut this = Self {
            lock: model.objects.iter().map(is_lock_by_type).collect(),
            guessed: BTreeSet::new(),
        };
        for id in semaphores_used_as_locks(model) {
            this.lock[id.0 as usize] = true;
        }
        for id in unnamed_futexes_used_like_locks(model) {
            this.lock[id.0 as usize] = true;
            this.guessed.insert(id);
        }
        this
    }

    /// Whether an object is a lock.
    pub fn contains(&self, id: ObjectId) -> bool {
        self.lock.get(id.0 as usize).copied().unwrap_or(false)
    }

    pub(crate) fn guessed(&self, id: ObjectId) -> bool {
        self.guessed.contains(&id)
    }
}

/// A futex word of unknown code is taken for a lock if several threads wait at it and nearly all
/// waits are ended by threads that wait at it too: whoever releases a lock also acquires it. The
/// words of queues and events are woken by another kind of thread, or by one thread only.
fn unnamed_futexes_used_like_locks(model: &Model) -> Vec<ObjectId> {
    let unnamed = |id: ObjectId| {
        model
            .objects
            .get(id.0 as usize)
            .is_some_and(|o| o.kind == ObjectKind::Futex && o.futex_of.is_none())
    };
    let mut waiters: BTreeSet<(ObjectId, ThreadId)> = BTreeSet::new();
    for u in model
        .uses
        .iter()
        .filter(|u| unnamed(u.object) && u.op == Some(Op::FutexWait) && u.waits > 0)
    {
        waiters.insert((u.object, u.thread));
    }
    let mut by_object: std::collections::BTreeMap<ObjectId, (u64, u64)> = Default::default();
    for p in model.pairs.iter().filter(|p| unnamed(p.object)) {
        let known = by_object.entry(p.object).or_default();
        known.1 += p.waits;
        if p.peer
            .is_some_and(|peer| peer != p.thread && waiters.contains(&(p.object, peer)))
        {
            known.0 += p.waits;
        }
    }
    by_object
        .into_iter()
        .filter(|(id, (mutual, all))| {
            let threads = waiters
                .range((*id, ThreadId(0))..=(*id, ThreadId(u32::MAX)))
                .count();
            threads >= 3 && *all >= 20 && *mutual * 10 >= *all * 8
        })
        .map(|(id, _)| id)
        .collect()
}
