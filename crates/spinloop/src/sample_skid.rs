//! What it means that a sample lies at one instruction of a waiting loop.
//!
//! A lock that is free is taken in the first pass, so that a sample in such a loop does not show that a thread
//! waits. Nearly all samples lie right behind the locked instruction, though, because that one takes longest,
//! and what it left in a register or in the flags says whether the try has failed.

use iced_x86::{ConditionCode, Mnemonic, OpKind, Register};

use crate::effects::Effect;
use crate::flow::{Body, Graph};

/// Zero flag, sign flag, carry flag.
const ZERO: u32 = 1 << 6;
const SIGN: u32 = 1 << 7;
const CARRY: u32 = 1;

/// What a sample at an instruction of a waiting loop tells of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tells {
    /// It waits: only threads that wait come here.
    Waits,
    /// It waits if this flag of the processor is as given: it is right behind a try at a lock.
    Flag {
        /// Its bit in the register of flags.
        mask: u32,
        /// It is set if the try has failed.
        set: bool,
    },
    /// It waits if these bits of rax are not all zero: they are what an exchange has found.
    Accumulator(u64),
    /// Nothing: a thread passes here, too, that takes a free lock. It waits if it is still there later.
    Nothing,
    /// Nothing by itself: a thread passes here, too, that goes on with the larger loop around. If most are still there
    /// later, whoever is here waits.
    Mostly,
}

/// For an instruction of a loop with tries at a lock, or one that gives way.
pub(crate) fn tells(graph: &Graph, body: &Body, effects: &[Effect], ip: u64) -> Tells {
    let Some(before) = effects.iter().find(|e| e.instr.next_ip() == ip) else {
        return Tells::Nothing;
    };
    if before.is_pause() {
        return Tells::Waits;
    }
    if !before.is_locked() {
        return Tells::Nothing;
    }
    match before.instr.mnemonic() {
        Mnemonic::Cmpxchg => Tells::Flag {
            mask: ZERO,
            set: false,
        },
        Mnemonic::Bts => Tells::Flag {
            mask: CARRY,
            set: true,
        },
        Mnemonic::Xchg => found(before),
        _ => branch(graph, body, ip),
    }
}

/// An exchange leaves what it has found in its register: zero for a lock that was free.
fn found(exchange: &Effect) -> Tells {
    let instr = &exchange.instr;
    let register = (0..instr.op_count())
        .filter(|&op| instr.op_kind(op) == OpKind::Register)
        .map(|op| instr.op_register(op))
        .next();
    match register {
        Some(Register::AL) => Tells::Accumulator(0xff),
        Some(Register::AX) => Tells::Accumulator(0xffff),
        Some(Register::EAX) => Tells::Accumulator(0xffff_ffff),
        Some(Register::RAX) => Tells::Accumulator(u64::MAX),
        _ => Tells::Nothing,
    }
}

/// A counting lock: the branch behind it says which outcome stays in the loop.
fn branch(graph: &Graph, body: &Body, ip: u64) -> Tells {
    let Some(node) = graph.get(&ip) else {
        return Tells::Nothing;
    };
    let instr = &node.instr;
    let (mask, taken_if) = match instr.condition_code() {
        ConditionCode::e => (ZERO, true),
        ConditionCode::ne => (ZERO, false),
        ConditionCode::s => (SIGN, true),
        ConditionCode::ns => (SIGN, false),
        ConditionCode::b => (CARRY, true),
        ConditionCode::ae => (CARRY, false),
        _ => return Tells::Nothing,
    };
    if !instr.is_jcc_short_or_near() {
        return Tells::Nothing;
    }
    let stays = |to: u64| body.members.contains(&to);
    match (stays(instr.near_branch_target()), stays(instr.next_ip())) {
        (true, false) => Tells::Flag {
            mask,
            set: taken_if,
        },
        (false, true) => Tells::Flag {
            mask,
            set: !taken_if,
        },
        _ => Tells::Nothing,
    }
}
