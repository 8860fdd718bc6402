//! The instructions of a function: where the value of a register came from, and what becomes of what is loaded.
//!
//! Code that was not optimized loads a pointer from its variable before each use, most often into the register that the
//! use then overwrites: only the variable tells later which memory that was.

use std::collections::HashSet;

use iced_x86::{
    Code as Opcode, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};

use super::{changes, number, Access, Base, Operand};

/// Instructions that are looked through for what becomes of a value that was loaded.
const FOLLOWED: usize = 48;
/// Instructions before one that are looked through for where the value of a register came from.
const TRACED: usize = 16;

pub(super) struct Body {
    all: Vec<Instruction>,
    /// Addresses that are jumped to: there may be other ways to them than from the instruction before.
    jumped_to: HashSet<u64>,
}

impl Body {
    /// Up to the first byte that is no instruction.
    pub fn decode(code: &[u8], base: u64) -> Self {
        let decoder = Decoder::with_ip(64, code, base, DecoderOptions::NONE);
        let all: Vec<Instruction> = decoder
            .into_iter()
            .take_while(|instruction| instruction.code() != Opcode::INVALID)
            .collect();
        let jumps = all
            .iter()
            .filter(|instruction| instruction.op0_kind() == OpKind::NearBranch64);
        let jumped_to = jumps.map(Instruction::near_branch_target).collect();
        Self { all, jumped_to }
    }

    pub fn position(&self, ip: u64) -> Option<usize> {
        self.all.binary_search_by_key(&ip, Instruction::ip).ok()
    }

    pub fn instruction(&self, at: usize) -> Option<&Instruction> {
        self.all.get(at)
    }

    /// The instruction that has run before the one at `at` for sure.
    pub fn before(&self, at: usize) -> Option<usize> {
        let (before, ip) = (at.checked_sub(1)?, self.all.get(at)?.ip());
        let goes_on = self.all[before].flow_control() == FlowControl::Next;
        (goes_on && !self.jumped_to.contains(&ip)).then_some(before)
    }

    /// What the instruction at `at` touches, as it says so and as the variables say that its registers were loaded from;
    /// with what the instructions from `next` on do to the same bytes: a counter that is loaded, increased and stored is
    /// written, although threads are found waiting for the load.
    pub fn operands(&self, at: usize, next: usize) -> impl Iterator<Item = Operand> {
        let told = self.all.get(at).and_then(Operand::of);
        let traced = told.map(|told| self.traced(told, at));
        let mut accesses = told.map(|told| self.followed(&told, next, |other, _| other));
        if let Some((access, traced)) = accesses.as_mut().zip(traced).filter(|_| traced != told) {
            let later = self.followed(&traced, next, |other, at| self.traced(other, at));
            access.writes |= later.writes;
            access.locked |= later.locked;
        }
        let with = move |operand: Operand| accesses.map(|access| Operand { access, ..operand });
        [told, traced].into_iter().flatten().filter_map(with)
    }

    /// What is done to the bytes of `operand`, here and by the instructions from `next` on.
    fn followed(
        &self,
        operand: &Operand,
        next: usize,
        form: impl Fn(Operand, usize) -> Operand,
    ) -> Access {
        let mut access = operand.access;
        let mut next = Some(next);
        for _ in 0..FOLLOWED {
            let Some((at, instruction)) = next.and_then(|at| Some((at, self.all.get(at)?))) else {
                break;
            };
            let alike = Operand::of(instruction)
                .filter(|other| other.displacement == operand.displacement)
                .map(|other| form(other, at));
            if let Some(other) = alike.filter(|other| other.is_at(operand)) {
                access.writes |= other.access.writes;
                access.locked |= other.access.locked;
            }
            if !operand.survives(instruction) {
                break;
            }
            next = match instruction.flow_control() {
                FlowControl::Next => Some(at + 1),
                // Back to where a loop begins; whatever else it may go on with comes later, if at all.
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
                    if instruction.near_branch_target() <= instruction.ip() =>
                {
                    self.position(instruction.near_branch_target())
                }
                FlowControl::ConditionalBranch => Some(at + 1),
                _ => None,
            };
        }
        access
    }

    /// The same operand, its base that from which the register was loaded, as far as that is still there at `at`.
    fn traced(&self, operand: Operand, at: usize) -> Operand {
        let Some(Base::Register(mut register)) = operand.base else {
            return operand;
        };
        let mut found = operand.base;
        let mut here = at;
        for _ in 0..TRACED {
            let Some(before) = self.before(here) else {
                break;
            };
            if changes(&self.all[before], register) {
                let stays = |base: Base| self.all[before + 1..at].iter().all(|i| base.survives(i));
                let Some(base) = loaded(&self.all[before], register).filter(|&base| stays(base))
                else {
                    break;
                };
                found = Some(base);
                match base {
                    Base::Register(source) => register = source,
                    Base::Variable { .. } => break,
                }
            }
            here = before;
        }
        Operand {
            base: found,
            ..operand
        }
    }
}

/// What the instruction copies into the register, all of it: another register, or a variable on the stack.
fn loaded(instruction: &Instruction, register: u8) -> Option<Base> {
    let into = instruction.op0_kind() == OpKind::Register
        && number(instruction.op0_register()) == Some(Some(register));
    if instruction.mnemonic() != Mnemonic::Mov || !into {
        return None;
    }
    let base = match instruction.op1_kind() {
        OpKind::Register => return number(instruction.op1_register())?.map(Base::Register),
        OpKind::Memory => instruction.memory_base(),
        _ => return None,
    };
    let variable = matches!(base, Register::RSP | Register::RBP)
        && instruction.memory_index() == Register::None
        && !matches!(instruction.memory_segment(), Register::FS | Register::GS);
    let displacement = instruction.memory_displacement64() as i64;
    variable.then_some(Base::Variable {
        register: number(base)??,
        displacement,
    })
}
