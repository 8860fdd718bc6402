//! A thread's own record.

#![allow(missing_docs)] // abi/convoy_abi.h documents the fields
#![allow(missing_debug_implementations)] // of the helper types that zerocopy derives

use core::mem::offset_of;

use crate::{Ref, CV_CACHE, CV_HELD, CV_LAST, CV_SITES};

mirror! {
    /// Exact counters of one (object, call site) pair.
    Slot = "struct cv_slot", 32 bytes {
        obj: u64,
        ra: u64,
        n: u64,
        failed: u32,
        op: u16,
        flags: u16,
    }

    /// Counters of a call site over all objects that were not counted apart.
    Site = "struct cv_site", 32 bytes {
        ra: u64,
        n: u64,
        failed: u32,
        op: u16,
        flags: u16,
        frame: u32,
        reserved: u32,
    }

    /// A lock that is held, and what is to be recorded once it has been released.
    Held = "struct cv_held", 64 bytes {
        obj: u64,
        acquired_ns: u64,
        released_ns: u64,
        wait_ns: u64,
        detail: Ref,
        peer_tid: u32,
        peer_frame: u32,
        peer_stack: u32,
        op: u16,
        flags: u16,
        acquire_ns: u32,
        spun_ns: u64,
    }

    /// The latest acquisition of an object by this thread.
    Last = "struct cv_last", 16 bytes {
        obj: u64,
        ra: u64,
    }

    /// A thread.
    Thread = "struct cv_thread", 12096 bytes {
        index: u32,
        tid: u32,
        parent_tid: u32,
        state: u32,
        handle: u64,
        start_routine: u64,
        start_frame: u32,
        create_stack: Ref,
        start_ns: u64,
        end_ns: u64,
        name: [u8; 16],
        stack_lo: u64,
        stack_hi: u64,
        lives: u32,
        detached: u32,
        cpu_ns: u64,
        user_ns: u64,
        sys_ns: u64,
        run_delay_ns: u64,
        voluntary_switches: u64,
        involuntary_switches: u64,
        wait_obj: u64,
        wait_since_ns: u64,
        wait_detail: Ref,
        wait_op: u32,
        scratch: [u64; 40],
        held_count: u32,
        sites_mask: u32,
        sites_table: Ref,
        wait_peer_tid: u32,
        wait_peer_frame: u32,
        reserved: [u32; 17],
        held: [Held; CV_HELD],
        last: [Last; CV_LAST],
        sites: [Site; CV_SITES],
        cache: [Slot; CV_CACHE],
    }
}

const _: () = assert!(offset_of!(Thread, wait_obj) == 144);
const _: () = assert!(offset_of!(Thread, scratch) == 168);
const _: () = assert!(offset_of!(Thread, held_count) == 488);
const _: () = assert!(offset_of!(Thread, held) == 576);
const _: () = assert!(offset_of!(Thread, cache) == 576 + 1024 + 256 + 2048);
