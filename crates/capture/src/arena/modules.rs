//! The modules of an arena, of which the rest is not read: it may be large, and still in use.

use std::fs::File;
use std::mem::offset_of;

use convoy_abi as abi;
use convoy_profile::Module;

use super::blocks::{Next, Walk, BLOCK_HEADER};
use super::bytes::value_at;
use super::view::text;

/// Modules of a block, at most: the agent makes far smaller ones.
const MOST: u32 = 4096;

/// Of what nobody has described, looked through at most.
const GAPS_BYTES: u64 = 16 << 20;

/// Finds modules in a file that grows.
#[derive(Debug)]
pub(crate) struct Modules {
    file: File,
    /// Blocks before this place are known.
    walk: Walk,
    /// Where there are modules: the first one of each block, and how many have room in it.
    blocks: Vec<(u64, u32)>,
}

/// A module as the agent describes it; `None` = claimed, but not filled in.
pub(super) fn module(raw: &abi::Module) -> Option<Module> {
    let length = (raw.build_id_len as usize).min(raw.build_id.len());
    (raw.hi > raw.lo).then(|| Module {
        path: text(&raw.path),
        build_id: raw.build_id[..length].to_vec(),
        bias: raw.bias,
        lo: raw.lo,
        hi: raw.hi,
        symbols: String::new(),
    })
}

impl Modules {
    /// Of an open arena.
    pub fn new(file: File) -> Self {
        Self {
            file,
            walk: Walk::new(),
            blocks: Vec::new(),
        }
    }

    /// All that there are by now. `last`: blocks that are not described will never be.
    pub fn all(&mut self, last: bool) -> Vec<Module> {
        self.find_blocks(last);
        let mut found = Vec::new();
        for &(first, room) in &self.blocks {
            let used = first - BLOCK_HEADER as u64 + offset_of!(abi::Block, used) as u64;
            let used: u32 = value_at(&self.file, used).unwrap_or(0);
            for i in 0..used.min(room) {
                let at = first + u64::from(i) * size_of::<abi::Module>() as u64;
                let raw = value_at::<abi::Module>(&self.file, at);
                // One without an id is still being written.
                let raw = raw.filter(|raw| last || raw.id != abi::CV_MODULE_NONE);
                found.extend(raw.as_ref().and_then(module));
            }
        }
        found
    }

    fn find_blocks(&mut self, last: bool) {
        let Some(bump) = value_at(&self.file, offset_of!(abi::Arena, bump) as u64) else {
            return;
        };
        let mut gaps = 0;
        while let Some(next) = self.walk.next(&self.file, bump) {
            let Next::Block(first, block) = next else {
                if !last || gaps >= GAPS_BYTES {
                    return;
                }
                gaps += 64;
                self.walk.skip();
                continue;
            };
            if block.kind == abi::CV_BLOCK_MODULES {
                let content = block.bytes - BLOCK_HEADER as u64;
                let room = content / size_of::<abi::Module>() as u64;
                self.blocks.push((first, room.min(u64::from(MOST)) as u32));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::arena::synthetic::Builder;

    fn raw(id: u32, lo: u64, name: &[u8]) -> abi::Module {
        let mut raw = abi::Module {
            id,
            lo,
            hi: lo + 0x1000,
            ..abi::Module::default()
        };
        raw.path[..name.len()].copy_from_slice(name);
        raw
    }

    fn file(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    fn paths(modules: &[Module]) -> Vec<&str> {
        modules.iter().map(|m| m.path.as_str()).collect()
    }

    #[test]
    fn modules_of_all_blocks_are_found_and_unfinished_ones_only_at_the_end() {
        let mut arena = Builder::new();
        let none = abi::CV_MODULE_NONE;
        let empty = abi::Module::default();
        let first = [raw(0, 0x1000, b"/a"), empty, raw(none, 0x2000, b"/b")];
        arena.block(abi::CV_BLOCK_MODULES, u32::MAX, 0, &first);
        arena.block(abi::CV_BLOCK_FRAMES, u32::MAX, 0, &[abi::Frame::default()]);
        let second = [raw(1, 0x3000, b"/c")];
        arena.block(abi::CV_BLOCK_MODULES, u32::MAX, 0, &second);
        let mut modules = Modules::new(file(&arena.finish()));
        assert_eq!(paths(&modules.all(false)), ["/a", "/c"]);
        assert_eq!(paths(&modules.all(true)), ["/a", "/b", "/c"]);
    }

    #[test]
    fn a_gap_is_passed_when_nobody_can_fill_it_any_more() {
        let mut arena = Builder::new();
        arena.gap(256);
        arena.block(abi::CV_BLOCK_MODULES, u32::MAX, 0, &[raw(0, 0x1000, b"/a")]);
        let mut modules = Modules::new(file(&arena.finish()));
        assert!(modules.all(false).is_empty());
        assert_eq!(paths(&modules.all(true)), ["/a"]);
    }

    #[test]
    fn numbers_that_lead_out_of_the_file_lead_nowhere() {
        let mut arena = Builder::new();
        arena.block(abi::CV_BLOCK_MODULES, u32::MAX, 0, &[raw(0, 0x1000, b"/a")]);
        let mut bytes = arena.finish();
        let used = abi::CV_ARENA_HEADER_BYTES + offset_of!(abi::Block, used);
        bytes[used..used + 4].fill(0xff);
        let bump = offset_of!(abi::Arena, bump);
        bytes[bump..bump + 8].fill(0xff);
        for last in [false, true] {
            let mut modules = Modules::new(file(&bytes));
            assert_eq!(paths(&modules.all(last)), ["/a"]);
        }
        assert!(Modules::new(file(b"short")).all(true).is_empty());
    }
}
