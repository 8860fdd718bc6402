//! The events of a section's record.

use crate::input::{Access, AccessKind, Block};

/// The kinds of events: `enum cv_trace_event` of the agent.
pub(crate) mod kind {
    pub(crate) const BLOCK: u64 = 1;
    pub(crate) const SYSCALL: u64 = 2;
    pub(crate) const HOOK: u64 = 3;
    pub(crate) const HOOK_WAIT: u64 = 4;
    pub(crate) const PART: u64 = 5;
    pub(crate) const UNLOCK: u64 = 6;
    pub(crate) const REGISTERS: u64 = 7;
}
const ARGUMENT: u64 = (1 << 56) - 1;

/// Something that happened in a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// A block ran, all of it or so many instructions; what its operands left.
    Block {
        id: u32,
        executed: u16,
        words: &'a [u64],
    },
    Syscall(u32),
    Hook {
        op: u32,
        object: u64,
    },
    HookWait(u64),
    Unlock,
    /// With which the program goes on: [`REGISTERS_WORDS`] of them.
    Registers(&'a [u64]),
}

/// CV_REGISTERS_WORDS of the agent.
pub(crate) const REGISTERS_WORDS: usize = 9;

/// Blocks by their id.
#[derive(Debug, Default)]
pub(crate) struct Blocks(Vec<Option<(Block, usize)>>);

/// More than the log of a process has room for.
const BLOCKS: u32 = 1 << 20;

impl Blocks {
    pub(crate) fn insert(&mut self, id: u32, block: Block) {
        if id >= BLOCKS {
            return;
        }
        let at = id as usize;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        let words = block.accesses.iter().map(words_of).sum();
        self.0[at] = Some((block, words));
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Block> {
        self.with_words(id).map(|(block, _)| block)
    }

    fn with_words(&self, id: u32) -> Option<&(Block, usize)> {
        self.0.get(id as usize)?.as_ref()
    }
}

/// Words that an access leaves in the record.
pub(crate) fn words_of(access: &Access) -> usize {
    match access.kind {
        AccessKind::Plain | AccessKind::Result | AccessKind::Value => 1,
        AccessKind::Repeat | AccessKind::Masked => 2,
        AccessKind::Lanes => 1 + usize::from(access.lanes),
    }
}

/// Reads events one after another.
#[derive(Debug)]
pub(crate) struct Events<'a, 'b> {
    words: &'a [u64],
    blocks: &'b Blocks,
}

impl<'a, 'b> Events<'a, 'b> {
    pub(crate) fn new(words: &'a [u64], blocks: &'b Blocks) -> Self {
        Self { words, blocks }
    }

    /// The next one; `Ok(None)` at the end, `Err` where there is no event.
    pub(crate) fn next(&mut self) -> Result<Option<Event<'a>>, ()> {
        let Some((&head, mut rest)) = self.words.split_first() else {
            return Ok(None);
        };
        let argument = head & ARGUMENT;
        let event = match head >> 56 {
            kind::BLOCK => {
                let id = u32::try_from(argument).map_err(|_| ())?;
                let (block, words) = self.blocks.with_words(id).ok_or(())?;
                let (words, behind) = rest.split_at_checked(*words).ok_or(())?;
                rest = behind;
                let mut executed = block.instructions;
                if let Some(&part) = rest.first().filter(|&&w| w >> 56 == kind::PART) {
                    let missing = u16::try_from(part & ARGUMENT).unwrap_or(u16::MAX);
                    executed = executed.saturating_sub(missing);
                    rest = &rest[1..];
                }
                Event::Block {
                    id,
                    executed,
                    words,
                }
            }
            kind::SYSCALL => Event::Syscall(u32::try_from(argument).unwrap_or(u32::MAX)),
            kind::HOOK => {
                let (&object, behind) = rest.split_first().ok_or(())?;
                rest = behind;
                let op = u32::try_from(argument).unwrap_or(u32::MAX);
                Event::Hook { op, object }
            }
            kind::HOOK_WAIT => Event::HookWait(argument),
            kind::UNLOCK => {
                rest = rest.split_first().ok_or(())?.1;
                Event::Unlock
            }
            kind::REGISTERS => {
                let (registers, behind) = rest.split_at_checked(REGISTERS_WORDS).ok_or(())?;
                rest = behind;
                Event::Registers(registers)
            }
            _ => return Err(()),
        };
        self.words = rest;
        Ok(Some(event))
    }
}
