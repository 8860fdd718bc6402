//! What an instruction touches, from the state before it: computed anew, one lane at a time.

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register,
    UsedMemory,
};

use crate::files::Step;

/// Bytes that were touched, in one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    pub address: u64,
    pub bytes: u64,
    /// 1 read, 2 written, 4 atomic, 8 stack.
    pub flags: u8,
}

fn decode(step: &Step) -> Instruction {
    Decoder::with_ip(64, &step.code, step.rip, DecoderOptions::NONE).decode()
}

/// Whether it is a string instruction that counts.
pub fn repeats(step: &Step) -> bool {
    let instruction = decode(step);
    instruction.is_string_instruction()
        && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

/// Whether the step after the first of a repetition belongs to it as well.
pub fn goes_on(first: &Step, next: &Step) -> bool {
    next.registers[1] < first.registers[1]
}

/// Whether the processor runs one more instruction after it before it traps: a system call, a transaction that fails.
pub fn hides_the_next(step: &Step) -> bool {
    matches!(
        decode(step).mnemonic(),
        Mnemonic::Syscall | Mnemonic::Xbegin
    )
}

/// What the function returns that ends with it.
pub fn result(step: &Step) -> Option<u64> {
    (decode(step).mnemonic() == Mnemonic::Ret).then_some(step.registers[0])
}

/// Of an operand whose address is a register and a number, the number. Not of those whose words are counts or lanes.
pub fn field(step: &Step) -> Option<i32> {
    let instruction = decode(step);
    if repeats(step) || instruction.is_vsib() || only_names_memory(&instruction) {
        return None;
    }
    let bit_offset = matches!(
        instruction.mnemonic(),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    ) && instruction.op1_register() != Register::None;
    if bit_offset {
        return None;
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&instruction);
    let of_register = |used: &&UsedMemory| {
        let base = used.base();
        base.is_gpr64()
            && base != Register::RSP
            && used.index() == Register::None
            && !matches!(used.segment(), Register::FS | Register::GS)
    };
    let used = info.used_memory().iter().find(of_register)?;
    let implicit = flags(&instruction, used).is_none_or(|flags| flags & 8 != 0);
    (!implicit).then_some(used.displacement() as i64 as i32)
}

fn number(register: Register) -> usize {
    register.full_register().number()
}

fn general(step: &Step, register: Register) -> u64 {
    match register {
        Register::None | Register::RIP | Register::EIP => 0,
        Register::FS => step.fs,
        Register::GS => step.gs,
        Register::ES | Register::CS | Register::SS | Register::DS => 0,
        Register::AL => step.registers[0] & 0xff,
        _ => {
            let value = step.registers[number(register)];
            if register.size() == 4 {
                value & 0xffff_ffff
            } else {
                value
            }
        }
    }
}

fn lane(step: &Step, register: Register, lane: usize, bytes: usize) -> u64 {
    let vectors = step
        .vectors
        .as_ref()
        .expect("the stepper keeps what may have lanes");
    let mut value = [0; 8];
    let at = register.number() * 64 + lane * bytes;
    value[..bytes].copy_from_slice(&vectors[at..at + bytes]);
    u64::from_le_bytes(value)
}

fn mask(step: &Step, register: Register) -> u64 {
    let vectors = step
        .vectors
        .as_ref()
        .expect("the stepper keeps what may have lanes");
    let at = 32 * 64 + register.number() * 8;
    u64::from_le_bytes(vectors[at..at + 8].try_into().expect("8 bytes"))
}

/// It has an operand in memory that it neither reads nor writes.
fn only_names_memory(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Nop
            | Mnemonic::Lea
            | Mnemonic::Prefetchw
            | Mnemonic::Prefetcht0
            | Mnemonic::Prefetchnta
            | Mnemonic::Clflush
    )
}

/// The accesses of an instruction; `times` steps of it if it repeats.
pub fn accesses(step: &Step, times: u64) -> Vec<Access> {
    let instruction = decode(step);
    if only_names_memory(&instruction) {
        return Vec::new();
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&instruction);
    let mut found = Vec::new();
    for (index, used) in info.used_memory().iter().enumerate() {
        if instruction.is_vsib() && index > 0 {
            continue;
        }
        let Some(flags) = flags(&instruction, used) else {
            continue;
        };
        if instruction.is_vsib() {
            found.extend(gathered(step, &instruction, used, flags));
            continue;
        }
        let mut address = used
            .virtual_address(0, |register, _, _| Some(general(step, register)))
            .expect("an address");
        let mut bytes = used.memory_size().size() as u64;
        if repeats(step) {
            bytes = instruction.memory_size().size() as u64;
            let counted = if step.registers[1] == 0 { 0 } else { times };
            if counted == 0 {
                continue;
            }
            if step.flags & 0x400 != 0 {
                address -= (counted - 1) * bytes;
            }
            bytes *= counted;
        }
        if let Some(lanes) = masked(step, &instruction, address, bytes) {
            found.extend(lanes.into_iter().map(|(address, bytes)| Access {
                address,
                bytes,
                flags,
            }));
            continue;
        }
        if matches!(
            instruction.mnemonic(),
            Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
        ) {
            let register = instruction.op1_register();
            if register != Register::None {
                let value = step.registers[number(register)];
                let offset = match register.size() {
                    2 => i64::from(value as i16),
                    4 => i64::from(value as i32),
                    _ => value as i64,
                };
                address = address
                    .wrapping_add((offset.div_euclid(bytes as i64 * 8) * bytes as i64) as u64);
            }
        }
        if instruction.is_save_restore_instruction() && bytes == 0 {
            bytes = u64::from(std::arch::x86_64::__cpuid_count(0xd, 0).ebx);
        }
        found.push(Access {
            address,
            bytes,
            flags,
        });
    }
    found
}

fn flags(instruction: &Instruction, used: &UsedMemory) -> Option<u8> {
    let mut flags = match used.access() {
        OpAccess::None | OpAccess::NoMemAccess => return None,
        OpAccess::Read | OpAccess::CondRead => 1,
        OpAccess::Write | OpAccess::CondWrite => 2,
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => 3,
    };
    if instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg {
        flags |= 4;
    }
    let stack = match instruction.mnemonic() {
        Mnemonic::Push | Mnemonic::Call | Mnemonic::Pushf | Mnemonic::Pushfq | Mnemonic::Enter => {
            flags == 2
        }
        Mnemonic::Pop | Mnemonic::Ret | Mnemonic::Popf | Mnemonic::Popfq | Mnemonic::Leave => {
            flags == 1
        }
        _ => false,
    };
    Some(flags | if stack { 8 } else { 0 })
}

fn gathered(step: &Step, instruction: &Instruction, used: &UsedMemory, flags: u8) -> Vec<Access> {
    let text = format!("{:?}", instruction.mnemonic()).to_lowercase();
    // ...dps, ...qd: the index's width, then the data's.
    let data_bytes: usize = if text.ends_with('s') || text.ends_with('d') && !text.ends_with("pd") {
        4
    } else {
        8
    };
    let index = instruction.memory_index();
    let index_bytes: usize = if instruction.is_vsib64() { 8 } else { 4 };
    let data = if flags & 2 != 0 {
        instruction.op1_register()
    } else {
        instruction.op0_register()
    };
    let lanes = (index.size() / index_bytes).min(data.size() / data_bytes);
    let mut found = Vec::new();
    for at in 0..lanes {
        let on = match instruction.op_mask() {
            Register::None => {
                lane(step, instruction.op2_register(), at, data_bytes) >> (data_bytes * 8 - 1) & 1
                    != 0
            }
            register => mask(step, register) >> at & 1 != 0,
        };
        if on {
            let address = used
                .virtual_address(at, |register, at, bytes| {
                    Some(if register.is_vector_register() {
                        lane(step, register, at, bytes)
                    } else {
                        general(step, register)
                    })
                })
                .expect("an address");
            found.push(Access {
                address,
                bytes: data_bytes as u64,
                flags,
            });
        }
    }
    found
}

/// The lanes of a move with a mask, as (address, bytes).
fn masked(
    step: &Step,
    instruction: &Instruction,
    address: u64,
    bytes: u64,
) -> Option<Vec<(u64, u64)>> {
    let name = format!("{:?}", instruction.mnemonic()).to_lowercase();
    let by_sign = match name.as_str() {
        "vmaskmovps" | "vpmaskmovd" => Some((4, instruction.op1_register())),
        "vmaskmovpd" | "vpmaskmovq" => Some((8, instruction.op1_register())),
        "maskmovdqu" | "vmaskmovdqu" => Some((1, instruction.op2_register())),
        _ => None,
    };
    if let Some((each, register)) = by_sign {
        let lanes = 0..bytes / each;
        let on =
            |at: &u64| lane(step, register, *at as usize, each as usize) >> (each * 8 - 1) & 1 != 0;
        return Some(
            lanes
                .filter(on)
                .map(|at| (address + at * each, each))
                .collect(),
        );
    }
    let packed = name.contains("compress") || name.contains("expand");
    if instruction.op_mask() == Register::None && !packed {
        return None;
    }
    let each: u64 = match name.as_str() {
        "vmovdqu8" => 1,
        "vmovdqu16" => 2,
        "vmovdqu32" | "vmovdqa32" | "vmovups" | "vmovaps" | "vmovss" => 4,
        "vmovdqu64" | "vmovdqa64" | "vmovupd" | "vmovapd" | "vmovsd" => 8,
        _ if packed => match name.as_bytes()[name.len() - 1] {
            b'b' => 1,
            b'w' => 2,
            b'd' if !name.ends_with("pd") => 4,
            b's' => 4,
            _ => 8,
        },
        _ if name.starts_with("vpmov") => match name.as_bytes()[name.len() - 1] {
            b'b' => 1,
            b'w' => 2,
            _ => 4,
        },
        _ => return None,
    };
    let lanes = bytes / each;
    let bits = match instruction.op_mask() {
        Register::None => u64::MAX,
        register => mask(step, register),
    };
    let on: Vec<u64> = (0..lanes).filter(|at| bits >> at & 1 != 0).collect();
    let places: Vec<u64> = if packed {
        (0..on.len() as u64).collect()
    } else {
        on
    };
    Some(
        places
            .into_iter()
            .map(|at| (address + at * each, each))
            .collect(),
    )
}
