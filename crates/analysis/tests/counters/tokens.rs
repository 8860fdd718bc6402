//! Semaphores: which are locks, and which hand out tokens.
use convoy_analysis::counters::analyze;
use convoy_analysis::Params;
use convoy_model::finding::Finding;
use convoy_model::FindingId;
use convoy_model::Model;
use convoy_profile::{ObjectKind, Op};
use convoy_testkit::{ms, s, us, ProfileBuilder};

/// How four threads use a semaphore: 1000 times each.
struct Used {
    /// What it began with, if that was seen.
    tokens: Option<u32>,
    made_by: &'static str,
    hold_ns: u64,
    cpu_ns: u64,
    posts: u64,
}

/// They compute under it, one at a time.
const AS_LOCK: Used = Used {
    tokens: Some(1),
    made_by: "main",
    hold_ns: us(200),
    cpu_ns: ms(300),
    posts: 1000,
};

fn told(used: &Used) -> Option<Finding> {
    let mut b = ProfileBuilder::new("app");
    b.cpus(4).wall(s(1));
    let made = b.site(used.made_by, "a.c", 1);
    let semaphore = b.object(ObjectKind::Sem);
    let semaphore = match used.tokens {
        Some(tokens) => semaphore.init(made).tokens(tokens),
        None => semaphore,
    };
    let semaphore = semaphore.id();
    let (wait, post) = (b.site("add", "a.c", 10), b.site("add", "a.c", 12));
    for _ in 0..4 {
        let t = b.thread("w").start("run", "a.c", 1).lives(0, s(1));
        let t = t.cpu(used.cpu_ns).id();
        b.op(t, semaphore, wait, Op::SemWait, 1000)
            .waits(700, ms(600))
            .hold(used.hold_ns);
        b.op(t, semaphore, post, Op::SemPost, used.posts);
    }
    let analysis = analyze(&Model::build(b.build()), &Params::default());
    let mut all = analysis.findings.into_iter().chain(analysis.dismissed);
    all.find(|f| ["contended-lock", "small-pool"].contains(&f.id.as_str()))
}

#[test]
fn one_token_that_threads_compute_with_is_a_lock() {
    let found = told(&AS_LOCK).unwrap();
    assert_eq!(found.id.as_str(), "contended-lock");
    assert!(found.gain.mid > 1.5, "{:?}", found.gain);
    assert!(found.title.contains("4 threads"), "{}", found.title);
    // Nobody saw it made, but never was a second token away.
    let found = told(&Used {
        tokens: None,
        ..AS_LOCK
    })
    .unwrap();
    assert_eq!(found.id.as_str(), "contended-lock");
}

#[test]
fn tokens_of_which_there_are_or_may_be_more_are_a_pool() {
    for pool in [
        Used {
            tokens: Some(2),
            ..AS_LOCK
        },
        // Longer than the run, all together.
        Used {
            tokens: None,
            hold_ns: us(400),
            cpu_ns: ms(500),
            ..AS_LOCK
        },
        // They sleep with it: a connection.
        Used {
            cpu_ns: ms(30),
            ..AS_LOCK
        },
        // Without it the interpreter's lock would be in the way.
        Used {
            made_by: "PyThread_allocate_lock",
            ..AS_LOCK
        },
    ] {
        assert_eq!(told(&pool).unwrap().id.as_str(), "small-pool");
    }
}

#[test]
fn what_is_posted_by_others_is_neither() {
    assert!(told(&Used {
        posts: 0,
        ..AS_LOCK
    })
    .is_none());
}

/// Four threads with one slot of a C++ semaphore for a second. Each is asleep for it for 650 ms, runs
/// for 10 and queues for a CPU for 100; of its 600 waits so many were ended by a release.
fn slots(released: u64) -> [f64; 3] {
    let mut b = ProfileBuilder::new("app");
    b.cpus(2).wall(s(1));
    let semaphore = b.frame("std::__semaphore_impl::_M_acquire()", "semaphore_base.h", 7);
    let get = b.frame("slot_get()", "a.cpp", 10);
    let (wait, post) = (
        b.stack(&[semaphore, get]),
        b.site("slot_put()", "a.cpp", 20),
    );
    let slots = b.object(ObjectKind::Futex).symbol("slots").id();
    for _ in 0..4 {
        let t = b.thread("w").start("run", "a.cpp", 1).lives(0, s(1));
        let t = t.cpu(ms(10)).run_delay(ms(100)).id();
        b.op(t, slots, wait, Op::FutexWait, 600)
            .waits(600, ms(650))
            .woken_by(t, post);
        b.op(t, slots, post, Op::FutexWake, released);
    }
    let analysis = analyze(&Model::build(b.build()), &Params::default());
    let mut all = analysis.findings.into_iter().chain(analysis.dismissed);
    let found = all.find(|f| f.id == FindingId::SmallPool).unwrap();
    [found.gain.low, found.gain.mid, found.gain.high]
}

#[test]
fn ways_back_to_a_cpu_between_two_waits_for_one_token_are_waiting() {
    let (once, retried) = (slots(600), slots(200));
    // All of the 350 ms without sleep are work, or 100 of them may be the way back to the next wait.
    assert!(once[1] < 3.0 && once[2] > 4.0, "{once:?}");
    assert!(retried[1] > once[1], "{retried:?}");
    assert!(retried[2] >= once[2] && retried[2] < 5.5, "{retried:?}");
}
