//! Checked access to the bytes of an arena: its header, its blocks, and records by reference.

use std::cell::Cell;
use std::ops::Range;

use convoy_abi as abi;
use zerocopy::FromBytes;

use super::NoArena;

pub(super) const BLOCK_HEADER: usize = size_of::<abi::Block>();

/// An arena whose blocks have been found.
pub(super) struct View<'a> {
    bytes: &'a [u8],
    header: abi::Arena,
    /// In order of their place.
    blocks: Vec<Block>,
    damaged: Cell<u64>,
}

/// A block within the arena.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub kind: u32,
    pub item_bytes: u32,
    pub used: u32,
    pub owner: u32,
    pub first_id: u32,
    /// Its content, without its header.
    pub payload: Range<usize>,
}

/// The header, if the agent has finished it.
pub(super) fn header(bytes: &[u8]) -> Result<abi::Arena, NoArena> {
    let (header, _) = abi::Arena::read_from_prefix(bytes).map_err(|_| NoArena::NotReady)?;
    if header.magic != abi::CV_ARENA_MAGIC {
        return Err(NoArena::NotReady);
    }
    if header.version != abi::CV_ABI_VERSION {
        return Err(NoArena::OtherVersion(header.version));
    }
    Ok(header)
}

impl<'a> View<'a> {
    pub fn new(bytes: &'a [u8]) -> Result<Self, NoArena> {
        let header = header(bytes)?;
        let damaged = Cell::new(0);
        let blocks = find_blocks(bytes, header.bump, &damaged);
        Ok(Self {
            bytes,
            header,
            blocks,
            damaged,
        })
    }

    pub fn header(&self) -> &abi::Arena {
        &self.header
    }

    /// Records and blocks that made no sense so far.
    pub fn damaged(&self) -> u64 {
        self.damaged.get()
    }

    /// Count something that makes no sense.
    pub fn mark_damaged(&self) {
        self.damaged.set(self.damaged.get().saturating_add(1));
    }

    /// All blocks of a kind, in order of their place.
    pub fn blocks(&self, kind: u32) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |b| b.kind == kind)
    }

    /// The items in use of a block, each with its place in the arena.
    pub fn items<'b, T: FromBytes + 'b>(
        &'b self,
        block: &'b Block,
    ) -> impl Iterator<Item = (usize, T)> + 'b {
        let size = size_of::<T>();
        let fits = block.item_bytes as usize == size;
        if !fits {
            self.mark_damaged();
        }
        let count = if fits {
            (block.payload.len() / size).min(block.used as usize)
        } else {
            0
        };
        (0..count).filter_map(move |i| {
            let at = block.payload.start + i * size;
            Some((at, self.at(at)?))
        })
    }

    /// The record that a reference names, if it lies within a block of that kind.
    pub fn get<T: FromBytes>(&self, reference: abi::Ref, kind: u32) -> Option<T> {
        let at = self.place(reference, size_of::<T>(), kind)?;
        self.at(at)
    }

    /// A stack's frame ids, leaf first.
    pub fn stack(&self, reference: abi::Ref) -> Option<Vec<u32>> {
        let at = self.place(reference, 4, abi::CV_BLOCK_STACKS)?;
        let count = self.at::<u32>(at)? as usize;
        if count > abi::CV_STACK_MAX {
            return None;
        }
        self.place(reference, 4 + 4 * count, abi::CV_BLOCK_STACKS)?;
        (1..=count).map(|i| self.at(at + 4 * i)).collect()
    }

    /// The block that starts at a reference, or whose payload does.
    pub fn block_at(&self, reference: abi::Ref) -> Option<&Block> {
        let at = usize::try_from(abi::ref_offset(reference)).ok()?;
        let next = self
            .blocks
            .partition_point(|b| b.payload.start <= at + BLOCK_HEADER);
        let block = self.blocks.get(next.checked_sub(1)?)?;
        (at == block.payload.start || at + BLOCK_HEADER == block.payload.start).then_some(block)
    }

    fn place(&self, reference: abi::Ref, size: usize, kind: u32) -> Option<usize> {
        let at = usize::try_from(abi::ref_offset(reference)).ok()?;
        let next = self.blocks.partition_point(|b| b.payload.start <= at);
        let block = self.blocks.get(next.checked_sub(1)?)?;
        (block.kind == kind && at.checked_add(size)? <= block.payload.end).then_some(at)
    }

    /// What lies at a place that [`Self::items`] gave.
    pub fn at<T: FromBytes>(&self, at: usize) -> Option<T> {
        T::read_from_prefix(self.bytes.get(at..)?)
            .ok()
            .map(|(value, _)| value)
    }
}

/// Walks from the header to the bump. A block that was claimed but not described yet (its thread was
/// killed in between) leaves a gap of zeroes: the next thing in it that looks like a block ends it.
fn find_blocks(bytes: &[u8], bump: u64, damaged: &Cell<u64>) -> Vec<Block> {
    let end = usize::try_from(bump).unwrap_or(usize::MAX).min(bytes.len());
    let mut blocks = Vec::new();
    let mut at = abi::CV_ARENA_HEADER_BYTES;
    let mut in_gap = false;
    while let Some(header) = bytes
        .get(at..end)
        .and_then(|rest| abi::Block::read_from_prefix(rest).ok())
    {
        let header = header.0;
        let size = usize::try_from(header.bytes).unwrap_or(usize::MAX);
        let whole = size >= BLOCK_HEADER && size % 64 == 0 && size <= end - at;
        if !whole || (in_gap && !plausible(&header)) {
            if !in_gap {
                damaged.set(damaged.get().saturating_add(1));
                in_gap = true;
            }
            at += 64;
            continue;
        }
        in_gap = false;
        if header.kind != abi::CV_BLOCK_NONE {
            blocks.push(Block {
                kind: header.kind,
                item_bytes: header.item_bytes,
                used: header.used,
                owner: header.owner,
                first_id: header.first_id,
                payload: at + BLOCK_HEADER..at + size,
            });
        }
        at += size;
    }
    blocks
}

/// A header that can be told from data that happens to lie at a multiple of 64.
pub(super) fn plausible(header: &abi::Block) -> bool {
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

/// Text that ends at the first NUL.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
