//! A model of very many locks is made in reasonable time, and adds up.

use std::time::{Duration, Instant};

use convoy_model::Model;
use convoy_profile::{Count, Detail, ObjectKind, Op, Unattributed};
use convoy_testkit::ProfileBuilder;

#[test]
fn a_hundred_thousand_locks_add_up() {
    const LOCKS: u32 = 100_000;
    let mut p = ProfileBuilder::new("prog");
    let leaf = p.frame("bucket_lock", "hash.c", 5);
    let sites: Vec<_> = (0..64)
        .map(|n| {
            let caller = p.frame(&format!("caller_{n}"), "app.c", n);
            p.stack(&[leaf, caller])
        })
        .collect();
    let other = p.frame("resize", "hash.c", 80);
    let threads: Vec<_> = (0..8)
        .map(|n| p.thread(&format!("worker-{n}")).id())
        .collect();
    for _ in 0..LOCKS {
        p.object(ObjectKind::Mutex).init(sites[0]).id();
    }
    let process = p.raw();
    let mut total = 0;
    for object in 0..LOCKS {
        for (at, &thread) in threads.iter().enumerate() {
            for frame in [leaf, other] {
                let n = u64::from(object % 97) + 3;
                let sampled = n / 8;
                process.counts.push(Count {
                    object,
                    frame,
                    thread,
                    op: Op::MutexLock,
                    n,
                    failed: 0,
                    sampled,
                });
                total += n;
            }
            if object % 8 == at as u32 {
                process.details.push(Detail {
                    object,
                    stack: sites[object as usize / 8 % 64],
                    thread,
                    op: Some(Op::MutexLock),
                    samples: 1 + object % 3,
                    ..Detail::default()
                });
            }
        }
    }
    for &thread in &threads {
        let (op, n) = (Op::MutexLock, 12_345_678);
        process.unattributed.push(Unattributed {
            frame: leaf,
            thread,
            op,
            n,
            failed: 0,
        });
        total += n;
    }
    let profile = p.build();
    let start = Instant::now();
    let model = Model::build(profile);
    let took = start.elapsed();
    println!("{took:?}");
    assert_eq!(model.uses.iter().map(|row| row.calls).sum::<u64>(), total);
    assert_eq!(model.objects.len(), LOCKS as usize);
    assert_eq!(
        model.objects[99_999].name,
        "mutex initialised in caller_0() app.c #100000"
    );
    assert!(took < Duration::from_secs(20), "{took:?}");
}
