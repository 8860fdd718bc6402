//! What an instruction reads and writes, and how that is written down.

use alloc::vec::Vec;

use iced_x86::{CodeSize, Instruction, InstructionInfo, Mnemonic, OpAccess, Register, UsedMemory};

use super::asm::Mem;
use super::lanes;
use super::regs::Reg;

/// How an operand's words are made. The kinds of cv_trace_access, with what is needed to compute them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The address.
    Plain,
    /// The address after adding what a bit offset in a register leads to.
    Bit { offset: Reg, operand_bytes: u8 },
    /// The lowest address and a count, after a repeated string instruction.
    Repeat { pointer: Reg },
    /// The address and the lanes of a mask.
    Masked(lanes::Mask),
    /// The lanes of a mask and an address for each.
    Lanes(lanes::Vector),
    /// No operand: what a function returns.
    Result,
    /// No operand: what the plain one before it loads, or one half of that.
    Value,
}

/// The segment that an operand is in, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment {
    Flat,
    Fs,
    Gs,
}

/// A memory operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Number of the instruction in the block.
    pub instruction: u16,
    /// Its offset in the block (bytes).
    pub at: u16,
    pub mem: Mem,
    pub segment: Segment,
    /// al is to be added (xlat).
    pub plus_al: bool,
    pub how: How,
    /// CV_ACCESS_READ and its kin.
    pub flags: u8,
    pub lanes: u8,
    /// Bytes of the operand, of one repetition, or of one lane.
    pub size: u32,
    /// Its first word in the block's record.
    pub word: u32,
}

pub const READ: u8 = 1;
pub const WRITE: u8 = 2;
pub const ATOMIC: u8 = 4;
pub const STACK: u8 = 8;
pub const FIELD: u8 = 16;

impl Access {
    /// `kind` of cv_trace_access.
    pub fn kind(&self) -> u8 {
        match self.how {
            How::Plain | How::Bit { .. } => 0,
            How::Repeat { .. } => 1,
            How::Masked(_) => 2,
            How::Lanes(_) => 3,
            How::Result => 4,
            How::Value => 5,
        }
    }

    /// Its offset from the address in one register, where that is all that its address is made of. The stack pointer
    /// leads to no object.
    pub fn field(&self) -> Option<i32> {
        let mem = self.mem;
        let of_register = matches!(self.how, How::Plain | How::Masked(_))
            && self.segment == Segment::Flat
            && self.flags & STACK == 0
            && mem.base.is_some_and(|base| base != Reg::RSP)
            && mem.index.is_none()
            && !mem.narrow
            && !self.plus_al;
        of_register.then(|| i32::try_from(mem.offset).ok())?
    }

    /// Words that it leaves in the record.
    pub fn words(&self) -> u32 {
        match self.how {
            How::Plain | How::Bit { .. } | How::Result | How::Value => 1,
            How::Repeat { .. } | How::Masked(_) => 2,
            How::Lanes(_) => 1 + u32::from(self.lanes),
        }
    }
}

/// What this machine has that instructions depend on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Machine {
    /// Of the area of xsave with all that is enabled (bytes).
    pub xsave_bytes: u32,
    /// BMI2: shifts that leave the flags alone.
    pub bmi2: bool,
    /// Values that are loaded are written down too.
    pub values: bool,
}

/// Appends an instruction's operands; false = one of them cannot be written down.
pub fn operands(
    instruction: &Instruction,
    info: &InstructionInfo,
    machine: Machine,
    into: &mut Vec<Access>,
) -> bool {
    if !touches_memory(instruction) {
        return true;
    }
    let repeats = repeats(instruction);
    let fields = if lanes::gathers(instruction) {
        1
    } else {
        usize::MAX
    };
    for used in info.used_memory().iter().take(fields) {
        let Some(flags) = direction(instruction, used) else {
            continue;
        };
        let Some(mut access) = operand(used) else {
            return false;
        };
        access.flags = flags;
        access.size = match instruction.mnemonic() {
            Mnemonic::Xsave
            | Mnemonic::Xsave64
            | Mnemonic::Xsavec
            | Mnemonic::Xsavec64
            | Mnemonic::Xsaveopt
            | Mnemonic::Xsaveopt64
            | Mnemonic::Xrstor
            | Mnemonic::Xrstor64 => machine.xsave_bytes,
            // The library does not say how much a repeated instruction touches, but each time.
            _ if repeats => instruction.memory_size().size() as u32,
            _ => used.memory_size().size() as u32,
        };
        if repeats {
            let pointer = match access.mem.base {
                Some(pointer) if !access.mem.narrow && access.segment == Segment::Flat => pointer,
                _ => return false,
            };
            access.how = How::Repeat { pointer };
        } else if lanes::gathers(instruction) {
            let Some(vector) = lanes::vector(instruction, used)
                .filter(|_| machine.bmi2 && !access.mem.narrow && access.segment == Segment::Flat)
            else {
                return false;
            };
            access.mem.index = None;
            access.how = How::Lanes(vector);
            access.lanes = vector.lanes;
            access.size = u32::from(vector.lane_bytes);
        } else if let Some(mask) = lanes::mask(instruction, used) {
            if !machine.bmi2 {
                return false;
            }
            access.how = How::Masked(mask);
            access.lanes = mask.lanes;
            access.size = u32::from(mask.lane_bytes);
        } else if let Some((offset, operand_bytes)) = bit_offset(instruction) {
            if !machine.bmi2 || access.mem.narrow {
                return false;
            }
            access.how = How::Bit {
                offset,
                operand_bytes,
            };
        }
        if access.size == 0 {
            return false;
        }
        into.push(access);
    }
    if instruction.mnemonic() == Mnemonic::Ret {
        into.extend(into.last().copied().map(|slot| Access {
            how: How::Result,
            flags: STACK,
            ..slot
        }));
    }
    if machine.values {
        for access in core::mem::take(into) {
            into.push(access);
            into.extend(values_of(access).into_iter().flatten());
        }
    }
    true
}

/// What an operand loads, where one or two registers can hold that.
fn values_of(access: Access) -> [Option<Access>; 2] {
    let is_loaded = access.how == How::Plain && access.flags & READ != 0;
    let part = |size: u32, behind: i64| Access {
        how: How::Value,
        size,
        mem: Mem {
            offset: access.mem.offset.wrapping_add(behind),
            ..access.mem
        },
        ..access
    };
    match access.size {
        size @ (1 | 2 | 4 | 8) if is_loaded => [Some(part(size, 0)), None],
        16 if is_loaded => [Some(part(8, 0)), Some(part(8, 8))],
        _ => [None, None],
    }
}

fn touches_memory(instruction: &Instruction) -> bool {
    !matches!(
        instruction.mnemonic(),
        Mnemonic::Nop
            | Mnemonic::Endbr64
            | Mnemonic::Endbr32
            | Mnemonic::Lea
            | Mnemonic::Prefetch
            | Mnemonic::Prefetchw
            | Mnemonic::Prefetchwt1
            | Mnemonic::Prefetchnta
            | Mnemonic::Prefetcht0
            | Mnemonic::Prefetcht1
            | Mnemonic::Prefetcht2
            | Mnemonic::Clflush
            | Mnemonic::Clflushopt
            | Mnemonic::Clwb
            | Mnemonic::Cldemote
    )
}

/// A string instruction that counts with rcx.
pub fn repeats(instruction: &Instruction) -> bool {
    instruction.is_string_instruction()
        && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

fn direction(instruction: &Instruction, used: &UsedMemory) -> Option<u8> {
    let mut flags = match used.access() {
        OpAccess::None | OpAccess::NoMemAccess => return None,
        OpAccess::Read | OpAccess::CondRead => READ,
        OpAccess::Write | OpAccess::CondWrite => WRITE,
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => READ | WRITE,
    };
    if instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg {
        flags |= ATOMIC;
    }
    if instruction.is_stack_instruction() {
        // `push [m]` reads what it is told and writes the stack; `pop [m]` the other way round.
        let takes = matches!(
            instruction.mnemonic(),
            Mnemonic::Pop | Mnemonic::Ret | Mnemonic::Popf | Mnemonic::Popfq | Mnemonic::Leave
        );
        if flags == if takes { READ } else { WRITE } {
            flags |= STACK;
        }
    }
    Some(flags)
}

fn operand(used: &UsedMemory) -> Option<Access> {
    let narrow = match used.address_size() {
        CodeSize::Code64 | CodeSize::Unknown => false,
        CodeSize::Code32 => true,
        CodeSize::Code16 => return None,
    };
    let base = match used.base() {
        Register::None | Register::RIP | Register::EIP => None,
        register => Some(Reg::of(register)?),
    };
    let plus_al = used.index() == Register::AL;
    let index = match used.index() {
        Register::None | Register::AL => None,
        register if register.is_gpr() => Some((Reg::of(register)?, used.scale() as u8)),
        _ => None, // a vector: `lanes` has it
    };
    let mut offset = used.displacement() as i64;
    if base.is_none() && index.is_none() && used.vsib_size() == 0 {
        if narrow {
            offset &= 0xffff_ffff;
        }
    } else if narrow {
        offset = i64::from(offset as i32);
    }
    let segment = match used.segment() {
        Register::FS => Segment::Fs,
        Register::GS => Segment::Gs,
        _ => Segment::Flat,
    };
    Some(Access {
        instruction: 0,
        at: 0,
        mem: Mem {
            base,
            index,
            offset,
            narrow,
        },
        segment,
        plus_al,
        how: How::Plain,
        flags: 0,
        lanes: 0,
        size: 0,
        word: 0,
    })
}

/// `bt m, r` and its kin reach beyond their operand.
fn bit_offset(instruction: &Instruction) -> Option<(Reg, u8)> {
    let bit = matches!(
        instruction.mnemonic(),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    );
    let register = instruction.op1_register();
    (bit && register != Register::None).then_some(())?;
    Some((Reg::of(register)?, register.size() as u8))
}
