//! garbage-collection: programs of Go.

use convoy_model::finding::Finding;
use convoy_model::FindingId;
use convoy_testkit::sched::Schedule;
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{analysis, go_stack, model, workers};

/// Two threads that run these functions of Go's, called by pack(), for so many of ten milliseconds; pack() alone for the rest.
fn packs(runtime: &[&str], of_ten: u64) -> Option<Finding> {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2).raw().without_agent = true;
    let own = ["main.pack", "runtime.goexit"];
    let inner: Vec<&str> = runtime.iter().chain(&own).copied().collect();
    let (inner, own) = (go_stack(&mut p, &inner), go_stack(&mut p, &own));
    let ids = workers(&mut p, 2);
    let mut s = Schedule::new();
    for &id in &ids {
        for at in 0..500 {
            let stack = if at % 10 < of_ten { inner } else { own };
            s.runs(id, stack, ms(1));
        }
    }
    let found = analysis(&model(p, s)).findings;
    found
        .into_iter()
        .find(|f| f.id == FindingId::GarbageCollection)
}

#[test]
fn what_collects_garbage_for_much_of_the_time_is_told_with_what_makes_it() {
    let assist = [
        "runtime.gcDrainN",
        "runtime.gcAssistAlloc",
        "runtime.mallocgc",
    ];
    let f = packs(&assist, 4).expect("said");
    // Three quarters of two fifths.
    assert!((f.gain.mid - 1.0 / 0.7).abs() < 0.01, "{:?}", f.gain);
    // What is left runs on memory that marking and making it anew keep out of the caches: alone it
    // takes four fifths of its time. A program of 74 % collecting got 13 times as fast, at most 17
    // times.
    let least = 0.6 * 0.6f64.powf(0.4);
    assert!(
        (f.gain.high - (1.0 + 1.1 * (1.0 / least - 1.0))).abs() < 0.15,
        "{:?}",
        f.gain
    );
    assert_eq!(f.gain.low, 1.0);
    assert!(f.title.contains("main.pack()"), "{}", f.title);
    assert!(f.causes[0].fix.contains("sync.Pool"), "{:?}", f.causes);
    assert_eq!(
        packs(&assist, 2),
        None,
        "the price of memory that nobody frees"
    );
}

#[test]
fn making_memory_alone_and_marking_beside_are_no_garbage() {
    assert_eq!(packs(&["runtime.mallocgc"], 6), None);
    let idle = [
        "runtime.gcDrain",
        "runtime.gcDrainMarkWorkerIdle",
        "runtime.gcBgMarkWorker",
    ];
    assert_eq!(packs(&idle, 6), None);
}
