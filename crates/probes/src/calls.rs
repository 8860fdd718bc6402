//! Functions that a function calls, by its instructions. Calls through a register are not seen.

use std::collections::BTreeSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// Instructions of a stub of the procedure linkage table.
const STUB: usize = 3;

/// Bytes of such a stub.
const STUB_BYTES: usize = 16;

/// Where the direct calls and tail jumps of a function lead, in ascending order. `read` gives bytes
/// of the process: through it stubs of the procedure linkage table are followed.
pub fn callees(code: &[u8], start: u64, read: &dyn Fn(u64, &mut [u8]) -> bool) -> BTreeSet<u64> {
    let own = start..start.saturating_add(code.len() as u64);
    let decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let targets = decoder.into_iter().filter_map(|i| target(&i, read));
    let outside = targets.filter(|at| !own.contains(at));
    outside.map(|at| behind_stub(at, read)).collect()
}

/// Addresses that the instructions of a function compute: among them are functions that it hands
/// on, such as the start routine of a thread.
pub fn addresses_taken(code: &[u8], start: u64) -> BTreeSet<u64> {
    let decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let taken = decoder.into_iter().filter_map(|i| match i.mnemonic() {
        Mnemonic::Lea if i.memory_base() == Register::RIP => Some(i.memory_displacement64()),
        // In a program that is not position-independent.
        Mnemonic::Mov if i.op1_kind() == OpKind::Immediate32 => Some(i.immediate(1)),
        _ => None,
    });
    taken.collect()
}

/// The target of a call or jump that is known from the instruction.
fn target(instruction: &Instruction, read: &dyn Fn(u64, &mut [u8]) -> bool) -> Option<u64> {
    match instruction.flow_control() {
        FlowControl::Call | FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
            Some(instruction.near_branch_target())
        }
        FlowControl::IndirectCall | FlowControl::IndirectBranch => slot(instruction, read),
        _ => None,
    }
}

/// The function that a slot of the global offset table names.
fn slot(instruction: &Instruction, read: &dyn Fn(u64, &mut [u8]) -> bool) -> Option<u64> {
    let is_slot = instruction.op0_kind() == OpKind::Memory
        && instruction.memory_base() == Register::RIP
        && instruction.memory_index() == Register::None;
    let mut bytes = [0; 8];
    let at = is_slot.then(|| instruction.memory_displacement64())?;
    read(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

/// The function that a stub jumps to; other code is a function itself.
fn behind_stub(at: u64, read: &dyn Fn(u64, &mut [u8]) -> bool) -> u64 {
    let mut code = [0; STUB_BYTES];
    if !read(at, &mut code) {
        return at;
    }
    let decoder = Decoder::with_ip(64, &code, at, DecoderOptions::NONE);
    let mut begin = decoder.into_iter().take(STUB);
    let jump = begin.find(|i| i.flow_control() != FlowControl::Next);
    let jump = jump.filter(|i| i.flow_control() == FlowControl::IndirectBranch);
    jump.and_then(|i| slot(&i, read)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_are_handed_on_are_among_the_addresses() {
        // lea rdx, [rip + 0xff9], which is 0x2000; mov edi, 0x401000; mov eax, [rip]; ret
        let code = [
            0x48, 0x8d, 0x15, 0xf9, 0x0f, 0, 0, //
            0xbf, 0, 0x10, 0x40, 0, //
            0x8b, 0x05, 0, 0, 0, 0, //
            0xc3,
        ];
        let expected = BTreeSet::from([0x2000, 0x40_1000]);
        assert_eq!(addresses_taken(&code, 0x1000), expected);
    }

    #[test]
    fn calls_tail_jumps_and_stubs_lead_to_functions() {
        // 0x1000: call 0x2000; call 0x3000 (a stub); je 0x1000; call rax; jmp 0x2100
        let code = [
            0xe8, 0xfb, 0x0f, 0, 0, //
            0xe8, 0xf6, 0x1f, 0, 0, //
            0x74, 0xf4, //
            0xff, 0xd0, //
            0xe9, 0xed, 0x10, 0, 0, //
        ];
        let read = |at: u64, bytes: &mut [u8]| {
            let memory: Vec<u8> = match at {
                // endbr64; jmp [rip + 0xff6], which is 0x4000
                0x3000 => [
                    vec![0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0xf6, 0x0f, 0, 0],
                    vec![0x90; 6],
                ]
                .concat(),
                0x4000 => 0x7777_u64.to_le_bytes().to_vec(),
                0x2000 | 0x2100 => vec![0xc3; STUB_BYTES],
                _ => return false,
            };
            bytes.copy_from_slice(&memory[..bytes.len()]);
            true
        };
        let found: Vec<u64> = callees(&code, 0x1000, &read).into_iter().collect();
        assert_eq!(found, [0x2000, 0x2100, 0x7777]);
    }

    #[test]
    fn bytes_that_are_no_code_call_nothing() {
        let read = |_: u64, _: &mut [u8]| false;
        assert!(callees(&[0x06, 0x07, 0x0f], 0x1000, &read).is_empty());
    }
}
