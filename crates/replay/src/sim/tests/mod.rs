//! Behaviour of whole runs.

mod accounting;
mod bad_input;
mod conditions;
mod ensembles;
mod locks;
mod schedules;
mod threads;

use super::testing::machine;
use super::testing::program;
use super::testing::sections;
use super::*;
use crate::program::LockKind;
use crate::program::Op;
use crate::program::NO_SECTION;

/// All kinds of locks that exclude.
const KINDS: [LockKind; 5] = [
    LockKind::Mutex,
    LockKind::Adaptive { spin_ns: 2000.0 },
    LockKind::Spin,
    LockKind::RwLock,
    LockKind::Ticket,
];

fn acquire(lock: u32) -> Op {
    Op::Acquire {
        lock,
        shared: false,
        section: NO_SECTION,
    }
}

fn acquire_shared(lock: u32, section: u32) -> Op {
    Op::Acquire {
        lock,
        shared: true,
        section,
    }
}

fn section(lock: u32, section: u32, ns: f32) -> [Op; 3] {
    [
        Op::Acquire {
            lock,
            shared: false,
            section,
        },
        Op::Work { ns },
        Op::Release { lock },
    ]
}

fn release(lock: u32) -> Op {
    Op::Release { lock }
}

fn work(ns: f32) -> Op {
    Op::Work { ns }
}

/// Runs to the end, section times kept.
fn run_program(program: &Program) -> Outcome {
    run_seed(program, 1)
}

fn run_seed(program: &Program, seed: u64) -> Outcome {
    let outcome = run_unfinished(
        program,
        &Options {
            seed,
            sections: true,
            ..Options::default()
        },
    );
    assert_eq!(outcome.stuck, None);
    outcome
}

fn run_unfinished(program: &Program, options: &Options<'_>) -> Outcome {
    run(program, &machine(), options).expect("a valid program")
}

/// Threads that contend for one lock of this kind, more of them than CPUs.
fn contended(kind: LockKind, threads: u32, count: u32) -> Program {
    let ops = (0..threads)
        .map(|t| sections(count, 700.0, 900.0, t * count))
        .collect();
    program(ops).with_locks(kind, 1)
}
