//! Another number of threads for the same work.
//!
//! The group's work is cut into pieces at every point where a thread holds no lock, collected in turn from
//! its threads, and dealt out to the new number of them. Barriers divide it into phases: each phase is dealt
//! out by itself, and every thread meets every barrier.

use std::collections::BTreeSet;

use super::apply::{Change, Refusal};
use super::Group;
use crate::program::{BarrierIx, Op, Program, Thread, ThreadIx};

pub(super) fn resize(change: &mut Change, group: &Group, count: u32) -> Result<(), Refusal> {
    let refuse = |reason| Refusal::Threads {
        group: group.name.clone(),
        reason,
    };
    let count = count.max(1);
    let program = &mut change.program;
    let is_member = |thread: &ThreadIx| (*thread as usize) < program.threads.len();
    let members: Vec<ThreadIx> = group.threads.iter().copied().filter(is_member).collect();
    let Some(&model) = members.first() else {
        return Err(refuse("it has no threads in the trace"));
    };
    let ops = |thread: &ThreadIx| program.threads[*thread as usize].ops.as_slice();
    let creates = |op: &Op| matches!(op, Op::Spawn { .. } | Op::Join { .. });
    if members.iter().any(|thread| ops(thread).iter().any(creates)) {
        return Err(refuse("its threads create or join others"));
    }
    let phases: Vec<Phases<'_>> = members
        .iter()
        .map(|thread| Phases::of(ops(thread)))
        .collect();
    let barriers = phases[0].barriers.clone();
    if phases
        .iter()
        .any(|of_thread| of_thread.barriers != barriers)
    {
        return Err(refuse("its threads do not meet at the same barriers"));
    }
    let dealt = deal(&phases, &barriers, count);

    let mut threads: Vec<ThreadIx> = members.clone();
    threads.truncate(count as usize);
    while threads.len() < count as usize {
        threads.push(program.threads.len() as ThreadIx);
        let like = &program.threads[model as usize];
        program.threads.push(Thread {
            ops: Vec::new(),
            ..like.clone()
        });
    }
    for (thread, ops) in threads.iter().zip(dealt) {
        program.threads[*thread as usize].ops = ops;
    }
    let gone: BTreeSet<ThreadIx> = members.iter().skip(count as usize).copied().collect();
    for thread in &gone {
        program.threads[*thread as usize].ops.clear();
    }
    let added = threads.get(members.len()..).unwrap_or_default();
    adjust_creators(program, &members, &gone, added);
    for barrier in barriers.into_iter().collect::<BTreeSet<BarrierIx>>() {
        if let Some(barrier) = program.barriers.get_mut(barrier as usize) {
            let others = barrier.count.saturating_sub(members.len() as u32);
            barrier.count = others + count;
        }
    }
    Ok(())
}

/// A thread's operations between its barriers, in pieces that hold no lock at their ends.
struct Phases<'p> {
    pieces: Vec<Vec<&'p [Op]>>,
    barriers: Vec<BarrierIx>,
}

impl<'p> Phases<'p> {
    fn of(ops: &'p [Op]) -> Self {
        let mut phases = Self {
            pieces: vec![Vec::new()],
            barriers: Vec::new(),
        };
        let (mut begin, mut depth) = (0, 0_u32);
        for (at, op) in ops.iter().enumerate() {
            match op {
                Op::Acquire { .. } | Op::TryAcquire { .. } => depth += 1,
                Op::Release { .. } => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        phases.push(&ops[begin..=at]);
                        begin = at + 1;
                    }
                }
                Op::Barrier { barrier } if depth == 0 => {
                    phases.push(&ops[begin..at]);
                    begin = at + 1;
                    phases.barriers.push(*barrier);
                    phases.pieces.push(Vec::new());
                }
                _ => {}
            }
        }
        phases.push(&ops[begin..]);
        phases
    }

    fn push(&mut self, piece: &'p [Op]) {
        if let (Some(phase), false) = (self.pieces.last_mut(), piece.is_empty()) {
            phase.push(piece);
        }
    }
}

/// Deals the pieces of each phase out, taken from the threads in turn.
fn deal(phases: &[Phases<'_>], barriers: &[BarrierIx], count: u32) -> Vec<Vec<Op>> {
    let mut dealt: Vec<Vec<Op>> = vec![Vec::new(); count as usize];
    for phase in 0..=barriers.len() {
        let of_phase = phases
            .iter()
            .filter_map(|of_thread| of_thread.pieces.get(phase));
        let of_phase: Vec<&Vec<&[Op]>> = of_phase.collect();
        let longest = of_phase
            .iter()
            .map(|pieces| pieces.len())
            .max()
            .unwrap_or(0);
        let in_turn = (0..longest).flat_map(|turn| {
            let of_phase = of_phase.iter();
            of_phase.filter_map(move |pieces| pieces.get(turn))
        });
        for (nth, piece) in in_turn.enumerate() {
            dealt[nth % count as usize].extend_from_slice(piece);
        }
        if let Some(&barrier) = barriers.get(phase) {
            for ops in &mut dealt {
                ops.push(Op::Barrier { barrier });
            }
        }
    }
    dealt
}

/// Whoever creates or joins the group's last thread does so with the added ones; nobody does with those
/// that are gone.
fn adjust_creators(
    program: &mut Program,
    members: &[ThreadIx],
    gone: &BTreeSet<ThreadIx>,
    added: &[ThreadIx],
) {
    let last = members.iter().rev().find(|thread| !gone.contains(thread));
    for thread in &mut program.threads {
        let is_concerned = thread.ops.iter().any(|op| match op {
            Op::Spawn { thread } | Op::Join { thread } => members.contains(thread),
            _ => false,
        });
        if !is_concerned {
            continue;
        }
        let mut ops = Vec::with_capacity(thread.ops.len() + 2 * added.len());
        for &op in &thread.ops {
            match op {
                Op::Spawn { thread } | Op::Join { thread } if gone.contains(&thread) => continue,
                _ => ops.push(op),
            }
            match op {
                Op::Spawn { thread } if Some(&thread) == last => {
                    ops.extend(added.iter().map(|thread| Op::Spawn { thread: *thread }));
                }
                Op::Join { thread } if Some(&thread) == last => {
                    ops.extend(added.iter().map(|thread| Op::Join { thread: *thread }));
                }
                _ => {}
            }
        }
        thread.ops = ops;
    }
}
