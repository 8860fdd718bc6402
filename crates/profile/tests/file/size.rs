//! A large profile is small as a file, and fast.

use std::time::{Duration, Instant};

use crate::draw::Random;
use convoy_profile::{
    Count, Detail, Frame, Location, Object, ObjectKind, Op, Process, Profile, Symbol, Thread, Wait,
};

const LOCKS: u32 = 100_000;
const THREADS: u32 = 8;

/// 100,000 locks on the heap, each taken by 8 threads at 2 sites; some were waited for.
fn many_locks() -> Profile {
    let mut r = Random::new(1);
    let location = |n: u32| Location {
        function: format!("bucket_update_{n}"),
        file: Some("src/hash_table.c".into()),
        line: Some(100 + n),
    };
    let frames = (0..40).map(|n| Frame {
        pc: 0x5555_5555_0000 + u64::from(n) * 0x123,
        module: None,
        offset: 0x1000 + u64::from(n) * 0x123,
        exact: false,
        no_rule: false,
        symbol: Symbol::Known(vec![location(n)]),
    });
    let threads = (0..THREADS).map(|n| Thread {
        tid: 4000 + n,
        name: format!("worker-{n}"),
        start_ns: 1,
        end_ns: 10_000_000_000,
        lives: 1,
        ..Thread::default()
    });
    let mut process = Process {
        frames: frames.collect(),
        threads: threads.collect(),
        stacks: vec![vec![], vec![0, 2, 3, 4], vec![1, 2, 3, 4]],
        ..Process::default()
    };
    let mut addr = 0x7f12_3456_0000;
    for object in 0..LOCKS {
        addr += 48 + 16 * r.below(4);
        process.objects.push(Object {
            addr,
            kind: ObjectKind::Mutex,
            init_stack: 1,
            lives: 1,
            ..Object::default()
        });
        for thread in 0..THREADS {
            for frame in 0..2 {
                // Popularity is skewed, as it is in life.
                let n = 1 + r.below(400) * 4000 / (40 + r.below(4000));
                process.counts.push(Count {
                    object,
                    frame,
                    thread,
                    op: Op::MutexLock,
                    n,
                    failed: 0,
                    sampled: n / 100,
                });
                if r.below(10) == 0 {
                    process
                        .details
                        .push(detail(&mut r, object, 1 + frame, thread));
                }
            }
        }
    }
    Profile {
        processes: vec![process],
        ..Profile::default()
    }
}

fn detail(r: &mut Random, object: u32, stack: u32, thread: u32) -> Detail {
    let hold_ns = 80 + r.below(400);
    let wait_ns = 2000 + r.below(60_000);
    Detail {
        object,
        stack,
        thread,
        op: Some(Op::MutexLock),
        samples: 1,
        acquire_n: 1,
        acquire_sum_ns: 10 + r.below(60),
        hold_n: 1,
        hold_sum_ns: hold_ns,
        hold_sampled_n: 1,
        hold_sampled_sum_ns: hold_ns,
        hold_max_us: 1,
        wait: (r.below(4) == 0).then(|| Wait {
            n: 1,
            sum_ns: wait_ns,
            max_ns: wait_ns,
            hist: [vec![0; 12], vec![1]].concat(),
            ..Wait::default()
        }),
    }
}

#[test]
fn a_hundred_thousand_locks_fit() {
    let profile = many_locks();
    assert_eq!(profile.processes[0].counts.len(), 1_600_000);
    let start = Instant::now();
    let bytes = profile.to_bytes().unwrap();
    let written = start.elapsed();
    let (read, warnings) = Profile::read(&bytes).unwrap();
    let took = start.elapsed();
    println!(
        "{} bytes, written in {written:?}, both {took:?}",
        bytes.len()
    );
    assert_eq!(warnings, []);
    assert!(read == profile);
    assert!(bytes.len() < 20_000_000, "{} bytes", bytes.len());
    // Two seconds with optimisation; tests are built without, on machines that do other things.
    assert!(took < Duration::from_secs(10), "{took:?}");
}
