//! What a section began with, from the values of its record: enough to execute it again.

use std::collections::{BTreeMap, BTreeSet};

use convoy_profile::{FoundWord, SectionEnd, SectionInput};

use crate::events::{words_of, Blocks, Event, Events, REGISTERS_WORDS};
use crate::input::{Access, AccessKind, Block, Section};

/// Words that a section may find; one that needs more is not executed again.
const FOUND_WORDS: usize = 4096;

/// The begin of a section, and what its re-execution must give back.
/// [`convoy_profile::SectionInput`] has the meaning of each field.
#[derive(Debug)]
pub(crate) struct RawInput {
    pub(crate) registers: [u64; REGISTERS_WORDS],
    pub(crate) instructions: u64,
    pub(crate) path: u64,
    pub(crate) loads: u64,
    pub(crate) found: Box<[FoundWord]>,
}

impl RawInput {
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.found)
    }
}

/// `None` = it cannot be executed again: its values were not recorded, it called the agent or the
/// system, or an operand has no single value.
pub(crate) fn input(section: &Section<'_>, blocks: &Blocks) -> Option<RawInput> {
    if section.end != SectionEnd::Released {
        return None;
    }
    let mut events = Events::new(section.events, blocks);
    let Some(Event::Registers(registers)) = events.next().ok()? else {
        return None;
    };
    let mut reader = Reader::default();
    let mut ids = BTreeSet::new();
    while let Some(event) = events.next().ok()? {
        let Event::Block {
            id,
            executed,
            words,
        } = event
        else {
            return None;
        };
        let block = blocks.get(id)?;
        if executed != block.instructions {
            return None;
        }
        reader.block(block, words)?;
        ids.insert(id);
    }
    let path = ids
        .iter()
        .fold(0, |hash, id| SectionInput::digest(hash, 0, u64::from(*id)));
    let found = reader.found.into_iter();
    let found = found.filter(|(_, word)| word.known != 0);
    let found = found.map(|(address, word)| FoundWord {
        address,
        value: word.value,
        known: word.known,
    });
    Some(RawInput {
        registers: registers.try_into().ok()?,
        instructions: reader.instructions,
        path,
        loads: reader.loads,
        found: found.collect(),
    })
}

/// Eight aligned bytes: those that were loaded before the section stored to them.
#[derive(Debug, Default)]
struct Word {
    value: u64,
    known: u8,
    stored: u8,
}

#[derive(Debug, Default)]
struct Reader {
    found: BTreeMap<u64, Word>,
    instructions: u64,
    loads: u64,
}

impl Reader {
    fn block(&mut self, block: &Block, words: &[u64]) -> Option<()> {
        self.instructions += u64::from(block.instructions);
        let mut accesses = block.accesses.iter().peekable();
        let mut at = 0;
        while let Some(access) = accesses.next() {
            let own = words.get(at..at + words_of(access))?;
            at += own.len();
            let &[address] = own else {
                return None;
            };
            match access.kind {
                AccessKind::Plain => {}
                AccessKind::Result => continue,
                _ => return None,
            }
            let mut part = address;
            while let Some(value) = accesses.next_if(|next| next.kind == AccessKind::Value) {
                self.loaded(part, value.size, *words.get(at)?);
                at += 1;
                part = part.wrapping_add(u64::from(value.size));
            }
            if access.writes {
                self.stored(address, access);
            }
            if self.found.len() > FOUND_WORDS {
                return None;
            }
        }
        Some(())
    }

    fn loaded(&mut self, address: u64, size: u32, value: u64) {
        self.loads = SectionInput::digest(self.loads, address, value);
        for at in 0..u64::from(size.min(8)) {
            let byte = address.wrapping_add(at);
            let (word, lane) = (self.found.entry(byte & !7).or_default(), byte & 7);
            if (word.known | word.stored) >> lane & 1 == 0 {
                word.known |= 1 << lane;
                word.value |= (value >> (at * 8) & 0xff) << (lane * 8);
            }
        }
    }

    fn stored(&mut self, address: u64, access: &Access) {
        for at in 0..u64::from(access.size.min(64)) {
            let byte = address.wrapping_add(at);
            self.found.entry(byte & !7).or_default().stored |= 1 << (byte & 7);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTERS: [u64; 10] = [7 << 56, 0, 1, 2, 3, 4, 5, 6, 7, 8];

    fn access(instruction: u16, kind: AccessKind, rw: &str, size: u32) -> Access {
        Access {
            at: instruction * 4,
            instruction,
            kind,
            reads: rw.contains('r'),
            writes: rw.contains('w'),
            atomic: false,
            implicit: false,
            lanes: 0,
            size,
            field: None,
        }
    }

    /// Block 1: loads 4 bytes, stores 8, loads 8. Block 2: copies a string.
    fn blocks() -> Blocks {
        let (plain, value) = (AccessKind::Plain, AccessKind::Value);
        let mut blocks = Blocks::default();
        let block = |accesses| Block {
            ip: 0x1000,
            code_bytes: 16,
            instructions: 4,
            accesses,
        };
        let loads_and_stores = vec![
            access(0, plain, "r", 4),
            access(0, value, "r", 4),
            access(1, plain, "w", 8),
            access(2, plain, "r", 8),
            access(2, value, "r", 8),
        ];
        blocks.insert(1, block(loads_and_stores));
        blocks.insert(2, block(vec![access(0, AccessKind::Repeat, "r", 1)]));
        blocks
    }

    fn of(events: &[&[u64]], end: SectionEnd) -> Option<RawInput> {
        let events = events.concat();
        let section = Section {
            process: 0,
            thread: 1,
            object: 0x5000,
            ra: 0x1000,
            stack_lo: 0,
            stack: 0,
            op: None,
            begin_ns: 0,
            end_ns: 1,
            end,
            weight: 1,
            waited: false,
            events: &events,
        };
        input(&section, &blocks())
    }

    const RAN: [u64; 6] = [1 << 56 | 1, 0x8004, 77, 0x8008, 0x8004, 88 << 32 | 77];

    #[test]
    fn memory_is_found_where_it_is_loaded_before_it_is_stored_to() {
        let found = of(&[&REGISTERS, &RAN], SectionEnd::Released).expect("an input");
        assert_eq!(
            (found.registers[0], found.registers[8], found.instructions),
            (0, 8, 4)
        );
        // The load of 8 bytes at 0x8004 meets 4 that are known and 4 that the section has stored.
        let word = FoundWord {
            address: 0x8000,
            value: 77 << 32,
            known: 0xf0,
        };
        assert_eq!(*found.found, [word]);
        let loads = SectionInput::digest(0, 0x8004, 77);
        assert_eq!(
            found.loads,
            SectionInput::digest(loads, 0x8004, 88 << 32 | 77)
        );
    }

    #[test]
    fn paths_differ_by_their_blocks_and_not_by_how_often_each_ran() {
        let path = |events: &[&[u64]]| of(events, SectionEnd::Released).map(|found| found.path);
        assert_eq!(path(&[&REGISTERS, &RAN]), path(&[&REGISTERS, &RAN, &RAN]));
        assert_ne!(path(&[&REGISTERS, &RAN]), path(&[&REGISTERS]));
    }

    #[test]
    fn sections_that_depend_on_more_than_was_recorded_have_no_input() {
        let whole = SectionEnd::Released;
        assert!(of(&[&RAN], whole).is_none(), "no registers");
        assert!(of(&[&REGISTERS, &RAN], SectionEnd::TooLong).is_none());
        let syscall: &[u64] = &[2 << 56 | 1];
        assert!(of(&[&REGISTERS, &RAN, syscall], whole).is_none());
        let hook: &[u64] = &[3 << 56 | 1, 0x6000];
        assert!(of(&[&REGISTERS, &RAN, hook, &REGISTERS], whole).is_none());
        let part: &[u64] = &[5 << 56 | 1];
        assert!(of(&[&REGISTERS, &RAN, part], whole).is_none());
        let copy: &[u64] = &[1 << 56 | 2, 0x8000, 3];
        assert!(
            of(&[&REGISTERS, copy], whole).is_none(),
            "values of no single word"
        );
        assert!(of(&[&REGISTERS, &RAN[..3]], whole).is_none(), "cut");
    }
}
