//! Which memory an instruction touches: decoded once, computed from the registers of each sample.
//!
//! A sample is taken between two instructions. One that is slow because of its cache line is, if it is locked or a load,
//! most often the one that has just ended; a store that finds no room for itself is the one that is about to begin. So both
//! are looked at. Where the one before begins is known only by decoding from a place where an instruction begins for sure.

mod body;

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use super::raw::Registers;
use body::Body;

/// Behind the first address that no process of Linux has with four levels of page tables, and before the first that any
/// maps: both are computed from registers that mean something else.
const USER: std::ops::Range<u64> = 0x1000..1 << 47;
/// The number of rsp.
const STACK_POINTER: usize = 4;
/// Bytes of an address.
const ADDRESS: i64 = 8;

/// What a thread has at hand when a sample finds it.
#[derive(Debug, Clone, Copy)]
pub(super) struct AtHand<'a> {
    pub registers: &'a Registers,
    /// From the stack pointer on upwards, possibly cut.
    pub stack: &'a [u8],
}

impl AtHand<'_> {
    pub fn stack_pointer(&self) -> u64 {
        self.registers.general[STACK_POINTER]
    }

    fn register(&self, number: u8) -> u64 {
        self.registers.general[usize::from(number)]
    }

    /// The eight bytes at this address of the thread's stack.
    fn on_stack(&self, address: u64) -> Option<u64> {
        let below = &self.registers.red_zone[..];
        let first = self.stack_pointer().wrapping_sub(below.len() as u64);
        let at = usize::try_from(address.checked_sub(first)?).ok()?;
        let bytes = match at.checked_sub(below.len()) {
            Some(at) => self.stack.get(at..),
            None => below.get(at..),
        };
        Some(u64::from_le_bytes(*bytes?.first_chunk()?))
    }
}

/// Where the first part of an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    /// In a register, by number.
    Register(u8),
    /// In a variable on the stack, so far from what a register holds.
    Variable { register: u8, displacement: i64 },
}

impl Base {
    fn value(self, at_hand: &AtHand) -> Option<u64> {
        match self {
            Self::Register(number) => Some(at_hand.register(number)),
            Self::Variable {
                register,
                displacement,
            } => at_hand.on_stack(at_hand.register(register).wrapping_add_signed(displacement)),
        }
    }

    /// It has the same value after the instruction.
    fn survives(self, instruction: &Instruction) -> bool {
        match self {
            Self::Register(number) => !changes(instruction, number),
            Self::Variable {
                register,
                displacement,
            } => {
                let store = Operand::of(instruction).filter(|operand| operand.access.writes);
                let hits = |store: Operand| {
                    let after = (store.displacement as i64).wrapping_sub(displacement);
                    let into = after < ADDRESS && after > -i64::from(store.access.size);
                    store.base == Some(Self::Register(register)) && (into || store.index.is_some())
                };
                !changes(instruction, register) && !store.is_some_and(hits)
            }
        }
    }
}

/// Whether the instruction leaves something else in the register.
fn changes(instruction: &Instruction, register: u8) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(instruction).used_registers();
    used.iter().any(|used| {
        let writes = !matches!(
            used.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess
        );
        writes && full_number(used.register()) == Some(register)
    })
}

/// A memory operand, before the registers are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Operand {
    base: Option<Base>,
    /// Number of a register.
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
    /// The first byte; `None`: no address of a process, or a variable that the copy of the stack does not reach.
    pub fn address(&self, at_hand: &AtHand) -> Option<u64> {
        let base = self.base.map_or(Some(0), |base| base.value(at_hand))?;
        let index = self.index.map_or(0, |number| at_hand.register(number));
        let address = base
            .wrapping_add(index.wrapping_mul(self.scale))
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
            base: number(base)?.map(Base::Register),
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
        self.base.is_none_or(|base| base.survives(instruction))
            && self.index.is_none_or(|index| !changes(instruction, index))
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
    // With 32 bits the address would be cut.
    let whole = register == register.full_register() || !register.is_gpr();
    whole.then(|| full_number(register)).flatten().map(Some)
}

/// The number of the general register that this is, or is a part of.
fn full_number(register: Register) -> Option<u8> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number() as u8)
}

/// What is on both sides of `ip`. `code` begins at `base` with an instruction; `whole`: with a function, and it is all of it.
///
/// An `ip` that is jumped to may have been reached without what stands before it. Outside of a known function nobody knows
/// the jumps: there only a locked instruction is believed, which ends where it ends by more than chance.
pub(super) fn around(code: &[u8], base: u64, ip: u64, whole: bool) -> Around {
    let body = Body::decode(code, base);
    let Some(at) = body.position(ip) else {
        return Around::default();
    };
    let ended = body.before(at).and_then(|before| {
        let operands = body.operands(before, at);
        let ended = body.instruction(before)?;
        let mut known = operands.filter(|operand| operand.survives(ended));
        known.find(|operand| whole || operand.access.locked)
    });
    Around {
        ended,
        next: body.operands(at, at).next(),
    }
}

/// What begins at `ip`, where nothing before it is known.
pub(super) fn at(code: &[u8], ip: u64) -> Around {
    let body = Body::decode(code, ip);
    Around {
        ended: None,
        next: body.instruction(0).and_then(Operand::of),
    }
}

#[cfg(test)]
mod tests {
    use convoy_abi::CV_BPF_RED_ZONE;

    use super::*;

    const BASE: u64 = 0x40_1000;
    const SP: u64 = 0x7000_0000;

    fn ended(code: &[u8]) -> Option<Operand> {
        let mut all = code.to_vec();
        all.push(0xc3);
        around(&all, BASE, BASE + code.len() as u64, true).ended
    }

    fn registers(values: &[(usize, u64)]) -> Registers {
        let mut registers = Registers {
            general: Default::default(),
            red_zone: [0; CV_BPF_RED_ZONE],
        };
        registers.general[STACK_POINTER] = SP;
        for &(n, value) in values {
            registers.general[n] = value;
        }
        registers
    }

    fn address(operand: Operand, values: &[(usize, u64)]) -> Option<u64> {
        operand.address(&AtHand {
            registers: &registers(values),
            stack: &[],
        })
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
        let values = [(7, 0x10_0000), (9, 3)];
        assert_eq!(address(operand, &values), Some(0x10_0000 + 24 + 0x10));
        assert_eq!(address(operand, &[(7, 1 << 47)]), None);
        assert_eq!(address(operand, &[]), None, "the zero page");
    }

    #[test]
    fn relative_to_the_instruction_pointer() {
        // lock inc dword ptr [rip+0x100], 7 bytes
        let operand = ended(&[0xf0, 0xff, 0x05, 0x00, 0x01, 0x00, 0x00]).unwrap();
        assert_eq!(address(operand, &[]), Some(BASE + 7 + 0x100));
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

    /// mov rax, [rbp-16]
    const LOAD_POINTER: [u8; 4] = [0x48, 0x8b, 0x45, 0xf0];
    /// mov rax, [rax+8]
    const FOLLOW: [u8; 4] = [0x48, 0x8b, 0x40, 0x08];
    const RBP: usize = 5;

    #[test]
    fn what_overwrote_its_address_is_known_from_the_variable_that_it_came_from() {
        let operand = ended(&[LOAD_POINTER, FOLLOW].concat()).unwrap();
        // In a frame, and of a function without one.
        let mut stack = [0; 64];
        stack[24..32].copy_from_slice(&0x5000_u64.to_le_bytes());
        let in_frame = registers(&[(RBP, SP + 40)]);
        let mut below = registers(&[(RBP, SP)]);
        below.red_zone[112..120].copy_from_slice(&0x6000_u64.to_le_bytes());
        let at = |registers| {
            let stack = &stack[..];
            operand.address(&AtHand { registers, stack })
        };
        assert_eq!((at(&in_frame), at(&below)), (Some(0x5008), Some(0x6008)));
        assert_eq!(address(operand, &[(RBP, SP + 40)]), None, "not copied");
        assert_eq!(at(&registers(&[(RBP, 0x1000)])), None, "elsewhere");
        // Through another register: mov rcx, rax; mov rcx, [rcx].
        let copied = [&LOAD_POINTER[..], &[0x48, 0x89, 0xc1, 0x48, 0x8b, 0x09]].concat();
        assert!(ended(&copied).is_some());
    }

    #[test]
    fn a_variable_that_has_changed_meanwhile_tells_nothing() {
        let with = |between: &[u8]| ended(&[&LOAD_POINTER, between, &FOLLOW].concat());
        assert!(
            with(&[0x48, 0x89, 0x4d, 0xf8]).is_some(),
            "mov [rbp-8], rcx"
        );
        assert_eq!(with(&[0x48, 0x89, 0x4d, 0xf0]), None, "mov [rbp-16], rcx");
        assert_eq!(with(&[0x89, 0x4d, 0xf4]), None, "mov [rbp-12], ecx");
        assert_eq!(with(&[0x48, 0x89, 0x4c, 0xcd, 0x00]), None, "into an array");
        assert_eq!(with(&[0x5d]), None, "pop rbp");
        assert_eq!(with(&[0x48, 0x01, 0xc8]), None, "add rax, rcx");
        assert_eq!(with(&[0xff, 0xd1]), None, "call rcx");
        // Jumped to from behind: the pointer may be another one. jmp to the load through it.
        let code = [&LOAD_POINTER[..], &FOLLOW, &[0xeb, 0xfa, 0xc3]].concat();
        assert_eq!(around(&code, BASE, BASE + 8, true).ended, None);
    }

    #[test]
    fn what_is_loaded_through_a_variable_and_stored_back_is_written() {
        // mov rax, [rbp-16]; mov rdx, [rax+8]; add rdx, 1; mov rax, [rbp-16]; mov [rax+8], rdx; ret
        let load = [0x48, 0x8b, 0x50, 0x08, 0x48, 0x83, 0xc2, 0x01];
        let store = [0x48, 0x89, 0x50, 0x08, 0xc3];
        let code = [&LOAD_POINTER[..], &load, &LOAD_POINTER, &store].concat();
        let access = around(&code, BASE, BASE + 8, true).ended.unwrap().access;
        assert!(access.reads && access.writes);
        // Through another variable: mov rax, [rbp-24].
        let other = [0x48, 0x8b, 0x45, 0xe8];
        let code = [&LOAD_POINTER[..], &load, &other, &store].concat();
        let access = around(&code, BASE, BASE + 8, true).ended.unwrap().access;
        assert!(access.reads && !access.writes);
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
