//! kept-off-cpus: threads that take turns on one CPU while another one is idle.

use convoy_model::FindingId;
use convoy_testkit::sched::Schedule;
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::analysis;

/// Two threads take turns on one of two CPUs, 500 times, for so long each; other programs have this share of the machine.
fn turns(step_ms: u64, others: f64, lost: u64) -> Option<(f64, f64)> {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let work = p.site("work", "a.c", 10);
    let ids = [0; 2].map(|_| p.thread("w").start("work", "a.c", 9).cpu(1).id());
    let mut s = Schedule::new();
    for step in 0..500 {
        let (on, off) = (ids[step % 2], ids[(step + 1) % 2]);
        s.runs(on, work, ms(step_ms)).queues(off, work, ms(step_ms));
    }
    let mut profile = p.build();
    s.put_into(&mut profile);
    let sched = profile.sched.as_mut().expect("just put in");
    for th in &mut sched.threads {
        // Nobody woke them: they were taken off.
        th.preempted_ns = std::mem::take(&mut th.delayed_ns);
        th.preemptions = 250;
    }
    sched.lost.push(convoy_profile::Lost {
        events: lost,
        ..Default::default()
    });
    let cpus_ns = 2 * (sched.end_ns - sched.start_ns);
    profile.meta.others_ns = (others * cpus_ns as f64) as u64;
    let a = analysis(&convoy_model::Model::build(profile));
    let found = a.findings.iter().find(|f| f.id == FindingId::KeptOffCpus);
    found.map(|f| (f.gain.low, f.gain.high))
}

#[test]
fn threads_that_share_a_cpu_while_another_is_idle_are_kept_off_it() {
    let (low, high) = turns(4, 0.0, 1).expect("pinned, or a quota");
    assert!(low > 1.2 && (high - 2.0).abs() < 0.05, "{low} {high}");
    assert_eq!(turns(4, 0.5, 1), None, "others have the other one");
    assert_eq!(turns(4, 0.12, 1), None, "threads wait for others");
    assert_eq!(turns(4, 0.0, 1000), None, "who knows who runs");
    assert_eq!(
        turns(1, 0.0, 1),
        None,
        "the scheduler is about to move them"
    );
}
