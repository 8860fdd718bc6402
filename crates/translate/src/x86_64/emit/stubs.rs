//! The code that a region of a cache begins with: what all its blocks share.

use alloc::vec::Vec;

use super::super::asm::{Asm, Mem};
use super::super::marks::{Ip, Marks, Record, State};
use super::super::regs::{Pair, Reg, Slot};

/// Stubs for each pair of registers are so far apart (bytes).
const STRIDE: u64 = 48;
/// The first word is the address of the translator's entrance.
const PAIRS: u64 = 16;
/// Offset of the exit with all registers the program's.
pub const NATIVE: u64 = PAIRS + 256 * STRIDE;

/// Offset of the exit with a pair lent.
pub fn of_pair(pair: Pair) -> u64 {
    PAIRS + STRIDE * (u64::from(pair.record.0) * 16 + u64::from(pair.address.0))
}

/// The beginning of a region.
#[derive(Debug)]
pub struct Stubs {
    pub code: Vec<u8>,
    pub marks: Marks,
    /// Offset: what `cv_tr_enter` goes to.
    pub enter: usize,
    /// Offset: to a function of the agent.
    pub hook: usize,
    /// Offset: from the translator back to translated code.
    pub tail: usize,
}

/// Makes them. `slow` is the translator's entrance, `generation` the number that `cv_tr.generation`
/// must equal; with `values` the record says with which registers the program goes on behind a
/// hook.
pub fn stubs(base: u64, tls: i32, slow: u64, generation: u64, values: bool) -> Stubs {
    let mut marks = Marks::default();
    let mut asm = Asm::new(base, tls);
    asm.raw(&slow.to_le_bytes());
    asm.raw(&[0xcc; 8]);
    for number in 0..=255u8 {
        let pair = Pair {
            record: Reg(number >> 4),
            address: Reg(number & 15),
        };
        while (asm.offset() as u64) < of_pair(pair) {
            asm.raw(&[0xcc]);
        }
        let state = State::lent(pair, Record::Exit).with_ip(Ip::Exit);
        marks.set(asm.offset(), 0, 0, state);
        asm.store(Slot::At, pair.record);
        marks.set(asm.offset(), 0, 0, state.with_record(Record::ExitStored));
        asm.load(pair.record, Slot::Record);
        asm.load(pair.address, Slot::Address);
        to_slow(&mut asm, base);
    }
    while (asm.offset() as u64) < NATIVE {
        asm.raw(&[0xcc]);
    }
    let native = State {
        ip: Ip::Exit,
        record: Record::ExitStored,
        ..State::NATIVE
    };
    marks.set(asm.offset(), 0, 0, native);
    to_slow(&mut asm, base);

    let enter = asm.offset();
    at_enter(&mut asm, &mut marks, base, generation, values);
    let hook = asm.offset();
    to_hook(&mut asm, &mut marks);
    let tail = asm.offset();
    marks.set(tail, 0, 0, State::NATIVE.with_ip(Ip::Target));
    asm.jump_slot(Slot::Jump);
    Stubs {
        code: asm.bytes,
        marks,
        enter,
        hook,
        tail,
    }
}

fn to_slow(asm: &mut Asm, base: u64) {
    asm.store(Slot::Stack, Reg::RSP);
    let branch = asm.branch(&[0xff, 0x25]);
    asm.aim(branch, base);
}

/// A hook has returned: its target is looked up as a block's end does it. The flags are free here.
fn at_enter(asm: &mut Asm, marks: &mut Marks, base: u64, generation: u64, values: bool) {
    let target = State::NATIVE.with_ip(Ip::Target);
    let lent = target
        .with_saved(Reg::RAX, Slot::Extra0)
        .with_saved(Reg::RCX, Slot::Extra1)
        .with_saved(Reg::RDX, Slot::Extra2);
    let restore = |asm: &mut Asm| {
        asm.load(Reg::RAX, Slot::Extra0);
        asm.load(Reg::RCX, Slot::Extra1);
        asm.load(Reg::RDX, Slot::Extra2);
    };
    marks.set(asm.offset(), 0, 0, target);
    asm.store_number(Slot::Exit, 0);
    asm.store(Slot::Extra0, Reg::RAX);
    asm.store(Slot::Extra1, Reg::RCX);
    asm.store(Slot::Extra2, Reg::RDX);
    marks.set(asm.offset(), 0, 0, lent);
    // A signal may have ended the section since the hook decided to come here.
    asm.number(Reg::RAX, 1);
    asm.compare_half(Reg::RAX, Slot::Mode);
    let ended = asm.branch(&[0x0f, 0x85]); // jne
    if values {
        registers(asm);
    }
    asm.load(Reg::RAX, Slot::Limit);
    asm.raw(&[0x48, 0xf7, 0xd8]); // neg rax
    asm.store(Slot::MinusLimit, Reg::RAX);
    asm.number(Reg::RAX, generation);
    asm.raw(&[0x8b, 0x00]); // mov eax, [rax]
    asm.compare_half(Reg::RAX, Slot::Generation);
    asm.raw(&[0x75, 0]); // jne
    let stale = asm.offset();
    asm.load(Reg::RAX, Slot::Target);
    asm.low_word(Reg::RCX, Reg::RAX);
    asm.load(Reg::RDX, Slot::Table);
    asm.lea(Reg::RDX, &Mem::indexed(Reg::RDX, Reg::RCX, 8));
    asm.lea(Reg::RDX, &Mem::indexed(Reg::RDX, Reg::RCX, 8));
    asm.get(Reg::RCX, None, &Mem::at(Reg::RDX, 0));
    asm.lea(Reg::RCX, &Mem::indexed(Reg::RCX, Reg::RAX, 1));
    let hit = asm.jump_if_rcx_zero();
    asm.land(stale);
    restore(asm);
    let branch = asm.branch(&[0xe9]);
    asm.aim(branch, base + NATIVE);
    asm.land(hit);
    asm.get(Reg::RDX, None, &Mem::at(Reg::RDX, 8));
    asm.store(Slot::Jump, Reg::RDX);
    restore(asm);
    asm.jump_slot(Slot::Jump);
    let here = asm.here();
    asm.aim(ended, here);
    restore(asm);
    asm.jump_slot(Slot::Target);
}

/// CV_EVENT_REGISTERS. It is whole before the record's end moves behind it: a signal finds all of
/// it or nothing.
fn registers(asm: &mut Asm) {
    const EVENT: u64 = 7 << 56;
    /// rbx, rbp, rsp, r12 to r15.
    const PRESERVED: [Reg; 7] = [Reg(3), Reg(5), Reg::RSP, Reg(12), Reg(13), Reg(14), Reg(15)];
    let word = |number: i64| Mem::at(Reg::RAX, number * 8);
    asm.load(Reg::RAX, Slot::At);
    asm.number(Reg::RCX, EVENT);
    asm.put(&word(0), Reg::RCX);
    asm.load(Reg::RCX, Slot::Extra0);
    asm.put(&word(1), Reg::RCX);
    for (number, register) in (2..).zip(PRESERVED) {
        asm.put(&word(number), register);
    }
    asm.load(Reg::RCX, Slot::Fs);
    asm.put(&word(9), Reg::RCX);
    asm.lea(Reg::RAX, &word(10));
    asm.store(Slot::At, Reg::RAX);
}

/// A function of the agent runs as it is; it is told what it was called with.
fn to_hook(asm: &mut Asm, marks: &mut Marks) {
    let target = State::NATIVE.with_ip(Ip::Target);
    marks.set(asm.offset(), 0, 0, target);
    asm.store(Slot::Extra0, Reg::RAX);
    marks.set(
        asm.offset(),
        0,
        0,
        target.with_saved(Reg::RAX, Slot::Extra0),
    );
    asm.get(Reg::RAX, None, &Mem::at(Reg::RSP, 0));
    asm.store(Slot::HookReturn, Reg::RAX);
    asm.store(Slot::HookPlace, Reg::RSP);
    asm.store_number(Slot::Mode, 2);
    asm.load(Reg::RAX, Slot::Extra0);
    asm.jump_slot(Slot::Target);
}
