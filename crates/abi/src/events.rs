//! Structures of `abi/convoy_events.h`.

#![allow(missing_docs)] // the header documents every field
#![allow(missing_debug_implementations)] // of the helper types that zerocopy derives

use core::mem::offset_of;

use crate::CV_EVENTS_DROP_MAX;

mirror! {
    /// The head of an event file.
    Events = "struct cv_events", 4096 bytes {
        magic: u64,
        version: u32,
        pid: u32,
        bytes: u64,
        arena_start_ns: u64,
        flags: u32,
        chunks_used: u32,
        first_free: u32,
        reserved0: u32,
        drops: [u64; CV_EVENTS_DROP_MAX],
        reserved1: [u8; 848],
        window: u32,
        reserved2: [u8; 3068],
    }

    /// The head of a chunk; records follow.
    EventsChunk = "struct cv_events_chunk", 64 bytes {
        words: u32,
        thread: u32,
        ticks: u64,
        cpu_ns: u64,
        number: u32,
        clock_kind: u32,
        reserved: [u64; 4],
    }
}

const _: () = assert!(offset_of!(Events, window) == 1024);
