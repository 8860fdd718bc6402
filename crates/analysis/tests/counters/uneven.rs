//! Threads that are created together and end apart.
use convoy_analysis::counters::analyze;
use convoy_analysis::Params;
use convoy_model::finding::Gain;
use convoy_model::{FindingId, Model, OffReason};
use convoy_profile::Profile;
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

/// A program on two CPUs that runs for so long, and where its main thread waits for others.
fn app(wall_ns: u64) -> (ProfileBuilder, u32) {
    let mut b = ProfileBuilder::new("app");
    b.cpus(2).wall(wall_ns);
    let at = b.site("main", "app.c", 10);
    (b, at)
}

/// A thread of the group that is looked at, from `begin` on for `life`, of which it works for `cpu`; main waits for it at `at`.
fn part(b: &mut ProfileBuilder, at: u32, begin: u64, life: u64, cpu: u64) -> u32 {
    let thread = b.thread("part").start("part", "app.c", 1);
    let part = thread.lives(begin, begin + life).cpu(cpu).run_delay(0).id();
    b.join(0, part, at, life);
    part
}

fn straggler(profile: Profile) -> Option<Gain> {
    let analysis = analyze(&Model::build(profile), &Params::default());
    let mut findings = analysis.findings.into_iter();
    Some(findings.find(|f| f.id == FindingId::Straggler)?.gain)
}

fn has_straggler(profile: Profile) -> bool {
    straggler(profile).is_some()
}

/// Two threads on two CPUs that work for so many milliseconds each. Of the machine's time a hypervisor took so much.
fn is_straggler(works: [u64; 2], stolen_ns: u64) -> bool {
    let (mut b, at) = app(ms(works[1]));
    for work in works.map(ms) {
        part(&mut b, at, 0, work, work);
    }
    let mut profile = b.build();
    profile.meta.stolen_ns = stolen_ns;
    has_straggler(profile)
}

#[test]
fn what_a_hypervisor_may_have_taken_from_the_last_thread_is_not_uneven_work() {
    assert!(is_straggler([600, 1000], 0));
    assert!(is_straggler([600, 1000], ms(20)));
    assert!(!is_straggler([600, 1000], ms(400)));
}

#[test]
fn equal_work_differs_by_chance_more_in_a_short_run() {
    assert!(!is_straggler([60, 100], 0));
    assert!(is_straggler([20, 100], 0));
}

/// So many times two threads that work for 6 and 10 ms of ten, one after another for a second.
fn uneven(times: u64) -> Option<Gain> {
    let (mut b, at) = app(ms(1000));
    let length = ms(1000) / times;
    for begin in (0..times).map(|i| length * i) {
        for work in [6, 10].map(|part| length / 10 * part) {
            part(&mut b, at, begin, work, work);
        }
    }
    straggler(b.build())
}

/// Chance would have it another way in some of a hundred times.
#[test]
fn what_is_uneven_again_and_again_is_not_by_chance() {
    assert!(uneven(100).is_some());
}

#[test]
fn who_ends_last_once_is_no_promise() {
    let (once, often) = (uneven(1).unwrap(), uneven(100).unwrap());
    // Even work would take 8 of 10.
    assert!(
        (often.mid - 1.25).abs() < 0.01 && often.low > 1.05,
        "{often:?}"
    );
    assert!(
        (once.mid - 1.0 / 0.84).abs() < 0.01 && once.low == 1.0,
        "{once:?}"
    );
    assert!((once.high - often.high).abs() < 0.01);
}

#[test]
fn time_that_the_scheduler_kept_a_thread_from_its_processor_is_not_uneven_work() {
    let (mut b, at) = app(ms(100));
    let mut sched = Schedule::new();
    for kept in [0, ms(40)] {
        let part = part(&mut b, at, 0, ms(60) + kept, ms(60));
        sched.runs(part, at, ms(30));
        sched.waits(part, Wait::new(OffReason::Preempted, at), kept);
        sched.runs(part, at, ms(30));
    }
    let mut profile = b.build();
    sched.put_into(&mut profile);
    assert!(!has_straggler(profile));
}

/// Two threads that work for 400 and 1000 ms, and each wait that long for a lock that nobody intercepts.
fn is_straggler_at_a_lock(waits: u64) -> bool {
    let (mut b, at) = app(ms(1000 + waits));
    let print = b.site("print", "app.c", 20);
    let mut sched = Schedule::new();
    for work in [400, 1000].map(ms) {
        let part = part(&mut b, at, 0, work + ms(waits), work);
        sched.runs(part, print, work / 2);
        sched.waits(part, Wait::new(OffReason::Futex, print), ms(waits));
        sched.runs(part, print, work / 2);
    }
    let mut profile = b.build();
    sched.put_into(&mut profile);
    has_straggler(profile)
}

#[test]
fn who_waits_for_a_lock_more_than_for_the_end_is_given_it_by_luck() {
    assert!(is_straggler_at_a_lock(200));
    assert!(!is_straggler_at_a_lock(400));
}
