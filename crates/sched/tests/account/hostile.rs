//! Lost, contradictory and shuffled events: no panic, and the laws hold all the same.

use convoy_profile::{Lost, OffReason, SchedSource};
use convoy_sched::{Event, Out, State};

use crate::draw::{schedule, Draw};
use crate::laws::check;
use crate::tell::{account, at, block, by, exit, fork, init, run, sample, wake, OPTIONS};

#[test]
fn lost_events_heal() {
    for seed in 0..40 {
        let mut d = Draw::new(seed + 5_000);
        let mut events = schedule(seed, 5, 1_000, SchedSource::Bpf);
        events.retain(|_| d.below(10) > 0);
        let end = events.last().unwrap().ts();
        let out = account(OPTIONS, &events, end);
        check(&out);
        assert!(out.sched.contradictions > 0, "seed {seed}");
    }
}

#[test]
fn shuffled_events_are_accounted_for() {
    for seed in 0..40 {
        let mut d = Draw::new(seed + 6_000);
        let mut events = schedule(seed, 5, 500, SchedSource::Bpf);
        for i in (1..events.len()).rev() {
            events.swap(i, d.below(i as u64 + 1) as usize);
        }
        let out = account(OPTIONS, &events, 0);
        check(&out);
    }
}

/// Any event with any id at any time.
fn nonsense(d: &mut Draw, ts: u64) -> Event {
    let ts = match d.below(50) {
        0 => d.below(u64::MAX),
        1 => 0,
        _ => ts,
    };
    let (tid, other) = (d.below(6) as u32, d.below(6) as u32);
    let place = at(d.below(3) as u32, OffReason::Futex);
    match d.below(12) {
        0 => Event::Out {
            ts,
            tid,
            how: Out::Dead,
        },
        1 => Event::Out {
            ts,
            tid,
            how: Out::Preempted(place),
        },
        2 => block(ts, tid, 1),
        3 | 4 => run(ts, tid),
        5 => wake(ts, tid, by(other, 1)),
        6 => Event::Fork {
            ts,
            tid,
            pid: d.below(6) as u32,
            parent: other,
        },
        7 => fork(ts, tid, other),
        8 => Event::Exec {
            ts,
            pid: tid,
            old_tid: other,
        },
        9 => exit(ts, tid),
        10 => {
            let state = match d.below(3) {
                0 => State::Running,
                1 => State::Ready,
                _ => State::Blocked(place),
            };
            Event::Init {
                ts,
                tid,
                pid: other,
                state,
            }
        }
        _ => sample(ts, tid, 1, (d.below(2) == 0).then_some(0)),
    }
}

#[test]
fn nonsense_keeps_to_the_laws() {
    for seed in 0..200 {
        let mut d = Draw::new(seed + 7_000);
        let mut ts = 0;
        let mut events = Vec::new();
        for _ in 0..400 {
            ts += d.below(100);
            events.push(nonsense(&mut d, ts));
        }
        // Times near the end of the clock would overflow sums of several threads' times.
        for e in &mut events {
            clamp(e, 1 << 58);
        }
        check(&account(OPTIONS, &events, 0));
    }
}

#[test]
fn times_at_the_end_of_the_clock_do_not_panic() {
    for seed in 0..50 {
        let mut d = Draw::new(seed + 8_000);
        let events: Vec<_> = (0..200).map(|i| nonsense(&mut d, i)).collect();
        let out = account(OPTIONS, &events, u64::MAX);
        assert_eq!(out.sched.end_ns, u64::MAX);
    }
}

fn clamp(event: &mut Event, most: u64) {
    match event {
        Event::Out { ts, .. }
        | Event::In { ts, .. }
        | Event::Wakeup { ts, .. }
        | Event::Fork { ts, .. }
        | Event::Exec { ts, .. }
        | Event::Exit { ts, .. }
        | Event::Init { ts, .. }
        | Event::Sample { ts, .. } => *ts = (*ts).min(most),
        Event::Lost { .. } => {}
    }
}

#[test]
fn nothing_at_all() {
    let out = account(OPTIONS, &[], 77);
    check(&out);
    assert_eq!((out.sched.start_ns, out.sched.end_ns), (77, 77));
    assert!(out.images.is_empty());
}

#[test]
fn a_late_event_counts_as_of_now() {
    let late = block(20, 1, 3);
    let out = account(OPTIONS, &[init(0, 1, State::Running), run(30, 9), late], 50);
    check(&out);
    assert_eq!(out.sched.threads[0].running_ns, 30);
    assert_eq!(out.sched.threads[0].blocked_ns, 20);
    assert_eq!(out.sched.contradictions, 1, "nobody knows thread 9");
}

/// Thread 1 blocks at 10; its wake-up is lost, and it is seen on a processor at 30.
#[test]
fn a_thread_that_runs_without_having_been_woken_is_active_from_then_on() {
    for next in [run(30, 1), sample(30, 1, 4, None)] {
        let out = account(
            OPTIONS,
            &[init(0, 1, State::Running), block(10, 1, 3), next],
            50,
        );
        check(&out);
        assert_eq!(out.sched.contradictions, 1);
        assert_eq!(out.sched.active, [20, 30]);
        assert_eq!(out.sched.wakes.len(), 1);
    }
}

/// Thread 1 blocks twice in a row: it must have run in between, nobody knows how long.
#[test]
fn two_waits_in_a_row_are_two() {
    let events = [init(0, 1, State::Running), block(10, 1, 3), block(30, 1, 4)];
    let out = account(OPTIONS, &events, 50);
    check(&out);
    assert_eq!(out.sched.contradictions, 1);
    assert_eq!(out.sched.active, [40, 10]);
    let waits: Vec<_> = out.sched.offs.iter().map(|o| (o.stack, o.sum_ns)).collect();
    assert_eq!(waits, [(3, 20), (4, 20)]);
}

#[test]
fn lost_events_are_located_and_joined() {
    let lost = |from, to, n, stacks| Event::Lost {
        from,
        to,
        n,
        stacks,
    };
    let out = account(
        OPTIONS,
        &[
            init(0, 1, State::Running),
            lost(10, 20, 3, false),
            lost(15, 25, 2, false),
            lost(15, 25, 9, true),
            lost(24, 26, 1, false),
            lost(40, 50, 1, false),
        ],
        30,
    );
    check(&out);
    let row = |from_ns, to_ns, events, stacks| Lost {
        from_ns,
        to_ns,
        events,
        stacks,
    };
    assert_eq!(
        out.sched.lost,
        [
            row(10, 26, 6, false),
            row(15, 25, 9, true),
            row(40, 50, 1, false)
        ]
    );
    // Telling of a loss is no event in time.
    assert_eq!((out.sched.events, out.sched.end_ns), (1, 30));
}

#[test]
fn many_losses_do_not_make_many_rows() {
    let mut events = vec![init(0, 1, State::Running)];
    for i in 0..5_000 {
        let (from, to) = (i * 100, i * 100 + 1);
        events.push(Event::Lost {
            from,
            to,
            n: 1,
            stacks: i % 2 == 0,
        });
    }
    let out = account(OPTIONS, &events, 30);
    assert!(out.sched.lost.len() <= 1_001);
    assert_eq!(out.sched.lost.iter().map(|l| l.events).sum::<u64>(), 5_000);
}
