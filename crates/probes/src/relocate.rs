//! Relocation of the beginning of a function, so that a jump can take its place.
//!
//! Each instruction is encoded anew by itself: an operand relative to the instruction pointer keeps
//! its absolute target. (Relocating the block as a whole takes an operand that names the function's
//! own address for one that moves with it, and the identity of function pointers is lost.)

use std::fmt;

use iced_x86::{
    Code, Decoder, DecoderOptions, Encoder, FlowControl, Instruction, MemoryOperand, OpKind,
    Register,
};

/// Bytes of a near jump, which takes the place of code.
pub const PATCH_BYTES: usize = 5;

/// Bytes of a jump to any address that changes no register: `jmp [rip+0]` and the address.
pub const FAR_JUMP_BYTES: usize = 14;

/// What stands in the place of a function's beginning, elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relocated {
    /// The displaced instructions, and a jump to what follows them.
    pub code: Vec<u8>,
    /// Offsets of the displaced instructions: in the function, and in `code`.
    pub moved: Vec<(u64, u64)>,
}

/// Why a function cannot be patched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpatchable {
    /// It ends before there is room for a jump.
    Short,
    /// It jumps into the bytes that would be replaced.
    JumpInto,
    /// Its beginning has an instruction that cannot be moved: an odd jump, no instruction at all.
    Immovable,
}

impl fmt::Display for Unpatchable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "too short",
            Self::JumpInto => "jumps to its own beginning",
            Self::Immovable => "begins with an instruction that cannot be moved",
        })
    }
}

/// `jmp [rip+0]` and the address.
pub fn far_jump(to: u64) -> [u8; FAR_JUMP_BYTES] {
    let mut code = [0; FAR_JUMP_BYTES];
    code[..2].copy_from_slice(&[0xff, 0x25]);
    code[6..].copy_from_slice(&to.to_le_bytes());
    code
}

/// The jump that replaces the beginning; `None` if the target is too far away.
pub fn near_jump(from: u64, to: u64) -> Option<[u8; PATCH_BYTES]> {
    let distance = (to as i64).checked_sub(from.checked_add(PATCH_BYTES as u64)? as i64)?;
    let distance = i32::try_from(distance).ok()?;
    let mut code = [0xe9; PATCH_BYTES];
    code[1..].copy_from_slice(&distance.to_le_bytes());
    Some(code)
}

/// Moves the beginning of the function at `at`, all of whose bytes are `code`, to `to`.
pub fn relocate(code: &[u8], at: u64, to: u64) -> Result<Relocated, Unpatchable> {
    let displaced = displaced(code, at)?;
    let end = displaced.last().map_or(at, Instruction::next_ip);
    if has_jump_into(code, at, end) {
        return Err(Unpatchable::JumpInto);
    }
    let mut out = Relocated {
        code: Vec::new(),
        moved: Vec::new(),
    };
    for instruction in displaced {
        out.moved
            .push((instruction.ip() - at, out.code.len() as u64));
        let at = to + out.code.len() as u64;
        out.code.extend(moved(&instruction, at)?);
        if is_call(&instruction) {
            return Ok(out);
        }
    }
    out.code.extend(far_jump(end));
    Ok(out)
}

/// One instruction at another place. A call returns to where it always has, so that unwinders know
/// the place: nothing may follow it.
///
/// # Errors
/// It has no form that works there.
pub fn moved(instruction: &Instruction, to: u64) -> Result<Vec<u8>, Unpatchable> {
    let back = instruction.next_ip();
    match instruction.flow_control() {
        FlowControl::Call if instruction.op0_kind() == OpKind::NearBranch64 => {
            return Ok(moved_call(instruction.near_branch_target(), back));
        }
        FlowControl::IndirectCall => return moved_indirect_call(instruction, to),
        _ => {}
    }
    let mut instruction = *instruction;
    instruction.as_near_branch();
    encoded(&instruction, to)
}

/// The bytes of an instruction at an address.
pub(crate) fn encoded(instruction: &Instruction, at: u64) -> Result<Vec<u8>, Unpatchable> {
    let mut encoder = Encoder::new(64);
    let done = encoder.encode(instruction, at);
    done.map_err(|_| Unpatchable::Immovable)?;
    Ok(encoder.take_buffer())
}

/// `push [rip+N]; jmp OPERAND` and the address to return to. The push must not change the operand.
fn moved_indirect_call(call: &Instruction, to: u64) -> Result<Vec<u8>, Unpatchable> {
    const PUSH_BYTES: usize = 6;
    let jump = match (call.code(), call.op0_kind()) {
        (Code::Call_rm64, OpKind::Register) if call.op0_register() != Register::RSP => {
            Instruction::with1(Code::Jmp_rm64, call.op0_register())
        }
        (Code::Call_rm64, OpKind::Memory) if call.is_ip_rel_memory_operand() => {
            let at = call.ip_rel_memory_address() as i64;
            let operand = MemoryOperand::with_base_displ_size(Register::RIP, at, 1);
            Instruction::with1(Code::Jmp_rm64, operand)
        }
        _ => return Err(Unpatchable::Immovable),
    };
    let jump = jump.map_err(|_| Unpatchable::Immovable)?;
    let jump = encoded(&jump, to + PUSH_BYTES as u64)?;
    let mut code = vec![0xff, 0x35, jump.len() as u8, 0, 0, 0];
    code.extend(jump);
    code.extend(call.next_ip().to_le_bytes());
    Ok(code)
}

/// A call of `target` that returns to `back`: `push [rip+14]; jmp [rip+0]` and the two addresses.
fn moved_call(target: u64, back: u64) -> Vec<u8> {
    let mut code = vec![0xff, 0x35, FAR_JUMP_BYTES as u8, 0, 0, 0];
    code.extend(far_jump(target));
    code.extend(back.to_le_bytes());
    code
}

/// The instructions that a jump would overwrite, at least in part.
fn displaced(code: &[u8], at: u64) -> Result<Vec<Instruction>, Unpatchable> {
    let mut all = Vec::new();
    let mut bytes = 0;
    for instruction in Decoder::with_ip(64, code, at, DecoderOptions::NONE) {
        if bytes >= PATCH_BYTES {
            return Ok(all);
        }
        let last = bytes + instruction.len() >= PATCH_BYTES;
        match instruction.flow_control() {
            FlowControl::Next => {}
            FlowControl::ConditionalBranch if is_relative_branch(&instruction) => {}
            FlowControl::UnconditionalBranch if last => {}
            FlowControl::Call if last && instruction.op0_kind() == OpKind::NearBranch64 => {}
            FlowControl::IndirectCall if last => {}
            FlowControl::Return
            | FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch => {
                return Err(Unpatchable::Short);
            }
            _ => return Err(Unpatchable::Immovable),
        }
        if instruction.is_invalid() {
            return Err(Unpatchable::Immovable);
        }
        bytes += instruction.len();
        all.push(instruction);
    }
    match bytes >= PATCH_BYTES {
        true => Ok(all),
        false => Err(Unpatchable::Short),
    }
}

/// A call of a function. The decoder takes `syscall` and its kind for calls, too; they push nothing
/// and go on behind themselves.
pub(crate) fn is_call(instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::IndirectCall => true,
        FlowControl::Call => instruction.op0_kind() == OpKind::NearBranch64,
        _ => false,
    }
}

/// A conditional jump, of which there is a form with a distance of 32 bits (`loop` and `jrcxz` have
/// none).
pub(crate) fn is_relative_branch(instruction: &Instruction) -> bool {
    instruction.is_jcc_short_or_near() && instruction.op0_kind() == OpKind::NearBranch64
}

/// Whether the function jumps to displaced bytes, but for its very first one.
fn has_jump_into(code: &[u8], at: u64, end: u64) -> bool {
    Decoder::with_ip(64, code, at, DecoderOptions::NONE)
        .iter()
        .any(|instruction| {
            let is_branch = matches!(
                instruction.flow_control(),
                FlowControl::ConditionalBranch
                    | FlowControl::UnconditionalBranch
                    | FlowControl::Call
                    | FlowControl::XbeginXabortXend
            );
            let target = instruction.near_branch_target();
            is_branch && target > at && target < end
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x7f00_0000_1000;
    const TO: u64 = 0x7f00_0010_0000;

    fn decoded(code: &[u8], ip: u64) -> Vec<Instruction> {
        Decoder::with_ip(64, code, ip, DecoderOptions::NONE)
            .into_iter()
            .collect()
    }

    #[test]
    fn operands_relative_to_the_instruction_keep_their_target() {
        // push r15; lea rax, [rip-9] (the function's own address); ret
        let code = [0x41, 0x57, 0x48, 0x8d, 0x05, 0xf7, 0xff, 0xff, 0xff, 0xc3];
        let moved = relocate(&code, AT, TO).unwrap();
        let out = decoded(&moved.code[..9], TO);
        assert_eq!(out[1].ip_rel_memory_address(), AT);
        assert_eq!(moved.moved, [(0, 0), (2, 2)]);
        assert_eq!(moved.code[9..], far_jump(AT + 9));
    }

    #[test]
    fn short_jumps_become_near_ones() {
        // test edi, edi; je +0x20; nop...
        let mut code = vec![0x85, 0xff, 0x74, 0x20, 0x90, 0x90];
        code.extend([0x90; 64]);
        let moved = relocate(&code, AT, TO).unwrap();
        let out = decoded(&moved.code, TO);
        assert_eq!(out[1].near_branch_target(), AT + 4 + 0x20);
        assert_eq!(moved.moved, [(0, 0), (2, 2), (4, 8)]);
    }

    #[test]
    fn calls_return_to_their_old_place() {
        // sub rsp, 8; call +0x100; ret
        let code = [0x48, 0x83, 0xec, 0x08, 0xe8, 0, 1, 0, 0, 0xc3];
        let moved = relocate(&code, AT, TO).unwrap();
        let out = decoded(&moved.code, TO);
        let addresses = moved.code[16..].chunks(8).map(|w| w.try_into().unwrap());
        let addresses: Vec<u64> = addresses.map(u64::from_le_bytes).collect();
        assert_eq!(addresses, [AT + 9 + 0x100, AT + 9]);
        assert_eq!(
            out[1].ip_rel_memory_address(),
            TO + 24,
            "the return address is pushed"
        );
        assert_eq!(
            out[2].ip_rel_memory_address(),
            TO + 16,
            "the target is jumped to"
        );
        assert_eq!(moved.moved, [(0, 0), (4, 4)]);
    }

    #[test]
    fn refuses_what_cannot_be_moved() {
        let ret = [0x31, 0xc0, 0xc3, 0x90, 0x90, 0x90];
        assert_eq!(relocate(&ret, AT, TO), Err(Unpatchable::Short));
        let odd = [0xe3, 0, 0x90, 0x90, 0x90, 0x90]; // jrcxz
        assert_eq!(relocate(&odd, AT, TO), Err(Unpatchable::Immovable));
        // nop; nop; nop; nop; nop; jmp to the second nop
        let back = [0x90, 0x90, 0x90, 0x90, 0x90, 0xeb, 0xfa];
        assert_eq!(relocate(&back, AT, TO), Err(Unpatchable::JumpInto));
        let first = [0x90, 0x90, 0x90, 0x90, 0x90, 0xeb, 0xf9];
        assert!(
            relocate(&first, AT, TO).is_ok(),
            "a jump to the hook is a call more"
        );
        assert_eq!(relocate(&[], AT, TO), Err(Unpatchable::Short));
    }

    #[test]
    fn jumps_reach_what_they_can() {
        assert_eq!(near_jump(0x1000, 0x1005), Some([0xe9, 0, 0, 0, 0]));
        assert_eq!(
            near_jump(0x1000, 0x1000),
            Some([0xe9, 0xfb, 0xff, 0xff, 0xff])
        );
        assert_eq!(near_jump(0x1000, 1 << 40), None);
    }
}
