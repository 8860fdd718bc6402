//! The log of blocks in the trace file. Layouts: abi/convoy_trace.h.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use super::super::access::FIELD;
use super::super::decode::Block;

const HEADER_BYTES: usize = 4096;
const BLOCKS_BYTES: usize = 16 << 20;
const DROP_NO_BLOCKS: usize = 1;
const DROP_NO_MEMORY: usize = 2;

/// What the translator writes in `struct cv_trace`.
#[repr(C)]
struct Header {
    magic: u64,
    version: u32,
    pid: u32,
    bytes: u64,
    arena_start_ns: u64,
    blocks_used: AtomicU64,
    sections: AtomicU64,
    translated_instructions: AtomicU64,
    cache_bytes: AtomicU64,
    flushes: AtomicU64,
    drops: [AtomicU64; 16],
}

/// The trace file.
#[derive(Debug)]
pub struct Log {
    file: *mut Header,
    used: usize,
    last_id: u32,
    /// Where the latest block of an address is in the log. Code that is given up mostly comes back as it was.
    known: BTreeMap<u64, usize>,
}

impl Log {
    pub fn new(file: u64) -> Self {
        Self {
            file: file as *mut Header,
            used: 0,
            last_id: 0,
            known: BTreeMap::new(),
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: the agent keeps the file mapped.
        unsafe { &*self.file }
    }

    fn at(&self, offset: usize) -> *mut u8 {
        (self.file as usize + HEADER_BYTES + offset) as *mut u8
    }

    /// Writes a block down and gives its number; `None` = the log is full.
    pub fn add(&mut self, block: &Block) -> Option<u32> {
        let header = self.header();
        header
            .translated_instructions
            .fetch_add(block.instructions.len() as u64, Ordering::Relaxed);
        let mut record = record(block);
        if let Some(&offset) = self.known.get(&block.ip) {
            let bytes = record.len().min(self.used - offset);
            // SAFETY: so much of the log has been written.
            let old = unsafe { core::slice::from_raw_parts(self.at(offset), bytes) };
            if let Some(id) = old
                .get(ID)
                .and_then(|id| id.try_into().ok())
                .map(u32::from_le_bytes)
            {
                record[ID].copy_from_slice(&id.to_le_bytes());
                if record == old {
                    return Some(id);
                }
            }
        }
        if self.used + record.len() > BLOCKS_BYTES {
            return None;
        }
        self.last_id += 1;
        record[ID].copy_from_slice(&self.last_id.to_le_bytes());
        // SAFETY: there is room for it in the log.
        unsafe {
            core::ptr::copy_nonoverlapping(record.as_ptr(), self.at(self.used), record.len())
        };
        self.known.insert(block.ip, self.used);
        self.used += record.len();
        self.header()
            .blocks_used
            .store(self.used as u64, Ordering::Release);
        Some(self.last_id)
    }

    pub fn set_cache_bytes(&self, bytes: u64) {
        self.header().cache_bytes.store(bytes, Ordering::Relaxed);
    }

    pub fn flushed(&self) {
        self.header().flushes.fetch_add(1, Ordering::Relaxed);
    }

    /// A section is cut because the log is full, or because there is no memory for code.
    pub fn dropped(&self, full: bool) {
        let reason = if full { DROP_NO_BLOCKS } else { DROP_NO_MEMORY };
        self.header().drops[reason].fetch_add(1, Ordering::Relaxed);
    }
}

/// Where a record has its number.
const ID: Range<usize> = 4..8;

/// `struct cv_trace_block` with its accesses, the number left out.
fn record(block: &Block) -> Vec<u8> {
    let bytes = 32 + 16 * block.accesses.len();
    let mut record = Vec::with_capacity(bytes);
    let mut u32 = |value: u32| record.extend_from_slice(&value.to_le_bytes());
    let pair = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
    u32(bytes as u32);
    u32(0);
    u32(block.ip as u32);
    u32((block.ip >> 32) as u32);
    u32(block.code_bytes);
    u32(pair(
        block.instructions.len() as u16,
        block.accesses.len() as u16,
    ));
    u32(block.words);
    u32(0);
    for access in &block.accesses {
        let field = access.field();
        let flag = if field.is_some() { FIELD } else { 0 };
        u32(pair(access.at, access.instruction));
        u32(u32::from_le_bytes([
            access.kind(),
            access.flags | flag,
            access.lanes,
            0,
        ]));
        u32(access.size);
        u32(field.unwrap_or(0) as u32);
    }
    record
}
