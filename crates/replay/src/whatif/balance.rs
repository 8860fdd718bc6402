//! The same work before a barrier, spread evenly over the threads that meet at it.
//!
//! What a thread does between a barrier and the one before it is a phase. In each phase all threads
//! get the same work: their mean. How often they take locks stays; so does time off the CPU.

use std::ops::Range;

use super::apply::{Change, Refusal};
use super::Barriers;
use crate::program::{BarrierIx, Op, Thread};

pub(super) fn balance(change: &mut Change, target: &Barriers) -> Result<(), Refusal> {
    let refuse = |reason| Refusal::Balance {
        barrier: target.name.clone(),
        reason,
    };
    let program = &mut change.program;
    for &barrier in &target.barriers {
        let Some(of) = program.barriers.get(barrier as usize) else {
            continue;
        };
        let mut meeting: Vec<(&mut Thread, Vec<Range<usize>>)> = Vec::new();
        for thread in &mut program.threads {
            let phases = phases(&thread.ops, barrier);
            if !phases.is_empty() {
                meeting.push((thread, phases));
            }
        }
        if meeting.len() != of.count as usize {
            return Err(refuse("other threads meet at it from time to time"));
        }
        let rounds = meeting.iter().map(|(_, phases)| phases.len());
        let rounds = rounds.min().unwrap_or(0);
        // From the last one on: what is inserted moves what comes after it.
        for round in (0..rounds).rev() {
            let work: Vec<f64> = meeting
                .iter()
                .map(|(thread, phases)| work(&thread.ops[phases[round].clone()]))
                .collect();
            let mean = work.iter().sum::<f64>() / work.len() as f64;
            for ((thread, phases), own) in meeting.iter_mut().zip(work) {
                set_work(&mut thread.ops, phases[round].clone(), own, mean);
            }
        }
    }
    Ok(())
}

/// What comes before each visit of a barrier, from the visit of any barrier on.
fn phases(ops: &[Op], barrier: BarrierIx) -> Vec<Range<usize>> {
    let (mut all, mut begin) = (Vec::new(), 0);
    for (at, op) in ops.iter().enumerate() {
        if let Op::Barrier { barrier: met } = op {
            if *met == barrier {
                all.push(begin..at);
            }
            begin = at + 1;
        }
    }
    all
}

/// Nanoseconds.
fn work(ops: &[Op]) -> f64 {
    let work = ops.iter().map(|op| match op {
        Op::Work { ns } => f64::from(*ns),
        _ => 0.0,
    });
    work.sum()
}

/// Scales the work of a phase from `own` to `mean` nanoseconds; where there is none, it is put at
/// the end.
fn set_work(ops: &mut Vec<Op>, phase: Range<usize>, own: f64, mean: f64) {
    if own <= 0.0 {
        if mean > 0.0 {
            ops.insert(phase.end, Op::Work { ns: mean as f32 });
        }
        return;
    }
    for op in &mut ops[phase] {
        if let Op::Work { ns } = op {
            *ns = (f64::from(*ns) * mean / own) as f32;
        }
    }
}
