//! Many threads, many events, many places.

use std::time::Duration;

use convoy_profile::{OffReason, SchedSource};
use convoy_sched::{Accounting, Event, State, WakerIs};

use crate::draw::{schedule, steady};
use crate::laws::check;
use crate::tell::{account, at, block, by, init, run, sample, wake, OPTIONS};

/// All start within 10 us, and stop one by one: thread i is active from i to 20,000 - i.
#[test]
fn ten_thousand_threads() {
    let n = 10_000u32;
    let mut events = Vec::new();
    for i in 0..n {
        events.push(init(0, i + 1, State::Blocked(at(1, OffReason::Futex))));
    }
    for i in 0..n {
        events.push(wake(u64::from(i), i + 1, WakerIs::Interrupt));
        events.push(run(u64::from(i), i + 1));
    }
    for i in (0..n).rev() {
        events.push(block(20_000 - u64::from(i), i + 1, 1));
    }
    let out = account(OPTIONS, &events, 20_000);
    check(&out);
    // Active from i to 20,000 - i; the last one alone from 0 to 1 and from 19,999 on.
    let first = &out.sched.threads[0];
    let harmonic: f64 = (1..n).map(|k| 2.0 / f64::from(k)).sum::<f64>() + 2.0 / f64::from(n);
    assert!((first.cm_ns - harmonic).abs() < 1e-4, "{first:?}");
    assert_eq!(first.running_ns, 20_000);
    assert_eq!(out.sched.threads[9_999].running_ns, 2);
}

#[test]
fn ten_thousand_threads_at_random() {
    let events = schedule(3, 10_000, 100_000, SchedSource::Bpf);
    let end = events.last().unwrap().ts();
    let out = account(OPTIONS, &events, end);
    check(&out);
}

/// More places than rows: what is new is told without its place, and nothing is lost from the sums.
#[test]
fn too_many_places_are_folded() {
    let mut events = vec![init(0, 1, State::Running)];
    for i in 0..100_000u32 {
        let ts = u64::from(i) * 10;
        events.extend([
            block(ts + 4, 1, i + 1),
            wake(ts + 8, 1, by(2, i)),
            run(ts + 8, 1),
        ]);
    }
    let out = account(OPTIONS, &events, 1_000_000);
    check(&out);
    let s = &out.sched;
    let rows = s.slices.len() + s.offs.len() + s.wakes.len();
    assert!(rows < 200_100, "{rows}");
    assert!(out.folded >= 60_000, "{}", out.folded);
    let rest = s.offs.iter().find(|o| o.stack == 0).unwrap();
    assert_eq!(rest.reason, OffReason::Futex);
    assert_eq!(rest.n + s.offs.len() as u64 - 1, 100_000);
}

/// Of this thread: the machine may be busy with other tests.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}

/// Each thread in turn is woken by the one before, comes on a processor, is sampled now and then, and blocks:
/// what a lock under contention or a pipeline looks like. Half of them are active.
fn relay(threads: u32, events: usize) -> Vec<Event> {
    let blocked = |tid| init(0, tid, State::Blocked(at(1, OffReason::Futex)));
    let mut all: Vec<Event> = (1..=threads).map(blocked).collect();
    let mut ts = 0;
    for i in 0.. {
        let tid = i % threads + 1;
        let waker = match i {
            0 => WakerIs::Interrupt,
            _ => by((i - 1) % threads + 1, i % 2),
        };
        let last = (i + threads / 2) % threads + 1;
        all.extend([wake(ts, tid, waker), run(ts + 300, tid)]);
        if i % 8 == 0 {
            all.push(sample(ts + 600, tid, 3 + i % 2, None));
        }
        if i >= threads / 2 {
            all.push(block(ts + 800, last, i % 2 + 1));
        }
        ts += 1_000;
        if all.len() > events {
            return all;
        }
    }
    all
}

/// Says how long an event takes; how long it may take is for the benchmarks.
#[test]
fn speed() {
    let schedules = [2, 4, 16, 64, 1_000].map(|n| (n, "a relay", relay(n, 300_000)));
    let random = (16, "at random", steady(11, 16, 300_000, SchedSource::Bpf));
    for (threads, what, events) in schedules.into_iter().chain([random]) {
        let mut a = Accounting::new(OPTIONS);
        let began = cpu_time();
        for event in &events {
            a.push(event);
        }
        let ns = (cpu_time() - began).as_nanos() as f64 / events.len() as f64;
        println!("{threads} threads, {what}: {ns:.0} ns per event");
        let out = a.finish(0);
        check(&out);
        assert_eq!(out.sched.contradictions, 0);
    }
}
