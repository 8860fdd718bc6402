//! The few instructions that the translator puts between the program's. None of them touches a flag unless it says so.

mod slots;

use alloc::vec::Vec;

use iced_x86::{Encoder, Instruction};

use super::regs::Reg;

/// A memory operand without its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mem {
    pub base: Option<Reg>,
    pub index: Option<(Reg, u8)>,
    /// The address itself where there is neither base nor index.
    pub offset: i64,
    /// Computed in 32 bits.
    pub narrow: bool,
}

impl Mem {
    pub const fn at(base: Reg, offset: i64) -> Self {
        Self {
            base: Some(base),
            index: None,
            offset,
            narrow: false,
        }
    }

    pub const fn indexed(base: Reg, index: Reg, scale: u8) -> Self {
        Self {
            base: Some(base),
            index: Some((index, scale)),
            offset: 0,
            narrow: false,
        }
    }

    pub const fn scaled(index: Reg, scale: u8, offset: i64) -> Self {
        Self {
            base: None,
            index: Some((index, scale)),
            offset,
            narrow: false,
        }
    }
}

/// Code on its way into a cache.
#[derive(Debug)]
pub struct Asm {
    pub bytes: Vec<u8>,
    /// Where its first byte will be.
    pub base: u64,
    /// Of `cv_tr` from the thread pointer.
    tls: i32,
    /// Something could not be encoded: the code is of no use.
    pub failed: bool,
}

impl Asm {
    pub fn new(base: u64, tls: i32) -> Self {
        Self {
            bytes: Vec::with_capacity(512),
            base,
            tls,
            failed: false,
        }
    }

    pub fn offset(&self) -> usize {
        self.bytes.len()
    }

    pub fn here(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn word(&mut self, value: i32) {
        self.raw(&value.to_le_bytes());
    }

    /// ModRM, SIB and displacement of an operand; false = it does not fit.
    fn operand(&mut self, register: u8, mem: &Mem) {
        let Ok(offset) = i32::try_from(mem.offset) else {
            self.failed = true;
            return;
        };
        let reg = (register & 7) << 3;
        let Some(base) = mem.base else {
            let (index, scale) = mem
                .index
                .map_or((4, 1), |(index, scale)| (index.low(), scale));
            self.raw(&[reg | 4, scale_bits(scale) | index << 3 | 5]);
            self.word(offset);
            return;
        };
        let mode = match offset {
            0 if base.low() != 5 => 0,
            -128..=127 => 0x40,
            _ => 0x80,
        };
        if let Some((index, scale)) = mem.index {
            self.raw(&[
                mode | reg | 4,
                scale_bits(scale) | index.low() << 3 | base.low(),
            ]);
        } else if base.low() == 4 {
            self.raw(&[mode | reg | 4, 0x24]);
        } else {
            self.raw(&[mode | reg | base.low()]);
        }
        match mode {
            0x40 => self.raw(&(offset as i8).to_le_bytes()),
            0x80 => self.word(offset),
            _ => {}
        }
    }

    fn with_operand(&mut self, prefix: Option<u8>, opcode: u8, register: Reg, mem: &Mem) {
        if let Some(prefix) = prefix {
            self.raw(&[prefix]);
        }
        if mem.narrow {
            self.raw(&[0x67]);
        }
        let index = mem.index.map_or(0, |(index, _)| index.high());
        let base = mem.base.map_or(0, Reg::high);
        self.raw(&[0x48 | register.high() << 2 | index << 1 | base, opcode]);
        self.operand(register.0, mem);
    }

    /// The address of an operand.
    pub fn lea(&mut self, to: Reg, mem: &Mem) {
        if mem.base.is_none() && mem.index.is_none() {
            return self.number(to, mem.offset as u64);
        }
        if let (Some(base), None, 0, false) = (mem.base, mem.index, mem.offset, mem.narrow) {
            return self.copy(to, base);
        }
        self.with_operand(None, 0x8d, to, mem);
    }

    /// Loads 8 bytes, from a segment (its prefix) if one is given.
    pub fn get(&mut self, to: Reg, segment: Option<u8>, mem: &Mem) {
        if mem.base.is_none() && mem.index.is_none() && i32::try_from(mem.offset).is_err() {
            if segment.is_some() {
                self.failed = true;
            }
            self.number(to, mem.offset as u64);
            return self.with_operand(None, 0x8b, to, &Mem::at(to, 0));
        }
        self.with_operand(segment, 0x8b, to, mem);
    }

    /// Loads 1, 2, 4 or 8 bytes at an address in a register, zeros above them.
    pub fn get_bytes(&mut self, to: Reg, from: Reg, bytes: u32) {
        let wide = if bytes == 8 { 8 } else { 0 };
        self.raw(&[0x40 | wide | to.high() << 2 | from.high()]);
        match bytes {
            1 => self.raw(&[0x0f, 0xb6]),
            2 => self.raw(&[0x0f, 0xb7]),
            4 | 8 => self.raw(&[0x8b]),
            _ => self.failed = true,
        }
        self.operand(to.0, &Mem::at(from, 0));
    }

    /// Stores 8 bytes.
    pub fn put(&mut self, mem: &Mem, from: Reg) {
        self.with_operand(None, 0x89, from, mem);
    }

    pub fn copy(&mut self, to: Reg, from: Reg) {
        if to != from {
            self.raw(&[
                0x48 | from.high() << 2 | to.high(),
                0x89,
                0xc0 | from.low() << 3 | to.low(),
            ]);
        }
    }

    /// An immediate: as short as it can be.
    pub fn number(&mut self, to: Reg, value: u64) {
        let distance = value.wrapping_sub(self.here() + 7) as i64;
        if let Ok(value) = u32::try_from(value) {
            if to.high() != 0 {
                self.raw(&[0x41]);
            }
            self.raw(&[0xb8 | to.low()]);
            self.raw(&value.to_le_bytes());
        } else if let Ok(distance) = i32::try_from(distance) {
            self.raw(&[0x48 | to.high() << 2, 0x8d, 0x05 | to.low() << 3]);
            self.word(distance);
        } else {
            self.raw(&[0x48 | to.high(), 0xb8 | to.low()]);
            self.raw(&value.to_le_bytes());
        }
    }

    /// The low 16 bits.
    pub fn low_word(&mut self, to: Reg, from: Reg) {
        self.raw(&[
            0x40 | to.high() << 2 | from.high(),
            0x0f,
            0xb7,
            0xc0 | to.low() << 3 | from.low(),
        ]);
    }

    /// The low 8 bits.
    pub fn low_byte(&mut self, to: Reg, from: Reg) {
        self.raw(&[
            0x40 | to.high() << 2 | from.high(),
            0x0f,
            0xb6,
            0xc0 | to.low() << 3 | from.low(),
        ]);
    }

    pub fn not(&mut self, register: Reg) {
        self.raw(&[0x48 | register.high(), 0xf7, 0xd0 | register.low()]);
    }

    pub fn swap_bytes(&mut self, register: Reg) {
        self.raw(&[0x48 | register.high(), 0x0f, 0xc8 | register.low()]);
    }

    pub fn push(&mut self, register: Reg) {
        if register.high() != 0 {
            self.raw(&[0x41]);
        }
        self.raw(&[0x50 | register.low()]);
    }

    /// Jumps if rcx is 0; returns what [`Asm::land`] takes.
    pub fn jump_if_rcx_zero(&mut self) -> usize {
        self.raw(&[0xe3, 0]);
        self.offset()
    }

    pub fn jump_short(&mut self) -> usize {
        self.raw(&[0xeb, 0]);
        self.offset()
    }

    /// Lets a short jump go to here.
    pub fn land(&mut self, from: usize) {
        match i8::try_from(self.offset() - from) {
            Ok(distance) => self.bytes[from - 1] = distance as u8,
            Err(_) => self.failed = true,
        }
    }

    /// Lets a short jump go back to an offset.
    pub fn land_back(&mut self, from: usize, to: usize) {
        match i8::try_from(to as isize - from as isize) {
            Ok(distance) => self.bytes[from - 1] = distance as u8,
            Err(_) => self.failed = true,
        }
    }

    /// `opcode rel32`; returns the offset of the displacement, for [`Asm::aim`].
    pub fn branch(&mut self, opcode: &[u8]) -> usize {
        self.raw(opcode);
        self.word(0);
        self.offset() - 4
    }

    /// The same, with the displacement where it can be written in one piece while other threads run it.
    pub fn branch_patchable(&mut self, opcode: &[u8]) -> usize {
        let end = self.here() + opcode.len() as u64;
        match end.wrapping_neg() & 3 {
            0 => {}
            1 => self.raw(&[0x90]),
            2 => self.raw(&[0x66, 0x90]),
            _ => self.raw(&[0x0f, 0x1f, 0x00]),
        }
        self.branch(opcode)
    }

    /// Lets a branch go to an address.
    pub fn aim(&mut self, branch: usize, to: u64) {
        let distance = to.wrapping_sub(self.base + branch as u64 + 4) as i64;
        match i32::try_from(distance) {
            Ok(distance) => self.bytes[branch..branch + 4].copy_from_slice(&distance.to_le_bytes()),
            Err(_) => self.failed = true,
        }
    }

    pub fn jump(&mut self, to: u64) {
        let branch = self.branch(&[0xe9]);
        self.aim(branch, to);
    }

    /// Any other instruction, by the decoder's library.
    pub fn encode(&mut self, instruction: Result<Instruction, iced_x86::IcedError>) {
        let mut encoder = Encoder::new(64);
        match instruction.and_then(|instruction| encoder.encode(&instruction, self.here())) {
            Ok(_) => {
                let bytes = encoder.take_buffer();
                self.raw(&bytes);
            }
            Err(_) => self.failed = true,
        }
    }
}

fn scale_bits(scale: u8) -> u8 {
    (scale.trailing_zeros() as u8) << 6
}

#[cfg(test)]
mod tests {
    use super::super::regs::Slot;
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use iced_x86::{Decoder, Mnemonic, OpKind, Register};

    fn decode(asm: &Asm) -> Instruction {
        let mut decoder = Decoder::with_ip(64, &asm.bytes, asm.base, 0);
        let instruction = decoder.decode();
        assert_eq!(instruction.len(), asm.bytes.len(), "{:02x?}", asm.bytes);
        assert!(!asm.failed);
        instruction
    }

    fn memory(i: &Instruction) -> (Register, Register, u32, u64) {
        (
            i.memory_base(),
            i.memory_index(),
            i.memory_index_scale(),
            i.memory_displacement64(),
        )
    }

    #[test]
    fn every_operand_is_what_was_asked_for() {
        for register in (0..16).map(Reg) {
            for base in (0..16).map(Reg) {
                for offset in [0, 8, -8, 127, -128, 128, 0x12345, -0x12345] {
                    for index in [
                        None,
                        Some((Reg(1), 8)),
                        Some((Reg(13), 1)),
                        Some((Reg(12), 2)),
                    ] {
                        let mem = Mem {
                            base: Some(base),
                            index,
                            offset,
                            narrow: false,
                        };
                        let mut asm = Asm::new(0x1000, -400);
                        asm.put(&mem, register);
                        let i = decode(&asm);
                        let wanted_index = index.map_or(Register::None, |(index, _)| index.name());
                        let scale = index.map_or(1, |(_, scale)| u32::from(scale));
                        assert_eq!(
                            memory(&i),
                            (base.name(), wanted_index, scale, offset as u64)
                        );
                        assert_eq!(i.op1_register(), register.name());
                    }
                }
            }
        }
    }

    #[test]
    fn values_are_loaded_with_zeros_above_them() {
        for to in (0..16).map(Reg) {
            for from in (0..16).map(Reg) {
                for bytes in [1, 2, 4, 8] {
                    let mut asm = Asm::new(0x1000, -400);
                    asm.get_bytes(to, from, bytes);
                    let i = decode(&asm);
                    let loads = (i.memory_base(), i.memory_size().size() as u32);
                    assert_eq!(loads, (from.name(), bytes));
                    assert_eq!(i.op0_register().full_register(), to.name());
                    assert!(i.op0_register().size() >= 4, "what is above becomes zero");
                }
            }
        }
    }

    #[test]
    fn numbers_are_loaded_as_they_are() {
        for value in [
            0,
            5,
            0xffff_ffff,
            0x1_0000_0000,
            0x7fff_0000_1000,
            u64::MAX,
            1 << 56 | 77,
        ] {
            for register in (0..16).map(Reg) {
                let mut asm = Asm::new(0x7fff_0000_0000, -400);
                asm.number(register, value);
                let i = decode(&asm);
                let got = if i.mnemonic() == Mnemonic::Lea {
                    i.ip_rel_memory_address()
                } else {
                    i.immediate(1)
                };
                assert_eq!(
                    (got, i.op0_register().full_register()),
                    (value, register.name())
                );
            }
        }
    }

    #[test]
    fn what_stands_between_the_programs_instructions_leaves_the_flags_alone() {
        let mut asm = Asm::new(0x1000, -400);
        let (a, b) = (Reg(11), Reg(2));
        asm.load(a, Slot::At);
        asm.store(Slot::At, b);
        asm.lea(a, &Mem::indexed(a, b, 4));
        asm.put(&Mem::at(a, 8), b);
        asm.get(b, None, &Mem::at(a, 8));
        asm.copy(a, b);
        asm.number(a, u64::MAX);
        asm.low_word(a, b);
        asm.low_byte(a, b);
        asm.not(a);
        asm.swap_bytes(b);
        asm.store_number(Slot::Exit, 5);
        asm.push(a);
        asm.jump_if_rcx_zero();
        let mut text = String::new();
        let mut count = 0;
        for i in &mut Decoder::with_ip(64, &asm.bytes, 0x1000, 0) {
            text += &format!("{:?} ", i.mnemonic());
            assert_eq!(i.rflags_modified(), 0, "{text}");
            count += 1;
        }
        assert_eq!(count, 14, "{text}");
    }

    #[test]
    fn branches_that_are_patched_lie_in_one_word() {
        for fill in 0..8 {
            for opcode in [&[0xe9][..], &[0x0f, 0x84]] {
                let mut asm = Asm::new(0x1000, -400);
                asm.raw(&[0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90][..fill.min(7)]);
                let field = asm.branch_patchable(opcode);
                assert_eq!((asm.base as usize + field) % 4, 0);
                asm.aim(field, 0x2000);
                let last = Decoder::with_ip(64, &asm.bytes, 0x1000, 0)
                    .into_iter()
                    .last()
                    .expect("the branch");
                assert_eq!(
                    (last.near_branch64(), last.op0_kind()),
                    (0x2000, OpKind::NearBranch64)
                );
            }
        }
    }
}
