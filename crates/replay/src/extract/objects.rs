//! Objects of a recording as locks, condition variables, barriers and semaphores of a program.

use convoy_trace::{Kind, ObjectIx, ObjectKind, Recording};

use crate::program::{
    Barrier, BarrierIx, Cond, CondIx, Lock, LockIx, LockKind, Program, SemIx, Semaphore,
};

/// What a recorded object is in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Lock(LockIx),
    Cond(CondIx),
    Barrier(BarrierIx),
    Sem(SemIx),
}

/// From recorded objects to those of the program, and back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectMap {
    roles: Vec<Option<Role>>,
    locks: Vec<ObjectIx>,
}

/// `__kind` bits of a glibc mutex: PTHREAD_MUTEX_ADAPTIVE_NP.
const MUTEX_TYPE: u32 = 3;
const ADAPTIVE: u32 = 3;
/// glibc's default of the spin count of adaptive mutexes, times the cost of one look: they give up
/// after about this long.
const ADAPTIVE_SPIN_NS: f32 = 1_000.0;

impl ObjectMap {
    pub(crate) fn of(recording: &Recording) -> Self {
        let mut map = Self {
            roles: vec![None; recording.objects.len()],
            ..Self::default()
        };
        let (mut conds, mut barriers, mut sems) = (0, 0, 0);
        let next = |n: &mut u32| {
            *n += 1;
            *n - 1
        };
        for (ix, object) in recording.objects.iter().enumerate() {
            map.roles[ix] = match object.kind {
                ObjectKind::Mutex | ObjectKind::RwLock | ObjectKind::Spin | ObjectKind::OmpLock => {
                    map.locks.push(ix as ObjectIx);
                    Some(Role::Lock(map.locks.len() as LockIx - 1))
                }
                ObjectKind::Cond => Some(Role::Cond(next(&mut conds))),
                ObjectKind::Barrier | ObjectKind::OmpBarrier => {
                    Some(Role::Barrier(next(&mut barriers)))
                }
                ObjectKind::Sem => Some(Role::Sem(next(&mut sems))),
                ObjectKind::Unknown | ObjectKind::Thread | ObjectKind::Once | ObjectKind::Futex => {
                    None
                }
            };
        }
        map
    }

    pub(crate) fn role(&self, object: ObjectIx) -> Option<Role> {
        self.roles.get(object as usize).copied().flatten()
    }

    /// The lock that a recorded object became.
    pub fn lock(&self, object: ObjectIx) -> Option<LockIx> {
        match self.role(object) {
            Some(Role::Lock(lock)) => Some(lock),
            _ => None,
        }
    }

    pub(crate) fn cond(&self, object: ObjectIx) -> Option<CondIx> {
        match self.role(object) {
            Some(Role::Cond(cond)) => Some(cond),
            _ => None,
        }
    }

    /// The recorded object that a lock was.
    pub fn recorded(&self, lock: LockIx) -> Option<ObjectIx> {
        self.locks.get(lock as usize).copied()
    }

    /// A program with these objects and no thread yet.
    pub(crate) fn program(&self, recording: &Recording) -> Program {
        let mut program = Program::default();
        let spins = spinning(recording);
        for (ix, (object, role)) in recording.objects.iter().zip(&self.roles).enumerate() {
            let recorded = ix as u32;
            match role {
                Some(Role::Lock(_)) => program.locks.push(Lock {
                    recorded,
                    kind: match object.kind {
                        _ if spins[ix] => LockKind::Spin,
                        ObjectKind::Spin => LockKind::Spin,
                        ObjectKind::RwLock => LockKind::RwLock,
                        ObjectKind::Mutex if object.attr & MUTEX_TYPE == ADAPTIVE => {
                            LockKind::Adaptive {
                                spin_ns: ADAPTIVE_SPIN_NS,
                            }
                        }
                        _ => LockKind::Mutex,
                    },
                    transfer: None,
                }),
                Some(Role::Cond(_)) => program.conds.push(Cond { recorded }),
                Some(Role::Barrier(_)) => program.barriers.push(Barrier {
                    recorded,
                    count: object.attr.max(1),
                }),
                Some(Role::Sem(_)) => program.semaphores.push(Semaphore {
                    recorded,
                    value: object.attr,
                    permits: object.attr,
                }),
                None => {}
            }
        }
        program
    }
}

/// Objects that are mostly acquired by loops of failing tries: such a lock is spun for, whatever its
/// type.
fn spinning(recording: &Recording) -> Vec<bool> {
    let mut counts = vec![(0u64, 0u64); recording.objects.len()];
    for event in recording.threads.iter().flat_map(|thread| &thread.events) {
        let Some((retried, blocked)) = counts.get_mut(event.object as usize) else {
            continue;
        };
        match event.kind {
            Kind::TryFailed if event.arg > 1 => *retried += 1,
            Kind::Request | Kind::RequestShared => *blocked += 1,
            _ => {}
        }
    }
    counts
        .iter()
        .map(|(retried, blocked)| retried > blocked)
        .collect()
}
