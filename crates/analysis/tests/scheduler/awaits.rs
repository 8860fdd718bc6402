//! blocking-calls: a program that asks another one for one thing at a time, from an event loop.

use convoy_model::finding::Finding;
use convoy_model::FindingId;
use convoy_model::OffReason;
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{analysis, model};

/// Who asks, works 5 ms between two answers that take 10, of which who answers works for this long, and has others to answer meanwhile.
fn asks(program: &str, works: u64, has_others: bool) -> Option<Finding> {
    let mut p = ProfileBuilder::new(program);
    p.cpus(2);
    let own = p.site("handle", "sync.js", 5);
    p.process("supplier").raw().listens = true;
    let (serve, poll) = (p.site("serve", "s.c", 5), p.site("poll", "s.c", 9));
    let mut s = Schedule::new();
    let for_any = |site| Wait::new(OffReason::Poll, site);
    for _ in 0..60 {
        s.process(0).runs(0, own, ms(5));
        s.waits(0, for_any(own).woken_from(1, 0, serve), ms(10));
        let request = for_any(poll).woken_from(0, 0, own);
        s.process(1);
        match has_others {
            false => s.waits(0, request, ms(5)),
            true => s.waits(0, request, ms(1)).waits(0, for_any(poll), ms(4)),
        };
        s.runs(0, serve, ms(works))
            .waits(0, for_any(poll), ms(10 - works));
    }
    let a = analysis(&model(p, s));
    a.findings
        .into_iter()
        .find(|f| f.id == FindingId::BlockingCalls)
}

#[test]
fn one_answer_at_a_time_is_expected_to_be_several() {
    let f = asks("node", 1, false).expect("said");
    // Of 15 ms 10 are waited, of which half go.
    assert!((f.gain.mid - 1.5).abs() < 0.01, "{:?}", f.gain);
    assert!((f.gain.high - 3.0).abs() < 0.01, "{:?}", f.gain);
    assert_eq!(f.gain.low, 1.0);
    assert!(
        f.title.contains("waits for one answer of supplier"),
        "{}",
        f.title
    );
    assert!(f.causes[0].fix.contains("Promise.all()"), "{:?}", f.causes);
}

#[test]
fn who_has_others_to_answer_or_works_for_it_is_not_asked_for_one_thing() {
    assert_eq!(asks("node", 1, true), None);
    assert_eq!(asks("node", 8, false), None);
    assert_eq!(asks("app", 1, false), None, "no event loop is known");
}
