//! The blocks of events that are kept of a process image, bounded: when there are too many bytes, the oldest
//! go, but for the first part of the run.

use std::collections::VecDeque;

use convoy_profile::{ThreadIx, TraceBlock};

/// Blocks in the order in which they were read.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Stay: what the program did first.
    first: Vec<Block>,
    first_bytes: u64,
    /// Whether `first` takes no more.
    first_full: bool,
    rest: VecDeque<Block>,
    rest_bytes: u64,
}

/// Events of a thread, that the agent calls by its number.
#[derive(Debug)]
pub(super) struct Block {
    pub thread: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    pub events: u32,
    pub bytes: Vec<u8>,
}

/// A part of the run that was given up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hole {
    pub from_ns: u64,
    pub to_ns: u64,
    pub events: u64,
}

/// What a block takes in memory besides its bytes.
const BLOCK_BYTES: u64 = size_of::<Block>() as u64;

impl Block {
    fn size(&self) -> u64 {
        BLOCK_BYTES + self.bytes.len() as u64
    }

    /// As a block of the profile.
    pub fn into_block(self, thread: ThreadIx) -> TraceBlock {
        TraceBlock {
            thread,
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            events: self.events,
            bytes: self.bytes,
        }
    }
}

impl Kept {
    /// Adds a block. `first_bytes`: so many bytes of the begin of the run stay in any case.
    pub fn push(&mut self, block: Block, first_bytes: u64) {
        self.first_full |= self.first_bytes + block.size() > first_bytes;
        if self.first_full {
            self.rest_bytes += block.size();
            self.rest.push_back(block);
        } else {
            self.first_bytes += block.size();
            self.first.push(block);
        }
    }

    /// Bytes of all blocks.
    pub fn bytes(&self) -> u64 {
        self.first_bytes + self.rest_bytes
    }

    /// Gives up the oldest blocks that may go, until so many bytes are free or there is none.
    pub fn give_up(&mut self, bytes: u64) -> Option<Hole> {
        let from_ns = self.first.iter().map(|b| b.end_ns).max().unwrap_or(0);
        let mut hole = Hole {
            from_ns,
            to_ns: from_ns,
            events: 0,
        };
        let mut freed = 0;
        while freed < bytes {
            let Some(block) = self.rest.pop_front() else {
                break;
            };
            freed += block.size();
            self.rest_bytes -= block.size();
            hole.to_ns = hole.to_ns.max(block.end_ns);
            hole.events += u64::from(block.events);
        }
        (freed > 0).then_some(hole)
    }

    /// Gives up what ended before a time.
    pub fn give_up_before(&mut self, ns: u64) {
        let old = |block: &Block| block.end_ns < ns;
        self.first.retain(|block| !old(block));
        self.first_bytes = self.first.iter().map(Block::size).sum();
        // Nearly in order: what is left for a block that lasted longer goes next time.
        while self.rest.front().is_some_and(old) {
            self.rest_bytes -= self.rest.pop_front().map_or(0, |block| block.size());
        }
    }

    /// All blocks.
    pub fn into_blocks(self) -> impl Iterator<Item = Block> {
        self.first.into_iter().chain(self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(at: u64) -> Block {
        Block {
            thread: 0,
            start_ns: at,
            end_ns: at + 9,
            events: 5,
            bytes: vec![0; 100],
        }
    }

    fn starts(kept: Kept) -> Vec<u64> {
        kept.into_blocks().map(|b| b.start_ns).collect()
    }

    #[test]
    fn oldest_go_but_for_the_first() {
        let mut kept = Kept::default();
        let size = block(0).size();
        for at in 0..10 {
            kept.push(block(at * 10), 2 * size);
        }
        assert_eq!(kept.bytes(), 10 * size);
        let hole = kept.give_up(3 * size).unwrap();
        let expected = Hole {
            from_ns: 19,
            to_ns: 49,
            events: 15,
        };
        assert_eq!(hole, expected);
        assert_eq!(kept.bytes(), 7 * size);
        assert_eq!(starts(kept), [0, 10, 50, 60, 70, 80, 90]);
    }

    #[test]
    fn the_first_stay_when_nothing_else_is_left() {
        let mut kept = Kept::default();
        kept.push(block(0), u64::MAX);
        assert_eq!(kept.give_up(1), None);
        assert_eq!(starts(kept), [0]);
    }

    #[test]
    fn old_ones_go_by_their_end() {
        let mut kept = Kept::default();
        for at in [0, 10, 20] {
            kept.push(block(at), 0);
        }
        kept.give_up_before(25);
        assert_eq!(kept.bytes(), block(0).size());
        assert_eq!(starts(kept), [20]);
    }
}
