//! What is around a loop that counts.
//!
//! `for (i = 0; i < n; i++) if (table) work(i)` has a way round that only looks at `table` and counts. What tells it
//! from `for (i = 0; i < n; i++) if (flag) break` is where the other way leads: back, with the same count.

use std::collections::BTreeSet;

use iced_x86::InstructionInfoFactory;

use crate::effects::{Effect, FLAGS};
use crate::flow::{successors, Body, Window};
use crate::values::{Flow, Set};

/// Instructions behind the loop's exits that are followed.
const FOLLOWED: usize = 512;

/// Whether a way out of the loop leads back to it and leaves a count as it is; of a loop that does not count,
/// whether one leads back that only looks and computes.
pub(crate) fn goes_on(window: &Window, body: &Body, flow: &Flow, carried: Set) -> bool {
    let counters: Vec<&Effect> = flow
        .effects
        .iter()
        .enumerate()
        .filter(|(at, e)| carried & (1 << (at % 64)) != 0 && (is_register(e) || e.stores))
        .map(|(_, e)| e)
        .collect();
    leads_back(window, body, flow, |e| {
        if counters.is_empty() {
            e.stores || e.is_call()
        } else {
            counters.iter().any(|counter| sets_anew(e, counter))
        }
    })
}

/// Whether any way out of the loop leads back to it.
pub(crate) fn comes_back(window: &Window, body: &Body, flow: &Flow) -> bool {
    leads_back(window, body, flow, |_| false)
}

fn leads_back(window: &Window, body: &Body, flow: &Flow, ends: impl Fn(&Effect) -> bool) -> bool {
    let mut info = InstructionInfoFactory::new();
    let mut seen = BTreeSet::new();
    let mut todo: Vec<u64> = flow
        .effects
        .iter()
        .flat_map(|e| successors(&e.instr))
        .filter(|to| !body.members.contains(to))
        .collect();
    while let Some(at) = todo.pop() {
        if body.members.contains(&at) {
            return true;
        }
        if seen.len() >= FOLLOWED || !seen.insert(at) {
            continue;
        }
        let Some(instr) = window.decode(at) else {
            continue;
        };
        if !ends(&Effect::of(&instr, &mut info)) {
            todo.extend(successors(&instr));
        }
    }
    false
}

/// It writes a register that is more than the flags.
fn is_register(e: &Effect) -> bool {
    e.writes.iter().any(|&place| place != FLAGS)
}

/// Whether an instruction gives another value to what a loop counts in.
fn sets_anew(e: &Effect, counter: &Effect) -> bool {
    if counter.stores {
        return e.stores && !e.loads && e.operand == counter.operand;
    }
    let same = |place: &usize| *place != FLAGS && counter.writes.contains(place);
    let zeroed = e.instr.op_count() == 2 && e.instr.op0_register() == e.instr.op1_register();
    let kept = e.reads.iter().any(same) && !zeroed;
    (e.writes.iter().any(same) && !kept) || (e.is_call() && is_lost(counter))
}

/// A called function may overwrite it.
fn is_lost(counter: &Effect) -> bool {
    counter
        .writes
        .iter()
        .any(|place| crate::values::LOST_IN_CALLS.contains(place) && *place != FLAGS)
}
