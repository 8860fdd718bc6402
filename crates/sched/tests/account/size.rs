//! Many threads, many events, many places.

use std::time::Duration;

use convoy_profile::{OffReason, SchedSource};
use convoy_sched::{Accounting, Event, State, WakerIs};

use crate::draw::{schedule, steady};
use crate::laws::check;
use crate::tell::{account, at, block, by, init, run, wake, OPTIONS};

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

/// Says how long an event takes; how long it may take is for the benchmarks.
#[test]
fn speed() {
    for (threads, source) in [
        (4, SchedSource::Bpf),
        (16, SchedSource::Bpf),
        (64, SchedSource::Bpf),
        (1_000, SchedSource::Bpf),
        (16, SchedSource::Perf),
    ] {
        let events: Vec<Event> = steady(11, threads, 300_000, source);
        let mut a = Accounting::new(convoy_sched::Options { source, ..OPTIONS });
        let began = cpu_time();
        for event in &events {
            a.push(event);
        }
        let ns = (cpu_time() - began).as_nanos() as f64 / events.len() as f64;
        let out = a.finish(0);
        println!("{threads} threads, {source:?}: {ns:.0} ns per event");
        assert_eq!(out.sched.events, 300_000);
    }
}
