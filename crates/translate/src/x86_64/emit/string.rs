//! Repeated string instructions: the lowest address and how often, which are known only when they are done.
//!
//! Their direction is a flag that no instruction reads without the stack or other flags: the code runs one
//! `lodsb` on the record itself and looks where rsi went.

use super::super::access::{Access, How};
use super::super::asm::Mem;
use super::super::regs::{Reg, Slot};
use super::block::Emitter;

fn repeated(e: &Emitter<'_>, index: usize) -> [Option<(Access, Reg)>; 2] {
    let mut found = [None, None];
    let accesses = e
        .block
        .accesses
        .iter()
        .filter(|access| usize::from(access.instruction) == index);
    for (slot, access) in found.iter_mut().zip(accesses) {
        if let How::Repeat { pointer } = access.how {
            *slot = Some((*access, pointer));
        }
    }
    found
}

/// Keeps the count and the pointers.
pub(super) fn before(e: &mut Emitter<'_>, index: usize) {
    let operands = repeated(e, index);
    if operands[0].is_none() {
        return;
    }
    e.asm.store(Slot::Value0, Reg::RCX);
    e.asm.number(e.pair.address, 0);
    for (at, (access, pointer)) in operands.into_iter().flatten().enumerate() {
        e.asm.store_behind(Slot::Vector, at as i32 * 8, pointer);
        // What a signal in the midst of it finds.
        for word in [access.word, access.word + 1] {
            let word = e.word(word);
            e.asm.put(&word, e.pair.address);
        }
    }
}

/// Writes the words.
pub(super) fn after(e: &mut Emitter<'_>, index: usize) {
    let operands = repeated(e, index);
    if operands[0].is_none() {
        return;
    }
    let count = e.pair.address;
    let record = e.pair.record;
    e.mark(index + 1, e.begun());
    e.asm.store(Slot::Extra0, Reg::RCX);
    e.asm.store(Slot::Extra1, Reg::RSI);
    e.asm.store(Slot::Extra2, Reg::RAX);
    let state = e
        .begun()
        .with_saved(Reg::RCX, Slot::Extra0)
        .with_saved(Reg::RSI, Slot::Extra1)
        .with_saved(Reg::RAX, Slot::Extra2);
    e.mark(index + 1, state);
    // count = rcx before - rcx after
    e.asm.not(Reg::RCX);
    e.asm.load(count, Slot::Value0);
    e.asm.lea(
        count,
        &Mem {
            offset: 1,
            ..Mem::indexed(count, Reg::RCX, 1)
        },
    );
    for (access, _) in operands.into_iter().flatten() {
        let word = e.word(access.word + 1);
        e.asm.put(&word, count);
    }
    // rcx = 0 where the direction is down, else 2
    e.asm.copy(Reg::RSI, record);
    e.asm.raw(&[0xac]); // lodsb
    e.asm.copy(Reg::RCX, record);
    e.asm.not(Reg::RCX);
    e.asm.lea(
        Reg::RCX,
        &Mem {
            offset: 2,
            ..Mem::indexed(Reg::RCX, Reg::RSI, 1)
        },
    );
    let down = e.asm.jump_if_rcx_zero();
    for (at, (access, _)) in operands.into_iter().flatten().enumerate() {
        e.asm.load_behind(Reg::RCX, Slot::Vector, at as i32 * 8);
        let word = e.word(access.word);
        e.asm.put(&word, Reg::RCX);
    }
    let done = e.asm.jump_short();
    e.asm.land(down);
    e.asm.not(count); // -count - 1
    for (at, (access, _)) in operands.into_iter().flatten().enumerate() {
        e.asm.load_behind(Reg::RCX, Slot::Vector, at as i32 * 8);
        let lowest = Mem {
            offset: 2 * i64::from(access.size),
            ..Mem::indexed(Reg::RCX, count, access.size as u8)
        };
        e.asm.lea(Reg::RCX, &lowest);
        let word = e.word(access.word);
        e.asm.put(&word, Reg::RCX);
    }
    e.asm.land(done);
    e.asm.load(Reg::RCX, Slot::Extra0);
    e.asm.load(Reg::RSI, Slot::Extra1);
    e.asm.load(Reg::RAX, Slot::Extra2);
    e.mark(index + 1, e.begun());
}
