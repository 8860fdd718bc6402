//! What is waited for. The agent's other records name an object by its address alone; an address may
//! have held several objects in turn, so the operation decides which of them is meant.

use std::collections::HashMap;

use convoy_abi as abi;
use convoy_profile::{Memory, Object, ObjectIx, ObjectKind, Op};

use super::code::Code;
use super::threads::Threads;
use super::view::View;

pub(super) struct Objects {
    objects: Vec<Object>,
    /// The latest object of each address and kind.
    latest: HashMap<(u64, ObjectKind), ObjectIx>,
}

impl Objects {
    pub fn new(view: &View<'_>, code: &mut Code<'_, '_>) -> Self {
        let mut all = Self {
            objects: Vec::new(),
            latest: HashMap::new(),
        };
        for block in view.blocks(abi::CV_BLOCK_OBJECTS) {
            for (_, raw) in view.items::<abi::Object>(block) {
                if raw.addr == 0 {
                    continue;
                }
                let Some(kind) = kind_of(raw.kind) else {
                    view.mark_damaged();
                    continue;
                };
                all.latest
                    .insert((raw.addr, kind), all.objects.len() as ObjectIx);
                all.objects.push(Object {
                    addr: raw.addr,
                    kind,
                    init_stack: code.stack(raw.init_stack),
                    lives: raw.lives,
                    destroyed: raw.destroyed,
                    attr: raw.attr,
                    module: raw.module.checked_sub(1).and_then(|id| code.module(id)),
                    symbol: None,
                    memory: Memory::Unknown,
                });
            }
        }
        all
    }

    /// The object at an address that an operation is about.
    pub fn of(&mut self, addr: u64, op: Op) -> ObjectIx {
        let kind = family(op);
        if let Some(ix) = self.latest.get(&(addr, kind)) {
            return *ix;
        }
        // A record that was made before its kind was known takes the kind of its first operation.
        if let Some(ix) = self.latest.remove(&(addr, ObjectKind::Unknown)) {
            self.objects[ix as usize].kind = kind;
            self.latest.insert((addr, kind), ix);
            return ix;
        }
        let ix = self.objects.len() as ObjectIx;
        self.objects.push(Object {
            addr,
            kind,
            ..Object::default()
        });
        self.latest.insert((addr, kind), ix);
        ix
    }

    /// All objects, each with the memory that it is in.
    pub fn finish(mut self, code: &Code<'_, '_>, threads: &Threads) -> Vec<Object> {
        for object in &mut self.objects {
            if object.kind == ObjectKind::Thread {
                continue; // a pthread_t: a name, not something with a place of its own
            }
            if object.module.is_none() {
                object.module = code.module_of(object.addr);
            }
            object.memory = if object.module.is_some() {
                Memory::Static
            } else if let Some(thread) = threads.by_stack(object.addr) {
                Memory::Stack(thread)
            } else {
                Memory::Heap
            };
        }
        self.objects
    }
}

/// A kind of the agent; `None` if there is no such.
pub(crate) fn kind_of(raw: u32) -> Option<ObjectKind> {
    Some(match raw {
        abi::CV_OBJECT_UNKNOWN => ObjectKind::Unknown,
        abi::CV_OBJECT_MUTEX => ObjectKind::Mutex,
        abi::CV_OBJECT_RWLOCK => ObjectKind::RwLock,
        abi::CV_OBJECT_SPIN => ObjectKind::Spin,
        abi::CV_OBJECT_COND => ObjectKind::Cond,
        abi::CV_OBJECT_BARRIER => ObjectKind::Barrier,
        abi::CV_OBJECT_SEM => ObjectKind::Sem,
        abi::CV_OBJECT_THREAD => ObjectKind::Thread,
        abi::CV_OBJECT_ONCE => ObjectKind::Once,
        abi::CV_OBJECT_FUTEX => ObjectKind::Futex,
        abi::CV_OBJECT_OMP_LOCK => ObjectKind::OmpLock,
        abi::CV_OBJECT_OMP_CRITICAL => ObjectKind::OmpCritical,
        abi::CV_OBJECT_OMP_BARRIER => ObjectKind::OmpBarrier,
        abi::CV_OBJECT_OMP_REGION => ObjectKind::OmpRegion,
        _ => return None,
    })
}

/// The kind of object that an operation works on.
fn family(op: Op) -> ObjectKind {
    match op {
        Op::MutexLock | Op::MutexTimedlock | Op::MutexTrylock => ObjectKind::Mutex,
        Op::RwlockRd
        | Op::RwlockWr
        | Op::RwlockTimedrd
        | Op::RwlockTimedwr
        | Op::RwlockTryrd
        | Op::RwlockTrywr => ObjectKind::RwLock,
        Op::SpinLock | Op::SpinTrylock => ObjectKind::Spin,
        Op::OmpLock | Op::OmpTrylock => ObjectKind::OmpLock,
        Op::OmpCritical => ObjectKind::OmpCritical,
        Op::SemTrywait | Op::SemWait | Op::SemTimedwait | Op::SemPost => ObjectKind::Sem,
        Op::CondWait | Op::CondTimedwait | Op::CondSignal | Op::CondBroadcast => ObjectKind::Cond,
        Op::BarrierWait => ObjectKind::Barrier,
        Op::Join => ObjectKind::Thread,
        Op::Once => ObjectKind::Once,
        Op::FutexWait | Op::FutexWake => ObjectKind::Futex,
        Op::OmpBarrier => ObjectKind::OmpBarrier,
        Op::OmpRegion => ObjectKind::OmpRegion,
    }
}

/// An operation of the agent; `None` if there is no such.
pub(crate) fn op_of(raw: u16) -> Option<Op> {
    Some(match raw {
        abi::CV_OP_MUTEX_LOCK => Op::MutexLock,
        abi::CV_OP_MUTEX_TIMEDLOCK => Op::MutexTimedlock,
        abi::CV_OP_RWLOCK_RD => Op::RwlockRd,
        abi::CV_OP_RWLOCK_WR => Op::RwlockWr,
        abi::CV_OP_RWLOCK_TIMEDRD => Op::RwlockTimedrd,
        abi::CV_OP_RWLOCK_TIMEDWR => Op::RwlockTimedwr,
        abi::CV_OP_SPIN_LOCK => Op::SpinLock,
        abi::CV_OP_OMP_LOCK => Op::OmpLock,
        abi::CV_OP_OMP_CRITICAL => Op::OmpCritical,
        abi::CV_OP_MUTEX_TRYLOCK => Op::MutexTrylock,
        abi::CV_OP_RWLOCK_TRYRD => Op::RwlockTryrd,
        abi::CV_OP_RWLOCK_TRYWR => Op::RwlockTrywr,
        abi::CV_OP_SPIN_TRYLOCK => Op::SpinTrylock,
        abi::CV_OP_SEM_TRYWAIT => Op::SemTrywait,
        abi::CV_OP_OMP_TRYLOCK => Op::OmpTrylock,
        abi::CV_OP_COND_WAIT => Op::CondWait,
        abi::CV_OP_COND_TIMEDWAIT => Op::CondTimedwait,
        abi::CV_OP_BARRIER_WAIT => Op::BarrierWait,
        abi::CV_OP_SEM_WAIT => Op::SemWait,
        abi::CV_OP_SEM_TIMEDWAIT => Op::SemTimedwait,
        abi::CV_OP_JOIN => Op::Join,
        abi::CV_OP_ONCE => Op::Once,
        abi::CV_OP_FUTEX_WAIT => Op::FutexWait,
        abi::CV_OP_OMP_BARRIER => Op::OmpBarrier,
        abi::CV_OP_OMP_REGION => Op::OmpRegion,
        abi::CV_OP_COND_SIGNAL => Op::CondSignal,
        abi::CV_OP_COND_BROADCAST => Op::CondBroadcast,
        abi::CV_OP_SEM_POST => Op::SemPost,
        abi::CV_OP_FUTEX_WAKE => Op::FutexWake,
        _ => return None,
    })
}
