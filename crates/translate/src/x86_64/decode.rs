//! A block: instructions up to the first that may go elsewhere.

use alloc::vec::Vec;

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpKind, Register,
};

use super::access::{self, Access, Machine};
use super::regs::{Pair, Reg};

/// Instructions of a block at most. A page of code makes a few of them.
const MAX_INSTRUCTIONS: usize = 64;
/// Words of a block's record at most: what `cv_tr.limit` may be passed by.
const MAX_WORDS: u32 = 320;

/// How control leaves a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It goes on at the next instruction, in a block of its own.
    Next,
    Jump(u64),
    /// A conditional jump, by the low four bits of its opcode.
    Condition(u8, u64),
    /// loop, loope, loopne, jrcxz: short jumps that count.
    Count(u64),
    Call(u64),
    /// Bytes that it takes off the stack beside the address.
    Return(u16),
    JumpTo,
    CallTo,
    System,
    /// xbegin: as if the transaction had failed.
    Begin(u64),
}

/// A decoded block.
#[derive(Debug)]
pub struct Block {
    pub ip: u64,
    pub code_bytes: u32,
    pub instructions: Vec<Instruction>,
    /// Their bytes.
    pub bytes: Vec<u8>,
    /// Where the displacement of an operand relative to the instruction pointer is in its instruction; 0 = it has none.
    pub relative: Vec<u8>,
    pub accesses: Vec<Access>,
    pub end: End,
    /// Words that it leaves in the record, the first one included.
    pub words: u32,
    /// General registers that it uses, one bit each.
    pub used: u16,
    /// The first instruction before which the flags are of no interest.
    pub flags_dead_before: Option<u16>,
}

impl Block {
    /// The address behind its last instruction.
    pub fn next(&self) -> u64 {
        self.ip + u64::from(self.code_bytes)
    }

    /// Offset of an instruction's first byte.
    pub fn at(&self, index: usize) -> u16 {
        self.instructions
            .get(index)
            .map_or(self.code_bytes as u16, |i| (i.ip() - self.ip) as u16)
    }

    /// A pair of registers that it does not use: the one before it in the flow if possible.
    pub fn pair(&self, hint: Option<Pair>) -> Pair {
        let free = |register: Reg| self.used & register.bit() == 0;
        if let Some(pair) = hint.filter(|pair| free(pair.record) && free(pair.address)) {
            return pair;
        }
        let mut free = LENT.into_iter().filter(|register| free(*register));
        match (free.next(), free.next()) {
            (Some(record), Some(address)) => Pair { record, address },
            // `decode` ends a block before that.
            _ => Pair {
                record: LENT[0],
                address: LENT[1],
            },
        }
    }
}

/// Registers that may be lent, the least used first. Not rcx, which jrcxz needs.
const LENT: [Reg; 14] = [
    Reg(11),
    Reg(10),
    Reg(9),
    Reg(8),
    Reg(15),
    Reg(14),
    Reg(13),
    Reg(12),
    Reg(7),
    Reg(6),
    Reg(5),
    Reg(2),
    Reg(3),
    Reg(0),
];
const LENT_BITS: u16 = !(1 << 1 | 1 << 4);
const STATUS: u32 = iced_x86::RflagsBits::OF
    | iced_x86::RflagsBits::SF
    | iced_x86::RflagsBits::ZF
    | iced_x86::RflagsBits::AF
    | iced_x86::RflagsBits::CF
    | iced_x86::RflagsBits::PF;

/// Decodes the block that begins with these bytes; `None` = its first instruction is not understood.
pub fn decode(bytes: &[u8], ip: u64, machine: Machine) -> Option<Block> {
    let mut decoder = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE);
    let mut factory = InstructionInfoFactory::new();
    let mut block = Block {
        ip,
        code_bytes: 0,
        instructions: Vec::with_capacity(16),
        bytes: Vec::new(),
        relative: Vec::with_capacity(16),
        accesses: Vec::with_capacity(16),
        end: End::Next,
        words: 1,
        used: 0,
        flags_dead_before: None,
    };
    let mut live = false;
    while block.instructions.len() < MAX_INSTRUCTIONS {
        let instruction = decoder.decode();
        let Some(end) = end_of(&instruction) else {
            break;
        };
        let info = factory.info(&instruction);
        let used = block.used | registers(&instruction, info);
        let first = block.instructions.is_empty();
        if (LENT_BITS & !used).count_ones() < 2 {
            break;
        }
        let mut operands = Vec::new();
        if !access::operands(&instruction, info, machine, &mut operands) {
            break;
        }
        let words: u32 = operands.iter().map(Access::words).sum();
        if block.words + words > MAX_WORDS && !first {
            break;
        }
        // A repeated instruction lends more registers around itself, and its count belongs to one block.
        let index = block.instructions.len();
        for mut access in operands {
            access.instruction = index as u16;
            access.at = (instruction.ip() - ip) as u16;
            access.word = block.words;
            block.words += access.words();
            block.accesses.push(access);
        }
        let constants = decoder.get_constant_offsets(&instruction);
        let relative = instruction.is_ip_rel_memory_operand() && constants.displacement_size() == 4;
        block.relative.push(if relative {
            constants.displacement_offset() as u8
        } else {
            0
        });
        if block.flags_dead_before.is_none() && !live {
            if instruction.rflags_read() & STATUS != 0 {
                live = true;
            } else if instruction.rflags_modified() & STATUS == STATUS
                && !conditional_flags(&instruction)
            {
                block.flags_dead_before = Some(0);
            }
        } else if block.flags_dead_before.is_none()
            && instruction.rflags_read() & STATUS == 0
            && instruction.rflags_modified() & STATUS == STATUS
            && !conditional_flags(&instruction)
        {
            block.flags_dead_before = Some(index as u16);
        }
        block.used = used;
        block.code_bytes += instruction.len() as u32;
        block.instructions.push(instruction);
        if end != End::Next {
            block.end = end;
            break;
        }
    }
    block
        .bytes
        .extend_from_slice(bytes.get(..block.code_bytes as usize)?);
    (!block.instructions.is_empty()).then_some(block)
}

/// Shifts by a count in a register leave the flags alone if it is 0, and repeated comparisons if rcx is.
fn conditional_flags(instruction: &Instruction) -> bool {
    access::repeats(instruction)
        || matches!(
            instruction.mnemonic(),
            Mnemonic::Shl
                | Mnemonic::Shr
                | Mnemonic::Sar
                | Mnemonic::Sal
                | Mnemonic::Shld
                | Mnemonic::Shrd
                | Mnemonic::Rol
                | Mnemonic::Ror
                | Mnemonic::Rcl
                | Mnemonic::Rcr
        )
}

/// How an instruction ends a block ([`End::Next`] = it does not); `None` = it is not run from a cache.
fn end_of(instruction: &Instruction) -> Option<End> {
    if instruction.is_invalid() {
        return None;
    }
    match instruction.flow_control() {
        FlowControl::Next => runs_anywhere(instruction).then_some(End::Next),
        FlowControl::UnconditionalBranch => near(instruction).map(End::Jump),
        FlowControl::ConditionalBranch => {
            let target = near(instruction)?;
            if instruction.is_jcc_short_or_near() {
                return Some(End::Condition(condition(instruction)?, target));
            }
            (instruction.is_loop()
                || instruction.is_loopcc()
                || instruction.code() == Code::Jrcxz_rel8_64
                || instruction.code() == Code::Jecxz_rel8_64)
                .then_some(End::Count(target))
        }
        FlowControl::Call if instruction.mnemonic() == Mnemonic::Syscall => Some(End::System),
        FlowControl::Call => {
            (instruction.code() == Code::Call_rel32_64).then(|| near(instruction).map(End::Call))?
        }
        FlowControl::Return => match instruction.code() {
            Code::Retnq => Some(End::Return(0)),
            Code::Retnq_imm16 => Some(End::Return(instruction.immediate16())),
            _ => None,
        },
        FlowControl::IndirectBranch => {
            (instruction.code() == Code::Jmp_rm64).then_some(End::JumpTo)
        }
        FlowControl::IndirectCall => (instruction.code() == Code::Call_rm64).then_some(End::CallTo),
        FlowControl::XbeginXabortXend => match instruction.code() {
            Code::Xbegin_rel32 => near(instruction).map(End::Begin),
            Code::Xabort_imm8 => Some(End::Next), // of no effect outside of a transaction
            _ => None,
        },
        _ => None,
    }
}

fn near(instruction: &Instruction) -> Option<u64> {
    matches!(instruction.op0_kind(), OpKind::NearBranch64).then(|| instruction.near_branch64())
}

fn condition(instruction: &Instruction) -> Option<u8> {
    use iced_x86::ConditionCode as C;
    Some(match instruction.condition_code() {
        C::o => 0,
        C::no => 1,
        C::b => 2,
        C::ae => 3,
        C::e => 4,
        C::ne => 5,
        C::be => 6,
        C::a => 7,
        C::s => 8,
        C::ns => 9,
        C::p => 10,
        C::np => 11,
        C::l => 12,
        C::ge => 13,
        C::le => 14,
        C::g => 15,
        C::None => return None,
    })
}

/// Whether an instruction that goes on to the next does the same in a cache. Not those that set the base of FS or
/// GS, which translated code depends on, and not those of the system.
fn runs_anywhere(instruction: &Instruction) -> bool {
    if instruction.is_privileged() {
        return false;
    }
    let segment_written =
        |register: Register| matches!(register, Register::FS | Register::GS | Register::SS);
    let sets_segment = match instruction.mnemonic() {
        Mnemonic::Mov | Mnemonic::Pop => segment_written(instruction.op0_register()),
        Mnemonic::Lfs | Mnemonic::Lgs | Mnemonic::Lss | Mnemonic::Wrfsbase | Mnemonic::Wrgsbase => {
            true
        }
        _ => false,
    };
    let nested = instruction.mnemonic() == Mnemonic::Enter && instruction.immediate8_2nd() != 0;
    !sets_segment && !nested
}

fn registers(instruction: &Instruction, info: &iced_x86::InstructionInfo) -> u16 {
    if instruction.mnemonic() == Mnemonic::Syscall {
        // Its arguments are not among what the decoder's library knows.
        return !(1 << 3 | 1 << 5 | 0xf000);
    }
    // What the code around them needs beside what they use themselves.
    let mut used = if matches!(instruction.mnemonic(), Mnemonic::Xbegin | Mnemonic::Ret) {
        Reg::RAX.bit()
    } else if access::repeats(instruction) {
        Reg::RAX.bit() | Reg::RCX.bit() | Reg::RSI.bit()
    } else {
        0
    };
    let mut mark = |register: Register| used |= Reg::of(register).map_or(0, Reg::bit);
    for register in info.used_registers() {
        mark(register.register());
    }
    for memory in info.used_memory() {
        mark(memory.base());
        mark(memory.index());
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine {
        xsave_bytes: 2696,
        bmi2: true,
        values: false,
    };

    fn decoded(bytes: &[u8]) -> Block {
        let mut padded = [0xcc; 32];
        padded[..bytes.len()].copy_from_slice(bytes);
        decode(&padded, 0x1000, MACHINE).expect("a block")
    }

    #[test]
    fn flags_are_dead_before_the_first_that_writes_all_of_them() {
        // mov eax, 1; cmp eax, ecx; jne
        let block = decoded(&[0xb8, 1, 0, 0, 0, 0x39, 0xc8, 0x75, 2]);
        assert_eq!(block.flags_dead_before, Some(0));
        // adc eax, 1; cmp eax, ecx; ret
        let block = decoded(&[0x83, 0xd0, 1, 0x39, 0xc8, 0xc3]);
        assert_eq!(block.flags_dead_before, Some(1));
        // dec ecx; jnz: the carry flag stays
        let block = decoded(&[0xff, 0xc9, 0x75, 0xfc]);
        assert_eq!(block.flags_dead_before, None);
        // shl eax, cl; ret: all of them stay if cl is 0
        let block = decoded(&[0xd3, 0xe0, 0xc3]);
        assert_eq!(block.flags_dead_before, None);
    }

    #[test]
    fn a_block_ends_where_control_may_go_elsewhere_and_before_what_is_not_understood() {
        assert_eq!(decoded(&[0x90, 0xc2, 8, 0]).end, End::Return(8));
        assert_eq!(decoded(&[0xeb, 0x10]).end, End::Jump(0x1012));
        assert_eq!(decoded(&[0x0f, 5]).end, End::System);
        let block = decoded(&[0x90, 0xcc]); // int3
        assert_eq!((block.end, block.code_bytes), (End::Next, 1));
        let block = decoded(&[0x90, 0x8e, 0xe0]); // mov fs, ax
        assert_eq!((block.end, block.code_bytes), (End::Next, 1));
        assert!(decode(&[0xcd, 0x80, 0x90], 0x1000, MACHINE).is_none());
        assert!(
            decode(&[0xff], 0x1000, MACHINE).is_none(),
            "not all of it is there"
        );
    }

    #[test]
    fn a_block_leaves_two_registers() {
        // xor of every register with itself: all are used in the end
        let mut bytes = Vec::new();
        for register in 0..16u8 {
            if register != 4 {
                let rex = 0x48 | if register > 7 { 5 } else { 0 };
                bytes.extend([rex, 0x31, 0xc0 | ((register & 7) * 9)]);
            }
        }
        bytes.extend([0xc3, 0xcc, 0xcc]);
        let block = decode(&bytes, 0x1000, MACHINE).expect("a block");
        assert_eq!(block.end, End::Next);
        let pair = block.pair(None);
        assert_ne!(pair.record, pair.address);
        assert_eq!(block.used & (pair.record.bit() | pair.address.bit()), 0);
        assert_eq!(block.pair(Some(pair)), pair);
    }

    #[test]
    fn values_follow_the_operands_that_load_them() {
        let machine = Machine {
            values: true,
            ..MACHINE
        };
        // add [rdi], rax; movups xmm0, [rdi]; push [rdi]; ret
        let code = [0x48, 0x01, 0x07, 0x0f, 0x10, 0x07, 0xff, 0x37, 0xc3];
        let block = decode(&code, 0x1000, machine).expect("a block");
        let kinds: Vec<_> = block
            .accesses
            .iter()
            .map(|a| (a.instruction, a.kind()))
            .collect();
        let add = [(0, 0), (0, 5)];
        let vector = [(1, 0), (1, 5), (1, 5)];
        let push = [(2, 0), (2, 5), (2, 0)];
        let ret = [(3, 0), (3, 5), (3, 4)];
        assert_eq!(kinds, [&add[..], &vector, &push, &ret].concat());
        assert_eq!(block.words, 12);
    }

    #[test]
    fn popped_operands_are_found_after_the_pop() {
        let block = decoded(&[0x8f, 0x04, 0x24, 0xc3]); // pop [rsp]
        let told: Vec<_> = block
            .accesses
            .iter()
            .map(|a| (a.mem.offset, a.flags))
            .collect();
        assert!(
            told.contains(&(0, access::READ | access::STACK)),
            "{told:?}"
        );
        assert!(told.contains(&(8, access::WRITE)), "{told:?}");
    }
}
