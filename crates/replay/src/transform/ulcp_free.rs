//! The ULCP-free program: sections take their locksets instead of their recorded locks.

use std::collections::BTreeMap;

use super::plan::{AuxUse, LockPlan, Replacement};
use crate::program::{Lock, LockIx, LockKind, Op, Program, SectionId, Thread};

/// Replaces the locks of sections by those of a plan. Locksets are taken in ascending order. The locks of
/// one lockset all carry the section's number, the first acquire as well as the last.
///
/// A section without any lock acquires one of the kind [`LockKind::Absent`], so that its times are known.
pub fn ulcp_free(program: &Program, plan: &LockPlan) -> Program {
    let mut rewriter = Rewriter {
        plan,
        locks: program.locks.clone(),
        aux: BTreeMap::new(),
        absent: BTreeMap::new(),
    };
    let threads = program.threads.iter().map(|thread| Thread {
        ops: rewriter.thread(&thread.ops),
        ..*thread
    });
    Program {
        threads: threads.collect(),
        locks: rewriter.locks,
        conds: program.conds.clone(),
        barriers: program.barriers.clone(),
        semaphores: program.semaphores.clone(),
        channels: program.channels.clone(),
    }
}

struct Rewriter<'p> {
    plan: &'p LockPlan,
    locks: Vec<Lock>,
    /// Auxiliary locks that the program has already.
    aux: BTreeMap<u32, LockIx>,
    /// By recorded lock: what is left of it where it is not taken.
    absent: BTreeMap<LockIx, LockIx>,
}

/// A lock of the recorded program in a thread's hands.
struct Holding<'p> {
    lock: LockIx,
    /// What it holds in its stead; `None` = the lock itself.
    instead: Option<&'p [AuxUse]>,
}

impl<'p> Rewriter<'p> {
    fn thread(&mut self, recorded: &[Op]) -> Vec<Op> {
        let mut ops = Vec::with_capacity(recorded.len());
        let mut held: Vec<Holding<'p>> = Vec::new();
        for &op in recorded {
            match op {
                Op::Acquire {
                    lock,
                    shared,
                    section,
                } => held.push(self.acquire(&mut ops, op, lock, shared, section)),
                Op::TryAcquire { lock, section } => {
                    held.push(self.acquire(&mut ops, op, lock, false, section));
                }
                Op::Release { lock } => {
                    let at = held.iter().rposition(|holding| holding.lock == lock);
                    match at.and_then(|at| held.remove(at).instead) {
                        None => ops.push(op),
                        Some([]) => ops.push(Op::Release {
                            lock: self.absent_lock(lock),
                        }),
                        Some(uses) => {
                            for of in uses.iter().rev() {
                                let lock = self.aux_lock(lock, *of);
                                ops.push(Op::Release { lock });
                            }
                        }
                    }
                }
                _ => ops.push(op),
            }
        }
        ops
    }

    fn acquire(
        &mut self,
        ops: &mut Vec<Op>,
        op: Op,
        lock: LockIx,
        shared: bool,
        section: SectionId,
    ) -> Holding<'p> {
        let plan: &'p LockPlan = self.plan;
        let instead = match plan.replacement(section) {
            Replacement::Recorded => None,
            Replacement::Locks(uses) => Some(uses),
        };
        match instead {
            None => ops.push(op),
            Some([]) => ops.push(Op::Acquire {
                lock: self.absent_lock(lock),
                shared,
                section,
            }),
            Some(uses) => {
                let is_try = matches!(op, Op::TryAcquire { .. });
                for of in uses {
                    let lock = self.aux_lock(lock, *of);
                    let shared = shared || of.shared;
                    ops.push(match is_try && !shared {
                        true => Op::TryAcquire { lock, section },
                        false => Op::Acquire {
                            lock,
                            shared,
                            section,
                        },
                    });
                }
            }
        }
        Holding { lock, instead }
    }

    fn aux_lock(&mut self, of: LockIx, aux: AuxUse) -> LockIx {
        let (locks, plan) = (&mut self.locks, self.plan);
        *self.aux.entry(aux.aux).or_insert_with(|| {
            let recorded = locks.get(of as usize).copied();
            let recorded = recorded.unwrap_or(Lock {
                recorded: of,
                ..Lock::default()
            });
            let has_readers = plan
                .aux
                .get(aux.aux as usize)
                .is_some_and(|it| it.has_readers);
            add_lock(
                locks,
                Lock {
                    kind: match has_readers {
                        true => LockKind::RwLock,
                        false => recorded.kind,
                    },
                    ..recorded
                },
            )
        })
    }

    fn absent_lock(&mut self, of: LockIx) -> LockIx {
        let locks = &mut self.locks;
        *self.absent.entry(of).or_insert_with(|| {
            let recorded = locks.get(of as usize).map_or(of, |lock| lock.recorded);
            add_lock(
                locks,
                Lock {
                    recorded,
                    kind: LockKind::Absent,
                    transfer: None,
                },
            )
        })
    }
}

fn add_lock(locks: &mut Vec<Lock>, lock: Lock) -> LockIx {
    locks.push(lock);
    locks.len() as LockIx - 1
}
