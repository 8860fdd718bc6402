//! What happens to the findings of `detect` when the scheduler has its say.

use convoy_analysis::arbitration::{cross_check, merge};
use convoy_model::finding::Subject;
use convoy_model::{FindingId, Model, ObjectId, OffReason, SpinKind};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{analysis, found, model};

/// Four threads on two CPUs. Two wait for a lock while two others work, or while only its holder does.
fn waits_for_a_lock(others_work: bool) -> Model {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let (work, lock) = (p.site("work", "a.c", 10), p.site("put", "a.c", 20));
    let log = p.site("put", "a.c", 22);
    let object = p.mutex("cache_lock");
    let addr = p.raw().objects[object as usize].addr;
    let threads: Vec<_> = (0..4)
        .map(|_| p.thread("w").start("w", "a.c", 1).cpu(1).id())
        .collect();
    let mut s = Schedule::new();
    for turn in 0..50 {
        for (at, &t) in threads.iter().enumerate() {
            let mine = (at + turn) % 2 == 0;
            if mine && (others_work || at < 2) {
                s.runs(t, work, ms(10));
            } else if at == 3 && !others_work {
                s.waits(t, Wait::new(OffReason::Sleep, log), ms(10));
            } else {
                s.waits(
                    t,
                    Wait::futex(lock, addr).woken_by(threads[(at + 1) % 2], log),
                    ms(10),
                );
            }
        }
    }
    model(p, s)
}

#[test]
fn a_lock_that_is_waited_for_beside_work_is_not_critical() {
    let model = waits_for_a_lock(true);
    let a = analysis(&model);
    let mut list = [found("contended-lock", Subject::Object(ObjectId(0)), 1.8)];
    cross_check(&model, &a, &mut list);
    assert_eq!((list[0].gain.low, list[0].gain.mid), (1.0, 1.0));
    assert!(
        list[0].caveats[0].starts_with("not on the critical path: 100 %"),
        "{:?}",
        list[0].caveats
    );
    assert!(list[0].gain.high > 3.0, "the bound stays");
}

#[test]
fn a_lock_that_stops_the_program_is_agreed_on() {
    let model = waits_for_a_lock(false);
    let a = analysis(&model);
    let mut list = [
        found("contended-lock", Subject::Object(ObjectId(0)), 1.8),
        found("slow-stage", Subject::Groups(Vec::new()), 1.2),
    ];
    let before = list.clone();
    cross_check(&model, &a, &mut list);
    assert_eq!(list[0].gain, before[0].gain);
    assert!(list[0].evidence[0]
        .text
        .starts_with("the scheduler agrees: 100 %"));
    assert_eq!(list[1], before[1], "nothing to say of what is no object");
}

#[test]
fn what_both_say_is_said_once() {
    let mut p = ProfileBuilder::new("app");
    let main = p.frame("main", "app.c", 90);
    let load = p.frame("load", "app.c", 40);
    let serial = p.stack(&[load, main]);
    let work = p.site("work", "app.c", 10);
    let mut s = Schedule::new();
    s.runs(0, serial, ms(500));
    for _ in 0..3 {
        let w = p.thread("w").start("work", "app.c", 9).cpu(1).id();
        s.starts(w, ms(500)).runs(w, work, ms(500));
    }
    let model = model(p, s);
    let a = analysis(&model);
    assert_eq!(a.findings[0].id.as_str(), "serial-code");
    let phase = found(
        "serial-phase",
        Subject::Thread(convoy_model::ThreadId(0)),
        1.1,
    );
    let other = found("contended-lock", Subject::Object(ObjectId(9)), 3.0);
    let (list, rest) = merge(&model, &a, vec![phase, other], vec![]);
    let ids: Vec<_> = list.iter().map(|f| f.id.as_str()).collect();
    assert_eq!(ids, ["contended-lock", "serial-code"]);
    assert_eq!(rest[0].id.as_str(), "serial-phase", "ours has the line");
    let last = list[1].evidence.last().unwrap();
    assert_eq!(last.text, "detect agrees: serial-phase of detect");

    let (alone, _) = merge(&model, &a, vec![], vec![]);
    assert_eq!(alone[0].id.as_str(), "serial-code");
}

#[test]
fn a_straggler_of_both_is_detects() {
    let mut p = ProfileBuilder::new("app");
    let (work, meet) = (p.site("work", "s.c", 10), p.site("meet", "s.c", 20));
    let threads: Vec<_> = (0..3)
        .map(|_| p.thread("w").start("w", "s.c", 1).cpu(1).id())
        .collect();
    let mut s = Schedule::new();
    s.runs(threads[0], work, ms(900));
    for &t in &threads[1..] {
        s.runs(t, work, ms(300));
        s.waits(t, Wait::futex(meet, 1).woken_by(threads[0], meet), ms(600));
    }
    let model = model(p, s);
    let a = analysis(&model);
    assert_eq!(a.findings[0].id.as_str(), "thread-imbalance");
    let theirs = found("straggler", Subject::Thread(convoy_model::ThreadId(1)), 1.2);
    let (list, _) = merge(&model, &a, vec![theirs], vec![]);
    assert_eq!(list.len(), 1, "{list:?}");
    assert!(
        list[0].evidence[0]
            .text
            .starts_with("the scheduler agrees: w: thread"),
        "{list:?}"
    );
}

/// Three threads on two CPUs take a lock that turns for half of the CPU time before it sleeps.
fn turns_before_it_sleeps() -> Model {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let (work, put) = (p.site("hash", "map.rs", 3), p.site("put", "map.rs", 8));
    let frame = p.frame("std::sys::sync::mutex::futex::Mutex::spin", "futex.rs", 77);
    let put_frame = p.frame("put", "map.rs", 8);
    let look = p.stack(&[frame, put_frame]);
    let lock = p.mutex("table");
    let threads: Vec<_> = (0..3)
        .map(|_| p.thread("w").start("w", "map.rs", 1).cpu(1).id())
        .collect();
    for &t in &threads {
        p.contended(t, lock, put, 100, ms(20));
    }
    let mut s = Schedule::new();
    let wait = s.spin_loop(SpinKind::Pause, Some(frame));
    for _ in 0..100 {
        for &t in &threads {
            s.runs(t, work, ms(2)).spins(t, look, wait, ms(2));
            s.queues(t, work, ms(2));
        }
    }
    model(p, s)
}

#[test]
fn what_threads_spin_for_a_lock_is_the_locks() {
    let model = turns_before_it_sleeps();
    let a = analysis(&model);
    let ours = a
        .findings
        .iter()
        .find(|f| f.id == FindingId::BusyWaiting)
        .unwrap();
    assert!(
        ours.title.contains("for the lock at put() map.rs:8"),
        "{}",
        ours.title
    );
    let mut dismissed = found("contended-lock", Subject::Object(ObjectId(0)), 1.01);
    dismissed.gain.limited_by = "CPUs".into();
    dismissed.caveats = vec!["it buys nothing: CPUs".into(), "another one".into()];
    let (list, rest) = merge(&model, &a, Vec::new(), vec![dismissed]);
    let lock = list.iter().find(|f| f.id == FindingId::ContendedLock);
    let lock = lock.expect("not dismissed any more");
    assert_eq!(lock.gain.mid, ours.gain.mid);
    assert!(lock.gain.mid > 1.2, "{:?}", lock.gain);
    assert_eq!(lock.caveats, ["another one"]);
    let others = list.iter().chain(&rest);
    assert!(!others.map(|f| f.id).any(|id| id == FindingId::BusyWaiting));
}
