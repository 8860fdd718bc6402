//! Moves of vector registers, and arithmetic on one double.
//!
//! Loads of more than 8 bytes have no recorded value: they succeed only where the section has
//! stored the bytes itself.

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
        Mnemonic::Addsd | Mnemonic::Subsd | Mnemonic::Mulsd | Mnemonic::Divsd => double(cpu, i),
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
            let low = cpu.memory.load(address, 8)?;
            let high = cpu.memory.load(address.wrapping_add(8), 8)?;
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

/// In round-to-nearest, as programs run unless they ask for another mode; a re-execution under
/// another one is found out when its loads differ.
fn double(cpu: &mut Cpu<'_>, i: &Instruction) -> Result<(), Stop> {
    let b = f64::from_bits(read(cpu, i, 1, 8)? as u64);
    let a = f64::from_bits(vector(cpu, i.op0_register())? as u64);
    let result = match i.mnemonic() {
        Mnemonic::Addsd => a + b,
        Mnemonic::Subsd => a - b,
        Mnemonic::Mulsd => a * b,
        _ => a / b,
    };
    if result.is_nan() {
        return Err(Stop::Unsupported); // which one is the processor's choice
    }
    lower(cpu, i.op0_register(), 8, u128::from(result.to_bits()))
}
