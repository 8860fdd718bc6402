//! sleep-polling: threads that sleep between two looks for work, and those that keep a rate.

use convoy_model::{FindingId, Model, OffReason, SpinKind};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, us, ProfileBuilder};

use crate::kit::{analysis, ids, model, only};

/// Two threads that work for 3 ms and sleep for 5, or for 50.
fn sleepers(sleep_ms: u64) -> Model {
    sleepers_that_work(["work"; 2], ms(3), sleep_ms)
}

/// Of these kinds.
fn sleepers_that_work(kinds: [&str; 2], work_ns: u64, sleep_ms: u64) -> Model {
    let mut p = ProfileBuilder::new("app");
    let (work, get) = (p.site("work", "a.c", 10), p.site("queue_get", "a.c", 20));
    let mut s = Schedule::new();
    for kind in kinds {
        let t = p.thread("w").start(kind, "a.c", 9).cpu(1).id();
        for _ in 0..50 {
            s.runs(t, work, work_ns);
            s.waits(t, Wait::new(OffReason::Sleep, get), ms(sleep_ms));
        }
    }
    model(p, s)
}

#[test]
fn who_sleeps_between_two_looks_for_work_is_told_where() {
    let a = analysis(&sleepers(5));
    let f = only(&a);
    assert_eq!(f.id.as_str(), "sleep-polling");
    assert_eq!(
        f.title,
        "2 threads are asleep between two looks for work for 62 % of their time, most at queue_get() a.c:20"
    );
    // 8 ms become 3; 0.8 of that is expected, and nothing promised.
    assert!((f.gain.high - 8.0 / 3.0).abs() < 0.01, "{:?}", f.gain);
    assert!((f.gain.mid - 2.0).abs() < 0.01, "{:?}", f.gain);
    assert_eq!(f.gain.low, 1.0);
}

/// Two threads that work for 4 ms in turn, and wait in between for this; the main thread waits for the end of the first.
fn one_at_a_time(waits_for: OffReason) -> Vec<&'static str> {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let (work, get) = (p.site("work", "a.c", 10), p.site("queue_get", "a.c", 20));
    let join = p.site("main", "a.c", 90);
    let workers = [0; 2].map(|_| p.thread("w").start("work", "a.c", 9).cpu(1).id());
    let mut s = Schedule::new();
    for (i, t) in workers.into_iter().enumerate() {
        s.waits(t, Wait::new(waits_for, get), ms(1 + 4 * i as u64));
        for _ in 0..50 {
            s.runs(t, work, ms(4));
            s.waits(t, Wait::new(waits_for, get), ms(5));
        }
    }
    let end = Wait::futex(join, 0x100).woken_by(workers[0], work);
    s.waits(0, end, ms(1 + 50 * 9));
    ids(&analysis(&model(p, s)))
}

#[test]
fn who_works_while_the_others_sleep_between_two_looks_does_no_serial_code() {
    assert_eq!(one_at_a_time(OffReason::Sleep), ["sleep-polling"]);
    assert!(one_at_a_time(OffReason::Futex).contains(&"serial-code"));
}

#[test]
fn threads_that_sleep_while_another_one_has_work_are_told_however_little_it_is() {
    let stages = ["parse", "store"];
    let a = analysis(&sleepers_that_work(stages, us(60), 1));
    let f = only(&a);
    assert_eq!(f.id.as_str(), "sleep-polling");
    // They may keep a rate.
    assert!(f.gain.low == 1.0 && f.gain.mid < 1.7, "{:?}", f.gain);
    // A look that finds nothing is no work.
    assert_eq!(
        ids(&analysis(&sleepers_that_work(stages, us(5), 1))),
        [""; 0]
    );
}

/// Two threads that work for 5 ms on what a third one gives them, which sleeps for 20 ms before, and does nothing else. `looks`: its
/// code says that it looks for something.
fn given(looks: bool) -> Model {
    let mut p = ProfileBuilder::new("app");
    let (work, take) = (p.site("work", "a.c", 10), p.site("take", "a.c", 20));
    let give = p.site("give", "a.c", 30);
    let nap = p.frame("free_slot", "a.c", 40);
    let sleep = p.stack(&[nap]);
    let mut start = |name: &str| p.thread(name).start(name, "a.c", 9).cpu(1).id();
    let (workers, giver) = ([start("work"), start("work")], start("give"));
    let mut s = Schedule::new();
    if looks {
        s.spin_loop(SpinKind::Sleep, Some(nap));
    }
    for at in 0..50 {
        for &t in &workers {
            s.waits(t, Wait::futex(take, 0x10).woken_by(giver, give), ms(20));
            s.runs(t, work, ms(5));
        }
        // Neither in order, nor at a rate.
        s.waits(giver, Wait::new(OffReason::Sleep, sleep), ms(20));
        s.runs(giver, give, us(20 + at % 7));
        s.waits(
            giver,
            Wait::new(OffReason::Sleep, sleep),
            ms(5) - us(20 + at % 7),
        );
    }
    let mut model = model(p, s);
    for spin in model.sched.iter_mut().flat_map(|sched| &mut sched.loops) {
        let at = spin.frames[0].offset;
        (spin.lo, spin.hi) = (at - 8, at);
    }
    model
}

#[test]
fn who_sleeps_in_a_loop_that_only_looks_is_told_however_long_it_sleeps() {
    let a = analysis(&given(true));
    let f = a.findings.iter().find(|f| f.id == FindingId::SleepPolling);
    let f = f.unwrap_or_else(|| panic!("{:?}", ids(&a)));
    assert!(f.title.starts_with("1 thread is asleep"), "{}", f.title);
    // 25 ms become 5; 0.8 of that is expected, and nothing promised.
    assert!(
        f.gain.low == 1.0 && (f.gain.mid - 25.0 / 9.0).abs() < 0.1,
        "{:?}",
        f.gain
    );
    // The same may be a rate.
    assert!(!ids(&analysis(&given(false))).contains(&"sleep-polling"));
}

/// Two threads of two kinds that work for so many us and then sleep for so many, a hundred times.
fn sleeps(steps: impl Fn(u64) -> (u64, u64)) -> Vec<&'static str> {
    let mut p = ProfileBuilder::new("app");
    let (work, get) = (p.site("work", "a.c", 10), p.site("queue_get", "a.c", 20));
    let mut s = Schedule::new();
    for kind in ["parse", "store"] {
        let t = p.thread("w").start(kind, "a.c", 9).cpu(1).id();
        for at in 0..100 {
            let (worked, slept) = steps(at);
            s.runs(t, work, us(worked));
            s.waits(t, Wait::new(OffReason::Sleep, get), us(slept));
        }
    }
    ids(&analysis(&model(p, s)))
}

/// Less than a hundred, and without an order.
fn late(at: u64) -> u64 {
    let mixed = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) % 100
}

#[test]
fn who_sleeps_for_what_is_left_of_a_period_keeps_a_rate() {
    let work = |at: u64| 1000 + 20 * late(at);
    assert_eq!(sleeps(|at| (work(at), 5000)), ["sleep-polling"]);
    assert_eq!(sleeps(|at| (work(at), 8000 - work(at) + late(at))), [""; 0]);
}

#[test]
fn who_wakes_by_a_clock_keeps_a_rate() {
    // It wakes a little late, as every timer does; and the next period is as much shorter, or not.
    let before = |at: u64| at.checked_sub(1).map_or(0, late);
    assert_eq!(sleeps(|at| (2000, 4000 + late(at) - before(at))), [""; 0]);
    assert_eq!(sleeps(|at| (2000, 4000 + late(at))), ["sleep-polling"]);
}

/// They wait for their turn of so many a second, and nothing that is seen tells that from a look for work.
#[test]
fn nothing_is_said_of_threads_of_one_kind_that_may_keep_a_rate() {
    let a = analysis(&sleepers_that_work(["send"; 2], us(60), 1));
    assert_eq!(ids(&a), [""; 0]);
}

#[test]
fn a_schedule_is_no_poll() {
    assert_eq!(ids(&analysis(&sleepers(50))), [""; 0]);
}
