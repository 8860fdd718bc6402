//! Threads that are kept at a lock on purpose.
use convoy_analysis::counters::analyze;
use convoy_analysis::Params;
use convoy_model::finding::Gain;
use convoy_model::FindingId;
use convoy_model::Model;
use convoy_testkit::{ms, us, ProfileBuilder};

/// Two threads; one waits three times for a lock of the other, this long at most, and works for a tenth of the run.
fn waits_three_times(longest_ns: u64) -> Gain {
    let mut b = ProfileBuilder::new("app");
    b.cpus(2).wall(ms(1000));
    let [parent, worker] = ["serve", "io"].map(|name| {
        let thread = b.thread(name).start(name, "app.c", 1);
        thread.lives(0, ms(1000)).cpu(ms(100)).id()
    });
    let (stop, run) = (b.site("stop", "app.c", 10), b.site("io", "app.c", 20));
    let lock = b.mutex("park");
    b.acquires(parent, lock, stop, 20);
    b.acquires(worker, lock, run, 800);
    b.contended(worker, lock, run, 3, ms(600))
        .longest(longest_ns)
        .held_by(parent, stop, stop)
        .hold(us(1));
    let analysis = analyze(&Model::build(b.build()), &Params::default());
    let all = analysis.findings.into_iter().chain(analysis.dismissed);
    let mut locks = all.filter(|f| f.id == FindingId::ContendedLock);
    locks.next().expect("said").gain
}

#[test]
fn one_wait_that_is_most_of_all_promises_nothing() {
    let once = waits_three_times(ms(590));
    assert_eq!((once.low, once.mid), (1.0, 1.0));
    assert!(once.high > 1.5, "{once:?}");
    let often = waits_three_times(ms(220));
    assert!(often.mid > 1.2, "{often:?}");
}
