//! Masks and addresses of the lanes of vector instructions.

use iced_x86::{Code, Instruction, Register};

use super::super::access::Access;
use super::super::asm::Mem;
use super::super::lanes::{Bits, Mask, Vector};
use super::super::regs::Slot;
use super::block::Emitter;

/// The bits of the lanes that an operand touches.
pub(super) fn mask(e: &mut Emitter<'_>, word: u32, mask: &Mask) {
    bits(e, mask.bits, mask.lanes, mask.lane_bytes);
    let to = e.pair.address;
    if mask.packed {
        e.asm.store(Slot::Value0, to);
        e.asm.number(to, low(mask.lanes));
        let value = e.asm.memory(Slot::Value0);
        e.asm.encode(Instruction::with3(
            Code::VEX_Pext_r64_r64_rm64,
            to.name(),
            to.name(),
            value,
        ));
    }
    let word = e.word(word);
    e.asm.put(&word, to);
}

fn low(lanes: u8) -> u64 {
    if lanes >= 64 {
        u64::MAX
    } else {
        (1 << lanes) - 1
    }
}

/// The mask in the address register, no more bits than there are lanes.
fn bits(e: &mut Emitter<'_>, from: Bits, lanes: u8, lane_bytes: u8) {
    let to = e.pair.address;
    let narrow = to.name() - Register::RAX as u32 + Register::EAX as u32;
    let exact = match from {
        Bits::All => {
            e.asm.number(to, low(lanes));
            true
        }
        Bits::Opmask(mask) if lanes > 16 => {
            e.asm
                .encode(Instruction::with2(Code::VEX_Kmovq_r64_kr, to.name(), mask));
            lanes == 64
        }
        Bits::Opmask(mask) => {
            e.asm
                .encode(Instruction::with2(Code::VEX_Kmovw_r32_kr, narrow, mask));
            lanes == 16
        }
        Bits::Signs(register) => {
            let code = match (lane_bytes, register.is_ymm(), register.is_mm()) {
                (1, _, true) => Code::Pmovmskb_r32_mm,
                (1, _, _) => Code::Pmovmskb_r32_xmm,
                (4, false, _) => Code::VEX_Vmovmskps_r32_xmm,
                (4, true, _) => Code::VEX_Vmovmskps_r32_ymm,
                (_, false, _) => Code::VEX_Vmovmskpd_r32_xmm,
                (_, true, _) => Code::VEX_Vmovmskpd_r32_ymm,
            };
            e.asm.encode(Instruction::with2(code, narrow, register));
            register.size() == usize::from(lanes) * usize::from(lane_bytes)
        }
    };
    if !exact {
        e.asm.store_number(Slot::Value0, low(lanes.min(32)) as u32);
        let value = e.asm.memory(Slot::Value0);
        e.asm.encode(Instruction::with3(
            Code::VEX_Pext_r32_r32_rm32,
            narrow,
            narrow,
            value,
        ));
    }
}

/// The bits of the lanes, and the address of each.
pub(super) fn vector(e: &mut Emitter<'_>, access: &Access, vector: &Vector) {
    let to = e.pair.address;
    bits(e, vector.bits, vector.lanes, vector.lane_bytes);
    let word = e.word(access.word);
    e.asm.put(&word, to);
    let far = vector.index.number() >= 16;
    let code = match (vector.index.size(), far) {
        (16, false) => Code::VEX_Vmovdqu_xmmm128_xmm,
        (32, false) => Code::VEX_Vmovdqu_ymmm256_ymm,
        (16, true) => Code::EVEX_Vmovdqu64_xmmm128_k1z_xmm,
        (32, true) => Code::EVEX_Vmovdqu64_ymmm256_k1z_ymm,
        _ => Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm,
    };
    let place = e.asm.memory(Slot::Vector);
    e.asm.encode(Instruction::with2(code, place, vector.index));
    for lane in 0..vector.lanes {
        if vector.index_bytes == 4 {
            e.asm.load_signed(to, Slot::Vector, i32::from(lane) * 4);
        } else {
            e.asm.load_behind(to, Slot::Vector, i32::from(lane) * 8);
        }
        let address = Mem {
            base: vector.base,
            index: Some((to, vector.scale)),
            offset: access.mem.offset,
            narrow: false,
        };
        e.asm.lea(to, &address);
        let word = e.word(access.word + 1 + u32::from(lane));
        e.asm.put(&word, to);
    }
}
