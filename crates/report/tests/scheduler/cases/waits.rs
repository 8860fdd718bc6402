//! Waits on the critical path.

use convoy_analysis::scheduler::{EdgeRow, Link, WaitRow};
use convoy_model::finding::Subject;
use convoy_model::{OffCpu, OffReason, Waker};
use convoy_profile::ObjectKind;

use crate::world::{finding, path, Spent, World, MS};

/// Every commit is synced to disk under the lock that all workers need.
pub fn blocking_io() -> World {
    let mut w = World::new("ledger", 4);
    let p = w.process("ledger", 2000);
    let (main, mains) = w.group(p, "main", 1);
    let (pool, workers) = w.group(p, "worker", 4);
    let at_sync = w.site(
        p,
        "wal.c",
        &[("wal_sync", 88), ("commit", 140), ("worker_main", 12)],
    );
    let at_lock = w.site(p, "wal.c", &[("commit", 131), ("worker_main", 12)]);
    let at_unlock = w.site(p, "wal.c", &[("commit", 147), ("worker_main", 12)]);
    let at_work = w.site(p, "txn.c", &[("apply", 60), ("worker_main", 10)]);
    let at_join = w.site(p, "ledger.c", &[("main", 70)]);
    let lock = w.object(p, ObjectKind::Mutex, "wal_lock");
    let wal = w.file("/var/lib/ledger/wal.000017");

    for i in 0..20 {
        w.phase(30, 0, 0, 0, (workers[0], at_sync));
        w.phase(10, 1, 1, 1, (workers[i % 4], at_work));
        w.phase(10, 4, 4, 4, (workers[0], at_work));
    }
    w.spent(
        mains[0],
        Spent {
            blocked: 1000,
            ..Spent::default()
        },
    );
    for worker in &workers {
        w.spent(
            *worker,
            Spent {
                cm: 100.0,
                running: 250,
                delayed: 2,
                blocked: 748,
                ..Spent::default()
            },
        );
    }
    let mut work = path(p, pool, at_work, 200.0, 1000.0);
    work.threads = 4;
    w.critical.paths = vec![work];
    w.off(OffReason::Futex, 80, 2320, 2100, 5);
    w.off(OffReason::Sync, 20, 610, 604, 4);
    let sync = WaitRow {
        process: p,
        reason: OffReason::Sync,
        nr: 74,
        site: Some(at_sync),
        name: Some(wal),
        kernel_stack: [
            "io_schedule",
            "folio_wait_bit",
            "ext4_sync_file",
            "do_fsync",
        ]
        .map(String::from)
        .to_vec(),
        group: pool,
        threads: 4,
        n: 20,
        sum_ns: 610 * MS,
        max_ns: 44 * MS,
        low_ns: 604e6,
        idle_ns: 600 * MS,
        critical_ns: 604e6,
        ..WaitRow::default()
    };
    let locked = WaitRow {
        process: p,
        reason: OffReason::Futex,
        nr: 202,
        site: Some(at_lock),
        object: Some(lock),
        group: pool,
        threads: 4,
        n: 76,
        sum_ns: 1320 * MS,
        max_ns: 90 * MS,
        low_ns: 1200e6,
        idle_ns: 1100 * MS,
        critical_ns: 400e6,
        unfinished_ns: 12 * MS,
        ..WaitRow::default()
    };
    let joins = WaitRow {
        process: p,
        reason: OffReason::Futex,
        nr: 202,
        site: Some(at_join),
        address: 0x7f00_1234_5910,
        group: main,
        threads: 1,
        n: 1,
        sum_ns: 1000 * MS,
        max_ns: 1000 * MS,
        low_ns: 900e6,
        idle_ns: 600 * MS,
        critical_ns: 900e6,
        ..WaitRow::default()
    };
    w.critical.waits = vec![locked, joins, sync];
    w.critical.edges = vec![
        EdgeRow {
            process: p,
            group: pool,
            site: Some(at_lock),
            reason: OffReason::Futex,
            object: Some(lock),
            waker: Waker::Thread(workers[1], Some(at_unlock)),
            waker_group: Some(pool),
            n: 76,
            wait_ns: 1320 * MS,
            max_ns: 90 * MS,
            low_ns: 1200e6,
            waker_running_ns: 160 * MS,
            waker_delayed_ns: 10 * MS,
            waker_off_ns: 1150 * MS,
            chain: vec![Link {
                thread: workers[1],
                site: Some(at_sync),
                reason: OffReason::Sync,
                object: None,
                name: Some(wal),
                share: 0.86,
            }],
        },
        EdgeRow {
            process: p,
            group: pool,
            site: Some(at_sync),
            reason: OffReason::Sync,
            waker: Waker::Interrupt,
            n: 20,
            wait_ns: 610 * MS,
            max_ns: 44 * MS,
            low_ns: 604e6,
            ..EdgeRow::default()
        },
    ];
    w.sched().offs = vec![OffCpu {
        thread: workers[0],
        site: Some(at_lock),
        object: Some(lock),
        n: 76,
        sum_ns: 1320 * MS,
        by_working: [1100 * MS, 100 * MS, 0, 120 * MS].into(),
        ..OffCpu::default()
    }];
    w.finding(finding(
        "blocking-io",
        Subject::File(wal, at_sync),
        "fsync of wal.000017 stops the program for 60 % of the run",
        &[
            "20 calls, 610 ms, 44.0 ms at most; no thread worked for 600 ms of it",
            "76 waits for wal_lock (1.32 s) were for a thread that was in it: 86 %",
        ],
        (
            "all threads wait until one thread's data are on disk",
            "sync once for many commits (group commit), or sync outside of wal_lock (wal.c:88)",
        ),
        (1.4, 2.1, 2.5, "4 CPUs"),
    ));
    w.finish(4)
}
