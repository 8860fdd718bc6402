//! What the program's state is at each place of translated code, for signals that arrive there.

use alloc::vec::Vec;

use super::regs::{Pair, Reg, Slot};

/// Where the address of the program's next instruction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ip {
    /// Bytes behind the block's first instruction: [`Mark::at`].
    Here,
    /// It is this one.
    Address(u64),
    /// In [`Slot::Target`].
    Target,
    /// Where the exit in [`Slot::Exit`] leads to.
    Exit,
}

/// How much of the record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// `at` in memory, and nothing of this block.
    Before,
    /// The record register points to the block's first word.
    Begun,
    /// The record register points behind the block's words.
    Whole,
    /// The same, and it has been stored in `at`.
    Stored,
    /// As the exit in [`Slot::Exit`] says; the record register has not been stored.
    Exit,
    /// The same, stored.
    ExitStored,
}

/// What several marks have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    pub ip: Ip,
    pub record: Record,
    /// The register that points into the record, where there is one.
    pub pointer: Reg,
    /// Four bits for each general register: 0 = it is in place, 15 = it is in `spare`, else the number of its slot and one.
    pub saved: u64,
    /// A lent register that holds another one of the program's.
    pub spare: Reg,
}

/// Where a register's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In `cv_tr`, at this offset (bytes).
    Slot(u32),
    Register(Reg),
}

impl State {
    pub const NATIVE: Self = Self {
        ip: Ip::Here,
        record: Record::Before,
        pointer: Reg(0),
        saved: 0,
        spare: Reg(0),
    };

    /// With the two registers of a block lent.
    pub fn lent(pair: Pair, record: Record) -> Self {
        let mut state = Self {
            ip: Ip::Here,
            record,
            pointer: pair.record,
            saved: 0,
            spare: Reg(0),
        };
        state.save(pair.record, Slot::Record);
        state.save(pair.address, Slot::Address);
        state
    }

    pub fn save(&mut self, register: Reg, slot: Slot) {
        self.saved |= (slot as u64 / 8 + 1) << (u32::from(register.0) * 4);
    }

    pub fn with_saved(mut self, register: Reg, slot: Slot) -> Self {
        self.save(register, slot);
        self
    }

    /// With a register in a lent one.
    pub fn with_spared(mut self, register: Reg, spare: Reg) -> Self {
        self.saved |= 0xf << (u32::from(register.0) * 4);
        self.spare = spare;
        self
    }

    pub fn with_ip(mut self, ip: Ip) -> Self {
        self.ip = ip;
        self
    }

    pub fn with_record(mut self, record: Record) -> Self {
        self.record = record;
        self
    }

    /// Where a register's value is, if not in place.
    pub fn place_of(&self, register: Reg) -> Option<Place> {
        match self.saved >> (u32::from(register.0) * 4) & 0xf {
            0 => None,
            0xf => Some(Place::Register(self.spare)),
            slot => Some(Place::Slot((slot as u32 - 1) * 8)),
        }
    }
}

/// From an offset in translated code on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Bytes behind the code's first.
    pub offset: u16,
    /// Instructions of the block that have been executed.
    pub executed: u16,
    /// Offset of the next one in the program.
    pub at: u16,
    /// Index of the state.
    pub state: u16,
}

/// The marks of a piece of code, as it is made.
#[derive(Debug, Default)]
pub struct Marks {
    pub marks: Vec<Mark>,
    pub states: Vec<State>,
}

impl Marks {
    pub fn set(&mut self, offset: usize, executed: u16, at: u16, state: State) {
        let index = self
            .states
            .iter()
            .position(|s| *s == state)
            .unwrap_or_else(|| {
                self.states.push(state);
                self.states.len() - 1
            });
        let mark = Mark {
            offset: offset as u16,
            executed,
            at,
            state: index as u16,
        };
        if let Some(last) = self.marks.last_mut() {
            if last.offset == mark.offset {
                *last = mark;
                return;
            }
        }
        self.marks.push(mark);
    }
}

/// The mark that an offset is under.
pub fn find(marks: &[Mark], offset: usize) -> Option<&Mark> {
    let behind = marks.partition_point(|mark| usize::from(mark.offset) <= offset);
    marks.get(behind.checked_sub(1)?)
}
