//! Structures of `abi/convoy_causal.h`.

#![allow(missing_docs)] // the header documents every field
#![allow(missing_debug_implementations)] // of the helper types that zerocopy derives

use crate::{CV_CAUSAL_LOCKS, CV_CAUSAL_TARGETS};

mirror! {
    /// The head of an experiment file.
    Causal = "struct cv_causal", 4096 bytes {
        magic: u64,
        version: u32,
        pid: u32,
        bytes: u64,
        arena_start_ns: u64,
        flags: u32,
        signal: u32,
        threads: u32,
        points: u32,
        samples: u64,
        reserved: [u8; 4040],
    }

    /// Orders of convoy to the agents: one window.
    CausalControl = "struct cv_causal_control", 4096 bytes {
        window: u32,
        estimator: u32,
        subject: u32,
        mechanism: u32,
        factor: u32,
        record: u32,
        period_ns: u32,
        timers: u32,
        targets: u32,
        ranges: u32,
        locks: u32,
        leave: u32,
        until_ns: u64,
        signal_cost_ns: u32,
        algorithm: u32,
        lock: [u64; CV_CAUSAL_LOCKS],
        spin_ns: u32,
        groups: u32,
        steps: [u8; CV_CAUSAL_TARGETS],
        reserved: [u8; 3864],
    }

    /// Addresses of a target.
    CausalRange = "struct cv_causal_range", 24 bytes {
        lo: u64,
        hi: u64,
        target: u32,
        step: u32,
    }

    /// A progress point of coz.h.
    CausalPoint = "struct cv_causal_point", 128 bytes {
        count: u64,
        reserved0: u64,
        kind: u32,
        reserved1: u32,
        name: [u8; 104],
    }

    /// Counters of a thread.
    CausalThread = "struct cv_causal_thread", 256 bytes {
        tid: u32,
        handling: u32,
        releases: u64,
        wakes: u64,
        arrivals: u64,
        samples: u64,
        hits: u64,
        tried: u64,
        added_ns: u64,
        sleeps: u64,
        broken: u64,
        calls_ns: u64,
        groups: u64,
        reserved: [u64; 4],
        working: [u64; 16],
    }
}
