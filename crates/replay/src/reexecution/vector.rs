//! Moves, logic and integer arithmetic of vector registers, and arithmetic on one floating-point
//! number.
//!
//! Loads of more than 16 bytes have no recorded value, and are not modelled.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::cpu::Cpu;
use super::Stop;

/// Executes one.
pub(super) fn execute(cpu: &mut Cpu<'_>, i: &Instruction) -> Result<(), Stop> {
    match i.mnemonic() {
        Mnemonic::Movaps
        | Mnemonic::Movups
        | Mnemonic::Movapd
        | Mnemonic::Movupd
        | Mnemonic::Movdqa
        | Mnemonic::Movdqu => {
            let value = read(cpu, i, 1, 16)?;
            write(cpu, i, 0, 16, value)
        }
        Mnemonic::Movq => {
            let value = read(cpu, i, 1, 8)?;
            write(cpu, i, 0, 8, value)
        }
        Mnemonic::Movd => {
            let value = read(cpu, i, 1, 4)?;
            write(cpu, i, 0, 4, value)
        }
        Mnemonic::Movsd | Mnemonic::Movss if i.op_count() == 2 => scalar_move(cpu, i),
        Mnemonic::Pxor | Mnemonic::Xorps | Mnemonic::Xorpd if is_self(i) => write(cpu, i, 0, 16, 0),
        Mnemonic::Pxor | Mnemonic::Xorps | Mnemonic::Xorpd => logic(cpu, i, |a, b| a ^ b),
        Mnemonic::Por | Mnemonic::Orps | Mnemonic::Orpd => logic(cpu, i, |a, b| a | b),
        Mnemonic::Pand | Mnemonic::Andps | Mnemonic::Andpd => logic(cpu, i, |a, b| a & b),
        Mnemonic::Paddb => packed(cpu, i, 1, u64::wrapping_add),
        Mnemonic::Paddw => packed(cpu, i, 2, u64::wrapping_add),
        Mnemonic::Paddd => packed(cpu, i, 4, u64::wrapping_add),
        Mnemonic::Paddq => packed(cpu, i, 8, u64::wrapping_add),
        Mnemonic::Psubb => packed(cpu, i, 1, u64::wrapping_sub),
        Mnemonic::Psubw => packed(cpu, i, 2, u64::wrapping_sub),
        Mnemonic::Psubd => packed(cpu, i, 4, u64::wrapping_sub),
        Mnemonic::Psubq => packed(cpu, i, 8, u64::wrapping_sub),
        Mnemonic::Pshufd => {
            let from = read(cpu, i, 1, 16)?;
            let lane = |at: u32| {
                let chosen = u32::from(i.immediate8()) >> (2 * at) & 3;
                (from >> (32 * chosen) & u128::from(u32::MAX)) << (32 * at)
            };
            write(cpu, i, 0, 16, (0..4).fold(0, |all, at| all | lane(at)))
        }
        Mnemonic::Psrldq => shifted(cpu, i, |value, bits| value >> bits),
        Mnemonic::Pslldq => shifted(cpu, i, |value, bits| value << bits),
        Mnemonic::Punpcklqdq | Mnemonic::Movlhps => {
            let upper = read(cpu, i, 1, 16)? << 64;
            let lower = vector(cpu, i.op0_register())? & u128::from(u64::MAX);
            write(cpu, i, 0, 16, upper | lower)
        }
        Mnemonic::Movhps | Mnemonic::Movhpd if i.op0_kind() == OpKind::Memory => {
            let upper = vector(cpu, i.op1_register())? >> 64;
            cpu.write(i, 0, upper as u64)
        }
        Mnemonic::Movhps | Mnemonic::Movhpd => {
            let upper = u128::from(cpu.read(i, 1)?) << 64;
            let lower = vector(cpu, i.op0_register())? & u128::from(u64::MAX);
            write(cpu, i, 0, 16, upper | lower)
        }
        Mnemonic::Addsd => double(cpu, i, |a, b| a + b),
        Mnemonic::Subsd => double(cpu, i, |a, b| a - b),
        Mnemonic::Mulsd => double(cpu, i, |a, b| a * b),
        Mnemonic::Divsd => double(cpu, i, |a, b| a / b),
        Mnemonic::Addss => single(cpu, i, |a, b| a + b),
        Mnemonic::Subss => single(cpu, i, |a, b| a - b),
        Mnemonic::Mulss => single(cpu, i, |a, b| a * b),
        Mnemonic::Divss => single(cpu, i, |a, b| a / b),
        _ => Err(Stop::Unsupported),
    }
}

fn is_self(i: &Instruction) -> bool {
    i.op0_kind() == OpKind::Register
        && i.op1_kind() == OpKind::Register
        && i.op0_register() == i.op1_register()
}

fn number(register: Register) -> Result<usize, Stop> {
    let is_known = register.is_xmm() && register.number() < 16;
    is_known.then(|| register.number()).ok_or(Stop::Unsupported)
}

fn vector(cpu: &Cpu<'_>, register: Register) -> Result<u128, Stop> {
    cpu.vectors[number(register)?].ok_or(Stop::UnknownValue)
}

fn read(cpu: &mut Cpu<'_>, i: &Instruction, operand: u32, size: usize) -> Result<u128, Stop> {
    match i.op_kind(operand) {
        OpKind::Register if i.op_register(operand).is_xmm() => {
            let value = vector(cpu, i.op_register(operand))?;
            Ok(match size {
                16 => value,
                size => value & ((1 << (size * 8)) - 1),
            })
        }
        OpKind::Memory if size == 16 => {
            let address = cpu.address(i, operand)?;
            let low = cpu.load(address, 8)?;
            let high = cpu.load(address.wrapping_add(8), 8)?;
            Ok(u128::from(high) << 64 | u128::from(low))
        }
        _ if size <= 8 => cpu.read(i, operand).map(u128::from),
        _ => Err(Stop::Unsupported),
    }
}

/// Writes; what a vector register has above becomes zero.
fn write(
    cpu: &mut Cpu<'_>,
    i: &Instruction,
    operand: u32,
    size: usize,
    value: u128,
) -> Result<(), Stop> {
    match i.op_kind(operand) {
        OpKind::Register if i.op_register(operand).is_xmm() => {
            cpu.vectors[number(i.op_register(operand))?] = Some(value);
            Ok(())
        }
        OpKind::Memory if size == 16 => {
            let address = cpu.address(i, operand)?;
            cpu.memory.store(address, 8, value as u64);
            cpu.memory
                .store(address.wrapping_add(8), 8, (value >> 64) as u64);
            Ok(())
        }
        _ if size <= 8 => cpu.write(i, operand, value as u64),
        _ => Err(Stop::Unsupported),
    }
}

/// Between registers the upper part of the destination stays; from memory it becomes zero.
fn scalar_move(cpu: &mut Cpu<'_>, i: &Instruction) -> Result<(), Stop> {
    let size = if i.mnemonic() == Mnemonic::Movsd {
        8
    } else {
        4
    };
    let value = read(cpu, i, 1, size)?;
    if i.op0_kind() == OpKind::Register && i.op1_kind() == OpKind::Register {
        return lower(cpu, i.op0_register(), size, value);
    }
    write(cpu, i, 0, size, value)
}

/// Replaces the lower part of a vector register.
fn lower(cpu: &mut Cpu<'_>, register: Register, size: usize, value: u128) -> Result<(), Stop> {
    let keep = !((1u128 << (size * 8)) - 1);
    let merged = vector(cpu, register)? & keep | value;
    cpu.vectors[number(register)?] = Some(merged);
    Ok(())
}

fn logic(
    cpu: &mut Cpu<'_>,
    i: &Instruction,
    of: impl FnOnce(u128, u128) -> u128,
) -> Result<(), Stop> {
    let (a, b) = (vector(cpu, i.op0_register())?, read(cpu, i, 1, 16)?);
    write(cpu, i, 0, 16, of(a, b))
}

/// An operation on each lane.
fn packed(
    cpu: &mut Cpu<'_>,
    i: &Instruction,
    bytes: u32,
    of: impl Fn(u64, u64) -> u64,
) -> Result<(), Stop> {
    logic(cpu, i, |a, b| lane_by_lane(a, b, bytes, of))
}

/// Of lanes of 1, 2, 4 or 8 bytes.
pub(super) fn lane_by_lane(a: u128, b: u128, bytes: u32, of: impl Fn(u64, u64) -> u64) -> u128 {
    let (bits, mask) = (8 * bytes, u64::MAX >> (64 - 8 * bytes));
    let lanes = (0..128 / bits).map(|lane| lane * bits);
    lanes.fold(0, |all, at| {
        let lane = |value: u128| (value >> at) as u64 & mask;
        all | u128::from(of(lane(a), lane(b)) & mask) << at
    })
}

/// By bytes; none is left beyond 15.
fn shifted(cpu: &mut Cpu<'_>, i: &Instruction, of: impl Fn(u128, u32) -> u128) -> Result<(), Stop> {
    let value = vector(cpu, i.op0_register())?;
    let shifted = match u32::from(i.immediate8()) {
        bytes @ 0..16 => of(value, 8 * bytes),
        _ => 0,
    };
    write(cpu, i, 0, 16, shifted)
}

fn double(
    cpu: &mut Cpu<'_>,
    i: &Instruction,
    of: impl FnOnce(f64, f64) -> f64,
) -> Result<(), Stop> {
    float(cpu, i, 8, |a, b| {
        let result = of(f64::from_bits(a), f64::from_bits(b));
        (!result.is_nan()).then(|| result.to_bits())
    })
}

fn single(
    cpu: &mut Cpu<'_>,
    i: &Instruction,
    of: impl FnOnce(f32, f32) -> f32,
) -> Result<(), Stop> {
    float(cpu, i, 4, |a, b| {
        let result = of(f32::from_bits(a as u32), f32::from_bits(b as u32));
        (!result.is_nan()).then(|| u64::from(result.to_bits()))
    })
}

/// In round-to-nearest, as programs run unless they ask for another mode; a re-execution under
/// another one is found out when its loads differ. `None` = no number: which one is the processor's
/// choice.
fn float(
    cpu: &mut Cpu<'_>,
    i: &Instruction,
    size: usize,
    of: impl FnOnce(u64, u64) -> Option<u64>,
) -> Result<(), Stop> {
    let b = read(cpu, i, 1, size)? as u64;
    let a = vector(cpu, i.op0_register())? as u64;
    let result = of(a, b).ok_or(Stop::Unsupported)?;
    lower(cpu, i.op0_register(), size, u128::from(result))
}
