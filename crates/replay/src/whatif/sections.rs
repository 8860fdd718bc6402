//! What-ifs that change what threads do inside of sections, or between them.

use super::apply::{Change, Note};
use super::Target;
use crate::machine::Machine;
use crate::program::{LockIx, Op};
use crate::transform::matching::{partners, NONE};

/// Which work of the threads that take a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    /// While they hold it.
    Inside,
    /// Between their first and their last section, while they do not.
    Between,
}

/// Multiplies work and sleep.
pub(super) fn scale_work(change: &mut Change, target: &Target, place: Where, factor: f64) {
    let locks = change.locks_of(target);
    for thread in &mut change.program.threads {
        let is_acquire = |op: &Op| acquired(op).is_some_and(|lock| locks.contains(&lock));
        let is_release = |op: &Op| matches!(op, Op::Release { lock } if locks.contains(lock));
        let first = thread.ops.iter().position(is_acquire);
        let last = thread.ops.iter().rposition(is_release);
        let (Some(first), Some(last)) = (first, last) else {
            continue;
        };
        let mut depth = 0_u32;
        for op in thread.ops.get_mut(first..=last).unwrap_or_default() {
            if is_acquire(op) {
                depth += 1;
            } else if is_release(op) {
                depth = depth.saturating_sub(1);
            }
            let is_there = (depth > 0) == (place == Where::Inside);
            if let (Op::Work { ns } | Op::Sleep { ns }, true) = (op, is_there) {
                *ns = (f64::from(*ns) * factor) as f32;
            }
        }
        thread.ops.retain(|op| !is_nothing(op));
    }
}

fn is_nothing(op: &Op) -> bool {
    matches!(op, Op::Work { ns } | Op::Sleep { ns } if *ns <= 0.0)
}

fn acquired(op: &Op) -> Option<LockIx> {
    match op {
        Op::Acquire { lock, .. } | Op::TryAcquire { lock, .. } => Some(*lock),
        _ => None,
    }
}

/// Sections of a thread that contain nothing but work, as ranges of operations: acquire, release.
fn plain_sections(ops: &[Op], locks: &[LockIx]) -> (Vec<(usize, usize)>, u64) {
    let partners = partners(ops);
    let (mut plain, mut others) = (Vec::new(), 0);
    for (at, op) in ops.iter().enumerate() {
        if !acquired(op).is_some_and(|lock| locks.contains(&lock)) {
            continue;
        }
        let end = partners.get(at).copied().filter(|end| *end != NONE);
        let inside = end.and_then(|end| ops.get(at + 1..end as usize));
        let is_plain = |op: &Op| matches!(op, Op::Work { .. } | Op::Sleep { .. });
        match (end, inside) {
            (Some(end), Some(inside)) if inside.iter().all(is_plain) => {
                plain.push((at, end as usize));
            }
            _ => others += 1,
        }
    }
    (plain, others)
}

/// One atomic instruction for each section without other operations inside.
pub(super) fn make_atomic(change: &mut Change, target: &Target, machine: &Machine) {
    let locks = change.locks_of(target);
    let ns = machine.atomic_remote_ns as f32;
    let mut others = 0;
    for thread in &mut change.program.threads {
        let (sections, more) = plain_sections(&thread.ops, &locks);
        others += more;
        let mut ops = Vec::with_capacity(thread.ops.len());
        let mut rest = 0;
        for (begin, end) in sections {
            ops.extend_from_slice(&thread.ops[rest..begin]);
            ops.push(Op::Work { ns });
            rest = end + 1;
        }
        ops.extend_from_slice(&thread.ops[rest..]);
        thread.ops = ops;
    }
    if others > 0 {
        change.note(Note::SectionsStay(others));
    }
}

/// Failed tries up to a successful one become one blocking acquire; what the thread did between them only
/// waited.
pub(super) fn make_blocking(change: &mut Change, target: &Target) {
    let locks = change.locks_of(target);
    for thread in &mut change.program.threads {
        let mut ops: Vec<Op> = Vec::with_capacity(thread.ops.len());
        // Where the tries for a lock began, as long as the thread does nothing else.
        let mut trying: Option<(LockIx, usize)> = None;
        for &op in &thread.ops {
            match op {
                Op::TryFail { lock } if locks.contains(&lock) => {
                    if trying.is_none_or(|(other, _)| other != lock) {
                        trying = Some((lock, ops.len()));
                    }
                }
                Op::TryAcquire { lock, section } if locks.contains(&lock) => {
                    if let Some((_, begin)) = trying.take().filter(|(other, _)| *other == lock) {
                        ops.truncate(begin);
                    }
                    ops.push(Op::Acquire {
                        lock,
                        shared: false,
                        section,
                    });
                }
                Op::Work { .. } | Op::Sleep { .. } => ops.push(op),
                _ => {
                    trying = None;
                    ops.push(op);
                }
            }
        }
        thread.ops = ops;
    }
}

/// A thread delays the work of its sections until it has that of `size` of them, and does it in the last
/// one. Anything but work between two sections ends a batch.
pub(super) fn batch(change: &mut Change, target: &Target, size: u32) {
    let locks = change.locks_of(target);
    let mut others = 0;
    for thread in &mut change.program.threads {
        let (sections, more) = plain_sections(&thread.ops, &locks);
        others += more;
        let mut ops = Vec::with_capacity(thread.ops.len());
        let mut batch: Vec<(usize, usize)> = Vec::new();
        let mut rest = 0;
        for (begin, end) in sections {
            let gap = thread.ops.get(rest..begin).unwrap_or_default();
            let same = batch.first().map(|first| acquired(&thread.ops[first.0]));
            let is_other = same.is_some_and(|lock| lock != acquired(&thread.ops[begin]));
            let is_broken = is_other || gap.iter().any(|op| !matches!(op, Op::Work { .. }));
            if is_broken {
                flush(&thread.ops, &mut batch, &mut ops);
            }
            ops.extend_from_slice(gap);
            batch.push((begin, end));
            rest = end + 1;
            if batch.len() >= size as usize {
                flush(&thread.ops, &mut batch, &mut ops);
            }
        }
        flush(&thread.ops, &mut batch, &mut ops);
        ops.extend_from_slice(thread.ops.get(rest..).unwrap_or_default());
        thread.ops = ops;
    }
    if others > 0 {
        change.note(Note::SectionsStay(others));
    }
}

/// Writes the sections of a batch as one, with the number of the last.
fn flush(recorded: &[Op], batch: &mut Vec<(usize, usize)>, ops: &mut Vec<Op>) {
    let Some(&(last, release)) = batch.last() else {
        return;
    };
    ops.push(recorded[last]);
    for (begin, end) in batch.drain(..) {
        ops.extend_from_slice(&recorded[begin + 1..end]);
    }
    ops.push(recorded[release]);
}
