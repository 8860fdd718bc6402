//! Vector instructions that touch some of their lanes only.

use iced_x86::{Instruction, Mnemonic, Register, UsedMemory};

use super::regs::Reg;

/// Where the bits of the lanes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bits {
    /// A mask register.
    Opmask(Register),
    /// The sign bits of the lanes of a vector register.
    Signs(Register),
    /// No mask: all of them.
    All,
}

/// An operand of which a mask selects lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mask {
    pub bits: Bits,
    pub lanes: u8,
    pub lane_bytes: u8,
    /// As many of the first lanes as there are bits (compress and expand).
    pub packed: bool,
}

/// A vector of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vector {
    pub bits: Bits,
    pub lanes: u8,
    /// Of an element in memory.
    pub lane_bytes: u8,
    pub index: Register,
    /// Of an element of the index: 4, sign-extended, or 8.
    pub index_bytes: u8,
    pub scale: u8,
    pub base: Option<Reg>,
}

/// Gathers and scatters.
pub fn gathers(instruction: &Instruction) -> bool {
    instruction.is_vsib()
}

/// The lanes of a gather or scatter; `None` = not understood.
pub fn vector(instruction: &Instruction, used: &UsedMemory) -> Option<Vector> {
    let index = instruction.memory_index();
    let index_bytes: u8 = if instruction.is_vsib64() { 8 } else { 4 };
    let lane_bytes: u8 = match instruction.mnemonic() {
        Mnemonic::Vgatherdps
        | Mnemonic::Vgatherqps
        | Mnemonic::Vpgatherdd
        | Mnemonic::Vpgatherqd
        | Mnemonic::Vscatterdps
        | Mnemonic::Vscatterqps
        | Mnemonic::Vpscatterdd
        | Mnemonic::Vpscatterqd => 4,
        Mnemonic::Vgatherdpd
        | Mnemonic::Vgatherqpd
        | Mnemonic::Vpgatherdq
        | Mnemonic::Vpgatherqq
        | Mnemonic::Vscatterdpd
        | Mnemonic::Vscatterqpd
        | Mnemonic::Vpscatterdq
        | Mnemonic::Vpscatterqq => 8,
        _ => return None,
    };
    let data = [instruction.op0_register(), instruction.op1_register()]
        .into_iter()
        .find(|register| register.is_vector_register())?;
    let lanes =
        (index.size() / usize::from(index_bytes)).min(data.size() / usize::from(lane_bytes));
    let bits = match instruction.op_mask() {
        Register::None => Bits::Signs(instruction.op2_register()),
        mask => Bits::Opmask(mask),
    };
    Some(Vector {
        bits,
        lanes: lanes as u8,
        lane_bytes,
        index,
        index_bytes,
        scale: used.scale() as u8,
        base: Reg::of(used.base()),
    })
}

/// The mask of an operand that has one, lane by lane. Arithmetic with a masked operand is not among them:
/// the processor may read the whole of it.
pub fn mask(instruction: &Instruction, used: &UsedMemory) -> Option<Mask> {
    let bytes = used.memory_size().size();
    if let Some((lane_bytes, register)) = signs(instruction) {
        let lanes = (bytes / usize::from(lane_bytes)) as u8;
        return Some(Mask {
            bits: Bits::Signs(register),
            lanes,
            lane_bytes,
            packed: false,
        });
    }
    let (lane_bytes, packed) = masked_move(instruction.mnemonic())?;
    let bits = match instruction.op_mask() {
        Register::None if packed => Bits::All,
        Register::None => return None,
        mask => Bits::Opmask(mask),
    };
    let lanes = (bytes / usize::from(lane_bytes)) as u8;
    Some(Mask {
        bits,
        lanes,
        lane_bytes,
        packed,
    })
}

/// Instructions with a vector register as their mask: bytes of a lane, and the register.
fn signs(instruction: &Instruction) -> Option<(u8, Register)> {
    let lane_bytes = match instruction.mnemonic() {
        Mnemonic::Vmaskmovps | Mnemonic::Vpmaskmovd => 4,
        Mnemonic::Vmaskmovpd | Mnemonic::Vpmaskmovq => 8,
        Mnemonic::Maskmovq | Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu => {
            return Some((1, instruction.op2_register()));
        }
        _ => return None,
    };
    // load: register, mask, memory; store: memory, mask, register
    Some((lane_bytes, instruction.op1_register()))
}

/// Bytes of a lane, and whether the lanes are packed in memory.
fn masked_move(mnemonic: Mnemonic) -> Option<(u8, bool)> {
    Some(match mnemonic {
        Mnemonic::Vmovdqu8
        | Mnemonic::Vpmovqb
        | Mnemonic::Vpmovsqb
        | Mnemonic::Vpmovusqb
        | Mnemonic::Vpmovdb
        | Mnemonic::Vpmovsdb
        | Mnemonic::Vpmovusdb
        | Mnemonic::Vpmovwb
        | Mnemonic::Vpmovswb
        | Mnemonic::Vpmovuswb => (1, false),
        Mnemonic::Vmovdqu16
        | Mnemonic::Vmovsh
        | Mnemonic::Vcvtps2ph
        | Mnemonic::Vpmovqw
        | Mnemonic::Vpmovsqw
        | Mnemonic::Vpmovusqw
        | Mnemonic::Vpmovdw
        | Mnemonic::Vpmovsdw
        | Mnemonic::Vpmovusdw => (2, false),
        Mnemonic::Vmovdqu32
        | Mnemonic::Vmovdqa32
        | Mnemonic::Vmovups
        | Mnemonic::Vmovaps
        | Mnemonic::Vmovss
        | Mnemonic::Vpmovqd
        | Mnemonic::Vpmovsqd
        | Mnemonic::Vpmovusqd => (4, false),
        Mnemonic::Vmovdqu64
        | Mnemonic::Vmovdqa64
        | Mnemonic::Vmovupd
        | Mnemonic::Vmovapd
        | Mnemonic::Vmovsd => (8, false),
        Mnemonic::Vpcompressb | Mnemonic::Vpexpandb => (1, true),
        Mnemonic::Vpcompressw | Mnemonic::Vpexpandw => (2, true),
        Mnemonic::Vpcompressd
        | Mnemonic::Vpexpandd
        | Mnemonic::Vcompressps
        | Mnemonic::Vexpandps => (4, true),
        Mnemonic::Vpcompressq
        | Mnemonic::Vpexpandq
        | Mnemonic::Vcompresspd
        | Mnemonic::Vexpandpd => (8, true),
        _ => return None,
    })
}
