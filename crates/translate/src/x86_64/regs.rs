//! General registers by number, and the slots of a thread's state that translated code uses.

use iced_x86::Register;

/// A 64-bit general register by its number in an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reg(pub u8);

impl Reg {
    pub const RAX: Self = Self(0);
    pub const RCX: Self = Self(1);
    pub const RDX: Self = Self(2);
    pub const RSP: Self = Self(4);
    pub const RSI: Self = Self(6);

    /// The full register of a general register of any width.
    pub fn of(register: Register) -> Option<Self> {
        let full = register.full_register();
        full.is_gpr64().then(|| Self(full.number() as u8))
    }

    /// The low three bits, which go into the ModRM or SIB byte.
    pub fn low(self) -> u8 {
        self.0 & 7
    }

    /// The fourth bit, which goes into the REX prefix.
    pub fn high(self) -> u8 {
        self.0 >> 3
    }

    /// As the decoder's library names it.
    pub fn name(self) -> Register {
        Register::RAX + u32::from(self.0)
    }

    /// Its bit in a set of registers.
    pub fn bit(self) -> u16 {
        1 << self.0
    }
}

/// The two registers that a block lends from the program: it does not use them itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// Points into the record.
    pub record: Reg,
    /// Holds addresses on their way there.
    pub address: Reg,
}

/// Words of the program that lie in `cv_tr`, by their offset in it (bytes). `struct cv_tr` in cv_translate.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Slot {
    /// The program's value of [`Pair::record`].
    Record = 0,
    /// The program's value of [`Pair::address`].
    Address = 8,
    /// Further registers that a sequence lends for a moment.
    Extra0 = 16,
    Extra1 = 24,
    Extra2 = 32,
    /// Values on their way, no registers of the program.
    Value0 = 48,
    Value1 = 56,
    At = 64,
    Limit = 72,
    Target = 80,
    HookReturn = 88,
    HookPlace = 96,
    Mode = 104,
    Generation = 108,
    /// 64 bytes: a vector register.
    Vector = 112,
    /// Targets of indirect branches that this thread knows.
    Table = 176,
    /// Where the cache goes on.
    Jump = 184,
    /// Number of the exit that was taken; 0 = an indirect one, its target is in `Target`.
    Exit = 192,
    /// 0 - limit.
    MinusLimit = 200,
    /// The stack pointer at an exit.
    Stack = 208,
    /// The thread pointer, which is the base of FS.
    Fs = 216,
    /// The base of GS.
    Gs = 224,
    /// Not 0 while the translator works for this thread.
    Busy = 232,
    /// The top of the translator's own stack.
    Own = 240,
    /// The signal mask of the program while all signals are blocked.
    Mask = 248,
    /// The context of a signal, while what it has interrupted is not the program's yet; 0 = none.
    Interrupted = 296,
}
