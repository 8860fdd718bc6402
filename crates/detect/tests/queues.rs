//! Locks of functions that wait for events, too.
#![forbid(unsafe_code)]

use convoy_detect::{analyze, Thresholds};
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
    let analysis = analyze(&Model::build(b.build()), &Thresholds::default());
    let found = analysis
        .findings
        .into_iter()
        .find(|f| f.id == "contended-lock");
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
