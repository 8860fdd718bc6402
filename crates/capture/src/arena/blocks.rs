//! The walk from block to block of an arena.

use convoy_abi as abi;

use super::bytes::{value_at, Bytes};

pub(super) const BLOCK_HEADER: usize = size_of::<abi::Block>();

/// Where a walk is. It can go on later, when the arena has grown.
#[derive(Debug)]
pub(super) struct Walk {
    at: u64,
    /// Nobody has described what comes here.
    pub in_gap: bool,
}

/// What comes next.
pub(super) enum Next {
    /// A block, and where its content begins.
    Block(u64, abi::Block),
    /// Room that was claimed and not described: its thread has yet to, or was killed in between.
    Gap,
}

impl Walk {
    /// From the beginning.
    pub fn new() -> Self {
        Self {
            at: abi::CV_ARENA_HEADER_BYTES as u64,
            in_gap: false,
        }
    }

    /// The next block before `end`, of which the walk then is past; or a gap, which it only passes by [`Self::skip`].
    /// None at the end.
    pub fn next(&mut self, bytes: &dyn Bytes, end: u64) -> Option<Next> {
        let left = end.checked_sub(self.at)?;
        if left < BLOCK_HEADER as u64 {
            return None;
        }
        let block: abi::Block = value_at(bytes, self.at)?;
        let whole =
            block.bytes >= BLOCK_HEADER as u64 && block.bytes % 64 == 0 && block.bytes <= left;
        if !whole || (self.in_gap && !plausible(&block)) {
            return Some(Next::Gap);
        }
        self.in_gap = false;
        let content = self.at + BLOCK_HEADER as u64;
        self.at += block.bytes;
        Some(Next::Block(content, block))
    }

    /// Nobody will describe what comes here: the next thing that looks like a block ends it.
    pub fn skip(&mut self) {
        self.in_gap = true;
        self.at += 64;
    }
}

/// A header that can be told from data that happens to lie at a multiple of 64.
fn plausible(header: &abi::Block) -> bool {
    let item = match header.kind {
        abi::CV_BLOCK_THREAD => size_of::<abi::Thread>(),
        abi::CV_BLOCK_ENTRIES => size_of::<abi::Entry>(),
        abi::CV_BLOCK_WAITS => size_of::<abi::WaitDetail>(),
        abi::CV_BLOCK_SITES => size_of::<abi::Site>(),
        abi::CV_BLOCK_OBJECTS => size_of::<abi::Object>(),
        abi::CV_BLOCK_FRAMES => size_of::<abi::Frame>(),
        abi::CV_BLOCK_MODULES => size_of::<abi::Module>(),
        abi::CV_BLOCK_STACKS => return header.item_bytes <= 64 && header.reserved == [0; 9],
        abi::CV_BLOCK_INDEX => return header.item_bytes <= 64 && header.reserved == [0; 9],
        _ => return false,
    };
    header.item_bytes as usize == item && header.reserved == [0; 9]
}
