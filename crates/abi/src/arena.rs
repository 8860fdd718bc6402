//! The session, the arena's header and blocks, and the records that all threads share.

#![allow(missing_docs)] // abi/convoy_abi.h documents the fields
#![allow(missing_debug_implementations)] // of the helper types that zerocopy derives

use core::mem::offset_of;

use crate::{Ref, CV_DROP_MAX, CV_HIST, CV_WATCHED};

mirror! {
    /// `session`: written by convoy before the program starts.
    Session = "struct cv_session", 128 bytes {
        magic: u64,
        version: u32,
        clock_kind: u32,
        clock_base_ticks: u64,
        clock_base_ns: u64,
        clock_mult: u64,
        arena_bytes: u64,
        sample_period: u32,
        stack_depth: u32,
        max_threads: u32,
        flags: u32,
        reserved: [u64; 8],
    }

    /// First page of an arena.
    Arena = "struct cv_arena", 4096 bytes {
        magic: u64,
        version: u32,
        header_bytes: u32,
        size_bytes: u64,
        bump: u64,
        pid: u32,
        ppid: u32,
        start_ns: u64,
        end_ns: u64,
        state: u32,
        exit_status: u32,
        threads: u32,
        threads_started: u32,
        inline_mutex: u32,
        argc_bytes: u32,
        agent_base: u64,
        agent_end: u64,
        drops: [u64; CV_DROP_MAX],
        exe: [u8; 512],
        cmdline: [u8; 1024],
        holding_offset: i64,
        watch_epoch: u32,
        reserved0: u32,
        watched: [u64; CV_WATCHED],
        reserved: [u8; 4096 - 96 - CV_DROP_MAX * 8 - 512 - 1024 - 16 - CV_WATCHED * 8],
    }

    /// Header of a block.
    Block = "struct cv_block", 64 bytes {
        kind: u32,
        item_bytes: u32,
        bytes: u64,
        used: u32,
        owner: u32,
        first_id: u32,
        reserved: [u32; 9],
    }

    /// What a thread did to an object at a site; `kind` says how to read the payload.
    Entry = "struct cv_entry", 64 bytes {
        obj: u64,
        site: u32,
        kind: u16,
        op: u16,
        count: EntryCount,
    }

    /// Payload of `CV_ENTRY_COUNT`.
    EntryCount = "__typeof__(((struct cv_entry *)0)->count)", 48 bytes {
        n: u64,
        failed: u64,
        sampled: u64,
        reserved: [u64; 3],
    }

    /// Payload of `CV_ENTRY_DETAIL`.
    EntryDetail = "__typeof__(((struct cv_entry *)0)->detail)", 48 bytes {
        samples: u32,
        acquire_n: u32,
        acquire_sum_ns: u64,
        hold_n: u32,
        hold_sampled_n: u32,
        hold_sum_ns: u64,
        hold_sampled_sum_ns: u64,
        hold_max_us: u32,
        wait: Ref,
    }

    /// Payload of `CV_ENTRY_PAIR`.
    EntryPair = "__typeof__(((struct cv_entry *)0)->pair)", 48 bytes {
        n: u64,
        wait_sum_ns: u64,
        wait_max_ns: u64,
        peer_tid: u32,
        peer_frame: u32,
        peer_stack: u32,
        reserved: [u32; 3],
    }

    /// The waits of a detail entry.
    WaitDetail = "struct cv_wait_detail", 192 bytes {
        n: u64,
        sum_ns: u64,
        max_ns: u64,
        timeouts: u64,
        timeout_sum_ns: u64,
        last_arrivals: u64,
        busy_sum_ns: u64,
        reserved: u64,
        hist: [u32; CV_HIST],
    }

    /// Something that is waited for.
    Object = "struct cv_object", 64 bytes {
        addr: u64,
        kind: u32,
        init_stack: Ref,
        lives: u32,
        attr: u32,
        waker_tid: u32,
        waker_stack: Ref,
        waker_ns: u64,
        module: u32,
        destroyed: u32,
        arrivals: u64,
        reserved: u64,
    }

    /// A code address.
    Frame = "struct cv_frame", 32 bytes {
        pc: u64,
        offset: u64,
        module: u32,
        flags: u32,
        reserved: u64,
    }

    /// A mapped file.
    Module = "struct cv_module", 512 bytes {
        bias: u64,
        lo: u64,
        hi: u64,
        loaded_ns: u64,
        unloaded_ns: u64,
        id: u32,
        build_id_len: u32,
        build_id: [u8; 32],
        path: [u8; 432],
    }
}

const _: () = assert!(offset_of!(Arena, drops) == 96);

impl Entry {
    /// The payload as that of a `CV_ENTRY_DETAIL`.
    pub fn detail(&self) -> EntryDetail {
        zerocopy::transmute!(self.count)
    }

    /// The payload as that of a `CV_ENTRY_PAIR`.
    pub fn pair(&self) -> EntryPair {
        zerocopy::transmute!(self.count)
    }

    /// A `CV_ENTRY_DETAIL`.
    pub fn from_detail(obj: u64, stack: Ref, op: u16, detail: EntryDetail) -> Self {
        Self {
            obj,
            site: stack,
            kind: crate::CV_ENTRY_DETAIL,
            op,
            count: zerocopy::transmute!(detail),
        }
    }

    /// A `CV_ENTRY_PAIR`.
    pub fn from_pair(obj: u64, stack: Ref, op: u16, pair: EntryPair) -> Self {
        Self {
            obj,
            site: stack,
            kind: crate::CV_ENTRY_PAIR,
            op,
            count: zerocopy::transmute!(pair),
        }
    }
}
