//! Integer instructions.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::cpu::Cpu;
use super::flags::{self, Flags};
use super::Stop;

/// Executes one; [`Stop::Unsupported`] before anything has changed if it is none of these.
pub(super) fn execute(cpu: &mut Cpu<'_>, i: &Instruction) -> Result<(), Stop> {
    let size = if i.op_count() > 0 { cpu.size(i, 0) } else { 0 };
    match i.mnemonic() {
        Mnemonic::Nop | Mnemonic::Endbr64 | Mnemonic::Pause | Mnemonic::Mfence => Ok(()),
        Mnemonic::Prefetcht0 | Mnemonic::Prefetchw | Mnemonic::Prefetchnta => Ok(()),
        Mnemonic::Mov | Mnemonic::Movzx => {
            let value = cpu.read(i, 1)?;
            cpu.write(i, 0, value)
        }
        Mnemonic::Movsx | Mnemonic::Movsxd => {
            let from = cpu.size(i, 1);
            let value = flags::sign_extend(cpu.read(i, 1)?, from);
            cpu.write(i, 0, value)
        }
        Mnemonic::Lea => {
            let address = cpu.address(i, 1)?;
            cpu.write(i, 0, address)
        }
        Mnemonic::Push if i.stack_pointer_increment() == -8 => {
            let value = cpu.read(i, 0)?;
            cpu.push(value)
        }
        Mnemonic::Pop if i.op0_kind() == OpKind::Register && i.stack_pointer_increment() == 8 => {
            let value = cpu.pop()?;
            cpu.write(i, 0, value)
        }
        Mnemonic::Leave => {
            let frame = cpu.register(Register::RBP)?;
            cpu.set_register(Register::RSP, frame)?;
            let value = cpu.pop()?;
            cpu.set_register(Register::RBP, value)
        }
        Mnemonic::Xor | Mnemonic::Sub if is_zeroing(i) => {
            cpu.flags = Flags::of_logic(0, size);
            cpu.write(i, 0, 0)
        }
        Mnemonic::Add | Mnemonic::Sub | Mnemonic::Adc | Mnemonic::Sbb | Mnemonic::Cmp => {
            sum(cpu, i, size)
        }
        Mnemonic::And | Mnemonic::Or | Mnemonic::Xor | Mnemonic::Test => logic(cpu, i, size),
        Mnemonic::Inc | Mnemonic::Dec => {
            let value = cpu.read(i, 0)?;
            let (result, new) = match i.mnemonic() {
                Mnemonic::Inc => flags::add(value, 1, false, size),
                _ => flags::subtract(value, 1, false, size),
            };
            let carry = cpu.flags.carry;
            cpu.flags = Flags { carry, ..new };
            cpu.write(i, 0, result)
        }
        Mnemonic::Neg => {
            let value = cpu.read(i, 0)?;
            let (result, new) = flags::subtract(0, value, false, size);
            cpu.flags = new;
            cpu.write(i, 0, result)
        }
        Mnemonic::Not => {
            let value = cpu.read(i, 0)?;
            cpu.write(i, 0, !value)
        }
        Mnemonic::Shl | Mnemonic::Sal | Mnemonic::Shr | Mnemonic::Sar => shift(cpu, i, size),
        Mnemonic::Rol | Mnemonic::Ror => rotate(cpu, i, size),
        Mnemonic::Imul => multiply(cpu, i, size),
        Mnemonic::Mul => multiply_wide(cpu, i, size),
        Mnemonic::Div => divide(cpu, i, size),
        Mnemonic::Cdqe => extend(cpu, Register::EAX, Register::RAX),
        Mnemonic::Cwde => extend(cpu, Register::AX, Register::EAX),
        Mnemonic::Cqo => sign_of(cpu, Register::RAX, Register::RDX),
        Mnemonic::Cdq => sign_of(cpu, Register::EAX, Register::EDX),
        Mnemonic::Bswap if size >= 4 => {
            let value = cpu.read(i, 0)?;
            cpu.write(i, 0, value.swap_bytes() >> (64 - size * 8))
        }
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc => bit(cpu, i, size),
        Mnemonic::Popcnt => {
            let value = cpu.read(i, 1)?;
            cpu.flags = Flags::of_logic(value, size);
            cpu.write(i, 0, u64::from(value.count_ones()))
        }
        Mnemonic::Tzcnt | Mnemonic::Lzcnt => count_zeros(cpu, i, size),
        Mnemonic::Xchg => {
            let (a, b) = (cpu.read(i, 0)?, cpu.read(i, 1)?);
            cpu.write(i, 0, b)?;
            cpu.write(i, 1, a)
        }
        Mnemonic::Xadd => {
            let (a, b) = (cpu.read(i, 0)?, cpu.read(i, 1)?);
            let (result, new) = flags::add(a, b, false, size);
            cpu.flags = new;
            cpu.write(i, 1, a)?;
            cpu.write(i, 0, result)
        }
        Mnemonic::Cmpxchg => compare_exchange(cpu, i, size),
        _ => conditional(cpu, i),
    }
}

/// Of a register with itself: what it held does not matter.
fn is_zeroing(i: &Instruction) -> bool {
    i.op0_kind() == OpKind::Register
        && i.op1_kind() == OpKind::Register
        && i.op0_register() == i.op1_register()
}

fn sum(cpu: &mut Cpu<'_>, i: &Instruction, size: usize) -> Result<(), Stop> {
    let (a, b) = (cpu.read(i, 0)?, cpu.read(i, 1)?);
    let carry = || cpu.flags.carry.ok_or(Stop::UnknownValue);
    let (result, new) = match i.mnemonic() {
        Mnemonic::Add => flags::add(a, b, false, size),
        Mnemonic::Adc => flags::add(a, b, carry()?, size),
        Mnemonic::Sbb => flags::subtract(a, b, carry()?, size),
        _ => flags::subtract(a, b, false, size),
    };
    cpu.flags = new;
    match i.mnemonic() {
        Mnemonic::Cmp => Ok(()),
        _ => cpu.write(i, 0, result),
    }
}

fn logic(cpu: &mut Cpu<'_>, i: &Instruction, size: usize) -> Result<(), Stop> {
    let (a, b) = (cpu.read(i, 0)?, cpu.read(i, 1)?);
    let result = match i.mnemonic() {
        Mnemonic::Or => a | b,
        Mnemonic::Xor => a ^ b,
        _ => a & b,
    };
    cpu.flags = Flags::of_logic(result & flags::mask(size), size);
    match i.mnemonic() {
        Mnemonic::Test => Ok(()),
        _ => cpu.write(i, 0, result),
    }
}

/// The count of a shift; `None` = 0, which leaves the flags alone.
fn count(cpu: &mut Cpu<'_>, i: &Instruction, size: usize) -> Result<Option<u32>, Stop> {
    let limit = if size == 8 { 63 } else { 31 };
    let count = cpu.read(i, 1)? as u32 & limit;
    Ok((count != 0).then_some(count))
}

fn shift(cpu: &mut Cpu<'_>, i: &Instruction, size: usize) -> Result<(), Stop> {
    let value = cpu.read(i, 0)?;
    let Some(n) = count(cpu, i, size)? else {
        return cpu.write(i, 0, value);
    };
    let bits = size as u32 * 8;
    let signed = flags::sign_extend(value, size) as i64;
    let (result, out) = match i.mnemonic() {
        Mnemonic::Shr => (value >> n, value >> (n - 1) & 1),
        Mnemonic::Sar => ((signed >> n) as u64, (signed >> (n - 1)) as u64 & 1),
        _ => {
            let out = bits.checked_sub(n).map_or(0, |at| value >> at & 1);
            (value << n, out)
        }
    };
    let result = result & flags::mask(size);
    cpu.flags = Flags {
        carry: (n <= bits).then_some(out != 0),
        ..Flags::of_result(result, size)
    };
    cpu.write(i, 0, result)
}

fn rotate(cpu: &mut Cpu<'_>, i: &Instruction, size: usize) -> Result<(), Stop> {
    let value = cpu.read(i, 0)?;
    let Some(n) = count(cpu, i, size)? else {
        return cpu.write(i, 0, value);
    };
    let bits = size as u32 * 8;
    let left = match i.mnemonic() {
        Mnemonic::Rol => n % bits,
        _ => (bits - n % bits) % bits,
    };
    let result = match left {
        0 => value,
        left => (value << left | value >> (bits - left)) & flags::mask(size),
    };
    // Carry and overflow change, the others stay.
    cpu.flags.carry = None;
    cpu.flags.overflow = None;
    cpu.write(i, 0, result)
}

/// Signed, with a result as wide as the factors.
fn multiply(cpu: &mut Cpu<'_>, i: &Instruction, size: usize) -> Result<(), Stop> {
    let (a, b) = match i.op_count() {
        2 => (cpu.read(i, 0)?, cpu.read(i, 1)?),
        3 => (cpu.read(i, 1)?, cpu.read(i, 2)?),
        _ => return Err(Stop::Unsupported),
    };
    let wide = i128::from(flags::sign_extend(a, size) as i64)
        * i128::from(flags::sign_extend(b, size) as i64);
    let result = wide as u64 & flags::mask(size);
    let is_cut = i128::from(flags::sign_extend(result, size) as i64) != wide;
    cpu.flags = Flags {
        carry: Some(is_cut),
        overflow: Some(is_cut),
        ..Flags::default()
    };
    cpu.write(i, 0, result)
}

/// Unsigned, rdx:rax = rax * operand.
fn multiply_wide(cpu: &mut Cpu<'_>, i: &Instruction, size: usize) -> Result<(), Stop> {
    let (low, high) = pair(size)?;
    let product = u128::from(cpu.register(low)?) * u128::from(cpu.read(i, 0)?);
    let upper = (product >> (size * 8)) as u64;
    cpu.flags = Flags {
        carry: Some(upper != 0),
        overflow: Some(upper != 0),
        ..Flags::default()
    };
    cpu.set_register(low, product as u64)?;
    cpu.set_register(high, upper)
}

/// Unsigned, rax and rdx = rdx:rax divided by the operand.
fn divide(cpu: &mut Cpu<'_>, i: &Instruction, size: usize) -> Result<(), Stop> {
    let (low, high) = pair(size)?;
    let divisor = u128::from(cpu.read(i, 0)?);
    let dividend = u128::from(cpu.register(high)?) << (size * 8) | u128::from(cpu.register(low)?);
    let quotient = dividend.checked_div(divisor).ok_or(Stop::Unsupported)?;
    if quotient > u128::from(flags::mask(size)) {
        return Err(Stop::Unsupported); // it traps
    }
    cpu.flags = Flags::default();
    cpu.set_register(low, quotient as u64)?;
    cpu.set_register(high, (dividend % divisor) as u64)
}

fn pair(size: usize) -> Result<(Register, Register), Stop> {
    match size {
        8 => Ok((Register::RAX, Register::RDX)),
        4 => Ok((Register::EAX, Register::EDX)),
        _ => Err(Stop::Unsupported),
    }
}

fn extend(cpu: &mut Cpu<'_>, from: Register, to: Register) -> Result<(), Stop> {
    let value = flags::sign_extend(cpu.register(from)?, from.size());
    cpu.set_register(to, value)
}

fn sign_of(cpu: &mut Cpu<'_>, of: Register, to: Register) -> Result<(), Stop> {
    let negative = flags::is_negative(cpu.register(of)?, of.size());
    cpu.set_register(to, if negative { u64::MAX } else { 0 })
}

/// A bit of a register, or of memory by a constant.
fn bit(cpu: &mut Cpu<'_>, i: &Instruction, size: usize) -> Result<(), Stop> {
    if i.op0_kind() == OpKind::Memory && i.op1_kind() == OpKind::Register {
        return Err(Stop::Unsupported); // it may be far from the operand
    }
    let value = cpu.read(i, 0)?;
    let bit = 1u64 << (cpu.read(i, 1)? % (size as u64 * 8));
    cpu.flags = Flags {
        carry: Some(value & bit != 0),
        zero: cpu.flags.zero,
        ..Flags::default()
    };
    match i.mnemonic() {
        Mnemonic::Bts => cpu.write(i, 0, value | bit),
        Mnemonic::Btr => cpu.write(i, 0, value & !bit),
        Mnemonic::Btc => cpu.write(i, 0, value ^ bit),
        _ => Ok(()),
    }
}

fn count_zeros(cpu: &mut Cpu<'_>, i: &Instruction, size: usize) -> Result<(), Stop> {
    let value = cpu.read(i, 1)?;
    let bits = size as u32 * 8;
    let zeros = match i.mnemonic() {
        Mnemonic::Tzcnt => value.trailing_zeros().min(bits),
        _ => value.leading_zeros() - (64 - bits),
    };
    cpu.flags = Flags {
        carry: Some(zeros == bits),
        zero: Some(zeros == 0),
        ..Flags::default()
    };
    cpu.write(i, 0, u64::from(zeros))
}

fn compare_exchange(cpu: &mut Cpu<'_>, i: &Instruction, size: usize) -> Result<(), Stop> {
    let expected = match size {
        8 => Register::RAX,
        4 => Register::EAX,
        _ => return Err(Stop::Unsupported),
    };
    let (found, new) = (cpu.read(i, 0)?, cpu.read(i, 1)?);
    let (_, compared) = flags::subtract(cpu.register(expected)?, found, false, size);
    cpu.flags = compared;
    match compared.zero {
        Some(true) => cpu.write(i, 0, new),
        _ => cpu.set_register(expected, found),
    }
}

/// cmovcc, setcc.
fn conditional(cpu: &mut Cpu<'_>, i: &Instruction) -> Result<(), Stop> {
    if i.is_cmov() {
        let value = cpu.read(i, 1)?; // also where it is not moved
        if cpu.flags.holds(i.condition_code())? {
            return cpu.write(i, 0, value);
        }
        if cpu.size(i, 0) == 4 {
            // The upper half becomes zero all the same.
            let same = cpu.read(i, 0)?;
            return cpu.write(i, 0, same);
        }
        return Ok(());
    }
    if i.is_setcc() {
        let holds = cpu.flags.holds(i.condition_code())?;
        return cpu.write(i, 0, u64::from(holds));
    }
    Err(Stop::Unsupported)
}

trait Kinds {
    fn is_cmov(&self) -> bool;
    fn is_setcc(&self) -> bool;
}

impl Kinds for Instruction {
    fn is_cmov(&self) -> bool {
        use Mnemonic as M;
        matches!(
            self.mnemonic(),
            M::Cmova
                | M::Cmovae
                | M::Cmovb
                | M::Cmovbe
                | M::Cmove
                | M::Cmovg
                | M::Cmovge
                | M::Cmovl
                | M::Cmovle
                | M::Cmovne
                | M::Cmovno
                | M::Cmovnp
                | M::Cmovns
                | M::Cmovo
                | M::Cmovp
                | M::Cmovs
        )
    }

    fn is_setcc(&self) -> bool {
        use Mnemonic as M;
        matches!(
            self.mnemonic(),
            M::Seta
                | M::Setae
                | M::Setb
                | M::Setbe
                | M::Sete
                | M::Setg
                | M::Setge
                | M::Setl
                | M::Setle
                | M::Setne
                | M::Setno
                | M::Setnp
                | M::Setns
                | M::Seto
                | M::Setp
                | M::Sets
        )
    }
}
