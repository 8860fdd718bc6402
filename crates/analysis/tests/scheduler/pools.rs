//! small-pool: what a condition guards.

use convoy_analysis::scheduler::Analysis;
use convoy_model::Model;
use convoy_profile::OffReason;
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{analysis, ids, model, only};

/// The functions in which three workers wait and wake, and the one that does it.
struct Names {
    waits: &'static str,
    wakes: &'static str,
    by: &'static str,
}

const POOL: Names = Names {
    waits: "Pool::get",
    wakes: "Pool::put",
    by: "pthread_cond_signal",
};

/// Three workers; of 10 ms one at a time is in a wait of this kind for so many and then works, the others wait for it at a
/// condition.
fn workers(names: &Names, reason: OffReason, name: &str, wait_ms: u64) -> Model {
    let mut p = ProfileBuilder::new("app");
    p.cpus(4);
    let frames = |p: &mut ProfileBuilder, all: [(&str, &str, u32); 2]| {
        let frames = all.map(|(function, file, line)| p.frame(function, file, line));
        p.stack(&frames)
    };
    let wait = frames(
        &mut p,
        [
            ("pthread_cond_wait", "cond.c", 1),
            (names.waits, "p.cc", 10),
        ],
    );
    let wake = frames(&mut p, [(names.by, "cond.c", 2), (names.wakes, "p.cc", 20)]);
    let (query, work) = (p.site("query", "p.cc", 30), p.site("render", "p.cc", 40));
    let threads: Vec<_> = (0..3)
        .map(|_| p.thread("w").start("work", "p.cc", 1).cpu(1).id())
        .collect();
    let mut s = Schedule::new();
    let name = s.name(name);
    for (at, &t) in threads.iter().enumerate() {
        let for_the_last = || Wait::futex(wait, 0x7000).woken_by(threads[(at + 2) % 3], wake);
        s.waits(t, for_the_last(), ms(1 + 10 * at as u64));
        for _ in 0..40 {
            s.waits(t, Wait::new(reason, query).named(name), ms(wait_ms));
            s.runs(t, work, ms(10 - wait_ms));
            s.waits(t, for_the_last(), ms(20));
        }
    }
    model(p, s)
}

fn told(names: &Names, reason: OffReason, name: &str) -> Analysis {
    analysis(&workers(names, reason, name, 9))
}

#[test]
fn a_pool_that_is_too_small_is_told_with_what_its_tokens_are_in() {
    let cases = [
        (OffReason::Sleep, "", 1.3),
        (OffReason::Socket, "socket:[17]", 1.0),
    ];
    for (reason, name, low) in cases {
        let a = told(&POOL, reason, name);
        let f = only(&a);
        assert_eq!(f.id.as_str(), "small-pool");
        assert!(f.title.contains("Pool::get() p.cc:10"), "{}", f.title);
        assert!(f.title.contains("query() p.cc:30"), "{}", f.title);
        // A third of the time without the waits.
        assert!((2.3..3.0).contains(&f.gain.mid), "{:?}", f.gain);
        assert!((2.8..3.2).contains(&f.gain.high), "{:?}", f.gain);
        // Who answers may be what is scarce.
        assert!((low..low + 0.2).contains(&f.gain.low), "{:?}", f.gain);
    }
}

/// Two workers that take turns with the one token for 80 rounds of 20 ms, and a third one that takes it
/// side by side with the first, for 40 rounds only.
fn one_ends_early() -> f64 {
    let mut p = ProfileBuilder::new("app");
    p.cpus(4);
    let stack = |p: &mut ProfileBuilder, all: [(&str, u32); 2]| {
        let frames = all.map(|(function, line)| p.frame(function, "p.cc", line));
        p.stack(&frames)
    };
    let wait = stack(&mut p, [("pthread_cond_wait", 1), ("Pool::get", 10)]);
    let wake = stack(&mut p, [("pthread_cond_signal", 2), ("Pool::put", 20)]);
    let (query, work) = (p.site("query", "p.cc", 30), p.site("render", "p.cc", 40));
    let [first, other, third] =
        [(); 3].map(|()| p.thread("w").start("work", "p.cc", 1).cpu(1).id());
    let mut s = Schedule::new();
    let turn = |by| Wait::futex(wait, 0x7000).woken_by(by, wake);
    let has_it = |s: &mut Schedule, t| {
        s.waits(t, Wait::new(OffReason::Sleep, query), ms(9));
        s.runs(t, work, ms(1));
    };
    for round in 0..80 {
        s.waits(first, turn(other), ms(10));
        has_it(&mut s, first);
        has_it(&mut s, other);
        s.waits(other, turn(first), ms(10));
        if round < 40 {
            s.waits(third, turn(other), ms(10));
            has_it(&mut s, third);
        }
    }
    only(&analysis(&model(p, s))).gain.high
}

#[test]
fn the_bound_is_of_the_thread_that_waits_longest() {
    // Two wait for half of the run, and would take half as long. The one that ends early has a quarter
    // of it to lose: with the mean of all three the bound would be 1.8.
    let high = one_ends_early();
    assert!((2.0..2.3).contains(&high), "{high}");
}

#[test]
fn tokens_that_are_worked_with_are_no_matter_of_waits() {
    let a = analysis(&workers(&POOL, OffReason::Sleep, "", 1));
    assert!(!ids(&a).contains(&"small-pool"), "{:?}", ids(&a));
}

#[test]
fn who_leads_the_others_has_nothing_there_could_be_more_of() {
    let event_loop = told(&POOL, OffReason::Poll, "anon_inode:[eventpoll]");
    assert!(
        !ids(&event_loop).contains(&"small-pool"),
        "a leader and its followers"
    );
    let flush = told(&POOL, OffReason::Sync, "/var/lib/app/journal");
    assert!(!ids(&flush).contains(&"small-pool"), "a group commit");
}

#[test]
fn threads_that_meet_share_no_pool() {
    let all = Names {
        by: "pthread_cond_broadcast",
        ..POOL
    };
    assert!(!ids(&told(&all, OffReason::Sleep, "")).contains(&"small-pool"));
    let barrier = Names {
        wakes: "Pool::get",
        ..POOL
    };
    assert!(!ids(&told(&barrier, OffReason::Sleep, "")).contains(&"small-pool"));
}

/// Three threads of Java that call one function, in which one at a time asks somebody for 9 of 10 ms. The others are in `takes`, each
/// at a condition of its own, until it has called `gives`.
fn of_java(takes: &str, gives: &str) -> Vec<&'static str> {
    let mut p = ProfileBuilder::new("java");
    p.cpus(4);
    let (library, machine) = (p.module("/lib/libc.so.6"), p.module("/jvm/libjvm.so"));
    let mut stack = |functions: &[&str]| {
        let frame = |f: &&str| match *f {
            "read" | "pthread_cond_wait" | "pthread_cond_signal" => p.frame_in(library, f, "", 0),
            "Parker::park" => p.frame_in(machine, f, "", 0),
            _ => p.generated(f),
        };
        let frames: Vec<_> = functions.iter().map(frame).collect();
        p.stack(&frames)
    };
    let wait = stack(&["pthread_cond_wait", "Parker::park", takes, "App.page"]);
    let wake = stack(&["pthread_cond_signal", gives, "App.page"]);
    let query = stack(&["read", "java.io.BufferedReader.readLine", "App.page"]);
    let work = stack(&["App.page"]);
    let threads: Vec<_> = (0..3)
        .map(|_| p.thread("pool-1-thread-1").cpu(1).id())
        .collect();
    let mut s = Schedule::new();
    let name = s.name("socket:[17]");
    for (at, &t) in threads.iter().enumerate() {
        let own = 0x7000 + 0x100 * at as u64;
        let for_the_last = || Wait::futex(wait, own).woken_by(threads[(at + 2) % 3], wake);
        s.waits(t, for_the_last(), ms(1 + 10 * at as u64));
        for _ in 0..40 {
            s.waits(t, Wait::new(OffReason::Socket, query).named(name), ms(9));
            s.runs(t, work, ms(1));
            s.waits(t, for_the_last(), ms(20));
        }
    }
    ids(&analysis(&model(p, s)))
}

#[test]
fn what_a_function_of_java_takes_and_gives_back_is_a_pool() {
    let queue = |method: &str| format!("java.util.concurrent.ArrayBlockingQueue.{method}");
    let permit = |method: &str| format!("java.util.concurrent.Semaphore.{method}");
    assert_eq!(of_java(&queue("take"), &queue("put")), ["small-pool"]);
    let pool = of_java(&permit("acquire"), &permit("release"));
    assert_eq!(pool, ["small-pool"]);
    // Who only takes has nothing to give back: it waits for work.
    let work = of_java(&queue("take"), &queue("take"));
    assert!(!work.contains(&"small-pool"), "{work:?}");
}
