//! Code that keeps others from working, and code that does not.

use convoy_analysis::scheduler::{EdgeRow, LoopRow, WaitRow};
use convoy_model::finding::Subject;
use convoy_model::{CodeFrom, OffCpu, OffReason, SpinKind, Waker};
use convoy_profile::ObjectKind;

use super::{function, line};
use crate::world::{finding, path, Spent, World, MS};

/// The main thread prepares for 400 of 1000 ms while four workers wait for it.
pub fn serial_phase() -> World {
    let mut w = World::new("indexer", 4);
    let p = w.process("indexer", 4100);
    let (main, mains) = w.group(p, "main", 1);
    let (pool, workers) = w.group(p, "worker", 4);
    let at_build = w.site(
        p,
        "index.c",
        &[("build_index", 88), ("load_all", 141), ("main", 20)],
    );
    let at_take = w.site(p, "queue.c", &[("queue_take", 40), ("worker_main", 12)]);
    let at_scan = w.site(p, "scan.c", &[("scan_block", 310), ("worker_main", 15)]);
    let at_start = w.site(p, "index.c", &[("start_workers", 160), ("main", 22)]);
    let ready = w.object(p, ObjectKind::Cond, "index_ready");

    w.phase(400, 1, 1, 1, (mains[0], at_build));
    w.phase(480, 4, 4, 4, (workers[0], at_scan));
    w.phase(80, 3, 3, 3, (workers[1], at_scan));
    w.phase(40, 1, 1, 1, (workers[3], at_scan));
    w.spent(
        mains[0],
        Spent {
            cm: 400.0,
            running: 400,
            blocked: 600,
            ..Spent::default()
        },
    );
    for (i, worker) in workers.iter().enumerate() {
        let running = [480, 560, 560, 600][i];
        w.spent(
            *worker,
            Spent {
                cm: [120.0, 146.7, 146.7, 186.6][i],
                running,
                blocked: 990 - running,
                delayed: 10,
                ..Spent::default()
            },
        );
    }
    w.woken_by(pool, &[(main, 4, 1600), (pool, 40, 160)]);

    let mut build = path(p, main, at_build, 400.0, 1000.0);
    build.functions = vec![
        function(
            "build_index",
            120,
            360.0,
            vec![
                line("index.c", 91, 80, 240.0),
                line("index.c", 94, 40, 120.0),
            ],
        ),
        function("hash_word", 13, 40.0, vec![line("hash.c", 17, 13, 40.0)]),
    ];
    let mut scan = path(p, pool, at_scan, 40.0, 1000.0);
    scan.from = CodeFrom::StackTop;
    (scan.n, scan.active_ns, scan.cm_working_ns) = (9, 2_200 * MS, 600e6);
    scan.running_ns = scan.active_ns;
    w.critical.paths = vec![build, scan];
    w.off(OffReason::Futex, 44, 1760, 1600, 5);
    w.critical.waits = vec![WaitRow {
        process: p,
        reason: OffReason::Futex,
        nr: 202,
        site: Some(at_take),
        object: Some(ready),
        group: pool,
        threads: 4,
        n: 44,
        sum_ns: 1760 * MS,
        max_ns: 402 * MS,
        low_ns: 1600e6,
        critical_ns: 400e6,
        ..WaitRow::default()
    }];
    w.critical.edges = vec![EdgeRow {
        process: p,
        group: pool,
        site: Some(at_take),
        reason: OffReason::Futex,
        object: Some(ready),
        waker: Waker::Thread(mains[0], Some(at_start)),
        waker_group: Some(main),
        n: 4,
        wait_ns: 1600 * MS,
        max_ns: 402 * MS,
        low_ns: 1600e6,
        waker_running_ns: 1592 * MS,
        waker_delayed_ns: 8 * MS,
        ..EdgeRow::default()
    }];
    w.sched().offs = vec![OffCpu {
        thread: workers[0],
        site: Some(at_take),
        object: Some(ready),
        n: 44,
        sum_ns: 1760 * MS,
        by_working: [0, 1600 * MS, 0, 0, 160 * MS].into(),
        ..OffCpu::default()
    }];
    w.finding(finding(
        "serial-code",
        Subject::Code(at_build),
        "build_index() index.c:88 runs alone for 40 % of the run while 4 threads wait",
        &[
            "one thread worked for 400 ms while it ran, 40 % of the run",
            "worker-# (4 threads) waited meanwhile: 1.60 s at queue_take() queue.c:40",
        ],
        ("a phase that only one thread can do", "let several threads build parts of the index, or let the workers begin before it is complete (index.c:88)"),
        (1.2, 1.4, 1.7, "4 CPUs: the workers use them 100 % of the rest"),
    ));
    w.finish(4)
}

/// Three I/O threads poll for work on two CPUs and take the main thread's processor.
pub fn busy_waiting() -> World {
    let mut w = World::new("kvstore", 2);
    let p = w.process("kvstore", 700);
    let (main, mains) = w.group(p, "main", 1);
    let (io, ios) = w.group(p, "io", 3);
    let at_exec = w.site(
        p,
        "server.c",
        &[("execute_command", 2210), ("event_loop", 410), ("main", 90)],
    );
    let at_poll = w.site(
        p,
        "networking.c",
        &[("io_thread_main", 4021), ("start_io", 4000)],
    );
    let spin = w.spin_loop(
        p,
        at_poll,
        SpinKind::Polling,
        "mov rax, [rip+0x2a1f0] / test rax, rax / jne / sub ecx, 1 / jne -0x11",
    );
    w.phase(700, 4, 1, 2, (mains[0], at_exec));
    w.phase(200, 3, 0, 2, (ios[0], at_poll));
    w.phase(100, 4, 2, 2, (ios[1], at_poll));
    w.spent(
        mains[0],
        Spent {
            cm: 200.0,
            running: 450,
            preempted: 330,
            delayed: 20,
            blocked: 200,
            ..Spent::default()
        },
    );
    for (i, thread) in ios.iter().enumerate() {
        let spinning = [510, 480, 470][i];
        w.spent(
            *thread,
            Spent {
                cm: 266.7,
                cm_working: 16.7,
                running: 517,
                spinning,
                preempted: 470,
                delayed: 13,
                ..Spent::default()
            },
        );
    }
    let mut exec = path(p, main, at_exec, 700.0, 1000.0);
    exec.running_ns = 400 * MS;
    exec.functions = vec![function(
        "execute_command",
        230,
        690.0,
        vec![line("server.c", 2214, 190, 570.0)],
    )];
    w.critical.paths = vec![exec];
    w.critical.loops = vec![LoopRow {
        spin,
        process: p,
        kind: SpinKind::Polling,
        site: Some(at_poll),
        group: io,
        threads: 3,
        samples: 487,
        running_ns: 1460 * MS,
        share: 0.73,
        active_ns: 2800 * MS,
        cm_ns: 750e6,
        waits_for: vec![0],
    }];
    w.off(OffReason::Preempted, 610, 1740, 1700, 4);
    w.off(OffReason::Poll, 40, 200, 200, 1);
    w.finding(finding(
        "busy-waiting",
        Subject::Loop(spin),
        "io_thread_main() networking.c:4021 burns 73 % of the CPU time waiting in a loop",
        &[
            "3 threads of io-# spent 1.46 s of CPU time in it (487 samples)",
            "4 active threads on 2 CPUs: working threads were off the CPU for 350 ms",
        ],
        ("more threads poll than there are CPUs", "let them block (futex, condition variable, eventfd) after a short spin, or use fewer of them than CPUs (networking.c:4021)"),
        (1.3, 1.7, 2.0, "the work of the main thread"),
    ));
    w.finish(4)
}

/// Readers, one coder, writers: the coder limits.
pub fn pipeline() -> World {
    let mut w = World::new("encode", 8);
    let p = w.process("encode", 300);
    let (readers, reader) = w.group(p, "reader", 2);
    let (coders, coder) = w.group(p, "coder", 1);
    let (writers, writer) = w.group(p, "writer", 2);
    let at_code = w.site(
        p,
        "dct.c",
        &[("transform", 512), ("encode_block", 80), ("coder_main", 30)],
    );
    let at_put = w.site(p, "queue.c", &[("queue_put", 20), ("reader_main", 10)]);
    let at_take = w.site(p, "queue.c", &[("queue_take", 40), ("writer_main", 50)]);
    let (raw, done) = (
        w.object(p, ObjectKind::Cond, "raw_free"),
        w.object(p, ObjectKind::Cond, "done_ready"),
    );
    w.phase(1700, 1, 1, 1, (coder[0], at_code));
    w.phase(300, 2, 2, 2, (coder[0], at_code));
    w.spent(
        coder[0],
        Spent {
            cm: 1850.0,
            running: 1990,
            delayed: 10,
            ..Spent::default()
        },
    );
    for thread in reader.iter().chain(&writer) {
        w.spent(
            *thread,
            Spent {
                cm: 37.5,
                running: 75,
                blocked: 1925,
                ..Spent::default()
            },
        );
    }
    w.woken_by(readers, &[(coders, 1800, 3840)]);
    w.woken_by(writers, &[(coders, 1800, 3850)]);
    let mut code = path(p, coders, at_code, 1700.0, 2000.0);
    code.functions = vec![
        function(
            "transform",
            520,
            1560.0,
            vec![
                line("dct.c", 512, 300, 900.0),
                line("dct.c", 515, 220, 660.0),
            ],
        ),
        function(
            "encode_block",
            46,
            140.0,
            vec![line("encode.c", 81, 46, 140.0)],
        ),
    ];
    w.critical.paths = vec![code];
    w.off(OffReason::Futex, 3600, 7690, 6500, 4);
    for (group, site, object) in [(readers, at_put, raw), (writers, at_take, done)] {
        w.critical.edges.push(EdgeRow {
            process: p,
            group,
            site: Some(site),
            reason: OffReason::Futex,
            object: Some(object),
            waker: Waker::Thread(coder[0], Some(at_code)),
            waker_group: Some(coders),
            n: 1800,
            wait_ns: 3840 * MS,
            max_ns: 4 * MS,
            low_ns: 3250e6,
            waker_running_ns: 3820 * MS,
            waker_delayed_ns: 20 * MS,
            ..EdgeRow::default()
        });
        w.critical.waits.push(WaitRow {
            process: p,
            reason: OffReason::Futex,
            nr: 202,
            site: Some(site),
            object: Some(object),
            group,
            threads: 2,
            n: 1800,
            sum_ns: 3840 * MS,
            max_ns: 4 * MS,
            low_ns: 3250e6,
            critical_ns: 1625e6,
            ..WaitRow::default()
        });
    }
    w.finding(finding(
        "limiting-stage",
        Subject::Groups(vec![coders, readers, writers]),
        "coder has 93 % of the CMetric: the groups that it works with wait for it",
        &[
            "coder worked 100 % of its time, reader-# 3.8 %, writer-# 3.8 %",
            "all waits of reader-# and writer-# were ended by coder",
        ],
        (
            "one stage of the pipeline has too few threads",
            "more threads for coder: 3 instead of 1 (transform() dct.c:512)",
        ),
        (1.7, 2.8, 3.0, "coder, with 3 threads"),
    ));
    w.finish(5)
}

/// Both CPUs are busy to the end.
pub fn nothing_wrong() -> World {
    let mut w = World::new("blast", 2);
    let p = w.process("blast", 900);
    let (_, mains) = w.group(p, "main", 1);
    let (_, workers) = w.group(p, "worker", 2);
    let at = w.site(p, "blast.c", &[("align", 70), ("worker_main", 20)]);
    w.phase(990, 2, 2, 2, (workers[0], at));
    w.phase(10, 2, 2, 2, (workers[0], at));
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
                cm: 500.0,
                running: 999,
                delayed: 1,
                ..Spent::default()
            },
        );
    }
    w.off(OffReason::Futex, 2, 1000, 0, 1);
    w.critical.verdict = "2.0 of 2 threads worked on average, low parallelism 0 % of the run: it is CPU bound; nothing here keeps it from running in parallel.".into();
    w.finish(2)
}
