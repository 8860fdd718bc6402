//! Structures of `abi/convoy_attach.h`.

#![allow(missing_docs)] // the header documents every field
#![allow(missing_debug_implementations)] // of the helper types that zerocopy derives

use crate::CV_ATTACH_ENTRIES;

mirror! {
    /// A function of the C library that the agent has a hook for.
    AttachEntry = "struct cv_attach_entry", 48 bytes {
        name: u64,
        entry: u64,
        slot: u64,
        trampoline: u64,
        original: [u8; 8],
        patched: [u8; 8],
    }

    /// The journal of an attachment.
    Attachment = "struct cv_attachment", 4672 bytes {
        magic: u64,
        version: u32,
        state: u32,
        owner_pid: u32,
        entries: u32,
        owner_start: u64,
        self_offset: i64,
        trampolines: u64,
        is_ready: u32,
        reserved0: u32,
        gate: u64,
        entry: [AttachEntry; CV_ATTACH_ENTRIES],
    }
}
