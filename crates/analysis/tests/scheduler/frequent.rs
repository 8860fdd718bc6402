//! frequent-lock: locks that no agent counts, told by the samples in their functions.

use convoy_model::finding::Finding;
use convoy_model::{FindingId, Model, SpinKind};
use convoy_profile::{FrameIx, StackIx};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{alone, analysis, ids, model, workers};

/// Two threads. Each takes a lock for `locks` of its pieces of 15 ms (five samples), and works in the others.
struct Locks {
    /// Of the first thread, and of the second one.
    locks: [u64; 2],
    /// What takes it.
    function: &'static str,
    with_agent: bool,
    pieces: u64,
    cpus: u32,
}

const USUAL: Locks = Locks {
    locks: [30, 30],
    function: "pthread_mutex_lock",
    with_agent: false,
    pieces: 100,
    cpus: 2,
};

impl Locks {
    fn found(&self) -> Option<Finding> {
        let mut p = ProfileBuilder::new("app");
        p.cpus(self.cpus).raw().without_agent = !self.with_agent;
        let libc = p.module("libc.so.6");
        let (lock, count) = (
            p.frame_in(libc, self.function, "", 0),
            p.frame("count", "a.c", 7),
        );
        let (locks, work) = (p.stack(&[lock, count]), p.stack(&[count]));
        let mut s = Schedule::new();
        for (t, locked) in workers(&mut p, 2).into_iter().zip(self.locks) {
            for at in 0..self.pieces {
                s.runs(t, if at < locked { locks } else { work }, ms(15));
            }
        }
        told(&model(p, s))
    }
}

fn told(model: &Model) -> Option<Finding> {
    let mut found = analysis(model).findings.into_iter();
    found.find(|f| f.id == FindingId::FrequentLock)
}

#[test]
fn a_lock_that_is_taken_for_every_small_step_costs_what_samples_show() {
    let f = USUAL.found().expect("told");
    assert_eq!(
        f.title,
        "2 threads of w spend 30 % of their CPU time on acquiring and releasing locks, most at count() a.c:7"
    );
    assert!(
        f.evidence[0].text.starts_with("300 of 1000 samples"),
        "{f:?}"
    );
    // 0.7 of 30 % goes, a fifth of that gain for sure, and 1.2 of it at most; of each thread, also where CPUs are left over.
    let mid = 1.0 / (1.0 - 0.7 * 0.3);
    let gain = [
        1.0 + 0.2 * (mid - 1.0),
        mid,
        alone(1.0 / (1.0 - 1.2 * 0.3), 0.36),
    ];
    for cpus in [2, 8] {
        let f = Locks { cpus, ..USUAL }.found().expect("told");
        let said = [f.gain.low, f.gain.mid, f.gain.high];
        let near = said.iter().zip(gain).all(|(a, b)| (a - b).abs() < 0.05);
        assert!(near, "{said:?} {gain:?}");
    }
}

#[test]
fn a_small_share_and_few_samples_say_nothing() {
    let locks = |n| Locks {
        locks: [n, n],
        ..USUAL
    };
    assert!(locks(15).found().is_some());
    assert!(locks(14).found().is_none());
    // 50 samples of each thread are enough, 45 are not.
    let pieces = |n| Locks {
        pieces: n,
        locks: [n / 2, n / 2],
        ..USUAL
    };
    assert!(pieces(10).found().is_some());
    assert!(pieces(9).found().is_none());
}

#[test]
fn a_lock_that_one_thread_takes_is_its_own() {
    let one = |second| Locks {
        locks: [60, second],
        ..USUAL
    };
    assert!(one(0).found().is_none());
    assert!(one(1).found().is_some());
}

#[test]
fn who_waits_for_a_condition_or_copies_takes_no_lock() {
    for function in ["pthread_cond_signal", "memcpy"] {
        let other = Locks { function, ..USUAL };
        assert!(other.found().is_none(), "{function}");
    }
}

#[test]
fn locks_that_the_agent_counts_are_left_to_detect() {
    let counted = Locks {
        with_agent: true,
        ..USUAL
    };
    assert!(counted.found().is_none());
}

/// A program without the agent on two CPUs, whose `count` takes a mutex.
struct Spinners {
    p: ProfileBuilder,
    lock: FrameIx,
    count: FrameIx,
    /// In the mutex's own function, and in `count`.
    locks: StackIx,
    work: StackIx,
}

impl Spinners {
    fn new() -> Self {
        let mut p = ProfileBuilder::new("app");
        p.cpus(2).raw().without_agent = true;
        let libc = p.module("libc.so.6");
        let lock = p.frame_in(libc, "pthread_mutex_lock", "", 0);
        let count = p.frame("count", "a.c", 7);
        let (locks, work) = (p.stack(&[lock, count]), p.stack(&[count]));
        Self {
            p,
            lock,
            count,
            locks,
            work,
        }
    }
}

/// Samples of loops that wait are neither work nor its locks.
#[test]
fn who_also_spins_takes_locks_for_a_share_of_the_rest() {
    let Spinners {
        mut p,
        count,
        locks,
        work,
        ..
    } = Spinners::new();
    let mut s = Schedule::new();
    let spin = s.spin_loop(SpinKind::Polling, Some(count));
    for t in workers(&mut p, 2) {
        s.runs(t, locks, ms(300)).runs(t, work, ms(700));
        s.spins(t, work, spin, ms(1500))
            .spins(t, locks, spin, ms(500));
    }
    let f = told(&model(p, s)).expect("told");
    assert!(
        f.evidence[0].text.starts_with("200 of 666 samples"),
        "{f:?}"
    );
}

/// Who is known to wait for a lock need not hear that it takes one.
#[test]
fn what_a_contended_lock_explains_is_not_said_again() {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2).raw().without_agent = true;
    let libc = p.module("libc.so.6");
    let put = p.frame("put", "a.c", 7);
    let mut at = |function: &str| {
        let leaf = p.frame_in(libc, function, "", 0);
        p.stack(&[leaf, put])
    };
    let [locks, wait, wake] =
        ["pthread_mutex_lock", "__lll_lock_wait", "__lll_lock_wake"].map(&mut at);
    let work = p.stack(&[put]);
    let ids_of = workers(&mut p, 2);
    let mut s = Schedule::new();
    for (at, &t) in ids_of.iter().enumerate() {
        let lock = Wait::futex(wait, 0x7000).woken_by(ids_of[1 - at], wake);
        s.waits(t, lock, ms(1 + at as u64));
        for _ in 0..200 {
            s.runs(t, locks, ms(1)).runs(t, work, ms(1));
            s.waits(t, lock, ms(2));
        }
    }
    assert_eq!(ids(&analysis(&model(p, s))), ["contended-futex"]);
}

/// The finding of a spun-for lock says as evidence that the lock is taken often.
#[test]
fn busy_waiting_absorbs_the_frequent_lock_of_its_function() {
    let Spinners {
        mut p,
        lock,
        locks,
        work,
        ..
    } = Spinners::new();
    let mut s = Schedule::new();
    let spin = s.spin_loop(SpinKind::Polling, Some(lock));
    let threads = workers(&mut p, 2);
    for round in 0..200 {
        for at in 0..2 {
            let t = threads[(round + at) % 2];
            match at {
                0 => s.runs(t, locks, ms(3)).runs(t, work, ms(9)),
                _ => s.spins(t, locks, spin, ms(9)).runs(t, work, ms(3)),
            };
        }
    }
    let a = analysis(&model(p, s));
    assert_eq!(ids(&a), ["busy-waiting"]);
    let besides = a.findings[0].evidence.iter().map(|e| e.key);
    assert_eq!(besides.filter(|key| *key == "locking_ratio").count(), 1);
}
