//! The code of a site's sections, instruction by instruction.
//!
//! The log of blocks says where the instructions with memory operands are, and how many others there are. Those stand
//! with the one before them, or, where it is far, at an address in between: near enough for the line that they
//! belong to.

use std::collections::BTreeMap;

use crate::events::Blocks;
use crate::input::Block;
use crate::site::{Site, ACCESS_WORDS};

/// At most so many instructions stand with one address.
const STEP: u32 = 4;

/// An instruction, or a few.
#[derive(Debug, Default)]
pub(crate) struct CodeRow {
    pub(crate) ip: u64,
    pub(crate) from: Option<u64>,
    pub(crate) executions: u64,
    pub(crate) instructions: u64,
    pub(crate) allocator: u64,
    /// Accesses outside of the allocator.
    pub(crate) n: u64,
    pub(crate) size: u32,
    pub(crate) field: Option<i32>,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) atomic: bool,
    pub(crate) words: Vec<u64>,
    /// Numbers of the site's accesses that are in it.
    pub(crate) accesses: Vec<u32>,
}

/// An address inside the block's last instruction: its line is that of the instruction.
pub(crate) fn last_instruction(block: &Block) -> u64 {
    block.ip + u64::from(block.code_bytes.max(1)) - 1
}

/// The rows, by the calling instruction and address. Blocks that overlap share rows.
pub(crate) fn rows(site: &Site, blocks: &Blocks) -> Vec<CodeRow> {
    let mut rows: BTreeMap<(Option<u64>, u64), CodeRow> = BTreeMap::new();
    let mut runs: Vec<_> = site.runs.iter().collect();
    runs.sort_by_key(|(key, _)| (key.from, key.block));
    for (key, run) in runs {
        let Some(block) = blocks.get(key.block) else {
            continue;
        };
        let from = blocks.get(key.from).map(last_instruction);
        for piece in pieces(block) {
            let row = rows.entry((from, piece.ip)).or_default();
            row.ip = piece.ip;
            row.from = from;
            row.executions += run.executions;
            row.allocator += run.allocator;
            row.instructions += run.executions * u64::from(piece.instructions);
        }
        for (access, number) in block.accesses.iter().zip(run.first..) {
            let ip = block.ip + u64::from(access.at);
            let Some(row) = rows.get_mut(&(from, ip)) else {
                continue;
            };
            row.accesses.push(number);
            if access.implicit {
                continue;
            }
            row.size = row.size.max(access.size);
            row.field = row.field.or(access.field);
            row.reads |= access.reads;
            row.writes |= access.writes;
            row.atomic |= access.atomic;
            if let Some(run) = site.accesses.get(number as usize) {
                row.n += run.n;
                row.words.extend(&run.words);
            }
        }
    }
    let mut rows = without_silent(rows);
    for row in &mut rows {
        // Of several samples together, evenly spread ones.
        if row.words.len() > 2 * ACCESS_WORDS {
            let step = row.words.len().div_ceil(2 * ACCESS_WORDS);
            row.words = row.words.iter().copied().step_by(step).collect();
        }
    }
    rows
}

/// Rows of called code that touches nothing (most of an allocator's) say how many instructions the call costs: one row for
/// each call is enough, and of many short processes all the others would not find room.
fn without_silent(rows: BTreeMap<(Option<u64>, u64), CodeRow>) -> Vec<CodeRow> {
    let mut kept: Vec<CodeRow> = Vec::with_capacity(rows.len());
    let mut silent: Option<usize> = None;
    for row in rows.into_values() {
        let of_call = |at: &usize| kept.get(*at).is_some_and(|kept| kept.from == row.from);
        silent = silent.filter(of_call);
        let is_silent = row.n == 0 && row.from.is_some();
        match silent.and_then(|at| kept.get_mut(at)).filter(|_| is_silent) {
            Some(sum) => {
                sum.executions = sum.executions.max(row.executions);
                sum.allocator = sum.allocator.max(row.allocator);
                sum.instructions += row.instructions;
            }
            None => {
                if is_silent {
                    silent = Some(kept.len());
                }
                kept.push(row);
            }
        }
    }
    kept
}

#[derive(Debug, PartialEq, Eq)]
struct Piece {
    ip: u64,
    instructions: u32,
}

/// Cuts a block at its instructions with memory operands, and at least every few instructions.
fn pieces(block: &Block) -> Vec<Piece> {
    let all = u32::from(block.instructions);
    let mut known: Vec<(u32, u32)> = vec![(0, 0)];
    for access in &block.accesses {
        let next = (u32::from(access.instruction), u32::from(access.at));
        if known
            .last()
            .is_some_and(|last| next.0 > last.0 && next.1 > last.1)
            && next.0 < all
        {
            known.push(next);
        }
    }
    let ends = known.iter().copied().skip(1);
    let ends: Vec<_> = ends.chain([(all, block.code_bytes)]).collect();
    let mut pieces = Vec::new();
    for (begin, end) in known.into_iter().zip(ends) {
        let instructions = end.0.saturating_sub(begin.0);
        let bytes = end.1.saturating_sub(begin.1);
        let mut at = 0;
        while at < instructions || (at == 0 && pieces.is_empty()) {
            let n = STEP.min(instructions - at);
            let ahead = bytes.checked_mul(at).map_or(0, |b| b / instructions.max(1));
            pieces.push(Piece {
                ip: block.ip + u64::from(begin.1 + ahead),
                instructions: n,
            });
            at += n.max(1);
        }
    }
    pieces
}
