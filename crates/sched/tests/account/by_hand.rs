//! Small schedules, worked out on paper.

use convoy_profile::{CodeFrom, OffReason, SchedThread, Slice, ThreadRef, Waker};
use convoy_sched::{Output, State, WakerIs};

use crate::laws::check;
use crate::tell::{
    account, at, block, blocked_in, by, exit, init, preempt, run, sample, wake, OPTIONS,
};

fn thread(tid: u32, out: &Output) -> &SchedThread {
    let at = out.images[0].lives.iter().position(|l| l.tid == tid);
    let at = at.unwrap() as u32;
    out.sched
        .threads
        .iter()
        .find(|t| t.thread.thread == at)
        .unwrap()
}

fn slice(tid: u32, stack: u32, out: &Output) -> &Slice {
    let t = thread(tid, out).thread;
    let mut rows = out.sched.slices.iter();
    rows.find(|s| s.thread == t && s.stack == stack).unwrap()
}

/// ```text
/// time      0    10   20   30   40   50   60
/// thread 1  ##############....................   0..30 active
/// thread 2  .....##############...............  10..40
/// thread 3  ..........##############..........  20..50
/// active     1    2    3    2    1    0
/// ```
/// Thread 1: 10/1 + 10/2 + 10/3; thread 2: 10/2 + 10/3 + 10/2; thread 3: 10/3 + 10/2 + 10/1.
#[test]
fn cmetric_is_the_sum_of_dt_by_n() {
    let blocked = || State::Blocked(at(9, OffReason::Futex));
    let out = account(
        OPTIONS,
        &[
            init(0, 1, State::Running),
            init(0, 2, blocked()),
            init(0, 3, blocked()),
            wake(10, 2, by(1, 7)),
            run(12, 2),
            wake(20, 3, by(1, 7)),
            run(20, 3),
            block(30, 1, 5),
            block(40, 2, 5),
            block(50, 3, 5),
        ],
        60,
    );
    check(&out);
    assert_eq!(out.sched.active, [10, 20, 20, 10]);
    assert_eq!(out.sched.working, [10, 20, 20, 10]);
    assert_eq!(out.sched.running, [10, 22, 18, 10]);
    let third = 10.0 / 3.0;
    for (tid, cm) in [(1, 15.0 + third), (2, 10.0 + third), (3, 15.0 + third)] {
        assert!((thread(tid, &out).cm_ns - cm).abs() < 1e-6, "{tid}");
    }
    assert_eq!(slice(1, 5, &out).by_active[..], [0, 10, 10, 10]);
    assert_eq!(slice(2, 5, &out).by_active[..], [0, 0, 20, 10]);
    assert_eq!(slice(2, 5, &out).from, CodeFrom::StackTop);
    assert_eq!(thread(2, &out).delayed_ns, 2);
    assert_eq!(thread(2, &out).blocked_ns, 10 + 20);
    // Thread 3 waited 20 ns while 1 and then 2 were active, and 10 ns at the end with none.
    let wait = |reason, stack| {
        let t = thread(3, &out).thread;
        let mut rows = out.sched.offs.iter();
        rows.find(|o| o.thread == t && o.reason == reason && o.stack == stack)
            .unwrap()
    };
    assert_eq!(wait(OffReason::Futex, 9).by_active[..], [0, 10, 10]);
    assert_eq!(wait(OffReason::Futex, 5).unfinished_ns, 10);
    assert_eq!(wait(OffReason::Futex, 9).hist, vec![0, 0, 0, 0, 1].into());
}

/// Samples at 10 (stack 1) and 25 (stack 2) in a slice of 0..40: 10, 15 + the tail of 15.
#[test]
fn samples_take_what_came_before_them_and_the_last_one_the_tail() {
    let out = account(
        OPTIONS,
        &[
            init(0, 1, State::Running),
            sample(10, 1, 1, None),
            sample(25, 1, 2, None),
            block(40, 1, 3),
            wake(50, 1, WakerIs::Interrupt),
            run(55, 1),
            block(60, 1, 3),
        ],
        60,
    );
    check(&out);
    let of = |stack| {
        let s = slice(1, stack, &out);
        (s.from, s.n, s.active_ns, s.running_ns)
    };
    assert_eq!(of(1), (CodeFrom::Sample, 1, 10, 10));
    assert_eq!(of(2), (CodeFrom::Sample, 1, 30, 30));
    // The slice without samples: woken at 50, on a processor from 55.
    assert_eq!(of(3), (CodeFrom::StackTop, 1, 10, 5));
    assert_eq!(thread(1, &out).slices, 2);
}

#[test]
fn a_slice_cut_by_the_end_is_of_unknown_code() {
    let events = [init(0, 1, State::Running), init(0, 2, State::Running)];
    let ends = [exit(10, 2)];
    let out = account(OPTIONS, &[&events[..], &ends].concat(), 30);
    check(&out);
    assert_eq!(slice(1, 0, &out).from, CodeFrom::Unknown);
    assert_eq!(slice(1, 0, &out).by_active[..], [0, 20, 10]);
    assert_eq!(slice(2, 0, &out).active_ns, 10);
}

/// Threads 1 and 2 run for 40. Thread 2 is found waiting in loop 8 at 10 and 20, and not any more at 30.
#[test]
fn a_spinner_is_active_and_does_not_work() {
    let out = account(
        OPTIONS,
        &[
            init(0, 1, State::Running),
            init(0, 2, State::Running),
            sample(10, 2, 1, Some(8)),
            sample(20, 2, 1, Some(8)),
            sample(30, 2, 2, None),
        ],
        40,
    );
    check(&out);
    assert_eq!(out.sched.active, [0, 0, 40]);
    assert_eq!(out.sched.working, [0, 20, 20]);
    // Thread 1: alone at work from 10 to 30.
    assert_eq!(thread(1, &out).cm_ns, 20.0);
    assert_eq!(thread(1, &out).cm_working_ns, 10.0 + 20.0);
    assert_eq!(thread(2, &out).cm_ns, 20.0);
    assert_eq!(thread(2, &out).cm_working_ns, 10.0);
    assert_eq!(thread(2, &out).spinning_ns, 20);
    let spun = slice(2, 1, &out);
    assert_eq!((spun.spin, spun.n, spun.active_ns), (Some(8), 2, 20));
    assert_eq!(spun.by_working[..], [0, 0, 10]);
    assert_eq!(slice(2, 2, &out).active_ns, 20);
    assert_eq!(slice(2, 2, &out).by_working[..], [0, 0, 10]);
}

/// What passed before the first sample of a loop counts as waiting for one sampling period only.
#[test]
fn spinning_reaches_back_by_one_period() {
    let options = convoy_sched::Options {
        sample_period_ns: 30,
        ..OPTIONS
    };
    let events = [init(0, 1, State::Running), sample(100, 1, 1, Some(0))];
    let out = account(options, &events, 110);
    check(&out);
    assert_eq!(thread(1, &out).spinning_ns, 30 + 10);
}

/// Found in a loop at 10, preempted 20..30, blocked at 40, and back at 50.
#[test]
fn a_spinner_stays_one_when_preempted_and_not_when_it_blocks() {
    let out = account(
        OPTIONS,
        &[
            init(0, 1, State::Running),
            sample(10, 1, 1, Some(0)),
            preempt(20, 1, 1),
            run(30, 1),
            block(40, 1, 4),
            wake(50, 1, WakerIs::Interrupt),
            run(50, 1),
        ],
        70,
    );
    check(&out);
    assert_eq!(out.sched.active, [10, 60]);
    assert_eq!(out.sched.working, [40, 30]);
    assert_eq!(thread(1, &out).spinning_ns, 10 + 10 + 10);
    assert_eq!(thread(1, &out).preempted_ns, 10);
    assert_eq!(thread(1, &out).preemptions, 1);
}

/// One processor, two threads: thread 2 is preempted while thread 1 runs from 10 to 30.
#[test]
fn preempted_time_is_a_row_and_yet_active() {
    let out = account(
        OPTIONS,
        &[
            init(0, 1, State::Blocked(at(9, OffReason::Sleep))),
            init(0, 2, State::Running),
            wake(10, 1, WakerIs::Interrupt),
            preempt(10, 2, 6),
            run(10, 1),
            block(30, 1, 9),
            run(30, 2),
            block(50, 2, 9),
        ],
        50,
    );
    check(&out);
    assert_eq!(out.sched.active, [0, 30, 20]);
    assert_eq!(out.sched.running, [0, 50]);
    let t = thread(2, &out);
    assert_eq!((t.running_ns, t.preempted_ns, t.blocked_ns), (30, 20, 0));
    assert_eq!((t.cm_ns, t.slices), (10.0 + 10.0 + 20.0, 1));
    let row = out
        .sched
        .offs
        .iter()
        .find(|o| o.reason == OffReason::Preempted)
        .unwrap();
    assert_eq!((row.stack, row.n, row.sum_ns), (6, 1, 20));
    assert_eq!(row.by_active[..], [0, 0, 20]);
    assert_eq!(slice(2, 9, &out).running_ns, 30);
    assert_eq!(slice(2, 9, &out).active_ns, 50);
}

/// Thread 2 waits 10..100 for thread 1, which runs, reads a file 20..60, queues for a processor 60..65 and
/// wakes thread 2 from stack 4.
#[test]
fn what_the_waker_did_meanwhile() {
    let out = account(
        OPTIONS,
        &[
            init(0, 1, State::Running),
            init(0, 2, State::Running),
            block(10, 2, 3),
            blocked_in(20, 1, at(5, OffReason::File)),
            wake(60, 1, WakerIs::Interrupt),
            run(65, 1),
            wake(100, 2, by(1, 4)),
            run(101, 2),
            block(110, 2, 3),
            wake(140, 2, by(1, 4)),
            wake(141, 2, by(77, 0)),
        ],
        150,
    );
    check(&out);
    let offs = &out.sched.offs;
    let waits = |w: &&convoy_profile::Wake| offs[w.off as usize].reason == OffReason::Futex;
    let futex: Vec<_> = out.sched.wakes.iter().filter(waits).collect();
    let [w] = futex[..] else {
        panic!("{futex:?}");
    };
    assert_eq!(
        w.waker,
        Waker::Thread(
            ThreadRef {
                process: 0,
                thread: 0
            },
            4
        )
    );
    assert_eq!((w.n, w.wait_ns, w.max_ns), (2, 120, 90));
    assert_eq!(w.waker_running_ns, (10 + 35) + 30);
    assert_eq!(w.waker_delayed_ns, 5);
    let file = offs.iter().position(|o| o.reason == OffReason::File);
    assert_eq!(w.waker_off, [(file.unwrap() as u32, 40)]);
}

#[test]
fn wakers_outside_and_interrupts() {
    let mut events = vec![init(0, 1, State::Running)];
    for (i, waker) in [
        by(77, 1),
        WakerIs::Interrupt,
        by(0, 0),
        WakerIs::Unknown,
        by(1, 2),
    ]
    .into_iter()
    .enumerate()
    {
        let ts = 10 * (i as u64 + 1);
        events.extend([block(ts, 1, 3), wake(ts + 5, 1, waker), run(ts + 6, 1)]);
    }
    let out = account(OPTIONS, &events, 100);
    check(&out);
    let told: Vec<_> = out.sched.wakes.iter().map(|w| (w.waker, w.n)).collect();
    // A thread that waits cannot have woken itself.
    assert_eq!(
        told,
        [
            (Waker::Outside(77), 1),
            (Waker::Interrupt, 3),
            (Waker::Unknown, 1)
        ]
    );
}

#[test]
fn the_first_kernel_stack_of_a_place_is_kept() {
    let mut events = vec![init(0, 1, State::Running)];
    for (i, kernel_stack) in [0, 11, 12].into_iter().enumerate() {
        let ts = 10 * (i as u64 + 1);
        let place = convoy_sched::Place {
            kernel_stack,
            ..at(3, OffReason::Disk)
        };
        events.extend([
            blocked_in(ts, 1, place),
            wake(ts + 5, 1, WakerIs::Interrupt),
            run(ts + 5, 1),
        ]);
    }
    let out = account(OPTIONS, &events, 50);
    assert_eq!(out.sched.offs.len(), 1);
    assert_eq!(out.off_kernel, [11]);
}

/// Thread 1 is alone in the first piece, thread 2 in the second.
#[test]
fn the_top_of_a_piece_is_who_was_alone_in_it() {
    let ms = 1 << 20;
    let out = account(
        OPTIONS,
        &[
            init(0, 1, State::Running),
            init(0, 2, State::Blocked(at(9, OffReason::Futex))),
            wake(ms, 2, by(1, 5)),
            run(ms, 2),
            block(ms, 1, 5),
            block(2 * ms, 2, 6),
        ],
        3 * ms,
    );
    check(&out);
    let stacks: Vec<_> = out
        .sched
        .bins
        .bins
        .iter()
        .map(|b| b.top.map(|t| out.sched.slices[t as usize].stack))
        .collect();
    assert_eq!(stacks, [Some(5), Some(6), None]);
}
