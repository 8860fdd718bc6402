//! Structures of `abi/convoy_bpf.h`.

#![allow(missing_docs)] // the header documents every field
#![allow(missing_debug_implementations)] // of the helper types that zerocopy derives

use crate::{CV_BPF_COMM, CV_BPF_KERNEL_FRAMES, CV_BPF_NAME, CV_BPF_RED_ZONE, CV_BPF_REGISTERS};

mirror! {
    /// A context switch, a wake-up, or what is missing.
    BpfEvent = "struct cv_bpf_event", 40 bytes {
        ts_ns: u64,
        arg0: u64,
        tid: u32,
        other: u32,
        key: u32,
        arg1: u32,
        nr: i16,
        state: u16,
        kind: u8,
        flags: u8,
        reserved: u16,
    }

    /// The head of the ring of one processor.
    BpfRing = "struct cv_bpf_ring", 128 bytes {
        head: u64,
        lost_from_ns: u64,
        lost_to_ns: u64,
        skipped_from_ns: u64,
        skipped_to_ns: u64,
        lost: u32,
        skipped: u32,
        copies_ns: u64,
        reserved: u64,
        tail: u64,
        reserved_tail: [u64; 7],
    }

    /// Constants of a recording.
    BpfConfig = "struct cv_bpf_config", 48 bytes {
        ring_events: u32,
        stack_bytes: u32,
        copy_interval_ns: u64,
        copy_burst_ns: u64,
        keep_free_bytes: u64,
        filling_bytes: u64,
        switch_has_state: u32,
        reserved: u32,
    }

    /// What is told to the programs while they run, and back.
    BpfControl = "struct cv_bpf_control", 32 bytes {
        adopt_parent: u32,
        adopting: u32,
        adopted: u64,
        lives_lost: u64,
        rung_ns: u64,
    }

    /// What every record of the ring buffer begins with.
    BpfRecord = "struct cv_bpf_record", 16 bytes {
        ts_ns: u64,
        kind: u32,
        tid: u32,
    }

    /// A fork, exec or exit.
    BpfLife = "struct cv_bpf_life", 40 bytes {
        ts_ns: u64,
        kind: u32,
        tid: u32,
        tgid: u32,
        other: u32,
        comm: [u8; CV_BPF_COMM],
    }

    /// A thread that was there before.
    BpfInit = "struct cv_bpf_init", 96 bytes {
        ts_ns: u64,
        kind: u32,
        tid: u32,
        tgid: u32,
        key: u32,
        comm: [u8; CV_BPF_COMM],
        ip: u64,
        sp: u64,
        fp: u64,
        lr: u64,
        arg0: u64,
        arg1: u32,
        nr: i16,
        state: u16,
        flags: u32,
        reserved: u32,
    }

    /// A stack or a sample; the copied bytes follow.
    BpfStack = "struct cv_bpf_stack", 200 bytes {
        ts_ns: u64,
        kind: u32,
        tid: u32,
        ip: u64,
        sp: u64,
        fp: u64,
        lr: u64,
        arg0: u64,
        arg1: u32,
        key: u32,
        nr: i16,
        flags: u16,
        kernel_frames: u16,
        bytes: u16,
        kernel: [u64; CV_BPF_KERNEL_FRAMES],
    }

    /// The registers of a sample, in front of the copied bytes.
    BpfRegisters = "struct cv_bpf_registers", 256 bytes {
        general: [u64; CV_BPF_REGISTERS],
        red_zone: [u8; CV_BPF_RED_ZONE],
    }

    /// A question about an address of the kernel, and the answer.
    BpfName = "struct cv_bpf_name", 136 bytes {
        address: u64,
        name: [u8; CV_BPF_NAME],
    }
}
