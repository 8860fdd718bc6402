//! Structures of `abi/convoy_trace.h`.

#![allow(missing_docs)] // the header documents every field
#![allow(missing_debug_implementations)] // of the helper types that zerocopy derives

use crate::{CV_TRACE_CHUNKS, CV_TRACE_DROP_MAX};

mirror! {
    /// Which sections are traced; [`Target`]s follow.
    Targets = "struct cv_targets", 64 bytes {
        magic: u64,
        version: u32,
        flags: u32,
        count: u32,
        first: u32,
        budget_ppm: u32,
        max_words: u32,
        reserved: [u64; 4],
    }

    /// An acquire site.
    Target = "struct cv_target", 40 bytes {
        offset: u64,
        build_id_bytes: u32,
        build_id: [u8; 20],
        path_hash: u64,
    }

    /// A chunk of a trace file.
    TraceChunk = "struct cv_trace_chunk", 8 bytes {
        state: u32,
        words: u32,
    }

    /// The head of a trace file.
    Trace = "struct cv_trace", 4096 bytes {
        magic: u64,
        version: u32,
        pid: u32,
        bytes: u64,
        arena_start_ns: u64,
        blocks_used: u64,
        sections: u64,
        translated_instructions: u64,
        cache_bytes: u64,
        flushes: u64,
        drops: [u64; CV_TRACE_DROP_MAX],
        chunks: [TraceChunk; CV_TRACE_CHUNKS],
        why_not: [u8; 256],
        reserved: [u8; 3384],
    }

    /// A memory operand of a block.
    TraceAccess = "struct cv_trace_access", 16 bytes {
        at: u16,
        instruction: u16,
        kind: u8,
        flags: u8,
        lanes: u8,
        reserved: u8,
        size: u32,
        field: i32,
    }

    /// A block of code; [`TraceAccess`]es follow.
    TraceBlock = "struct cv_trace_block", 32 bytes {
        bytes: u32,
        id: u32,
        ip: u64,
        code_bytes: u32,
        instructions: u16,
        accesses: u16,
        words: u32,
        reserved: u32,
    }

    /// The head of a section's record.
    Section = "struct cv_section", 80 bytes {
        words: u32,
        end: u16,
        op: u16,
        object: u64,
        ra: u64,
        stack: u32,
        thread: u32,
        begin_ns: u64,
        end_ns: u64,
        detail: u64,
        weight: u32,
        waited: u32,
        stack_lo: u64,
        stack_hi: u64,
    }
}
