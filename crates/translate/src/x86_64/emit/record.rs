//! The words of a memory operand, written before its instruction runs.

use super::super::access::{Access, How, Segment};
use super::super::asm::Mem;
use super::super::regs::{Reg, Slot};
use super::block::Emitter;
use super::lanes;

/// All operands of an instruction that are known before it runs.
pub(super) fn before(e: &mut Emitter<'_>, index: usize) {
    let block = e.block;
    for access in block
        .accesses
        .iter()
        .filter(|access| usize::from(access.instruction) == index)
    {
        match access.how {
            How::Plain => {
                let register = address(e, access);
                put(e, access.word, register);
            }
            How::Bit {
                offset,
                operand_bytes,
            } => bit(e, access, offset, operand_bytes),
            How::Masked(mask) => {
                let register = address(e, access);
                put(e, access.word, register);
                lanes::mask(e, access.word + 1, &mask);
            }
            How::Lanes(vector) => lanes::vector(e, access, &vector),
            How::Result => put(e, access.word, Reg::RAX),
            How::Value => value(e, access),
            How::Repeat { .. } => {}
        }
    }
}

fn put(e: &mut Emitter<'_>, word: u32, register: Reg) {
    let word = e.word(word);
    e.asm.put(&word, register);
}

/// The address of an operand, in the register given back.
fn address(e: &mut Emitter<'_>, access: &Access) -> Reg {
    let to = e.pair.address;
    let mem = access.mem;
    if let (Segment::Flat, false, Some(base), None, 0, false) = (
        access.segment,
        access.plus_al,
        mem.base,
        mem.index,
        mem.offset,
        mem.narrow,
    ) {
        return base; // it is there already
    }
    if let (Segment::Fs, false, None, None) = (access.segment, access.plus_al, mem.base, mem.index)
    {
        // The common one: a variable of the thread.
        e.asm.load(to, Slot::Fs);
        e.asm.lea(to, &Mem::at(to, mem.offset));
        return to;
    }
    if access.plus_al {
        e.asm.low_byte(to, Reg::RAX);
        if let Some(base) = mem.base {
            e.asm.lea(
                to,
                &Mem {
                    narrow: mem.narrow,
                    ..Mem::indexed(to, base, 1)
                },
            );
        }
    } else {
        e.asm.lea(to, &mem);
    }
    let base = match access.segment {
        Segment::Flat => return to,
        Segment::Fs => Slot::Fs,
        Segment::Gs => Slot::Gs,
    };
    add_slot(e, access, base);
    to
}

/// What an operand holds before its instruction runs. A fault here is that of the instruction.
fn value(e: &mut Emitter<'_>, access: &Access) {
    let from = address(e, access);
    let to = e.pair.address;
    e.asm.get_bytes(to, from, access.size);
    put(e, access.word, to);
}

/// Adds a slot to the address register without the flags; rcx helps for a moment.
fn add_slot(e: &mut Emitter<'_>, access: &Access, slot: Slot) {
    let to = e.pair.address;
    let index = usize::from(access.instruction);
    e.asm.store(Slot::Extra0, Reg::RCX);
    e.mark(index, e.begun().with_saved(Reg::RCX, Slot::Extra0));
    e.asm.load(Reg::RCX, slot);
    e.asm.lea(to, &Mem::indexed(to, Reg::RCX, 1));
    e.asm.load(Reg::RCX, Slot::Extra0);
    e.mark(index, e.begun());
}

/// The word that a bit offset in a register leads to.
fn bit(e: &mut Emitter<'_>, access: &Access, offset: Reg, operand_bytes: u8) {
    use iced_x86::{Code, Instruction};
    let to = e.pair.address;
    let shift = operand_bytes.trailing_zeros() + 3;
    // The offset is signed, of the operand's width.
    e.asm.store(Slot::Value0, offset);
    if operand_bytes == 2 {
        let word = e.asm.memory(Slot::Value0);
        e.asm
            .encode(Instruction::with2(Code::Movsx_r64_rm16, to.name(), word));
        e.asm.store(Slot::Value0, to);
    } else if operand_bytes == 4 {
        e.asm.load_signed(to, Slot::Value0, 0);
        e.asm.store(Slot::Value0, to);
    }
    e.asm.number(to, u64::from(shift));
    let word = e.asm.memory(Slot::Value0);
    e.asm.encode(Instruction::with3(
        Code::VEX_Sarx_r64_rm64_r64,
        to.name(),
        word,
        to.name(),
    ));
    let mem = access.mem;
    e.asm.lea(to, &Mem::scaled(to, operand_bytes, 0));
    if let Some(base) = mem.base {
        e.asm.lea(to, &Mem::indexed(to, base, 1));
    }
    match mem.index {
        Some((index, scale)) => {
            e.asm.lea(
                to,
                &Mem {
                    offset: mem.offset,
                    ..Mem::indexed(to, index, scale)
                },
            );
        }
        None if i32::try_from(mem.offset).is_ok() => e.asm.lea(to, &Mem::at(to, mem.offset)),
        None => {
            e.asm.store(Slot::Value0, to);
            e.asm.number(to, mem.offset as u64);
            add_slot(e, access, Slot::Value0);
        }
    }
    if access.segment != Segment::Flat {
        let base = if access.segment == Segment::Fs {
            Slot::Fs
        } else {
            Slot::Gs
        };
        add_slot(e, access, base);
    }
    put(e, access.word, to);
}
