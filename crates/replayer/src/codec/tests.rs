//! What is written is read again, and nothing else is.

use super::*;

fn every_operation() -> Program {
    let acquire = |lock, shared, section| Op::Acquire {
        lock,
        shared,
        section,
    };
    let need = |need| Op::Await {
        cond: 300,
        lock: 2,
        need,
    };
    let ops = vec![
        Op::Work { ns: 0.25 },
        Op::Sleep { ns: 3e9 },
        acquire(1, false, 700),
        acquire(200, true, 5),
        acquire(1, false, NO_SECTION),
        acquire(1, true, NO_SECTION),
        Op::TryAcquire {
            lock: 3,
            section: NO_SECTION - 1,
        },
        Op::TryAcquire {
            lock: u32::MAX,
            section: NO_SECTION,
        },
        Op::TryFail { lock: 4 },
        Op::Release { lock: 5 },
        need(Need::Token(6)),
        need(Need::Count(7, u32::MAX)),
        Op::Post { channel: 8 },
        Op::Signal { cond: 9 },
        Op::Broadcast { cond: 10 },
        Op::Barrier { barrier: 11 },
        Op::SemWait { sem: 12 },
        Op::SemPost { sem: 13 },
        Op::Spawn { thread: 14 },
        Op::Join { thread: 15 },
    ];
    let kinds = [
        LockKind::Mutex,
        LockKind::Adaptive { spin_ns: 1.5 },
        LockKind::Spin,
        LockKind::RwLock,
        LockKind::Ticket,
        LockKind::Absent,
    ];
    let locks = kinds.into_iter().zip(0..);
    Program {
        threads: vec![
            Thread {
                recorded: 3,
                at_start: true,
                start_ns: 1e12,
                ops,
            },
            Thread::default(),
        ],
        locks: locks
            .map(|(kind, recorded)| Lock {
                recorded,
                kind,
                transfer: None,
            })
            .collect(),
        conds: vec![Cond { recorded: 1 }],
        barriers: vec![Barrier {
            recorded: 2,
            count: 3,
        }],
        semaphores: vec![Semaphore {
            recorded: 4,
            value: 5,
            permits: 6,
        }],
        channels: vec![Channel { tokens: 6 }],
    }
}

#[test]
fn decoding_gives_back_every_operation() {
    let program = every_operation();
    assert_eq!(decode(&encode(&program)), Ok(program));
}

#[test]
fn rejects_programs_that_are_cut_anywhere() {
    let bytes = encode(&every_operation());
    for length in 0..bytes.len() {
        assert!(decode(&bytes[..length]).is_err(), "{length}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(decode(&longer), Err(DecodeError::Unknown(bytes.len())));
    assert_eq!(decode(b""), Err(DecodeError::NotAProgram));
}

#[test]
fn damaged_programs_neither_panic_nor_allocate_without_bound() {
    let bytes = encode(&every_operation());
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            let _ = decode(&damaged);
        }
    }
}

#[test]
fn a_section_takes_few_bytes() {
    let ops = (0..1000u32).flat_map(|section| {
        [
            Op::Work { ns: 100.0 },
            Op::Acquire {
                lock: 0,
                shared: false,
                section,
            },
            Op::Work { ns: 10.0 },
            Op::Release { lock: 0 },
        ]
    });
    let program = Program {
        threads: vec![Thread {
            ops: ops.collect(),
            ..Thread::default()
        }],
        ..Program::default()
    };
    assert!(encode(&program).len() < 4 * 4000);
}
