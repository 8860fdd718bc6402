//! serial-code: what one thread does while others wait for it may be spread, or go on beside them.

use convoy_model::{Model, OffReason};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{analysis, model, only, workers};

/// Who waits for the thread that works alone.
#[derive(Clone, Copy)]
enum Waiters {
    /// Those that work afterwards.
    Workers,
    /// One that does nothing else; those that work afterwards wait for something else.
    Joiner,
}

/// Of each 100 ms, one of `loaders` works alone for so many, and two workers in the rest. There are processors for all.
fn loads(alone: u64, loaders: usize, waiters: Waiters) -> Model {
    let mut p = ProfileBuilder::new("app");
    let (load, join) = (p.site("load", "app.c", 40), p.site("main", "app.c", 90));
    let (work, next) = (p.site("work", "app.c", 10), p.site("next", "app.c", 20));
    let mut loader = || p.thread("l").start("load", "app.c", 39).cpu(1).id();
    let loaders: Vec<_> = (0..loaders).map(|_| loader()).collect();
    let ids = workers(&mut p, 2);
    let mut s = Schedule::new();
    for round in 0..12 {
        let loader = loaders[round % loaders.len()];
        for &l in &loaders {
            let wait = Wait::futex(next, 0x200).woken_by(ids[0], work);
            match l == loader {
                true => s.runs(l, load, ms(alone)),
                false => s.waits(l, wait, ms(alone)),
            };
            s.waits(l, wait, ms(100 - alone));
        }
        for &w in &ids {
            let wait = match waiters {
                Waiters::Workers => Wait::futex(next, 0x100).woken_by(loader, load),
                Waiters::Joiner => Wait::new(OffReason::Poll, next),
            };
            s.waits(w, wait, ms(alone)).runs(w, work, ms(100 - alone));
        }
        let wait = Wait::futex(join, 0x300).woken_by(loader, load);
        s.waits(0, wait, ms(alone));
        s.waits(0, Wait::new(OffReason::Poll, next), ms(100 - alone));
    }
    model(p, s)
}

/// The bound, as the wall time that is left of 100 ms.
fn left(model: &Model) -> f64 {
    let a = analysis(model);
    let f = only(&a);
    assert_eq!(f.id.as_str(), "serial-code");
    100.0 / f.gain.high
}

fn is(left: f64, expected: f64) {
    assert!((left - expected).abs() < 0.1, "{left}");
}

#[test]
fn one_thread_may_go_on_beside_the_workers_that_wait_for_it() {
    // 40 ms of it go on beside 60 ms of theirs; spread over three threads they would leave 60 + 40 / 3.
    is(left(&loads(40, 1, Waiters::Workers)), 60.0);
}

#[test]
fn no_more_goes_on_beside_others_than_there_are_processors_left() {
    // Three threads have 60 + 2 * 40 ms of work.
    is(left(&loads(60, 1, Waiters::Workers)), 140.0 / 3.0);
}

#[test]
fn what_only_a_thread_that_does_nothing_waits_for_can_be_spread_alone() {
    is(left(&loads(40, 1, Waiters::Joiner)), 60.0 + 40.0 / 3.0);
}

#[test]
fn several_threads_of_one_kind_are_no_stage_beside_the_others() {
    is(left(&loads(40, 2, Waiters::Workers)), 60.0 + 40.0 / 4.0);
}

/// Three threads of Go: a goroutine works alone for 40 of 100 ms on one of them, and two in the rest. Whichever thread it is.
#[test]
fn goroutines_go_on_beside_one_another() {
    let mut p = ProfileBuilder::new("app");
    let exit = p.frame("runtime.goexit", "asm.s", 1);
    let mut stack = |function| {
        let frame = p.frame(function, "m.go", 4);
        p.stack(&[frame, exit])
    };
    let [merge, work, park] = ["main.merge", "main.work", "runtime.futex"].map(&mut stack);
    let ids = workers(&mut p, 3);
    let mut s = Schedule::new();
    for round in 0..12 {
        for at in 0..3 {
            let (t, parks) = (ids[(at + round) % 3], Wait::futex(park, 0x10));
            match at {
                0 => s.runs(t, merge, ms(40)),
                _ => s.waits(t, parks, ms(40)),
            };
            match at {
                2 => s.waits(t, parks, ms(60)),
                _ => s.runs(t, work, ms(60)),
            };
        }
    }
    is(left(&model(p, s)), 60.0);
}
