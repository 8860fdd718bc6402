//! Locks of functions that wait for events, too.
#![forbid(unsafe_code)]

use convoy_detect::{analyze, Thresholds};
use convoy_model::Model;
use convoy_testkit::{ms, us, ProfileBuilder};

/// What is advised first for a lock that four threads have for so long each time, in the function that waits for items.
fn first_cause(hold_ns: u64) -> &'static str {
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
        b.acquires(t, lock, at, 500).hold(hold_ns);
        b.contended(t, lock, at, 1500, ms(600))
            .held_by(threads[0], at, at)
            .hold(hold_ns);
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
    assert_eq!(first_cause(us(3)), "queue-lock");
    assert_eq!(first_cause(us(120)), "too-large-critical-section");
}
