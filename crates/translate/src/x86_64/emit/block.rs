//! The body of a block: what it runs, with what it writes down in between.

use alloc::vec::Vec;

use super::super::asm::{Asm, Mem};
use super::super::decode::{Block, End};
use super::super::marks::{Ip, Marks, Record, State};
use super::super::regs::{Pair, Reg, Slot};
use super::{exits, record, string};

/// Of the place that a block is made for.
#[derive(Debug, Clone, Copy)]
pub struct Environment {
    /// Of `cv_tr` from the thread pointer.
    pub tls: i32,
    /// Where the code will be.
    pub base: u64,
    /// Of the block, in the log.
    pub id: u32,
    /// Of the first exit of this block.
    pub first_exit: u32,
    /// Where [`super::Stubs`] are.
    pub stubs: u64,
}

/// Why control leaves a block for the translator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// A branch that may be led to its target's translation.
    Direct,
    /// The same, with all registers the program's.
    Native,
    /// The record is full.
    Limit,
    /// A system call.
    System,
}

/// An exit of a new block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewExit {
    pub kind: ExitKind,
    /// Where the program would be.
    pub ip: u64,
    /// Instructions of the block that have been executed by then.
    pub executed: u16,
    /// Direct: offset of the displacement to patch. System: of the code that makes the call.
    pub patch: u32,
}

/// A block ready to be copied to its place.
#[derive(Debug)]
pub struct Emitted {
    pub code: Vec<u8>,
    /// Offset of the entrance with all registers the program's.
    pub entry: u32,
    /// Offset of the entrance with the registers of `pair` lent.
    pub entry_lent: u32,
    pub pair: Pair,
    pub marks: Marks,
    pub exits: Vec<NewExit>,
}

/// A block on its way.
pub(super) struct Emitter<'a> {
    pub block: &'a Block,
    pub env: Environment,
    pub asm: Asm,
    pub marks: Marks,
    pub pair: Pair,
    pub exits: Vec<NewExit>,
    /// Exits to be given their code at the end: branch to aim, index in `exits`.
    pub pending: Vec<(usize, usize)>,
}

impl Emitter<'_> {
    /// From here on this many instructions have been executed, and the state is as given.
    pub fn mark(&mut self, executed: usize, state: State) {
        let at = self.block.at(executed);
        self.marks
            .set(self.asm.offset(), executed as u16, at, state);
    }

    /// Both registers lent, the record begun.
    pub fn begun(&self) -> State {
        State::lent(self.pair, Record::Begun)
    }

    /// The place of a word of the block's record.
    pub fn word(&self, word: u32) -> Mem {
        Mem::at(self.pair.record, i64::from(word) * 8)
    }

    pub fn exit(&mut self, kind: ExitKind, ip: u64, executed: usize) -> usize {
        self.exits.push(NewExit {
            kind,
            ip,
            executed: executed as u16,
            patch: 0,
        });
        self.exits.len() - 1
    }
}

/// Makes the code of a block; `None` = some of it cannot be encoded at this place.
pub fn emit(block: &Block, env: Environment, hint: Option<Pair>) -> Option<Emitted> {
    let pair = block.pair(hint);
    let mut e = Emitter {
        block,
        env,
        asm: Asm::new(env.base, env.tls),
        marks: Marks::default(),
        pair,
        exits: Vec::new(),
        pending: Vec::new(),
    };
    let check = exits::check_at(block);
    let island = (check == exits::Check::WithoutFlags).then(|| exits::island(&mut e));
    let entry = e.asm.offset();
    e.mark(0, State::NATIVE);
    e.asm.store(Slot::Record, pair.record);
    e.asm.store(Slot::Address, pair.address);
    e.asm.load(pair.record, Slot::At);
    let entry_lent = e.asm.offset();
    e.mark(0, e.begun());
    if let Some(island) = island {
        exits::check_without_flags(&mut e, island);
    }
    e.asm.number(pair.address, 1 << 56 | u64::from(env.id));
    let first = e.word(0);
    e.asm.put(&first, pair.address);

    let last = block.instructions.len() - 1;
    for index in 0..block.instructions.len() {
        e.mark(index, e.begun());
        if check == exits::Check::Before(index as u16) {
            exits::check(&mut e, index);
        }
        record::before(&mut e, index);
        if index == last && block.end != End::Next {
            break;
        }
        string::before(&mut e, index);
        copy(&mut e, index);
        string::after(&mut e, index);
    }
    exits::end(&mut e, last);
    exits::pending(&mut e);
    let code_bytes = e.asm.offset();
    if e.asm.failed || code_bytes > usize::from(u16::MAX) {
        return None;
    }
    Some(Emitted {
        code: e.asm.bytes,
        entry: entry as u32,
        entry_lent: entry_lent as u32,
        pair,
        marks: e.marks,
        exits: e.exits,
    })
}

/// The program's own bytes, with a displacement to the instruction pointer made right for the new place.
pub(super) fn copy(e: &mut Emitter<'_>, index: usize) {
    let instruction = &e.block.instructions[index];
    let from = usize::from(e.block.at(index));
    let start = e.asm.offset();
    let Some(bytes) = e.block.bytes.get(from..from + instruction.len()) else {
        e.asm.failed = true;
        return;
    };
    e.asm.raw(bytes);
    let field = usize::from(e.block.relative[index]);
    if field == 0 {
        // Nothing in it depends on its place, or it is an address of 32 bits.
        e.asm.failed |= instruction.is_ip_rel_memory_operand();
        return;
    }
    let distance = instruction
        .ip_rel_memory_address()
        .wrapping_sub(e.asm.here()) as i64;
    match i32::try_from(distance) {
        Ok(distance) => {
            e.asm.bytes[start + field..start + field + 4].copy_from_slice(&distance.to_le_bytes())
        }
        Err(_) => e.asm.failed = true,
    }
}

/// The address of the next instruction of the program, in a register.
pub(super) fn return_address(e: &mut Emitter<'_>, to: Reg) {
    let next = e.block.next();
    e.asm.number(to, next);
}

/// Where control goes is in [`Slot::Target`], and the branch is done.
pub(super) fn gone(e: &Emitter<'_>, record: Record) -> State {
    State::lent(e.pair, record).with_ip(Ip::Target)
}
