//! Where the values in a loop come from.
//!
//! Every value is followed through registers, flags and stack slots as the set of the loop's instructions
//! that it derives from. An instruction that derives from itself carries something from one pass to the next.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpKind};

use crate::effects::{general, Effect, FLAGS, PLACES, RBP, RSP};
use crate::flow::{Body, Graph};

/// A set of the loop's instructions, by their order.
pub(crate) type Set = u64;

/// A byte of the stack frame: the register, and the distance from it.
pub(crate) type Slot = (usize, i64);

/// What is known of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Value {
    from: Set,
    /// It is the address of this slot.
    slot: Option<Slot>,
}

impl Value {
    fn join(self, other: Self) -> Self {
        Self {
            from: self.from | other.from,
            slot: self.slot.filter(|_| self.slot == other.slot),
        }
    }
}

/// What is known before an instruction. A slot that is missing has not been written in the loop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    places: [Value; PLACES],
    slots: BTreeMap<Slot, Value>,
}

/// What the values of one instruction derive from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origins {
    /// All that it reads.
    pub inputs: Set,
    /// The address of its memory operand.
    pub address: Set,
    /// Its memory operand is this slot of the stack frame.
    pub slot: Option<Slot>,
    /// What is in that slot.
    pub content: Set,
    /// rax, for compare-and-exchange.
    pub rax: Set,
    /// The last operand where it is a register.
    pub source: Set,
    /// Arguments, for calls.
    pub arguments: Set,
}

/// A loop's instructions with the origins of their values.
#[derive(Debug)]
pub(crate) struct Flow {
    pub effects: Vec<Effect>,
    pub origins: Vec<Origins>,
}

const ARGUMENTS: [usize; 6] = [7, 6, 2, 1, 8, 9]; // rdi, rsi, rdx, rcx, r8, r9
pub(crate) const LOST_IN_CALLS: [usize; 10] = [0, 1, 2, 6, 7, 8, 9, 10, 11, FLAGS];
/// A called function may write so many bytes behind an address that it is given (a timespec).
const OUT_BYTES: i64 = 16;

impl Flow {
    /// Follows the values of a loop of at most 64 instructions until nothing new is found.
    pub fn of(graph: &Graph, body: &Body) -> Self {
        let mut info = InstructionInfoFactory::new();
        let addresses: Vec<u64> = body.members.iter().copied().collect();
        let nodes: Vec<_> = addresses.iter().filter_map(|a| graph.get(a)).collect();
        let effects: Vec<Effect> = nodes
            .iter()
            .map(|n| Effect::of(&n.instr, &mut info))
            .collect();
        let frame = !effects.iter().any(|e| e.writes.contains(&RBP));
        let next: Vec<Vec<usize>> = nodes
            .iter()
            .map(|n| {
                let inside = n
                    .next
                    .iter()
                    .filter_map(|to| addresses.binary_search(to).ok());
                inside.collect()
            })
            .collect();
        let mut states: Vec<Option<State>> = vec![None; effects.len()];
        let mut origins = vec![Origins::default(); effects.len()];
        // In order of addresses, so that most values are known before they are used.
        let mut todo: BTreeSet<usize> = addresses
            .binary_search(&body.head)
            .ok()
            .into_iter()
            .collect();
        for &first in &todo {
            states[first] = Some(State::default());
        }
        while let Some(at) = todo.pop_first() {
            let Some(state) = states[at].clone() else {
                continue;
            };
            let (o, after) = step(at, &effects[at], state, frame);
            origins[at] = o;
            for &to in &next[at] {
                let merged = match &states[to] {
                    Some(known) => known.join(&after),
                    None => after.clone(),
                };
                if states[to].as_ref() != Some(&merged) {
                    states[to] = Some(merged);
                    todo.insert(to);
                }
            }
        }
        Self { effects, origins }
    }
}

impl State {
    fn join(&self, other: &Self) -> Self {
        let mut joined = self.clone();
        for (mine, theirs) in joined.places.iter_mut().zip(other.places) {
            *mine = mine.join(theirs);
        }
        for (slot, value) in &mut joined.slots {
            *value = value.join(other.slots.get(slot).copied().unwrap_or_default());
        }
        for (slot, value) in &other.slots {
            let mine = joined
                .slots
                .entry(*slot)
                .or_insert_with(|| Value::default().join(*value));
            *mine = mine.join(*value);
        }
        joined
    }

    fn read(&self, (base, disp): Slot, size: u32) -> Value {
        let byte = |i: u32| {
            let at = (base, disp.wrapping_add(i64::from(i)));
            self.slots.get(&at).copied().unwrap_or_default()
        };
        (1..size.min(64)).fold(byte(0), |v, i| v.join(byte(i)))
    }

    fn write(&mut self, (base, disp): Slot, size: i64, value: Value) {
        for i in 0..size.min(64) {
            self.slots.insert((base, disp.wrapping_add(i)), value);
        }
    }
}

/// One instruction: where its values come from, and what is known after it.
fn step(at: usize, e: &Effect, mut state: State, frame: bool) -> (Origins, State) {
    let of = |state: &State, place: usize| state.places.get(place).copied().unwrap_or_default();
    let mut o = Origins {
        rax: of(&state, 0).from,
        source: last_register(&e.instr).map_or(0, |r| of(&state, r).from),
        ..Origins::default()
    };
    if let Some(m) = e.operand {
        for place in m.base.iter().chain(&m.index) {
            o.address |= of(&state, *place).from;
        }
        o.slot = match (m.base, m.index) {
            (Some(RSP), None) => Some((RSP, m.disp)),
            // An object's fields are at positive distances, a frame's variables at negative ones.
            (Some(RBP), None) if frame && m.disp < 0 => Some((RBP, m.disp)),
            (Some(base), None) => of(&state, base)
                .slot
                .map(|(b, d)| (b, d.wrapping_add(m.disp))),
            _ => None,
        };
    }
    for &place in &e.reads {
        o.inputs |= of(&state, place).from;
    }
    let me = 1 << (at % 64);
    if e.is_call() {
        for place in ARGUMENTS {
            let v = of(&state, place);
            o.arguments |= v.from;
            if let Some(slot) = v.slot {
                state.write(
                    slot,
                    OUT_BYTES,
                    Value {
                        from: me,
                        slot: None,
                    },
                );
            }
        }
        for place in LOST_IN_CALLS {
            state.places[place] = Value {
                from: me,
                slot: None,
            };
        }
        return (o, state);
    }
    let content = o.slot.map(|s| state.read(s, e.size)).unwrap_or_default();
    if e.loads {
        o.content = content.from;
        o.inputs |= content.from;
    }
    let out = Value {
        from: o.inputs | me,
        slot: moved_address(e, &state, &o, content, frame),
    };
    for &place in &e.writes {
        let is_flags = place == FLAGS;
        state.places[place] = Value {
            slot: out.slot.filter(|_| !is_flags),
            ..out
        };
    }
    if let Some(slot) = o.slot.filter(|_| e.stores) {
        state.write(slot, i64::from(e.size), out);
    }
    (o, state)
}

fn last_register(instr: &Instruction) -> Option<usize> {
    let last = instr.op_count().checked_sub(1)?;
    (instr.op_kind(last) == OpKind::Register)
        .then(|| general(instr.op_register(last)))
        .flatten()
}

/// The stack address that an instruction moves, if it does.
fn moved_address(
    e: &Effect,
    state: &State,
    o: &Origins,
    content: Value,
    frame: bool,
) -> Option<Slot> {
    match e.instr.mnemonic() {
        Mnemonic::Lea => o.slot,
        Mnemonic::Mov if e.loads => content.slot,
        Mnemonic::Mov => match last_register(&e.instr)? {
            RSP => Some((RSP, 0)),
            RBP if frame => Some((RBP, 0)),
            place => state.places.get(place)?.slot,
        },
        _ => None,
    }
}
