//! Access to the slots of a thread's `cv_tr`: `fs:[slot]`.

use iced_x86::{MemoryOperand, Register};

use super::super::regs::{Reg, Slot};
use super::Asm;

const MOV_LOAD: u8 = 0x8b;
const MOV_STORE: u8 = 0x89;
const MOVSXD: u8 = 0x63;
const CMP: u8 = 0x3b;

/// REX prefixes: 64 bits wide, or as wide as without.
const WIDE: u8 = 0x48;
const PLAIN: u8 = 0x40;

impl Asm {
    fn place(&self, slot: Slot) -> i32 {
        self.tls + slot as i32
    }

    /// The slot as an operand, for [`Asm::encode`].
    pub fn memory(&self, slot: Slot) -> MemoryOperand {
        let place = i64::from(self.place(slot));
        MemoryOperand::new(
            Register::None,
            Register::None,
            1,
            place,
            8,
            false,
            Register::FS,
        )
    }

    /// An instruction with a register, and a slot or what lies behind it.
    fn slot(&mut self, rex: u8, opcode: u8, register: Reg, slot: Slot, offset: i32) {
        self.raw(&[
            0x64,
            rex | register.high() << 2,
            opcode,
            0x04 | register.low() << 3,
            0x25,
        ]);
        self.word(self.place(slot) + offset);
    }

    pub fn load(&mut self, to: Reg, slot: Slot) {
        self.slot(WIDE, MOV_LOAD, to, slot, 0);
    }

    pub fn store(&mut self, slot: Slot, from: Reg) {
        self.slot(WIDE, MOV_STORE, from, slot, 0);
    }

    /// Loads a 4-byte integer behind a slot, sign-extended.
    pub fn load_signed(&mut self, to: Reg, slot: Slot, offset: i32) {
        self.slot(WIDE, MOVSXD, to, slot, offset);
    }

    /// Loads 8 bytes behind a slot.
    pub fn load_behind(&mut self, to: Reg, slot: Slot, offset: i32) {
        self.slot(WIDE, MOV_LOAD, to, slot, offset);
    }

    /// Stores 8 bytes behind a slot.
    pub fn store_behind(&mut self, slot: Slot, offset: i32, from: Reg) {
        self.slot(WIDE, MOV_STORE, from, slot, offset);
    }

    /// Compares with a slot. Writes the flags.
    pub fn compare(&mut self, register: Reg, slot: Slot) {
        self.slot(WIDE, CMP, register, slot, 0);
    }

    /// Compares 32 bits. Writes the flags.
    pub fn compare_half(&mut self, register: Reg, slot: Slot) {
        self.slot(PLAIN, CMP, register, slot, 0);
    }

    /// Stores a number in the lower half of a slot.
    pub fn store_number(&mut self, slot: Slot, value: u32) {
        self.raw(&[0x64, 0xc7, 0x04, 0x25]);
        self.word(self.place(slot));
        self.raw(&value.to_le_bytes());
    }

    pub fn jump_slot(&mut self, slot: Slot) {
        self.raw(&[0x64, 0xff, 0x24, 0x25]);
        self.word(self.place(slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Code, Decoder, Instruction, Mnemonic};

    fn decode(asm: &Asm) -> Instruction {
        let instruction = Decoder::with_ip(64, &asm.bytes, asm.base, 0).decode();
        assert_eq!(instruction.len(), asm.bytes.len(), "{:02x?}", asm.bytes);
        instruction
    }

    #[test]
    fn slots_are_relative_to_the_thread_pointer() {
        for register in (0..16).map(Reg) {
            let mut asm = Asm::new(0x1000, -400);
            asm.load(register, Slot::Limit);
            let i = decode(&asm);
            assert_eq!(
                (i.mnemonic(), i.op0_register()),
                (Mnemonic::Mov, register.name())
            );
            assert_eq!(i.segment_prefix(), Register::FS);
            assert_eq!(i.memory_displacement64() as i64, -400 + Slot::Limit as i64);
        }
    }

    #[test]
    fn an_operand_is_the_same_place() {
        let mut asm = Asm::new(0x1000, -400);
        let operand = asm.memory(Slot::Value0);
        asm.encode(Instruction::with2(
            Code::Mov_r64_rm64,
            Register::R9,
            operand,
        ));
        let mut other = Asm::new(0x1000, -400);
        other.load(Reg(9), Slot::Value0);
        assert_eq!(
            decode(&asm).memory_displacement64(),
            decode(&other).memory_displacement64()
        );
        assert_eq!(decode(&asm).memory_segment(), Register::FS);
    }
}
