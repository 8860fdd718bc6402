//! Threads that are created together and end apart.
#![forbid(unsafe_code)]

use convoy_detect::{analyze, Thresholds};
use convoy_model::{Model, OffReason};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

/// Two threads on two CPUs that work 60 and 100 ms. Of the machine's time a hypervisor took so much.
fn is_straggler(stolen_ns: u64) -> bool {
    let mut b = ProfileBuilder::new("app");
    b.cpus(2).wall(ms(100));
    let at = b.site("main", "app.c", 10);
    for work in [ms(60), ms(100)] {
        let part = b
            .thread("part")
            .start("part", "app.c", 1)
            .lives(0, work)
            .cpu(work)
            .id();
        b.join(0, part, at, work);
    }
    let mut profile = b.build();
    profile.meta.stolen_ns = stolen_ns;
    let analysis = analyze(&Model::build(profile), &Thresholds::default());
    analysis.findings.iter().any(|f| f.id == "straggler")
}

#[test]
fn what_a_hypervisor_may_have_taken_from_the_last_thread_is_not_uneven_work() {
    assert!(is_straggler(0));
    assert!(is_straggler(ms(2)));
    assert!(!is_straggler(ms(40)));
}

#[test]
fn time_that_the_scheduler_kept_a_thread_from_its_processor_is_not_uneven_work() {
    let mut b = ProfileBuilder::new("app");
    b.cpus(2).wall(ms(100));
    let at = b.site("main", "app.c", 10);
    let mut sched = Schedule::new();
    for kept in [0, ms(40)] {
        let part = b
            .thread("part")
            .start("part", "app.c", 1)
            .lives(0, ms(60) + kept)
            .cpu(ms(60))
            .run_delay(0)
            .id();
        b.join(0, part, at, ms(60) + kept);
        sched.runs(part, at, ms(30));
        sched.waits(part, Wait::new(OffReason::Preempted, at), kept);
        sched.runs(part, at, ms(30));
    }
    let mut profile = b.build();
    sched.put_into(&mut profile);
    let analysis = analyze(&Model::build(profile), &Thresholds::default());
    assert!(!analysis.findings.iter().any(|f| f.id == "straggler"));
}
