//! The log of blocks in the trace file. Layouts: abi/convoy_trace.h.

use core::sync::atomic::{AtomicU64, Ordering};

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
}

impl Log {
    pub fn new(file: u64) -> Self {
        Self {
            file: file as *mut Header,
            used: 0,
            last_id: 0,
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: the agent keeps the file mapped.
        unsafe { &*self.file }
    }

    /// The number that the next block gets.
    pub fn next_id(&self) -> u32 {
        self.last_id + 1
    }

    /// Writes a block down; false = the log is full.
    pub fn add(&mut self, block: &Block) -> bool {
        let bytes = 32 + 16 * block.accesses.len();
        if self.used + bytes > BLOCKS_BYTES {
            return false;
        }
        self.last_id += 1;
        let mut writer = Writer {
            at: self.file as usize + HEADER_BYTES + self.used,
        };
        writer.u32(bytes as u32);
        writer.u32(self.last_id);
        writer.u64(block.ip);
        writer.u32(block.code_bytes);
        writer.u16(block.instructions.len() as u16);
        writer.u16(block.accesses.len() as u16);
        writer.u32(block.words);
        writer.u32(0);
        for access in &block.accesses {
            writer.u16(access.at);
            writer.u16(access.instruction);
            writer.u32(u32::from_le_bytes([
                access.kind(),
                access.flags,
                access.lanes,
                0,
            ]));
            writer.u32(access.size);
            writer.u32(0);
        }
        self.used += bytes;
        let header = self.header();
        header
            .blocks_used
            .store(self.used as u64, Ordering::Release);
        header
            .translated_instructions
            .fetch_add(block.instructions.len() as u64, Ordering::Relaxed);
        true
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

/// Numbers one after another.
struct Writer {
    at: usize,
}

impl Writer {
    fn put<T>(&mut self, value: T) {
        // SAFETY: `Log::add` has made sure that the record fits into the log; its fields are aligned.
        unsafe { (self.at as *mut T).write(value) };
        self.at += size_of::<T>();
    }

    fn u16(&mut self, value: u16) {
        self.put(value);
    }

    fn u32(&mut self, value: u32) {
        self.put(value);
    }

    fn u64(&mut self, value: u64) {
        self.put(value);
    }
}
