//! Checked access to the bytes of an arena: its header, its blocks, and records by reference.

use std::cell::Cell;
use std::ops::Range;

use convoy_abi as abi;
use zerocopy::{FromBytes, IntoBytes};

use super::blocks::{Next, Walk, BLOCK_HEADER};
use super::bytes::{value_at, Bytes};
use super::NoArena;

/// An arena whose blocks have been found.
pub(super) struct View<'a> {
    bytes: &'a dyn Bytes,
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
pub(super) fn header(bytes: &dyn Bytes) -> Result<abi::Arena, NoArena> {
    let header: abi::Arena = value_at(bytes, 0).ok_or(NoArena::NotReady)?;
    if header.magic != abi::CV_ARENA_MAGIC {
        return Err(NoArena::NotReady);
    }
    if header.version != abi::CV_ABI_VERSION {
        return Err(NoArena::OtherVersion(header.version));
    }
    Ok(header)
}

impl<'a> View<'a> {
    pub fn new(bytes: &'a dyn Bytes) -> Result<Self, NoArena> {
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
    pub fn items<'b, T: FromBytes + IntoBytes + 'b>(
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
    pub fn get<T: FromBytes + IntoBytes>(&self, reference: abi::Ref, kind: u32) -> Option<T> {
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
    pub fn at<T: FromBytes + IntoBytes>(&self, at: usize) -> Option<T> {
        value_at(self.bytes, at as u64)
    }
}

/// All blocks up to the bump. A gap is damage, once.
fn find_blocks(bytes: &dyn Bytes, bump: u64, damaged: &Cell<u64>) -> Vec<Block> {
    let end = bump.min(bytes.end());
    let mut blocks = Vec::new();
    let mut walk = Walk::new();
    while let Some(next) = walk.next(bytes, end) {
        let Next::Block(content, block) = next else {
            if !walk.in_gap {
                damaged.set(damaged.get().saturating_add(1));
            }
            walk.skip();
            continue;
        };
        let start = content as usize;
        if block.kind != abi::CV_BLOCK_NONE {
            blocks.push(Block {
                kind: block.kind,
                item_bytes: block.item_bytes,
                used: block.used,
                owner: block.owner,
                first_id: block.first_id,
                payload: start..start + block.bytes as usize - BLOCK_HEADER,
            });
        }
    }
    blocks
}

/// Text that ends at the first NUL.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
