//! Locks of functions that wait for events, too.
use convoy_analysis::counters::analyze;
use convoy_analysis::Params;
use convoy_model::FindingId;
use convoy_model::Model;
use convoy_profile::Op;
use convoy_testkit::{ms, us, ProfileBuilder};

/// What is advised first for a lock that four threads wait for, 1500 times each and so long in all, in the function that waits
/// for items. They have it for so long each time, if that was timed.
fn first_cause(wait_ns: u64, hold_ns: Option<u64>) -> &'static str {
    let mut b = ProfileBuilder::new("app");
    b.cpus(2).wall(ms(1000));
    let at = b.site("next", "pool.c", 10);
    let (lock, items) = (b.mutex("queue"), b.cond("items"));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let thread = b.thread("w").start("work", "pool.c", 1);
            thread.lives(0, ms(1000)).cpu(ms(300)).id()
        })
        .collect();
    for &t in &threads {
        if let Some(ns) = hold_ns {
            b.acquires(t, lock, at, 500).hold(ns);
        }
        let waits = b.op(t, lock, at, Op::MutexLock, 1500);
        let waits = waits.waits(1500, wait_ns).held_by(threads[0], at, at);
        match hold_ns {
            Some(ns) => drop(waits.hold(ns)),
            None => drop(waits),
        }
        b.cond_waits(t, items, at, 10, ms(2));
    }
    let analysis = analyze(&Model::build(b.build()), &Params::default());
    let found = analysis
        .findings
        .into_iter()
        .find(|f| f.id == FindingId::ContendedLock);
    found.expect("said").causes[0].id
}

#[test]
fn sections_that_are_too_long_for_a_queue_do_more_than_that() {
    assert_eq!(first_cause(ms(600), Some(us(3))), "queue-lock");
    let long = "too-large-critical-section";
    assert_eq!(first_cause(ms(600), Some(us(120))), long);
}

#[test]
fn where_nobody_timed_them_the_waits_tell() {
    let long = "too-large-critical-section";
    assert_eq!(first_cause(ms(700), None), long);
    // Half of the others do not wait: the lock is free at times.
    assert_eq!(first_cause(ms(300), None), "queue-lock");
}

/// The gain of larger pieces where two threads hand over single ones through a queue under a futex
/// lock: they run for so long in the kernel and outside, and nobody saw what they sleep for.
fn single_pieces(in_kernel: u64, outside: u64, waits_at_queue: bool) -> [f64; 3] {
    let mut b = ProfileBuilder::new("app");
    b.cpus(2).wall(ms(1000));
    let (lock, items) = (b.futex("queue"), b.cond("items"));
    // The word is a mutex's by the function that waits for it.
    let wait = b.frame("std::sys::sync::mutex::futex::Mutex::lock_contended", "", 0);
    for (function, line) in [("send", 10), ("recv", 20)] {
        let caller = b.frame(function, "chan.rs", line);
        let waits = b.stack(&[wait, caller]);
        let thread = b.thread(function).start(function, "chan.rs", 1);
        let thread = thread.lives(0, ms(1000)).cpu(in_kernel + outside);
        let t = thread.sys(in_kernel).run_delay(0).id();
        b.op(t, lock, waits, Op::FutexWait, 5_000)
            .waits(5_000, ms(120));
        if waits_at_queue {
            b.cond_waits(t, items, waits, 10, ms(2));
        }
    }
    let analysis = analyze(&Model::build(b.build()), &Params::default());
    let mut found = analysis.findings.iter().chain(&analysis.dismissed);
    let found = found
        .find(|f| f.id == FindingId::ContendedLock)
        .expect("found");
    [found.gain.low, found.gain.mid, found.gain.high]
}

#[test]
fn sleep_and_kernel_time_of_unseen_waits_at_a_queue_bound_nothing() {
    // 300 times as fast was measured with pieces of a thousand.
    let high = single_pieces(ms(230), ms(200), true)[2];
    assert_eq!(high, f64::INFINITY);
    // Nobody waits for events there: what the threads sleep for may be anything.
    assert!(single_pieces(ms(230), ms(200), false)[2] < 6.0);
    // What is run outside of the kernel is work for three tenths.
    let high = single_pieces(ms(20), ms(700), true)[2];
    assert!((3.0..50.0).contains(&high), "{high}");
}
