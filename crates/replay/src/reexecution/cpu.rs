//! Registers, operands and control flow of a section that is executed again.

use std::cell::RefCell;

use convoy_profile::SectionInput;
use iced_x86::{
    Code as Opcode, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register,
};
use rustc_hash::FxHashMap;

use super::flags::Flags;
use super::memory::Memory;
use super::{integer, vector, Stop};

/// The program's code by its address at run time.
pub trait Code {
    /// Some bytes from an address on, at least one instruction; `None` = not in a file.
    fn bytes(&self, address: u64) -> Option<Vec<u8>>;
}

impl<F: Fn(u64) -> Option<Vec<u8>>> Code for F {
    fn bytes(&self, address: u64) -> Option<Vec<u8>> {
        self(address)
    }
}

/// Instructions by address, each decoded once.
pub struct Decoded<'a> {
    code: &'a dyn Code,
    known: RefCell<FxHashMap<u64, Option<Instruction>>>,
}

impl std::fmt::Debug for Decoded<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoded").finish_non_exhaustive()
    }
}

impl<'a> Decoded<'a> {
    /// Nothing decoded yet.
    pub fn new(code: &'a dyn Code) -> Self {
        Self {
            code,
            known: RefCell::default(),
        }
    }

    fn at(&self, address: u64) -> Result<Instruction, Stop> {
        let mut known = self.known.borrow_mut();
        if let Some(instruction) = known.get(&address) {
            return instruction.ok_or(Stop::NoCode);
        }
        let bytes = self.code.bytes(address).unwrap_or_default();
        let mut decoder = Decoder::with_ip(64, &bytes, address, DecoderOptions::NONE);
        while decoder.can_decode() {
            let next = decoder.decode();
            if next.is_invalid() {
                break;
            }
            known.entry(next.ip()).or_insert(Some(next));
        }
        let found = *known.entry(address).or_insert(None);
        found.ok_or(Stop::NoCode)
    }
}

/// A thread inside a section.
#[derive(Debug)]
pub(super) struct Cpu<'m> {
    /// By number; `None` = undefined.
    pub(super) general: [Option<u64>; 16],
    pub(super) vectors: [Option<u128>; 16],
    pub(super) flags: Flags,
    pub(super) memory: &'m mut Memory,
    pub(super) ip: u64,
    pub(super) executed: u64,
    /// Of all loads, as [`SectionInput::digest`] has it.
    pub(super) digest: u64,
    fs: u64,
}

/// Numbers of the registers of [`SectionInput::registers`], the thread pointer left out.
const OBSERVED: [usize; 8] = [0, 3, 5, 4, 12, 13, 14, 15];
/// Registers that a function leaves as they were (System V ABI), and the stack pointer: whatever
/// else the section computed is dead once the release is called.
pub(super) const PRESERVED: [usize; 7] = [3, 5, 4, 12, 13, 14, 15];
const RSP: usize = 4;
/// The first argument of a function.
pub(super) const RDI: usize = 7;

impl<'m> Cpu<'m> {
    /// At the begin of a section.
    pub(super) fn new(input: &SectionInput, memory: &'m mut Memory) -> Self {
        let mut general = [None; 16];
        for (number, value) in OBSERVED.into_iter().zip(input.registers) {
            general[number] = Some(value);
        }
        Self {
            general,
            vectors: [None; 16],
            flags: Flags::default(),
            memory,
            ip: input.resume,
            executed: 0,
            digest: 0,
            fs: input.registers[8],
        }
    }

    /// Executes the next instruction.
    pub(super) fn step(&mut self, code: &Decoded<'_>) -> Result<(), Stop> {
        let instruction = code.at(self.ip)?;
        self.executed += 1;
        self.ip = instruction.next_ip();
        match instruction.flow_control() {
            FlowControl::Next => self.compute(&instruction),
            FlowControl::UnconditionalBranch => {
                self.ip = instruction.near_branch_target();
                Ok(())
            }
            FlowControl::ConditionalBranch if instruction.is_jcc_short_or_near() => {
                if self.flags.holds(instruction.condition_code())? {
                    self.ip = instruction.near_branch_target();
                }
                Ok(())
            }
            FlowControl::IndirectBranch => {
                self.ip = self.read(&instruction, 0)?;
                Ok(())
            }
            FlowControl::Call if instruction.code() == Opcode::Call_rel32_64 => {
                self.push(instruction.next_ip())?;
                self.ip = instruction.near_branch_target();
                Ok(())
            }
            FlowControl::IndirectCall => {
                let target = self.read(&instruction, 0)?;
                self.push(instruction.next_ip())?;
                self.ip = target;
                Ok(())
            }
            FlowControl::Return if instruction.code() == Opcode::Retnq => {
                self.ip = self.pop()?;
                Ok(())
            }
            _ => Err(Stop::Unsupported),
        }
    }

    fn compute(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        if instruction.has_rep_prefix() || instruction.has_repne_prefix() {
            return Err(Stop::Unsupported);
        }
        match integer::execute(self, instruction) {
            Err(Stop::Unsupported) => vector::execute(self, instruction),
            other => other,
        }
    }

    // ---- memory

    /// Loads up to 8 bytes.
    pub(super) fn load(&mut self, address: u64, size: usize) -> Result<u64, Stop> {
        let value = self.memory.load(address, size)?;
        self.digest = SectionInput::digest(self.digest, address, value);
        Ok(value)
    }

    pub(super) fn push(&mut self, value: u64) -> Result<(), Stop> {
        let top = self.full(RSP)?.wrapping_sub(8);
        self.memory.store(top, 8, value);
        self.general[RSP] = Some(top);
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Result<u64, Stop> {
        let top = self.full(RSP)?;
        let value = self.load(top, 8)?;
        self.general[RSP] = Some(top.wrapping_add(8));
        Ok(value)
    }

    /// The address of a memory operand.
    pub(super) fn address(&self, instruction: &Instruction, operand: u32) -> Result<u64, Stop> {
        let value = |register: Register, _, _| match register {
            Register::ES | Register::CS | Register::SS | Register::DS => Some(0),
            Register::FS => Some(self.fs),
            Register::GS => None,
            register => self.register(register).ok(),
        };
        let address = instruction.virtual_address(operand, 0, value);
        address.ok_or(Stop::UnknownValue)
    }

    // ---- registers

    fn full(&self, number: usize) -> Result<u64, Stop> {
        self.general
            .get(number)
            .copied()
            .flatten()
            .ok_or(Stop::UnknownValue)
    }

    /// A general register of any width.
    pub(super) fn register(&self, register: Register) -> Result<u64, Stop> {
        let full = register.full_register();
        if !full.is_gpr64() {
            return Err(Stop::Unsupported);
        }
        let value = self.full(full.number())?;
        Ok(match is_high_byte(register) {
            true => value >> 8 & 0xff,
            false => value & super::flags::mask(register.size()),
        })
    }

    pub(super) fn set_register(&mut self, register: Register, value: u64) -> Result<(), Stop> {
        let full = register.full_register();
        if !full.is_gpr64() {
            return Err(Stop::Unsupported);
        }
        let number = full.number();
        let value = match register.size() {
            8 => value,
            // The upper half becomes zero.
            4 => value & 0xffff_ffff,
            2 => self.full(number)? & !0xffff | value & 0xffff,
            _ if is_high_byte(register) => self.full(number)? & !0xff00 | (value & 0xff) << 8,
            _ => self.full(number)? & !0xff | value & 0xff,
        };
        self.general[number] = Some(value);
        Ok(())
    }

    // ---- operands

    /// Bytes of an operand.
    pub(super) fn size(&self, instruction: &Instruction, operand: u32) -> usize {
        match instruction.op_kind(operand) {
            OpKind::Register => instruction.op_register(operand).size(),
            OpKind::Memory => instruction.memory_size().size(),
            _ => 8,
        }
    }

    /// An operand of at most 8 bytes.
    pub(super) fn read(&mut self, instruction: &Instruction, operand: u32) -> Result<u64, Stop> {
        match instruction.op_kind(operand) {
            OpKind::Register => self.register(instruction.op_register(operand)),
            OpKind::Memory => {
                let size = instruction.memory_size().size();
                if !matches!(size, 1 | 2 | 4 | 8) {
                    return Err(Stop::Unsupported);
                }
                let address = self.address(instruction, operand)?;
                self.load(address, size)
            }
            OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64 => Ok(instruction.immediate(operand)),
            _ => Err(Stop::Unsupported),
        }
    }

    pub(super) fn write(
        &mut self,
        instruction: &Instruction,
        operand: u32,
        value: u64,
    ) -> Result<(), Stop> {
        match instruction.op_kind(operand) {
            OpKind::Register => self.set_register(instruction.op_register(operand), value),
            OpKind::Memory => {
                let size = instruction.memory_size().size();
                if !matches!(size, 1 | 2 | 4 | 8) {
                    return Err(Stop::Unsupported);
                }
                let address = self.address(instruction, operand)?;
                self.memory.store(address, size, value);
                Ok(())
            }
            _ => Err(Stop::Unsupported),
        }
    }
}

fn is_high_byte(register: Register) -> bool {
    matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    )
}
