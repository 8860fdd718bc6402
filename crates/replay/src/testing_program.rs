//! Programs of hand-written recordings for unit tests, and what must hold of every program.

use std::collections::{BTreeMap, BTreeSet};

use convoy_trace::{Kind, ObjectKind, Recording};

use crate::program::{Cond, Lock, LockKind, Op, Program, Thread};
use crate::sections::Sections;

/// The program of a recording with locks alone: work between the events, waits left out. Locks of the
/// program have the numbers of the recording's objects.
pub(crate) fn program(recording: &Recording, sections: &Sections) -> Program {
    let locks = recording
        .objects
        .iter()
        .enumerate()
        .map(|(ix, object)| Lock {
            recorded: ix as u32,
            kind: match object.kind {
                ObjectKind::RwLock => LockKind::RwLock,
                _ => LockKind::Mutex,
            },
            transfer: None,
        });
    let mut program = Program {
        locks: locks.collect(),
        conds: vec![Cond::default(); recording.objects.len()],
        ..Program::default()
    };
    for (thread, recorded) in recording.threads.iter().enumerate() {
        let own = sections
            .all
            .iter()
            .enumerate()
            .filter(|(_, s)| s.thread == thread as u32);
        let by_event: BTreeMap<u32, u32> = own
            .map(|(ix, section)| (section.acquire_event, ix as u32))
            .collect();
        let mut ops = Vec::new();
        let mut last_ns = 0;
        for (ix, event) in recorded.events.iter().enumerate() {
            let section = by_event.get(&(ix as u32)).copied();
            let waited = event.kind == Kind::AcquiredAfterWait;
            let ns = if waited { 0 } else { event.at_ns - last_ns } as f32;
            last_ns = event.at_ns;
            if ns > 0.0 {
                ops.push(Op::Work { ns });
            }
            let lock = event.object;
            match (event.kind, section) {
                (
                    Kind::Acquired | Kind::AcquiredShared | Kind::AcquiredAfterWait,
                    Some(section),
                ) => {
                    let shared = sections.all[section as usize].shared;
                    ops.push(Op::Acquire {
                        lock,
                        shared,
                        section,
                    });
                }
                (Kind::TryAcquired, Some(section)) => ops.push(Op::TryAcquire { lock, section }),
                (Kind::TryFailed, _) => ops.push(Op::TryFail { lock }),
                (Kind::Released, _) => ops.push(Op::Release { lock }),
                (Kind::Signal, _) => ops.push(Op::Signal { cond: lock }),
                _ => {}
            }
        }
        program.threads.push(Thread {
            recorded: thread as u32,
            at_start: true,
            start_ns: 0.0,
            ops,
        });
    }
    program
}

/// Work of each thread, nanoseconds.
pub(crate) fn work(program: &Program) -> Vec<f64> {
    let of = |op: &Op| match op {
        Op::Work { ns } => f64::from(*ns),
        _ => 0.0,
    };
    let threads = program.threads.iter();
    threads
        .map(|thread| thread.ops.iter().map(of).sum())
        .collect()
}

/// Panics if a lock is released that is not held, held twice, not there, or never released.
pub(crate) fn assert_locks_are_released(program: &Program) {
    for thread in &program.threads {
        let mut held: Vec<u32> = Vec::new();
        for op in &thread.ops {
            match op {
                Op::Acquire { lock, .. } | Op::TryAcquire { lock, .. } => {
                    assert!((*lock as usize) < program.locks.len(), "lock {lock} exists");
                    assert!(!held.contains(lock), "lock {lock} is not taken twice");
                    held.push(*lock);
                }
                Op::Release { lock } => {
                    let at = held.iter().rposition(|other| other == lock);
                    held.remove(at.expect("a lock is held that is released"));
                }
                _ => {}
            }
        }
        assert!(held.is_empty(), "{held:?} are released");
    }
}

/// Pairs of locks of which the first is held while a thread asks for the second, exclusion or not.
pub(crate) fn lock_order(program: &Program) -> BTreeSet<(u32, u32)> {
    let mut order = BTreeSet::new();
    for thread in &program.threads {
        let mut held: Vec<u32> = Vec::new();
        for op in &thread.ops {
            match op {
                Op::Acquire { lock, .. } | Op::TryAcquire { lock, .. }
                    if program.locks[*lock as usize].kind != LockKind::Absent =>
                {
                    order.extend(held.iter().map(|outer| (*outer, *lock)));
                    held.push(*lock);
                }
                Op::Release { lock } => held.retain(|other| other != lock),
                _ => {}
            }
        }
    }
    order
}

/// Panics if locks are taken in a cycle.
pub(crate) fn assert_lock_order_is_acyclic(program: &Program) {
    let mut order = lock_order(program);
    loop {
        let sinks: BTreeSet<u32> = order.iter().map(|(_, to)| *to).collect();
        let sources: BTreeSet<u32> = order.iter().map(|(from, _)| *from).collect();
        let before = order.len();
        order.retain(|(_, to)| sources.contains(to) && sinks.contains(to));
        if order.len() == before {
            break;
        }
    }
    assert!(order.is_empty(), "no cycle: {order:?}");
}
