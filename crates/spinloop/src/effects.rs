//! What one instruction reads and writes.

use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

/// General registers by number, then the flags.
pub(crate) const FLAGS: usize = 16;
/// Registers that are followed, the flags included.
pub(crate) const PLACES: usize = 17;
pub(crate) const RSP: usize = 4;
pub(crate) const RBP: usize = 5;

/// A memory operand as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operand {
    pub segment: Register,
    /// A general register's number; none for an absolute address.
    pub base: Option<usize>,
    pub index: Option<usize>,
    pub scale: u32,
    /// Displacement, or the absolute address.
    pub disp: i64,
}

/// What an instruction reads and writes.
#[derive(Debug, Clone)]
pub(crate) struct Effect {
    pub instr: Instruction,
    /// Registers and flags read, those of the address included.
    pub reads: Vec<usize>,
    pub writes: Vec<usize>,
    /// The explicit memory operand, `lea`'s included.
    pub operand: Option<Operand>,
    pub loads: bool,
    pub stores: bool,
    /// Bytes of the access.
    pub size: u32,
    /// Uses vector, mask or floating point registers.
    pub wide: bool,
}

impl Effect {
    pub fn of(instr: &Instruction, info: &mut InstructionInfoFactory) -> Self {
        let used = info.info(instr);
        let (mut reads, mut writes, mut wide) = (Vec::new(), Vec::new(), false);
        for r in used.used_registers() {
            let register = r.register();
            let Some(place) = general(register) else {
                wide |= !register.is_segment_register() && !register.is_ip();
                continue;
            };
            let (read, write) = access(r.access());
            if read {
                reads.push(place);
            }
            if write {
                writes.push(place);
            }
        }
        if instr.rflags_read() != 0 {
            reads.push(FLAGS);
        }
        if instr.rflags_modified() != 0 {
            writes.push(FLAGS);
        }
        let explicit = (0..instr.op_count()).any(|op| instr.op_kind(op) == OpKind::Memory);
        let operand = explicit.then(|| Operand {
            segment: instr.segment_prefix(),
            base: general(instr.memory_base()),
            index: general(instr.memory_index()),
            scale: instr.memory_index_scale(),
            disp: instr.memory_displacement64() as i64,
        });
        let (mut loads, mut stores) = (false, false);
        for m in used.used_memory() {
            let (read, write) = access(m.access());
            loads |= read;
            stores |= write;
        }
        Self {
            instr: *instr,
            reads,
            writes,
            operand,
            loads,
            stores,
            size: instr.memory_size().size() as u32,
            wide,
        }
    }

    pub fn is_call(&self) -> bool {
        matches!(
            self.instr.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        ) && self.instr.mnemonic() == Mnemonic::Call
    }

    pub fn is_pause(&self) -> bool {
        matches!(
            self.instr.mnemonic(),
            Mnemonic::Pause | Mnemonic::Tpause | Mnemonic::Umwait
        )
    }

    /// Reads, changes and writes memory in one step that no other processor can get between.
    pub fn is_locked(&self) -> bool {
        self.stores
            && (self.instr.has_lock_prefix()
                || (self.instr.mnemonic() == Mnemonic::Xchg && self.operand.is_some()))
    }
}

/// The number of a general register, whatever part of it.
pub(crate) fn general(register: Register) -> Option<usize> {
    register.is_gpr().then(|| register.full_register().number())
}

fn access(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write => (false, true),
        // What is written only at times keeps its old value at others.
        OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
    }
}
