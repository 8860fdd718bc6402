//! What an instruction does to the word that it writes, by decoding it (x86-64).

use convoy_profile::FrameIx;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::Update;

/// Instructions behind a change of memory in which its flags may be used.
const FLAGS_REACH: usize = 8;

/// Says what the instruction at a frame of the process does to the word that it writes; `None` = not
/// known.
pub trait Operations {
    /// The operation of the instruction at a frame.
    fn operation(&self, frame: FrameIx) -> Option<Update>;
}

/// No instruction is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnknownOperations;

impl Operations for UnknownOperations {
    fn operation(&self, _: FrameIx) -> Option<Update> {
        None
    }
}

/// Decodes instructions of the program's files. The function gives code from a frame's instruction on,
/// some 64 bytes of it, and the address of the first, in the module's numbering.
pub struct DecodedOperations<F>(pub F);

impl<F> std::fmt::Debug for DecodedOperations<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DecodedOperations")
    }
}

impl<F: Fn(FrameIx) -> Option<(Vec<u8>, u64)>> Operations for DecodedOperations<F> {
    fn operation(&self, frame: FrameIx) -> Option<Update> {
        let (code, address) = (self.0)(frame)?;
        operation(&code, address)
    }
}

/// What the first of these instructions does to the word that it writes.
///
/// Known are additions, bits set and cleared by constants, and stores of constants. An addition whose flags
/// the following instructions use is none: a reference count that is tested for zero is read.
pub fn operation(code: &[u8], address: u64) -> Option<Update> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let first = decoder.iter().next().filter(|it| !it.is_invalid())?;
    if first.op_count() == 0 || first.op0_kind() != OpKind::Memory {
        return None;
    }
    if first.mnemonic() == Mnemonic::Mov {
        return store(&first);
    }
    let update = match first.mnemonic() {
        Mnemonic::Add | Mnemonic::Sub | Mnemonic::Inc | Mnemonic::Dec => Update::Add,
        Mnemonic::Or => Update::SetBits(bits(&first, |constant| constant)),
        Mnemonic::And => Update::ClearBits(bits(&first, |constant| !constant)),
        _ => return None,
    };
    (!uses_flags(decoder)).then_some(update)
}

/// A store of a constant at a place in the word that is known.
fn store(first: &Instruction) -> Option<Update> {
    let constant = constant(first)?;
    let mask = mask_at(first)?;
    let value = constant.checked_shl(shift_at(first)?).unwrap_or(0);
    Some(Update::Store {
        value: value & mask,
        mask,
    })
}

/// The bits of the word that an instruction may change; all of them if the constant or its place is not
/// known.
fn bits(first: &Instruction, changed: impl Fn(u64) -> u64) -> u64 {
    let known = constant(first).zip(mask_at(first)).zip(shift_at(first));
    known.map_or(u64::MAX, |((constant, mask), shift)| {
        changed(constant).checked_shl(shift).unwrap_or(0) & mask
    })
}

fn constant(first: &Instruction) -> Option<u64> {
    let is_constant = !matches!(first.op1_kind(), OpKind::Register | OpKind::Memory);
    (first.op_count() == 2 && is_constant).then(|| first.immediate(1))
}

/// Bits of the word that the operand covers.
fn mask_at(first: &Instruction) -> Option<u64> {
    let bits = first.memory_size().size() as u32 * 8;
    let shift = shift_at(first)?;
    let mask = if bits >= 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    };
    // An operand that crosses into the next word is none of one word.
    (bits > 0 && bits + shift <= 64).then_some(mask << shift)
}

/// Where in its word the operand begins. Objects that a register leads to are taken to be aligned.
fn shift_at(first: &Instruction) -> Option<u32> {
    let is_whole = first.memory_size().size() == 8;
    let is_indexed = first.memory_index() != Register::None;
    match is_indexed {
        true if is_whole => Some(0),
        true => None,
        false => Some((first.memory_displacement64() & 7) as u32 * 8),
    }
}

/// Whether instructions behind this one use the flags that it sets. Where the code jumps on, nobody knows.
fn uses_flags(mut decoder: Decoder<'_>) -> bool {
    const STATUS: u32 = iced_x86::RflagsBits::OF
        | iced_x86::RflagsBits::SF
        | iced_x86::RflagsBits::ZF
        | iced_x86::RflagsBits::AF
        | iced_x86::RflagsBits::CF
        | iced_x86::RflagsBits::PF;
    let mut alive = STATUS;
    for next in decoder.iter().take(FLAGS_REACH) {
        if next.is_invalid() || next.rflags_read() & alive != 0 {
            return true;
        }
        alive &= !next.rflags_modified();
        // Flags do not outlive a call or a return (System V ABI).
        let is_over = matches!(
            next.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall | FlowControl::Return
        );
        if alive == 0 || is_over {
            return false;
        }
        if next.flow_control() != FlowControl::Next {
            return true;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const RET: u8 = 0xc3;

    fn of(code: &[u8]) -> Option<Update> {
        operation(code, 0x1000)
    }

    #[test]
    fn additions_whose_result_nobody_uses_are_told() {
        // add qword [rdi+8], rax; ret
        assert_eq!(of(&[0x48, 0x01, 0x47, 0x08, RET]), Some(Update::Add));
        // inc dword [rdi]; call
        assert_eq!(of(&[0xff, 0x07, 0xe8, 0, 0, 0, 0]), Some(Update::Add));
        // lock dec dword [rdi]; je: the count is tested.
        assert_eq!(of(&[0xf0, 0xff, 0x0f, 0x74, 0x02, RET]), None);
        // add dword [rdi], 1; xor eax, eax (sets all flags); je
        assert_eq!(
            of(&[0x83, 0x07, 0x01, 0x31, 0xc0, 0x74, 0x02]),
            Some(Update::Add)
        );
        // add dword [rdi], 1; jmp: nobody knows.
        assert_eq!(of(&[0x83, 0x07, 0x01, 0xeb, 0x02]), None);
        // add rax, qword [rdi]: the register changes.
        assert_eq!(of(&[0x48, 0x03, 0x07, RET]), None);
    }

    #[test]
    fn bits_are_those_of_the_word() {
        // or byte [rdi+1], 4; ret
        assert_eq!(
            of(&[0x80, 0x4f, 0x01, 0x04, RET]),
            Some(Update::SetBits(0x400))
        );
        // and dword [rdi+4], 0xfffffffe; ret
        let clear = Some(Update::ClearBits(1 << 32));
        assert_eq!(of(&[0x83, 0x67, 0x04, 0xfe, RET]), clear);
        // or dword [rdi], eax: any of them.
        assert_eq!(of(&[0x09, 0x07, RET]), Some(Update::SetBits(u64::MAX)));
        // or byte [rdi+rcx], 4: somewhere in the word.
        assert_eq!(
            of(&[0x80, 0x0c, 0x0f, 0x04, RET]),
            Some(Update::SetBits(u64::MAX))
        );
    }

    #[test]
    fn stores_of_constants_have_a_value_and_a_place() {
        // mov dword [rdi+4], 7
        let store = Update::Store {
            value: 7 << 32,
            mask: 0xffff_ffff << 32,
        };
        assert_eq!(of(&[0xc7, 0x47, 0x04, 7, 0, 0, 0]), Some(store));
        // mov dword [rdi+4], eax
        assert_eq!(of(&[0x89, 0x47, 0x04]), None);
        // mov dword [rip+0x7f9], 1 at 0x1000, 10 bytes long: address 0x1803, crossing no word.
        let across = of(&[0xc7, 0x05, 0xf9, 0x07, 0, 0, 1, 0, 0, 0]);
        let store = Update::Store {
            value: 1 << 24,
            mask: 0xffff_ffff << 24,
        };
        assert_eq!(across, Some(store));
        // ... at 0x1805 it would cross.
        assert_eq!(of(&[0xc7, 0x05, 0xfb, 0x07, 0, 0, 1, 0, 0, 0]), None);
    }

    #[test]
    fn what_is_no_code_is_not_known() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[0x06, 0x06]), None);
        assert_eq!(of(&[0xf0]), None);
        // add qword [rdi], rax, and then nothing to tell who uses the flags.
        assert_eq!(of(&[0x48, 0x01, 0x07]), None);
    }
}
