//! Extraction of small recordings that can be checked by hand. Times are nanoseconds.

use convoy_trace::{Event, Kind, Object, ObjectKind, Recording, Thread, Window, NO_CPU};

use super::*;
use crate::program::{Need, Op};

const L: u32 = 0;
const C: u32 = 1;
const M: u32 = 2;

fn event(at_ns: u64, kind: Kind, object: u32, site: u32, arg: u64) -> Event {
    Event {
        at_ns,
        arg,
        object,
        site,
        kind,
        cpu: NO_CPU,
    }
}

fn recording(threads: Vec<Vec<Event>>, end_ns: u64) -> Recording {
    let object = |kind| Object {
        kind,
        ..Object::default()
    };
    Recording {
        end_ns,
        cpus: 2,
        windows: vec![Window {
            start_ns: 0,
            end_ns,
        }],
        objects: [ObjectKind::Mutex, ObjectKind::Cond, ObjectKind::Mutex]
            .map(object)
            .into(),
        threads: threads
            .into_iter()
            .map(|events| Thread {
                events,
                ..Thread::default()
            })
            .collect(),
        ..Recording::default()
    }
}

/// A machine whose operations cost nothing, so that every nanosecond of a recording is seen.
fn free() -> Machine {
    Machine {
        cpus: 2,
        atomic_local_ns: 0.0,
        atomic_remote_ns: 0.0,
        lock_pair_ns: 0.0,
        rdlock_pair_ns: 0.0,
        futex_check_ns: 0.0,
        futex_eagain_ns: 0.0,
        futex_block_ns: 0.0,
        futex_wake_none_ns: 0.0,
        futex_wake_ns: 0.0,
        futex_wake_ipi_ns: 0.0,
        switch_ns: 0.0,
        tick_ns: 4e6,
        slice_ns: 3e6,
        wake_latency: Vec::new(),
        spawn_ns: 0.0,
        clock_ns: 0.0,
    }
}

fn extracted(recording: &Recording) -> Extraction {
    let window = recording.windows[0];
    let sections = Sections::of(recording);
    Extractor::new(recording, &sections, &free(), RecorderCost::default()).extract(window)
}

fn ops(recording: &Recording, thread: usize) -> Vec<Op> {
    extracted(recording).program.threads[thread].ops.clone()
}

fn work(ns: f32) -> Op {
    Op::Work { ns }
}

fn acquire(section: u32) -> Op {
    acquire_lock(0, section)
}

fn acquire_lock(lock: u32, section: u32) -> Op {
    Op::Acquire {
        lock,
        shared: false,
        section,
    }
}

const RELEASE: Op = Op::Release { lock: 0 };

#[test]
fn a_wait_for_a_lock_is_left_out_and_its_wake_up_call_too() {
    let r = recording(
        vec![vec![
            event(100, Kind::Request, L, 1, 0),
            event(400, Kind::AcquiredAfterWait, L, 1, 0),
            event(450, Kind::Released, L, 2, 0),
            event(480, Kind::Woke, L, 2, 0),
            event(580, Kind::Acquired, L, 1, 0),
            event(600, Kind::Released, L, 2, 0),
        ]],
        700,
    );
    assert_eq!(
        ops(&r, 0),
        [
            work(100.0),
            acquire(0),
            work(50.0),
            RELEASE,
            work(100.0),
            acquire(1),
            work(20.0),
            RELEASE,
            work(100.0)
        ]
    );
}

#[test]
fn what_a_signal_handler_does_within_a_wait_comes_before_the_lock_is_had() {
    let r = recording(
        vec![vec![
            event(100, Kind::Request, L, 1, 0),
            event(300, Kind::Acquired, M, 3, 0),
            event(340, Kind::Released, M, 3, 0),
            event(500, Kind::AcquiredAfterWait, L, 1, 0),
            event(550, Kind::Released, L, 2, 0),
        ]],
        600,
    );
    let of = |lock| Op::Release { lock };
    assert_eq!(
        ops(&r, 0),
        [
            work(100.0),
            acquire_lock(1, 0),
            work(40.0),
            of(1),
            acquire_lock(0, 1),
            work(50.0),
            of(0),
            work(50.0)
        ]
    );
}

#[test]
fn a_window_takes_over_what_is_held_and_waited_for_at_its_start() {
    let mut r = recording(
        vec![
            vec![
                event(10, Kind::Acquired, L, 1, 0),
                event(300, Kind::Released, L, 2, 0),
            ],
            vec![
                event(50, Kind::Request, L, 1, 0),
                event(310, Kind::AcquiredAfterWait, L, 1, 0),
                event(350, Kind::Released, L, 2, 0),
            ],
        ],
        400,
    );
    r.windows[0].start_ns = 200;
    let all = extracted(&r).program.threads;
    let held = Op::Acquire {
        lock: 0,
        shared: false,
        section: 0,
    };
    assert_eq!(all[0].ops, [held, work(100.0), RELEASE, work(100.0)]);
    assert_eq!(all[0].start_ns, 0.0);
    assert_eq!(all[1].ops, [acquire(1), work(40.0), RELEASE, work(50.0)]);
    assert!(all[1].start_ns > 0.0);
}

#[test]
fn time_off_the_cpu_is_a_sleep_while_cpus_are_idle_and_nothing_while_they_are_not() {
    let reading = |at, cpu| event(at, Kind::OffCpu, L, 0, cpu);
    let busy = || {
        vec![
            event(0, Kind::Start, L, 0, 0),
            event(1000, Kind::End, L, 0, 0),
        ]
    };
    let one = vec![
        reading(0, 0),
        reading(500, 200),
        event(500, Kind::Acquired, L, 1, 0),
        event(510, Kind::Released, L, 1, 0),
    ];
    let alone = recording(vec![one.clone()], 510);
    assert_eq!(
        ops(&alone, 0)[..3],
        [Op::Sleep { ns: 300.0 }, work(200.0), acquire(0)]
    );
    let crowded = recording(vec![one, busy(), busy()], 510);
    assert_eq!(ops(&crowded, 0)[..2], [work(200.0), acquire(0)]);
}

#[test]
fn time_that_the_kernel_took_from_a_thread_is_no_sleep_though_cpus_seem_idle() {
    let reading = |at, cpu| event(at, Kind::Preempted, L, 0, cpu);
    let one = vec![
        reading(0, 0),
        reading(500, 200),
        event(500, Kind::Acquired, L, 1, 0),
        event(510, Kind::Released, L, 1, 0),
    ];
    assert_eq!(
        ops(&recording(vec![one], 510), 0)[..2],
        [work(200.0), acquire(0)]
    );
}

#[test]
fn time_off_the_cpu_that_is_found_one_operation_late_is_taken_out_of_the_work_before() {
    let reading = |at, cpu| event(at, Kind::Preempted, L, 0, cpu);
    let one = vec![
        reading(0, 0),
        event(900, Kind::Acquired, L, 1, 0),
        reading(910, 210),
        event(910, Kind::Released, L, 1, 0),
    ];
    assert_eq!(
        ops(&recording(vec![one], 1000), 0)[..2],
        [work(210.0), acquire(0)]
    );
}

#[test]
fn a_thread_whose_cpu_another_one_is_seen_on_does_not_work_before_or_after() {
    let on_cpu = |at, kind, cpu| Event {
        cpu,
        ..event(at, kind, L, 1, 0)
    };
    let turn = |at| {
        vec![
            on_cpu(at, Kind::Acquired, 0),
            on_cpu(at + 10, Kind::Released, 0),
        ]
    };
    let r = recording(vec![turn(100), turn(300), turn(500)], 1000);
    // Its first event is 190 ns after the others' last one there, theirs 190 ns after its last.
    assert_eq!(
        ops(&r, 1),
        [work(190.0), acquire(1), work(10.0), RELEASE, work(190.0)]
    );
    assert_eq!(ops(&r, 0)[0], work(100.0));
    assert_eq!(ops(&r, 2)[4], work(490.0));
}

/// A put by thread 0 and a get by thread 1, which waits for it if it comes first.
fn queue(put_ns: u64, get_ns: u64) -> [Vec<Event>; 2] {
    let put = vec![
        event(put_ns, Kind::Acquired, L, 1, 0),
        event(put_ns + 5, Kind::Signal, C, 2, 0),
        event(put_ns + 10, Kind::Released, L, 3, 0),
    ];
    let mut get = vec![event(get_ns, Kind::Acquired, L, 4, 0)];
    if get_ns < put_ns {
        get.push(event(get_ns + 1, Kind::CondWait, C, 5, u64::from(L)));
        get.push(event(put_ns + 20, Kind::CondWoken, C, 5, u64::from(L)));
    }
    let end = get.last().map_or(0, |e| e.at_ns) + 10;
    get.push(event(end, Kind::Released, L, 6, 0));
    [put, get]
}

#[test]
fn gets_of_a_queue_need_tokens_whether_they_waited_or_not() {
    let (mut puts, mut gets) = (Vec::new(), Vec::new());
    for (put, get) in [(200, 100), (500, 600), (800, 700)] {
        let [p, g] = queue(put, get);
        puts.extend(p);
        gets.extend(g);
    }
    let r = recording(vec![puts, gets], 1000);
    let out = extracted(&r);
    assert_eq!(out.program.channels.len(), 1);
    assert_eq!(out.program.channels[0].tokens, 0);
    let awaits = |thread: usize| {
        let ops = out.program.threads[thread].ops.iter();
        ops.filter(|op| {
            matches!(
                op,
                Op::Await {
                    need: Need::Token(0),
                    ..
                }
            )
        })
        .count()
    };
    assert_eq!((awaits(0), awaits(1)), (0, 3));
    let posts = out.program.threads[0].ops.iter();
    assert_eq!(
        posts.filter(|op| **op == Op::Post { channel: 0 }).count(),
        3
    );
    assert_eq!(out.opaque.timing_ns, 0.0);
}

#[test]
fn a_section_that_waits_again_takes_one_token_though_it_worked_between_its_waits() {
    let [put, mut get] = queue(200, 100);
    let [again_put, again_get] = queue(500, 400);
    let again = [
        event(150, Kind::CondWoken, C, 5, u64::from(L)),
        event(170, Kind::CondWait, C, 5, u64::from(L)),
    ];
    get.splice(2..2, again);
    let r = recording(
        vec![[put, again_put].concat(), [get, again_get].concat()],
        600,
    );
    let of = |op: &&Op| matches!(op, Op::Await { .. });
    assert_eq!(ops(&r, 1).iter().filter(of).count(), 2);
}

/// A server's threads that wait at one place, each for its own condition variable.
#[test]
fn threads_with_condition_variables_of_their_own_wait_for_these_alone() {
    const OTHER: u32 = 3;
    let (mut puts, mut gets) = (Vec::new(), [Vec::new(), Vec::new()]);
    for round in 0..4u64 {
        let at = 300 * round;
        let [mut put, mut get] = queue(at + 200, at + 100);
        let waiter = round as usize % 2;
        if waiter == 1 {
            let of_cond = put.iter_mut().chain(&mut get).filter(|e| e.object == C);
            of_cond.for_each(|e| e.object = OTHER);
        }
        puts.extend(put);
        gets[waiter].extend(get);
    }
    let [first, second] = gets;
    let mut r = recording(vec![puts, first, second], 1500);
    let cond = r.objects[C as usize].clone();
    r.objects.push(cond);
    let out = extracted(&r);
    for (thread, own) in [(1, 0), (2, 1)] {
        let ops = out.program.threads[thread].ops.iter();
        let waits: Vec<u32> = ops
            .filter_map(|op| match op {
                Op::Await { cond, .. } => Some(*cond),
                _ => None,
            })
            .collect();
        assert_eq!(waits, [own, own], "thread {thread}");
    }
    let outcome = crate::sim::run(&out.program, &free(), &crate::sim::Options::default());
    assert_eq!(outcome.expect("a valid program").stuck, None);
}

#[test]
fn a_queue_that_holds_items_at_the_start_has_tokens() {
    // Two gets before the first put: the queue held two.
    let get = |at| {
        vec![
            event(at, Kind::Acquired, L, 4, 0),
            event(at + 5, Kind::Released, L, 6, 0),
        ]
    };
    let mut gets = [get(10), get(30)].concat();
    let mut puts = Vec::new();
    for (put, wait) in [(200, 100), (400, 300)] {
        let [p, g] = queue(put, wait);
        puts.extend(p);
        gets.extend(g);
    }
    let r = recording(vec![puts, gets], 1000);
    assert_eq!(extracted(&r).program.channels[0].tokens, 2);
}

#[test]
fn one_broadcast_for_many_waits_is_a_phase() {
    let waiter = vec![
        event(10, Kind::Acquired, L, 4, 0),
        event(11, Kind::CondWait, C, 5, u64::from(L)),
        event(120, Kind::CondWoken, C, 5, u64::from(L)),
        event(130, Kind::Released, L, 6, 0),
    ];
    let master = vec![
        event(90, Kind::Acquired, L, 1, 0),
        event(100, Kind::Broadcast, C, 2, 0),
        event(110, Kind::Released, L, 3, 0),
    ];
    let r = recording(vec![master, waiter.clone(), waiter], 200);
    let await_first = Op::Await {
        cond: 0,
        lock: 0,
        need: Need::Count(0, 1),
    };
    assert!(ops(&r, 1).contains(&await_first), "{:?}", ops(&r, 1));
    let of_master = ops(&r, 0);
    let post = of_master
        .iter()
        .position(|op| *op == Op::Post { channel: 0 });
    let wake = of_master
        .iter()
        .position(|op| *op == Op::Broadcast { cond: 0 });
    assert_eq!(post.map(|at| at + 1), wake);
}

#[test]
fn a_wait_that_nobody_of_the_process_ended_keeps_its_length() {
    let r = recording(
        vec![vec![
            event(10, Kind::Acquired, L, 4, 0),
            event(20, Kind::CondWait, C, 5, u64::from(L)),
            event(120, Kind::CondWoken, C, 5, u64::from(L)),
            event(130, Kind::Released, L, 6, 0),
        ]],
        130,
    );
    let out = extracted(&r);
    assert!(out.program.threads[0]
        .ops
        .contains(&Op::Sleep { ns: 100.0 }));
    assert_eq!(out.opaque.timing_ns, 100.0);
}

#[test]
fn loops_of_failed_tries_are_waiting_and_not_work() {
    let r = recording(
        vec![vec![
            event(100, Kind::TryFailed, L, 1, 500),
            event(900, Kind::TryAcquired, L, 1, 0),
            event(950, Kind::Released, L, 2, 0),
        ]],
        950,
    );
    let out = extracted(&r);
    assert_eq!(
        out.program.threads[0].ops,
        [work(100.0), acquire(0), work(50.0), RELEASE]
    );
    assert_eq!(out.program.locks[0].kind, crate::program::LockKind::Spin);
}

#[test]
fn threads_start_where_they_were_created_and_are_joined() {
    let main = vec![
        event(50, Kind::Create, u32::MAX, 1, 1),
        event(60, Kind::JoinBegin, u32::MAX, 1, 1),
        event(400, Kind::JoinEnd, u32::MAX, 1, 1),
    ];
    let worker = vec![
        event(70, Kind::Start, u32::MAX, 0, 0),
        event(390, Kind::End, u32::MAX, 0, 0),
    ];
    let out = extracted(&recording(vec![main, worker], 500));
    let threads = &out.program.threads;
    assert_eq!(
        threads[0].ops,
        [
            work(50.0),
            Op::Spawn { thread: 1 },
            work(10.0),
            Op::Join { thread: 1 },
            work(100.0)
        ]
    );
    assert!(threads[0].at_start && !threads[1].at_start);
    assert_eq!(threads[1].ops, [work(320.0)]);
}

#[test]
fn the_recorders_time_can_be_left_in_the_work() {
    let lock = |at_ns| event(at_ns, Kind::Acquired, L, 1, 0);
    let release = |at_ns| event(at_ns, Kind::Released, L, 2, 0);
    let events = vec![lock(1_000), release(1_100), lock(1_200), release(1_300)];
    let recording = recording(vec![events], 2_000);
    let machine = Machine {
        lock_pair_ns: 20.0,
        ..free()
    };
    let recorder = RecorderCost {
        event_ns: 0.0,
        empty: Some(Empty {
            section_ns: 30.0,
            gap_ns: 50.0,
        }),
    };
    let sections = Sections::of(&recording);
    let middle = |recorder| {
        let extractor = Extractor::new(&recording, &sections, &machine, recorder);
        let program = extractor.extract(recording.windows[0]).program;
        let work = program.threads[0].ops.iter().filter_map(|op| match op {
            Op::Work { ns } => Some(*ns),
            _ => None,
        });
        work.skip(1).take(3).collect::<Vec<_>>()
    };
    assert_eq!(middle(recorder), [70.0, 50.0, 70.0]);
    // 60 of a section and a gap are the recorder's, 20 the lock's.
    assert_eq!(middle(recorder.left_in(20.0)), [100.0, 80.0, 100.0]);
}

#[test]
fn windows_are_thinned_evenly() {
    let mut r = recording(vec![vec![event(0, Kind::Acquired, L, 0, 0); 1000]], 1000);
    r.windows = (0..10)
        .map(|i| Window {
            start_ns: 100 * i,
            end_ns: 100 * i + 10,
        })
        .collect();
    assert_eq!(choose_windows(&r, 500), [1, 3, 5, 7, 9]);
    assert_eq!(choose_windows(&r, 5000).len(), 10);
}

#[test]
fn a_long_window_is_cut_into_slices_that_cover_it() {
    const N: u64 = 120_000;
    let events = (0..N)
        .map(|at| event(at, Kind::Acquired, L, 0, 0))
        .collect();
    let mut r = recording(vec![events], N);
    let whole = r.windows.clone();
    slice_windows(&mut r, N as usize);
    assert_eq!(r.windows, whole);
    slice_windows(&mut r, N as usize - 1);
    let ends = |w: &Window| (w.start_ns, w.end_ns);
    let slices: Vec<_> = r.windows.iter().map(ends).collect();
    assert_eq!(slices, [(0, 40_000), (40_000, 80_000), (80_000, N)]);
}
