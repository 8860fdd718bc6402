//! fine-grained-tasks: processes that ask another one of their program for small things.

use convoy_model::finding::Finding;
use convoy_model::FindingId;
use convoy_model::OffReason;
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{us, ProfileBuilder};

use crate::kit::{analysis, model};

/// Two processes work for 40 us between two calls of a third one, which runs so long for each, and accepts connections or does not.
fn calls(served: u64, listens: bool) -> Option<Finding> {
    let mut p = ProfileBuilder::new("python3.11");
    p.cpus(4).raw().listens = listens;
    let (serve, next) = (p.site("serve", "m.c", 5), p.site("recv", "m.c", 9));
    let second = p.thread("server").start("serve", "m.c", 1).cpu(1).id();
    let own: Vec<u32> = (0..2)
        .map(|_| {
            p.process("python3.11");
            p.site("terms", "a.c", 5)
        })
        .collect();
    let mut s = Schedule::new();
    for _ in 0..2000 {
        for (at, thread) in [0, second].into_iter().enumerate() {
            let caller = at as u32 + 1;
            let socket = |site| Wait::new(OffReason::Socket, site);
            s.process(0);
            s.waits(thread, socket(next).woken_from(caller, 0, own[at]), us(40));
            s.runs(thread, serve, served);
            s.process(caller).runs(0, own[at], us(40));
            s.waits(0, socket(own[at]).woken_from(0, thread, serve), served);
        }
    }
    let a = analysis(&model(p, s));
    a.findings
        .into_iter()
        .find(|f| f.id == FindingId::FineGrainedTasks)
}

#[test]
fn what_a_third_process_keeps_for_all_is_better_kept_by_each() {
    let f = calls(us(20), true).expect("said");
    // Of 60 us 20 are waited, and 20 of the 40 are for the call: 0.8 of that goes.
    assert!((f.gain.mid - 60.0 / 28.0).abs() < 0.05, "{:?}", f.gain);
    assert_eq!(f.gain.low, 1.0);
    assert!(
        f.title.starts_with("2 processes of python3.11 ask process"),
        "{}",
        f.title
    );
}

#[test]
fn who_does_something_for_a_call_or_cannot_be_called_is_left() {
    assert_eq!(calls(us(120), true), None);
    assert_eq!(calls(us(20), false), None);
}
