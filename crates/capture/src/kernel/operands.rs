//! Which memory an instruction touches: decoded once, computed from the registers of each sample.
//!
//! A sample is taken between two instructions. One that is slow because of its cache line is, if it is locked or a load,
//! most often the one that has just ended; a store that finds no room for itself is the one that is about to begin. So both
//! are looked at. Where the one before begins is known only by decoding from a place where an instruction begins for sure.

use iced_x86::{
    Code as Opcode, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    Mnemonic, OpAccess, OpKind, Register,
};

use super::raw::General;

/// Behind the first address that no process of Linux has with four levels of page tables, and before the first that any
/// maps: both are computed from registers that mean something else.
const USER: std::ops::Range<u64> = 0x1000..1 << 47;

/// Instructions that are looked through for what becomes of a value that was loaded.
const FOLLOWED: usize = 48;

/// A memory operand, before the registers are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Operand {
    /// Numbers of registers.
    base: Option<u8>,
    index: Option<u8>,
    scale: u64,
    displacement: u64,
    pub access: Access,
}

/// What is done to the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Access {
    /// Bytes.
    pub size: u8,
    /// One step for all processors: nothing else can come between its load and its store.
    pub locked: bool,
    pub reads: bool,
    pub writes: bool,
}

/// The operands on both sides of an address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Around {
    /// Of the instruction that ends there. Never of one that may not have run, nor of one that overwrote what its
    /// address was computed from.
    pub ended: Option<Operand>,
    /// Of the one that begins there.
    pub next: Option<Operand>,
}

impl Operand {
    /// The first byte; `None`: no address of a process.
    pub fn address(&self, general: &General) -> Option<u64> {
        let value = |number: Option<u8>| number.map_or(0, |n| general[usize::from(n)]);
        let address = value(self.base)
            .wrapping_add(value(self.index).wrapping_mul(self.scale))
            .wrapping_add(self.displacement);
        USER.contains(&address).then_some(address)
    }

    fn of(instruction: &Instruction) -> Option<Self> {
        let memory =
            (0..instruction.op_count()).find(|&n| instruction.op_kind(n) == OpKind::Memory)?;
        // What is relative to a segment is the thread's own.
        if matches!(instruction.memory_segment(), Register::FS | Register::GS) {
            return None;
        }
        let mut factory = InstructionInfoFactory::new();
        let access = factory.info(instruction).op_access(memory);
        let (reads, writes) = match access {
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write | OpAccess::CondWrite => (false, true),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
            _ => return None, // lea, prefetch, nop
        };
        let size = u8::try_from(instruction.memory_size().size()).ok()?;
        let absolute = instruction.is_ip_rel_memory_operand();
        let base = if absolute {
            Register::None
        } else {
            instruction.memory_base()
        };
        let operand = Self {
            base: number(base)?,
            index: number(instruction.memory_index())?,
            scale: u64::from(instruction.memory_index_scale()),
            displacement: instruction.memory_displacement64(),
            access: Access {
                size,
                locked: instruction.has_lock_prefix()
                    || (writes && instruction.mnemonic() == Mnemonic::Xchg),
                reads,
                writes,
            },
        };
        (size > 0).then_some(operand)
    }

    /// Its address can still be computed after the instruction.
    fn survives(&self, instruction: &Instruction) -> bool {
        let mut factory = InstructionInfoFactory::new();
        let used = factory.info(instruction).used_registers();
        !used.iter().any(|register| {
            let writes = !matches!(
                register.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess
            );
            let of = number(register.register()).flatten();
            writes && of.is_some() && (of == self.base || of == self.index)
        })
    }
}

impl Operand {
    /// With what the instructions from `at` on do to the same bytes: a counter that is loaded, increased and stored is
    /// written, although threads are found waiting for the load.
    fn changed_by(mut self, code: &[Instruction], at: usize) -> Self {
        let mut next = Some(at);
        for _ in 0..FOLLOWED {
            let Some(instruction) = next.and_then(|at| code.get(at)) else {
                break;
            };
            if let Some(other) = Self::of(instruction).filter(|other| other.is_at(&self)) {
                self.access.writes |= other.access.writes;
                self.access.locked |= other.access.locked;
            }
            if !self.survives(instruction) {
                break;
            }
            next = match instruction.flow_control() {
                FlowControl::Next => next.map(|at| at + 1),
                // Back to where a loop begins; whatever else it may go on with comes later, if at all.
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
                    if instruction.near_branch_target() <= instruction.ip() =>
                {
                    let begin = instruction.near_branch_target();
                    code.binary_search_by_key(&begin, Instruction::ip).ok()
                }
                FlowControl::ConditionalBranch => next.map(|at| at + 1),
                _ => None,
            };
        }
        self
    }

    fn is_at(&self, other: &Self) -> bool {
        let place = |o: &Self| (o.base, o.index, o.scale, o.displacement);
        place(self) == place(other)
    }
}

/// The number of a general register; `Some(None)` = no register at all, `None` = another kind of register.
fn number(register: Register) -> Option<Option<u8>> {
    if register == Register::None {
        return Some(None);
    }
    let full = register.full_register();
    // With 32 bits the address would be cut.
    let whole = register == full || !register.is_gpr();
    (full.is_gpr64() && whole).then(|| Some(full.number() as u8))
}

/// What is on both sides of `ip`. `code` begins at `base` with an instruction; `whole`: with a function, and it is all of it.
///
/// An `ip` that is jumped to may have been reached without what stands before it. Outside of a known function nobody knows
/// the jumps: there only a locked instruction is believed, which ends where it ends by more than chance.
pub(super) fn around(code: &[u8], base: u64, ip: u64, whole: bool) -> Around {
    let decoder = Decoder::with_ip(64, code, base, DecoderOptions::NONE);
    let code: Vec<Instruction> = decoder
        .into_iter()
        .take_while(|instruction| instruction.code() != Opcode::INVALID)
        .collect();
    let Ok(at) = code.binary_search_by_key(&ip, Instruction::ip) else {
        return Around::default();
    };
    let is_jumped_to = || {
        let mut jumps = code.iter().filter(|i| i.op0_kind() == OpKind::NearBranch64);
        jumps.any(|jump| jump.near_branch_target() == ip)
    };
    let ended = at.checked_sub(1).and_then(|before| code.get(before));
    let ended = ended.filter(|ended| ended.flow_control() == FlowControl::Next && !is_jumped_to());
    let operand = |ended: &Instruction| {
        let operand = Operand::of(ended)?.changed_by(&code, at);
        ((whole || operand.access.locked) && operand.survives(ended)).then_some(operand)
    };
    Around {
        ended: ended.and_then(operand),
        next: Operand::of(&code[at]).map(|operand| operand.changed_by(&code, at)),
    }
}

/// What begins at `ip`, where nothing before it is known.
pub(super) fn at(code: &[u8], ip: u64) -> Around {
    let mut decoder = Decoder::with_ip(64, code, ip, DecoderOptions::NONE);
    Around {
        ended: None,
        next: Operand::of(&decoder.decode()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x40_1000;

    fn ended(code: &[u8]) -> Option<Operand> {
        let mut all = code.to_vec();
        all.push(0xc3);
        around(&all, BASE, BASE + code.len() as u64, true).ended
    }

    fn general(values: &[(usize, u64)]) -> General {
        let mut general = General::default();
        for &(n, value) in values {
            general[n] = value;
        }
        general
    }

    #[test]
    fn addresses_are_computed_from_base_index_scale_and_displacement() {
        // lock add qword ptr [rdi+r9*8+0x10], 1
        let operand = ended(&[0xf0, 0x4a, 0x83, 0x44, 0xcf, 0x10, 0x01]).unwrap();
        let access = Access {
            size: 8,
            locked: true,
            reads: true,
            writes: true,
        };
        assert_eq!(operand.access, access);
        let registers = general(&[(7, 0x10_0000), (9, 3)]);
        assert_eq!(operand.address(&registers), Some(0x10_0000 + 24 + 0x10));
        assert_eq!(operand.address(&general(&[(7, 1 << 47)])), None);
        assert_eq!(operand.address(&general(&[])), None, "the zero page");
    }

    #[test]
    fn relative_to_the_instruction_pointer() {
        // lock inc dword ptr [rip+0x100], 7 bytes
        let operand = ended(&[0xf0, 0xff, 0x05, 0x00, 0x01, 0x00, 0x00]).unwrap();
        assert_eq!(operand.address(&general(&[])), Some(BASE + 7 + 0x100));
    }

    #[test]
    fn what_overwrote_its_own_address_is_left_out() {
        assert_eq!(ended(&[0x48, 0x8b, 0x00]), None, "mov rax, [rax]");
        assert_eq!(ended(&[0x8b, 0x00]), None, "mov eax, [rax] clears the rest");
        assert!(ended(&[0x48, 0x8b, 0x08]).is_some(), "mov rcx, [rax]");
        assert_eq!(
            ended(&[0x64, 0x48, 0x8b, 0x08]),
            None,
            "of the thread: mov rcx, fs:[rax]"
        );
        assert_eq!(ended(&[0x48, 0x8d, 0x08]), None, "lea touches nothing");
        assert_eq!(ended(&[0xff, 0x10]), None, "call [rax] ends elsewhere");
    }

    #[test]
    fn exchanges_are_locked_without_saying_so() {
        let operand = ended(&[0x48, 0x87, 0x0f]).unwrap(); // xchg [rdi], rcx
        assert!(operand.access.locked && operand.access.reads && operand.access.writes);
        let store = ended(&[0x48, 0x89, 0x0f]).unwrap(); // mov [rdi], rcx
        assert!(!store.access.locked && !store.access.reads && store.access.writes);
    }

    #[test]
    fn what_is_jumped_to_may_have_been_reached_without_what_is_before_it() {
        // lock inc dword ptr [rdi]; L: dec ecx; jnz L; ret
        let code = [0xf0, 0xff, 0x07, 0xff, 0xc9, 0x75, 0xfc, 0xc3];
        assert_eq!(around(&code, BASE, BASE + 3, true).ended, None);
        // L: lock inc dword ptr [rdi]; dec ecx; jnz L; ret
        let code = [0xf0, 0xff, 0x07, 0xff, 0xc9, 0x75, 0xf9, 0xc3];
        assert!(around(&code, BASE, BASE + 3, true).ended.is_some());
        let next = around(&code, BASE, BASE, true);
        assert!(next.ended.is_none() && next.next.is_some());
    }

    #[test]
    fn what_is_loaded_and_stored_back_is_written() {
        // L: mov rax, [rdi]; add rax, 1; mov [rdi], rax; dec ecx; jnz L; ret
        let head = [0x48, 0x8b, 0x07, 0x48, 0x83, 0xc0, 0x01];
        let code = [&head[..], &[0x48, 0x89, 0x07, 0xff, 0xc9, 0x75, 0xf2, 0xc3]].concat();
        let load = around(&code, BASE, BASE + 3, true).ended.unwrap().access;
        assert!(load.reads && load.writes && !load.locked);
        // ... and by the next pass.
        let late = [
            0xff, 0xc9, 0x48, 0x89, 0x07, 0x48, 0x8b, 0x07, 0x75, 0xf6, 0xc3,
        ];
        assert!(
            around(&late, BASE, BASE + 8, true)
                .ended
                .unwrap()
                .access
                .writes
        );
        // To another address it is not.
        let code = [&head[..], &[0x48, 0x89, 0x47, 0x08, 0xc3]].concat();
        assert!(
            !around(&code, BASE, BASE + 3, true)
                .ended
                .unwrap()
                .access
                .writes
        );
        // Nor if the register leads elsewhere by then: add rdi, 8.
        let code = [&head[..], &[0x48, 0x83, 0xc7, 0x08, 0x48, 0x89, 0x07, 0xc3]].concat();
        assert!(
            !around(&code, BASE, BASE + 3, true)
                .ended
                .unwrap()
                .access
                .writes
        );
        // A try to exchange what was loaded: lock cmpxchg [rdi], rcx.
        let code = [&head[..], &[0xf0, 0x48, 0x0f, 0xb1, 0x0f, 0xc3]].concat();
        assert!(
            around(&code, BASE, BASE + 3, true)
                .ended
                .unwrap()
                .access
                .locked
        );
    }

    #[test]
    fn an_address_within_an_instruction_has_no_sides() {
        let code = [0xf0, 0xff, 0x07, 0xff, 0xc9, 0xc3];
        assert_eq!(around(&code, BASE, BASE + 2, true), Around::default());
    }

    #[test]
    fn outside_of_functions_only_locked_ones_are_believed() {
        let locked = [0xf0, 0xff, 0x07, 0xc3];
        assert!(around(&locked, BASE, BASE + 3, false).ended.is_some());
        let plain = [0xff, 0x07, 0xc3];
        assert_eq!(around(&plain, BASE, BASE + 2, false).ended, None);
        assert!(at(&plain, BASE).next.is_some());
    }
}
