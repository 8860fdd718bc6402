//! How control leaves a block, and the check that the record has room.

use super::super::access::Segment;
use super::super::asm::Mem;
use super::super::decode::{Block, End};
use super::super::marks::{Ip, Record, State};
use super::super::regs::{Reg, Slot};
use super::block::{copy, gone, return_address, Emitter, ExitKind};
use super::stubs;

/// Where a block looks whether the record is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// Before this instruction, where the flags are of no interest.
    Before(u16),
    /// At its entrance, with instructions that leave the flags alone.
    WithoutFlags,
    /// Not at all: it goes on forward, to blocks that look.
    No,
}

/// Every way round in a program has a block that goes backward, returns, or jumps to an address in a register.
pub(super) fn check_at(block: &Block) -> Check {
    if let Some(index) = block.flags_dead_before {
        return Check::Before(index);
    }
    let forward = match block.end {
        End::Next | End::Return(_) | End::CallTo => false,
        // The jump of a procedure linkage table: what it goes to looks.
        End::JumpTo => block
            .instructions
            .last()
            .is_some_and(|i| i.is_ip_rel_memory_operand()),
        End::Jump(to) | End::Condition(_, to) | End::Count(to) | End::Call(to) | End::Begin(to) => {
            to >= block.next()
        }
        End::System => true,
    };
    if forward {
        Check::No
    } else {
        Check::WithoutFlags
    }
}

/// Compares the place of the block's record with the limit.
pub(super) fn check(e: &mut Emitter<'_>, index: usize) {
    let ip = e.block.ip + u64::from(e.block.at(index));
    let exit = e.exit(ExitKind::Limit, ip, index);
    e.asm.compare(e.pair.record, Slot::Limit);
    let branch = e.asm.branch(&[0x0f, 0x83]); // jae
    e.pending.push((branch, exit));
}

/// The way out of [`check_without_flags`]; returns its offset.
pub(super) fn island(e: &mut Emitter<'_>) -> usize {
    let offset = e.asm.offset();
    let exit = e.exit(ExitKind::Limit, e.block.ip, 0);
    e.mark(0, e.begun().with_spared(Reg::RCX, e.pair.address));
    e.asm.copy(Reg::RCX, e.pair.address);
    leave(e, exit);
    offset
}

/// The same comparison: rcx becomes the upper byte of the difference, which is 0 when the limit has been passed.
pub(super) fn check_without_flags(e: &mut Emitter<'_>, island: usize) {
    e.asm.copy(e.pair.address, Reg::RCX);
    e.mark(0, e.begun().with_spared(Reg::RCX, e.pair.address));
    e.asm.load(Reg::RCX, Slot::MinusLimit);
    e.asm
        .lea(Reg::RCX, &Mem::indexed(Reg::RCX, e.pair.record, 1));
    e.asm.swap_bytes(Reg::RCX);
    e.asm.low_byte(Reg::RCX, Reg::RCX);
    let branch = e.asm.jump_if_rcx_zero();
    e.asm.land_back(branch, island);
    e.asm.copy(Reg::RCX, e.pair.address);
    e.mark(0, e.begun());
}

/// To the translator, from a state with the pair lent.
fn leave(e: &mut Emitter<'_>, exit: usize) {
    e.asm
        .store_number(Slot::Exit, e.env.first_exit + exit as u32);
    let stub = e.env.stubs + stubs::of_pair(e.pair);
    e.asm.jump(stub);
}

/// The code of the exits that branches lead to.
pub(super) fn pending(e: &mut Emitter<'_>) {
    let all = e.block.instructions.len();
    for (branch, exit) in core::mem::take(&mut e.pending) {
        let new = e.exits[exit];
        let here = e.asm.here();
        e.asm.aim(branch, here);
        let state = match new.kind {
            ExitKind::Limit => e.begun(),
            _ => whole(e).with_ip(Ip::Address(new.ip)),
        };
        let executed = usize::from(new.executed).min(all);
        e.mark(executed, state);
        leave(e, exit);
    }
}

fn whole(e: &Emitter<'_>) -> State {
    State::lent(e.pair, Record::Whole)
}

/// The record register goes on behind the block's words.
fn advance(e: &mut Emitter<'_>) {
    let next = e.word(e.block.words);
    e.asm.lea(e.pair.record, &next);
}

/// A branch that goes to a translation once there is one.
fn direct(e: &mut Emitter<'_>, opcode: &[u8], to: u64) {
    let exit = e.exit(ExitKind::Direct, to, e.block.instructions.len());
    let branch = e.asm.branch_patchable(opcode);
    e.exits[exit].patch = branch as u32;
    e.pending.push((branch, exit));
}

const JUMP: &[u8] = &[0xe9];

/// The last instruction of a block.
pub(super) fn end(e: &mut Emitter<'_>, last: usize) {
    let all = last + 1;
    let next = e.block.next();
    let to = |e: &Emitter<'_>, to| whole(e).with_ip(Ip::Address(to));
    match e.block.end {
        End::Next => {
            e.mark(all, e.begun());
            advance(e);
            e.mark(all, to(e, next));
            direct(e, JUMP, next);
        }
        End::Jump(target) => {
            advance(e);
            e.mark(all, to(e, target));
            direct(e, JUMP, target);
        }
        End::Begin(target) => {
            advance(e);
            e.mark(all, to(e, target));
            e.asm.number(Reg::RAX, 0);
            direct(e, JUMP, target);
        }
        End::Condition(condition, target) => {
            advance(e);
            e.mark(last, whole(e));
            direct(e, &[0x0f, 0x80 | condition], target);
            e.mark(all, to(e, next));
            direct(e, JUMP, next);
        }
        End::Count(target) => {
            advance(e);
            e.mark(last, whole(e));
            copy(e, last);
            let taken = e.asm.offset();
            e.mark(all, to(e, next));
            direct(e, JUMP, next);
            e.asm.land(taken);
            e.mark(all, to(e, target));
            direct(e, JUMP, target);
        }
        End::Call(target) => {
            return_address(e, e.pair.address);
            e.asm.push(e.pair.address);
            e.mark(all, e.begun().with_ip(Ip::Address(target)));
            advance(e);
            e.mark(all, to(e, target));
            direct(e, JUMP, target);
        }
        End::Return(beside) => {
            e.asm.get(e.pair.address, None, &Mem::at(Reg::RSP, 0));
            e.asm.store(Slot::Target, e.pair.address);
            e.asm
                .lea(Reg::RSP, &Mem::at(Reg::RSP, 8 + i64::from(beside)));
            indirect(e);
        }
        End::JumpTo => {
            target(e, last);
            e.asm.store(Slot::Target, e.pair.address);
            indirect(e);
        }
        End::CallTo => {
            target(e, last);
            e.asm.store(Slot::Target, e.pair.address);
            return_address(e, e.pair.address);
            e.asm.push(e.pair.address);
            e.mark(all, gone(e, Record::Begun));
            e.asm.load(e.pair.address, Slot::Target);
            indirect(e);
        }
        End::System => system(e, last),
    }
}

/// Where an indirect branch goes, into the address register.
fn target(e: &mut Emitter<'_>, last: usize) {
    let instruction = e.block.instructions[last];
    let to = e.pair.address;
    if let Some(register) = Reg::of(instruction.op0_register()) {
        return e.asm.copy(to, register);
    }
    let read = |access: &&super::super::access::Access| {
        usize::from(access.instruction) == last && access.flags & super::super::access::READ != 0
    };
    let Some(access) = e.block.accesses.iter().find(read).copied() else {
        e.asm.failed = true;
        return;
    };
    let segment = match access.segment {
        Segment::Flat => None,
        Segment::Fs => Some(0x64),
        Segment::Gs => Some(0x65),
    };
    e.asm.get(to, segment, &access.mem);
}

/// Looks the target up in the thread's table: an entry is (0 - address, its translation).
fn indirect(e: &mut Emitter<'_>) {
    let all = e.block.instructions.len();
    let (entry, target) = (e.pair.record, e.pair.address);
    e.mark(all, gone(e, Record::Begun));
    advance(e);
    e.mark(all, gone(e, Record::Whole));
    e.asm.store(Slot::At, e.pair.record);
    e.asm.store(Slot::Extra0, Reg::RCX);
    e.mark(
        all,
        gone(e, Record::Stored).with_saved(Reg::RCX, Slot::Extra0),
    );
    e.asm.low_word(entry, target);
    e.asm.load(Reg::RCX, Slot::Table);
    e.asm.lea(Reg::RCX, &Mem::indexed(Reg::RCX, entry, 8));
    e.asm.lea(entry, &Mem::indexed(Reg::RCX, entry, 8));
    e.asm.get(Reg::RCX, None, &Mem::at(entry, 0));
    e.asm.lea(Reg::RCX, &Mem::indexed(Reg::RCX, target, 1));
    let hit = e.asm.jump_if_rcx_zero();
    e.asm.load(Reg::RCX, Slot::Extra0);
    e.asm.load(e.pair.record, Slot::Record);
    e.asm.load(e.pair.address, Slot::Address);
    e.asm.store_number(Slot::Exit, 0);
    let native = e.env.stubs + stubs::NATIVE;
    e.asm.jump(native);
    e.asm.land(hit);
    e.asm.get(entry, None, &Mem::at(entry, 8));
    e.asm.store(Slot::Jump, entry);
    e.asm.load(Reg::RCX, Slot::Extra0);
    e.asm.load(e.pair.record, Slot::Record);
    e.asm.load(e.pair.address, Slot::Address);
    e.asm.jump_slot(Slot::Jump);
}

/// The translator writes the call down and comes back to make it.
fn system(e: &mut Emitter<'_>, last: usize) {
    let all = last + 1;
    let next = e.block.next();
    let call = e.exit(
        ExitKind::System,
        e.block.ip + u64::from(e.block.at(last)),
        last,
    );
    advance(e);
    e.mark(last, whole(e));
    leave(e, call);
    let native = State {
        record: Record::Stored,
        ..State::NATIVE
    };
    let behind = native.with_ip(Ip::Address(next));
    e.exits[call].patch = e.asm.offset() as u32;
    let at = e.block.at(last);
    e.marks.set(e.asm.offset(), all as u16, at, native);
    copy(e, last);
    e.mark(all, behind);
    e.asm.number(Reg::RCX, next); // where the kernel has left the cache's address
    let exit = e.exit(ExitKind::Native, next, all);
    let branch = e.asm.branch_patchable(JUMP);
    e.exits[exit].patch = branch as u32;
    let here = e.asm.here();
    e.asm.aim(branch, here);
    e.asm
        .store_number(Slot::Exit, e.env.first_exit + exit as u32);
    let stub = e.env.stubs + stubs::NATIVE;
    e.asm.jump(stub);
}
