//! serial-code: Java's serial garbage collector, for which there are others.

use convoy_model::finding::Finding;
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{analysis, model, only, workers};

const COLLECTS: &str = "DefNewGeneration::collect(bool, bool, unsigned long, bool)";
const OTHER: &str = "VM_HeapDumper::doit()";

/// Three threads work for 60 of 100 ms. Then the virtual machine's thread is in this function of its library for so many ms,
/// and in another one for the rest.
fn stops(library: &str, function: &str, lasts: u64) -> Finding {
    let mut p = ProfileBuilder::new("java");
    let jvm = p.module(library);
    let mut at = |function: &str| {
        let functions = [function, "VMThread::loop()", "VMThread::run()"];
        let frames = functions.map(|f| p.frame_in(jvm, f, "", 0));
        p.stack(&frames)
    };
    let (stops, other) = (at(function), at(OTHER));
    let safe = at("SafepointSynchronize::block");
    let work = p.site("Main.work", "Main.java", 4);
    let vm = p.thread("VM Thread").cpu(1).id();
    let ids = workers(&mut p, 3);
    let mut s = Schedule::new();
    for _ in 0..10 {
        s.waits(vm, Wait::futex(safe, 0x200).woken_by(ids[0], work), ms(60));
        s.runs(vm, stops, ms(lasts)).runs(vm, other, ms(40 - lasts));
        for &t in &ids {
            s.runs(t, work, ms(60));
            s.waits(t, Wait::futex(safe, 0x100).woken_by(vm, stops), ms(40));
        }
    }
    let found = only(&analysis(&model(p, s))).clone();
    assert_eq!(found.id.as_str(), "serial-code");
    found
}

fn advises_a_collector(f: &Finding) -> bool {
    let advised = f.causes[0].fix.contains("-XX:+UseParallelGC");
    // 40 of 100 ms can go, beside what others do. Of a collector that exists, 0.8 of it is expected to; of other code half.
    let expected = if advised { 0.8 } else { 0.5 };
    let mid = 100.0 / (100.0 - 40.0 * expected);
    assert!((f.gain.mid - mid).abs() < 0.01, "{:?}", f.gain);
    assert_eq!(f.caveats.is_empty(), advised, "{f:?}");
    advised
}

#[test]
fn a_collector_of_one_thread_is_told_with_those_that_have_several() {
    assert!(advises_a_collector(&stops("libjvm.so", COLLECTS, 40)));
}

#[test]
fn what_else_stops_a_virtual_machine_is_code_like_any_other() {
    assert!(!advises_a_collector(&stops("libjvm.so", OTHER, 40)));
    // Whose generations those are nobody knows.
    assert!(!advises_a_collector(&stops("libevolve.so", COLLECTS, 40)));
}

#[test]
fn a_phase_is_the_collectors_if_it_has_half_of_it() {
    assert!(advises_a_collector(&stops("libjvm.so", COLLECTS, 21)));
    assert!(!advises_a_collector(&stops("libjvm.so", COLLECTS, 19)));
}
