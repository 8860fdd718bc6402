//! What-ifs that change the kind of a lock.

use super::apply::{Change, Knowledge, Note, Refusal};
use super::Target;
use crate::machine::Machine;
use crate::program::{LockIx, LockKind, Op};

pub(super) fn remove(change: &mut Change, target: &Target) {
    let locks = change.locks_of(target);
    note_conditions(change, &locks);
    set_kind(change, &locks, LockKind::Absent);
}

pub(super) fn make_spin(change: &mut Change, target: &Target) {
    let locks = change.locks_of(target);
    set_kind(change, &locks, LockKind::Spin);
}

/// Spins for as long as parking and waking up takes, unless told otherwise: at most twice what the best
/// choice for each single wait would cost (Karlin et al., "Competitive snoopy caching", 1988).
pub(super) fn make_adaptive(
    change: &mut Change,
    target: &Target,
    spin_ns: Option<f32>,
    machine: &Machine,
) {
    let wake_ns = machine
        .wake_latency
        .first()
        .map_or(0.0, |latency| latency.p50_ns);
    let round_ns = machine.futex_check_ns + machine.futex_block_ns + machine.switch_ns + wake_ns;
    let spin_ns = spin_ns.unwrap_or(round_ns as f32);
    let locks = change.locks_of(target);
    set_kind(change, &locks, LockKind::Adaptive { spin_ns });
}

pub(super) fn make_rwlock(
    change: &mut Change,
    target: &Target,
    knowledge: &Knowledge<'_>,
) -> Result<(), Refusal> {
    if knowledge.sets.is_none() {
        return Err(Refusal::NeedsSets(target.name.clone()));
    }
    let locks = change.locks_of(target);
    note_conditions(change, &locks);
    set_kind(change, &locks, LockKind::RwLock);
    let mut unknown = 0;
    let ops = change
        .program
        .threads
        .iter_mut()
        .flat_map(|thread| &mut thread.ops);
    for op in ops {
        let Op::Acquire {
            lock,
            shared,
            section,
        } = op
        else {
            continue;
        };
        if locks.contains(lock) && !*shared {
            match knowledge.sample(*section) {
                Some(sample) => *shared = !sample.writes(),
                None => unknown += 1,
            }
        }
    }
    if unknown > 0 {
        change.note(Note::SetsUnknown(unknown));
    }
    Ok(())
}

fn set_kind(change: &mut Change, locks: &[LockIx], kind: LockKind) {
    for lock in locks {
        if let Some(lock) = change.program.locks.get_mut(*lock as usize) {
            lock.kind = kind;
        }
    }
}

pub(super) fn note_conditions(change: &mut Change, locks: &[LockIx]) {
    let mut ops = change.program.threads.iter().flat_map(|thread| &thread.ops);
    let waits = |op: &Op| matches!(op, Op::Await { lock, .. } if locks.contains(lock));
    if ops.any(waits) {
        change.note(Note::GuardsCondition);
    }
}
