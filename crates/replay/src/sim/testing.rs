//! A machine and small programs for tests.

use crate::machine::Machine;
use crate::machine::WakeLatency;
use crate::program::Barrier;
use crate::program::Channel;
use crate::program::Cond;
use crate::program::Lock;
use crate::program::LockKind;
use crate::program::Op;
use crate::program::Program;
use crate::program::Semaphore;
use crate::program::Thread;

/// Two CPUs, costs of round numbers.
pub(crate) fn machine() -> Machine {
    let row = |idle_ns, p50_ns, ipi_share| WakeLatency {
        idle_ns,
        p10_ns: p50_ns * 0.8,
        p50_ns,
        p90_ns: p50_ns * 1.5,
        ipi_share,
    };
    Machine {
        cpus: 2,
        atomic_local_ns: 4.0,
        atomic_remote_ns: 20.0,
        lock_pair_ns: 10.0,
        rdlock_pair_ns: 20.0,
        futex_check_ns: 200.0,
        futex_eagain_ns: 350.0,
        futex_block_ns: 400.0,
        futex_wake_none_ns: 300.0,
        futex_wake_ns: 900.0,
        futex_wake_ipi_ns: 10_000.0,
        switch_ns: 1500.0,
        tick_ns: 4e6,
        slice_ns: 3e6,
        wake_latency: vec![row(0.0, 3000.0, 0.0), row(50_000.0, 30_000.0, 1.0)],
        spawn_ns: 20_000.0,
        clock_ns: 10.0,
    }
}

/// Threads that exist from the start.
pub(crate) fn program(threads: Vec<Vec<Op>>) -> Program {
    Program {
        threads: threads
            .into_iter()
            .map(|ops| Thread {
                at_start: true,
                ops,
                ..Thread::default()
            })
            .collect(),
        ..Program::default()
    }
}

impl Program {
    pub(crate) fn with_locks(mut self, kind: LockKind, count: usize) -> Self {
        self.locks = vec![
            Lock {
                kind,
                ..Lock::default()
            };
            count
        ];
        self
    }

    pub(crate) fn with_cond(mut self, tokens: &[u32]) -> Self {
        self.conds = vec![Cond::default(); tokens.len()];
        self.channels = tokens.iter().map(|&tokens| Channel { tokens }).collect();
        self
    }

    pub(crate) fn with_barrier(mut self, count: u32) -> Self {
        self.barriers = vec![Barrier { recorded: 0, count }];
        self
    }

    pub(crate) fn with_semaphore(mut self, value: u32) -> Self {
        self.semaphores = vec![Semaphore {
            value,
            ..Semaphore::default()
        }];
        self
    }
}

/// `count` times: work outside, and inside of a section of lock 0. Lengths vary by a tenth, so that
/// the threads do not run in lock step; sections are numbered from `first`.
pub(crate) fn sections(count: u32, inside: f32, outside: f32, first: u32) -> Vec<Op> {
    let mut ops = Vec::new();
    for index in 0..count {
        let vary = 0.95 + 0.1 * ((index * 7919 + first * 31) % 101) as f32 / 101.0;
        ops.extend([
            Op::Work { ns: outside * vary },
            Op::Acquire {
                lock: 0,
                shared: false,
                section: first + index,
            },
            Op::Work { ns: inside * vary },
            Op::Release { lock: 0 },
        ]);
    }
    ops
}
