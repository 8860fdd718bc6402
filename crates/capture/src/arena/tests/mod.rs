//! Arenas as the agent writes them; [`damage`] has the damaged ones.

use std::collections::HashMap;

use convoy_abi as abi;
use convoy_profile::{
    Count, Detail, Frame, Memory, Module, Object, ObjectKind, Op, Pair, Process, Reason, Symbol,
    Thread, Unattributed, Wait,
};

mod damage;
mod unfinished;

use super::bytes::Bytes;
use super::synthetic::{reference, Builder};
use super::{latest_ns, life, read, Context, NoArena, DAMAGED};
use crate::procfs::ThreadFigures;

const MAIN: u32 = 0;
const WORKER: u32 = 1;
/// Call sites: return addresses in the only module.
const LOCK_AT: u64 = 0x1100;
const POST_AT: u64 = 0x1200;
/// A static mutex, one on the worker's stack, and a heap condition variable.
const STATIC_LOCK: u64 = 0x5010;
const STACK_LOCK: u64 = 0x8_0100;
const HEAP_COND: u64 = 0x99_0000;

fn bytes_of<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

/// Places in the arena of [`sample`] that tests change.
struct Places {
    main: usize,
    worker: usize,
    detail: abi::Ref,
    sites: usize,
}

fn frame(pc: u64, flags: u32) -> abi::Frame {
    abi::Frame {
        pc,
        offset: pc - 0x1000,
        module: 7,
        flags,
        reserved: 0,
    }
}

fn sample() -> (Builder, Places) {
    let mut b = Builder::new();
    b.header.exe = bytes_of("/bin/x");
    b.header.cmdline = bytes_of("x\0-v\0");
    b.header.argc_bytes = 5;
    b.header.drops[abi::CV_DROP_REENTRANT] = 3;
    let module = abi::Module {
        bias: 0x1000,
        lo: 0x1000,
        hi: 0x6000,
        id: 7,
        build_id_len: 2,
        build_id: bytes_of("\u{1}\u{2}"),
        path: bytes_of("/bin/x"),
        ..Default::default()
    };
    b.block(abi::CV_BLOCK_MODULES, u32::MAX, 0, &[module]);
    // ids 1, 2, 3
    let frames = [
        frame(LOCK_AT, 0),
        frame(0x1300, abi::CV_FRAME_NO_RULE),
        frame(0x1400, abi::CV_FRAME_EXACT),
    ];
    b.block(abi::CV_BLOCK_FRAMES, u32::MAX, 1, &frames);
    let stacks = b.stacks(&[&[1, 2], &[1]]);
    let main = abi::Thread {
        index: MAIN,
        tid: 100,
        state: abi::CV_THREAD_RUNNING,
        start_ns: 1_000,
        name: bytes_of("main"),
        lives: 1,
        cpu_ns: 500,
        user_ns: 400,
        sys_ns: 100,
        run_delay_ns: 7,
        sites_mask: 63,
        ..Default::default()
    };
    let worker = abi::Thread {
        index: WORKER,
        tid: 101,
        parent_tid: 100,
        state: abi::CV_THREAD_ENDED,
        start_frame: 3,
        create_stack: stacks[1],
        start_ns: 2_000,
        end_ns: 8_000,
        name: bytes_of("worker"),
        stack_lo: 0x8_0000,
        stack_hi: 0x9_0000,
        lives: 1,
        sites_mask: 63,
        ..Default::default()
    };
    let main = b.block(abi::CV_BLOCK_THREAD, MAIN, 0, &[main]);
    let worker = b.block(abi::CV_BLOCK_THREAD, WORKER, 0, &[worker]);
    let object = abi::Object {
        addr: STATIC_LOCK,
        kind: abi::CV_OBJECT_MUTEX,
        init_stack: stacks[1],
        lives: 2,
        attr: 1,
        module: 8,
        destroyed: 1,
        waker_ns: 8_500,
        ..Default::default()
    };
    b.block(
        abi::CV_BLOCK_OBJECTS,
        u32::MAX,
        0,
        &[object, abi::Object::default()],
    );
    let mut wait = abi::WaitDetail {
        n: 2,
        sum_ns: 300,
        max_ns: 200,
        ..Default::default()
    };
    wait.hist[6] = 1;
    wait.hist[7] = 1;
    let wait = b.block(
        abi::CV_BLOCK_WAITS,
        WORKER,
        0,
        &[abi::WaitDetail::default(), wait],
    ) + 192;
    let detail = abi::EntryDetail {
        samples: 4,
        acquire_n: 2,
        acquire_sum_ns: 40,
        hold_n: 3,
        hold_sampled_n: 1,
        hold_sum_ns: 3_000,
        hold_sampled_sum_ns: 10,
        hold_max_us: 2,
        wait: reference(wait),
    };
    let count = abi::EntryCount {
        n: 10,
        failed: 1,
        sampled: 2,
        ..Default::default()
    };
    let pair = abi::EntryPair {
        n: 2,
        wait_sum_ns: 300,
        wait_max_ns: 200,
        peer_tid: 100,
        peer_frame: 1,
        peer_stack: stacks[1],
        ..Default::default()
    };
    let op = abi::CV_OP_MUTEX_LOCK;
    let entries = b.block(
        abi::CV_BLOCK_ENTRIES,
        WORKER,
        0,
        &[
            abi::Entry::from_detail(STATIC_LOCK, stacks[0], op, detail),
            abi::Entry {
                obj: STATIC_LOCK,
                site: 1,
                kind: abi::CV_ENTRY_COUNT,
                op,
                count,
            },
            abi::Entry::from_pair(STATIC_LOCK, stacks[0], op, pair),
            abi::Entry {
                obj: STATIC_LOCK,
                site: 1,
                kind: abi::CV_ENTRY_NONE,
                op,
                count,
            },
        ],
    );
    b.change::<abi::Thread>(worker, |t| {
        t.cache[3] = abi::Slot {
            obj: STATIC_LOCK,
            ra: LOCK_AT,
            n: 5,
            failed: 0,
            op,
            flags: 0,
        };
        t.cache[9] = abi::Slot {
            obj: HEAP_COND,
            ra: POST_AT,
            n: 6,
            failed: 2,
            op: abi::CV_OP_COND_SIGNAL,
            flags: 0,
        };
        t.sites[1] = abi::Site {
            ra: LOCK_AT,
            n: 50,
            failed: 5,
            op,
            frame: 1,
            ..Default::default()
        };
    });
    let grown = abi::Site {
        ra: LOCK_AT,
        n: 70,
        failed: 5,
        op,
        frame: 1,
        ..Default::default()
    };
    let sites = b.block(
        abi::CV_BLOCK_SITES,
        WORKER,
        0,
        &[grown, abi::Site::default()],
    );
    (
        b,
        Places {
            main,
            worker,
            detail: reference(entries),
            sites,
        },
    )
}

fn process(bytes: &dyn Bytes) -> Process {
    read(
        bytes,
        Context {
            seen_end_ns: 9_500,
            polled: &HashMap::new(),
        },
    )
    .expect("an arena")
}

fn known(pc: u64, exact: bool, no_rule: bool) -> Frame {
    let symbol = Symbol::Unknown(Reason::NotResolved);
    Frame {
        pc,
        module: Some(0),
        offset: pc - 0x1000,
        exact,
        no_rule,
        symbol,
    }
}

/// Index of the frame at an address.
fn at(process: &Process, pc: u64) -> u32 {
    process
        .frames
        .iter()
        .position(|f| f.pc == pc)
        .expect("a frame") as u32
}

#[test]
fn everything_that_the_agent_wrote_is_read() {
    let (builder, _) = sample();
    let p = process(&builder.finish());
    assert_eq!(
        (p.pid, p.ppid, p.start_ns, p.end_ns, p.ended_cleanly),
        (100, 99, 1_000, 9_000, true)
    );
    assert_eq!((p.exe.as_str(), p.inline_mutex), ("/bin/x", true));
    assert_eq!(p.args, ["x", "-v"]);
    assert_eq!(p.drops, [("reentrant".to_owned(), 3)]);
    assert_eq!(
        p.modules,
        [Module {
            path: "/bin/x".into(),
            build_id: vec![1, 2],
            bias: 0x1000,
            lo: 0x1000,
            hi: 0x6000,
            symbols: String::new()
        }]
    );
    let mut frames = p.frames.clone();
    frames.sort_by_key(|f| f.pc);
    let expected = [
        known(LOCK_AT, false, false),
        known(POST_AT, false, false),
        known(0x1300, false, true),
        known(0x1400, true, false),
    ];
    assert_eq!(frames, expected);
    let (lock_at, post_at) = (at(&p, LOCK_AT), at(&p, POST_AT));
    assert_eq!(
        p.stacks,
        [vec![], vec![lock_at], vec![lock_at, at(&p, 0x1300)]]
    );
    assert_eq!(
        p.threads,
        [
            Thread {
                tid: 100,
                name: "main".into(),
                start_ns: 1_000,
                end_ns: 9_000,
                cpu_ns: 500,
                user_ns: 400,
                sys_ns: 100,
                run_delay_ns: Some(7),
                cpu_exact: true,
                lives: 1,
                ..Thread::default()
            },
            Thread {
                tid: 101,
                parent_tid: 100,
                name: "worker".into(),
                start: Some(at(&p, 0x1400)),
                create_stack: 1,
                start_ns: 2_000,
                end_ns: 8_000,
                cpu_exact: false, // no CPU time at all: it could not tell
                lives: 1,
                stack_lo: 0x8_0000,
                stack_hi: 0x9_0000,
                ..Thread::default()
            },
        ]
    );
    let lock = Object {
        addr: STATIC_LOCK,
        kind: ObjectKind::Mutex,
        init_stack: 1,
        lives: 2,
        destroyed: 1,
        attr: 1,
        module: Some(0),
        symbol: None,
        memory: Memory::Static,
    };
    let cond = Object {
        addr: HEAP_COND,
        kind: ObjectKind::Cond,
        memory: Memory::Heap,
        ..Object::default()
    };
    assert_eq!(p.objects, [lock, cond]);
    // the cache's 5 and the entry's 10 are of one row
    let locks = Count {
        object: 0,
        frame: lock_at,
        thread: 1,
        op: Op::MutexLock,
        n: 15,
        failed: 1,
        sampled: 2,
    };
    let signals = Count {
        object: 1,
        frame: post_at,
        thread: 1,
        op: Op::CondSignal,
        n: 6,
        failed: 2,
        sampled: 0,
    };
    assert_eq!(p.counts, [locks, signals]);
    let site = Unattributed {
        frame: lock_at,
        thread: 1,
        op: Op::MutexLock,
        n: 50,
        failed: 5,
    };
    assert_eq!(p.unattributed, [site]);
    let wait = Wait {
        n: 2,
        sum_ns: 300,
        max_ns: 200,
        hist: vec![0, 0, 0, 0, 0, 0, 1, 1],
        ..Wait::default()
    };
    let detail = Detail {
        object: 0,
        stack: 2,
        thread: 1,
        op: Some(Op::MutexLock),
        samples: 4,
        acquire_n: 2,
        acquire_sum_ns: 40,
        hold_n: 3,
        hold_sum_ns: 3_000,
        hold_sampled_n: 1,
        hold_sampled_sum_ns: 10,
        hold_max_us: 2,
        wait: Some(wait),
    };
    assert_eq!(p.details, [detail]);
    let pair = Pair {
        object: 0,
        stack: 2,
        thread: 1,
        peer: Some(0),
        peer_frame: Some(lock_at),
        peer_stack: 1,
        n: 2,
        wait_sum_ns: 300,
        wait_max_ns: 200,
    };
    assert_eq!(p.pairs, [pair]);
}

#[test]
fn grown_site_table_replaces_the_first() {
    let (mut builder, places) = sample();
    builder.change::<abi::Thread>(places.worker, |t| {
        t.sites_table = reference(places.sites - 64)
    });
    let p = process(&builder.finish());
    assert_eq!(p.unattributed.iter().map(|u| u.n).collect::<Vec<_>>(), [70]);

    // a reference that was overwritten: the newest table of the thread is taken
    let (mut builder, places) = sample();
    builder.change::<abi::Thread>(places.worker, |t| t.sites_table = 3);
    let p = process(&builder.finish());
    assert_eq!(p.unattributed.iter().map(|u| u.n).collect::<Vec<_>>(), [70]);
}

#[test]
fn run_delay_is_told_from_outside() {
    let delay = |cpu_ns: u64, polled_cpu_ns: u64, run_delay_ns: u64| {
        let mut builder = Builder::new();
        let thread = abi::Thread {
            tid: 100,
            state: abi::CV_THREAD_ENDED,
            start_ns: 1_000,
            end_ns: 1_000_001_000,
            lives: 1,
            cpu_ns,
            ..Default::default()
        };
        builder.block(abi::CV_BLOCK_THREAD, 0, 0, &[thread]);
        let figures = ThreadFigures {
            cpu_ns: polled_cpu_ns,
            run_delay_ns: Some(run_delay_ns),
            ..Default::default()
        };
        let polled = HashMap::from([(100, figures)]);
        let context = Context {
            seen_end_ns: 2_000_000_000,
            polled: &polled,
        };
        let process = read(&builder.finish(), context).unwrap();
        let thread = &process.threads[0];
        assert!(thread.cpu_exact && thread.cpu_ns == cpu_ns);
        thread.run_delay_ns
    };
    assert_eq!(delay(400_000_000, 400_000_000, 70), Some(70));
    assert_eq!(
        delay(500_000_000, 400_000_000, 80),
        Some(100),
        "it ran a quarter more"
    );
    assert_eq!(
        delay(500_000_000, 1, 80),
        Some(160),
        "seen too early to say"
    );
    assert_eq!(
        delay(900_000_000, 900_000_000, 500_000_000),
        Some(100_000_000),
        "no more than its life had room for"
    );
    assert_eq!(
        delay(100_000_000, 400_000_000, 80),
        None,
        "another thread with its tid"
    );
}

#[test]
fn memory_used_again_is_told_apart_by_kind() {
    let mut b = Builder::new();
    b.block(
        abi::CV_BLOCK_THREAD,
        0,
        0,
        &[abi::Thread {
            state: abi::CV_THREAD_RUNNING,
            ..Default::default()
        }],
    );
    let object = |kind, lives| abi::Object {
        addr: 64,
        kind,
        lives,
        ..Default::default()
    };
    let objects = [
        object(abi::CV_OBJECT_MUTEX, 1),
        object(abi::CV_OBJECT_SEM, 2),
        object(abi::CV_OBJECT_MUTEX, 3),
        abi::Object {
            addr: 128,
            ..Default::default()
        },
    ];
    b.block(abi::CV_BLOCK_OBJECTS, u32::MAX, 0, &objects);
    let detail = |obj, op| {
        abi::Entry::from_detail(
            obj,
            0,
            op,
            abi::EntryDetail {
                samples: 1,
                ..Default::default()
            },
        )
    };
    let entries = [
        detail(64, abi::CV_OP_MUTEX_LOCK),
        detail(64, abi::CV_OP_SEM_WAIT),
        detail(64, abi::CV_OP_COND_WAIT),
        detail(128, abi::CV_OP_RWLOCK_RD),
    ];
    b.block(abi::CV_BLOCK_ENTRIES, 0, 0, &entries);
    let p = process(&b.finish());
    let meant: Vec<_> = p
        .details
        .iter()
        .map(|d| &p.objects[d.object as usize])
        .map(|o| (o.kind, o.lives))
        .collect();
    let expected = [
        (ObjectKind::Sem, 2),
        (ObjectKind::Mutex, 3),
        (ObjectKind::RwLock, 0),
        (ObjectKind::Cond, 0),
    ];
    assert_eq!(meant, expected);
}

#[test]
fn what_was_claimed_but_not_written_is_stepped_over() {
    let mut b = Builder::new();
    b.gap(640);
    let thread = abi::Thread {
        tid: 5,
        lives: 1,
        state: abi::CV_THREAD_RUNNING,
        ..Default::default()
    };
    b.block(abi::CV_BLOCK_THREAD, 0, 0, &[thread]);
    b.gap(64);
    let p = process(&b.finish());
    assert_eq!(p.threads.len(), 1);
    assert_eq!(p.drops, [(DAMAGED.to_owned(), 2)]);
}

#[test]
fn thread_that_never_ran_has_no_life() {
    let mut b = Builder::new();
    let created = abi::Thread {
        state: abi::CV_THREAD_CREATED,
        stack_hi: 8 << 20,
        ..Default::default()
    };
    let failed = abi::Thread {
        index: 1,
        state: abi::CV_THREAD_FAILED,
        ..Default::default()
    };
    b.block(abi::CV_BLOCK_THREAD, 0, 0, &[created]);
    b.block(abi::CV_BLOCK_THREAD, 1, 0, &[failed]);
    let p = process(&b.finish());
    assert_eq!(p.threads, [Thread::default()]);
}

#[test]
fn other_files_are_no_arena() {
    let (mut builder, _) = sample();
    builder.header.version = 9;
    let context = Context {
        seen_end_ns: 0,
        polled: &HashMap::new(),
    };
    assert_eq!(
        read(&builder.finish(), context).unwrap_err(),
        NoArena::OtherVersion(9)
    );
    for bytes in [vec![], vec![0; 4095], vec![0; 8192], b"CVOYARA1".to_vec()] {
        assert_eq!(read(&bytes, context).unwrap_err(), NoArena::NotReady);
    }
}

#[test]
fn latest_time_is_that_of_any_record() {
    let (mut builder, places) = sample();
    builder.header.end_ns = 0;
    builder.change::<abi::Thread>(places.worker, |t| {
        t.held_count = 1;
        t.held[0].acquired_ns = u64::MAX; // nonsense: after "now"
    });
    let bytes = builder.finish();
    assert_eq!(latest_ns(&bytes, 100_000).unwrap(), 8_500);
    assert_eq!(life(&bytes).unwrap().start_ns, 1_000);
    assert!(!life(&bytes).unwrap().ended);
}
