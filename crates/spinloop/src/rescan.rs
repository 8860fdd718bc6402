//! Loops that look at many places and begin anew.
//!
//! `do { sum = 0; for (i = 0; i < n; i++) sum += pending[i]; } while (sum)` walks and computes in each pass, yet keeps
//! nothing from one pass to the next. A pass that stores nothing and begins with what the last one began with does
//! again what that one did, for ever, unless another thread changes the memory: it waits. So does one that pauses in each pass and
//! keeps only what it has seen last, or a count: nobody works between two pauses and leaves nothing behind.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{InstructionInfoFactory, Mnemonic};

use crate::around::comes_back;
use crate::effects::{Effect, PLACES, RSP};
use crate::flow::{Body, Graph, Window};
use crate::rules::{ends_with_constant, is_conditional_move};
use crate::values::{Flow, Set};

/// Whether each pass of a loop begins as the one before, or pauses and has made nothing of what that one has found.
pub(crate) fn begins_anew(window: &Window, graph: &Graph, body: &Body) -> bool {
    let mut info = InstructionInfoFactory::new();
    let effects: BTreeMap<u64, Effect> = body
        .members
        .iter()
        .filter_map(|at| Some((*at, Effect::of(&graph.get(at)?.instr, &mut info))))
        .collect();
    let leaves = |at: &u64| {
        let next = graph.get(at).into_iter().flat_map(|node| &node.next);
        next.into_iter().any(|to| !body.members.contains(to))
    };
    if effects.values().any(acts)
        || !effects.values().any(|e| e.loads)
        || !effects.keys().any(leaves)
    {
        return false;
    }
    let flow = Flow::of(graph, body);
    if always_pauses(graph, &effects, body.head) && !gathers(&flow) {
        return true;
    }
    let mut written = [false; PLACES];
    for place in effects.values().flat_map(|e| &e.writes) {
        written[*place] = true;
    }
    let same = (0..PLACES)
        .filter(|&place| written[place] && is_exposed(graph, &effects, body.head, place))
        .all(|place| is_fresh(graph, &effects, body.head, &written, place));
    // A way out that comes back may be the usual way round, and this the rare one.
    same && !comes_back(window, body, &flow)
}

/// Whether there is no way round without a pause.
fn always_pauses(graph: &Graph, effects: &BTreeMap<u64, Effect>, head: u64) -> bool {
    let goes_on = |at: &u64| effects.get(at).is_some_and(|e| !e.is_pause());
    let (mut todo, mut seen) = (vec![head], BTreeSet::new());
    while let Some(at) = todo.pop() {
        if !goes_on(&at) || !seen.insert(at) {
            continue;
        }
        let next = graph.get(&at).into_iter().flat_map(|node| &node.next);
        for &to in next {
            if to == head {
                return false;
            }
            todo.push(to);
        }
    }
    true
}

/// Whether it makes one value of those of several passes, and does not only count, or choose one of them.
fn gathers(flow: &Flow) -> bool {
    let makes = |e: &Effect| match e.instr.mnemonic() {
        Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd => false,
        Mnemonic::Inc | Mnemonic::Dec | Mnemonic::Cmp | Mnemonic::Test => false,
        Mnemonic::Add | Mnemonic::Sub => !ends_with_constant(&e.instr),
        _ => !is_conditional_move(e) && !e.instr.is_jcc_short_or_near(),
    };
    let of_itself = |at: usize, inputs: Set| inputs & (1 << (at % 64)) != 0;
    let mut all = flow.effects.iter().zip(&flow.origins).enumerate();
    all.any(|(at, (e, o))| of_itself(at, o.inputs) && makes(e))
}

/// It does more than to look and to compute.
fn acts(e: &Effect) -> bool {
    e.stores
        || e.is_call()
        || e.is_locked()
        || e.writes.contains(&RSP)
        || e.instr.is_privileged()
        || e.instr.is_string_instruction()
        || matches!(
            e.instr.mnemonic(),
            Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Rdtsc | Mnemonic::Rdtscp
        )
}

/// A pass may read what is in this register when it begins.
fn is_exposed(graph: &Graph, effects: &BTreeMap<u64, Effect>, head: u64, place: usize) -> bool {
    let (mut todo, mut seen) = (vec![head], BTreeSet::new());
    while let Some(at) = todo.pop() {
        let Some(e) = effects.get(&at).filter(|_| seen.insert(at)) else {
            continue;
        };
        let zeroes = matches!(e.instr.mnemonic(), Mnemonic::Xor | Mnemonic::Sub)
            && e.operand.is_none()
            && e.instr.op0_register() == e.instr.op1_register();
        if e.reads.contains(&place) && !zeroes {
            return true;
        }
        let whole = e.instr.op0_register().size() >= 4 || !e.instr.op0_register().is_gpr();
        if !(e.writes.contains(&place) && whole) {
            todo.extend(graph.get(&at).into_iter().flat_map(|node| &node.next));
        }
    }
    false
}

/// What is in this register when a pass begins was loaded from an address that stays the same. Not so a constant:
/// a loop that sets it goes round once more, no oftener.
fn is_fresh(
    graph: &Graph,
    effects: &BTreeMap<u64, Effect>,
    head: u64,
    written: &[bool; PLACES],
    place: usize,
) -> bool {
    let writes = |at: &u64| effects.get(at).is_some_and(|e| e.writes.contains(&place));
    let next = |at: &u64| graph.get(at).into_iter().flat_map(|node| node.next.clone());
    let reaches_head = |from: &u64| {
        let (mut todo, mut seen) = (next(from).collect::<Vec<_>>(), BTreeSet::new());
        while let Some(at) = todo.pop() {
            if at == head {
                return true;
            }
            if effects.contains_key(&at) && !writes(&at) && seen.insert(at) {
                todo.extend(next(&at));
            }
        }
        false
    };
    let last = effects
        .iter()
        .filter(|(at, _)| writes(at) && reaches_head(at));
    last.into_iter().all(|(_, e)| {
        let moves = matches!(
            e.instr.mnemonic(),
            Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd
        );
        moves && e.loads && e.reads.iter().all(|&read| !written[read])
    })
}
