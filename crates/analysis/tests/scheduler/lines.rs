//! contended-atomic, contended-line and false-sharing.

use convoy_analysis::scheduler::Analysis;
use convoy_model::FindingId;
use convoy_model::Model;
use convoy_profile::{LineUse, SharedLine, SharedLines, StackIx, ThreadIx};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{alone, analysis, ids, only};

/// Two workers on two processors, for 1.2 s: half of their 400 samples each are at `hit`, the rest elsewhere.
struct World {
    p: ProfileBuilder,
    s: Schedule,
    hit: StackIx,
    threads: [ThreadIx; 2],
}

impl World {
    fn new(function: &str) -> Self {
        let mut p = ProfileBuilder::new("counting");
        p.cpus(2);
        let hit = p.site(function, "c.c", 7);
        let library = p.module("/opt/lib/libwork.so"); // far from what is around `hit`
        let work = p.frame_in(library, "work", "w.c", 20);
        let work = p.stack(&[work]);
        let mut thread = || p.thread("w").start("run", "c.c", 1).cpu(ms(1200)).id();
        let threads = [thread(), thread()];
        let mut s = Schedule::new();
        for _ in 0..20 {
            for t in threads {
                s.runs(t, hit, ms(30)).runs(t, work, ms(30));
            }
        }
        Self { p, s, hit, threads }
    }

    /// A use of the first bytes of the line, in 200 samples: an atomic addition.
    fn hits(&self, thread: usize) -> LineUse {
        LineUse {
            thread: self.threads[thread],
            stack: self.hit,
            size: 8,
            locked: true,
            reads: true,
            writes: true,
            n: 200,
            ..LineUse::default()
        }
    }

    fn said(self, line: SharedLine, uses: Vec<LineUse>) -> Analysis {
        analysis(&self.model(vec![line], uses))
    }

    fn model(self, lines: Vec<SharedLine>, uses: Vec<LineUse>) -> Model {
        let mut profile = self.p.build();
        self.s.put_into(&mut profile);
        profile.sched.as_mut().unwrap().lines = Some(SharedLines {
            samples: 800,
            lines,
            uses,
            ..SharedLines::default()
        });
        Model::build(profile)
    }
}

/// A line whose threads come by in turns.
fn line() -> SharedLine {
    SharedLine {
        address: 0x5000,
        symbol: Some("hits".into()),
        samples: 400,
        turns: 200,
        ..SharedLine::default()
    }
}

#[test]
fn an_atomic_that_two_threads_change_is_said_with_its_name_and_place() {
    let w = World::new("count_hit");
    let uses = vec![w.hits(0), w.hits(1)];
    let a = w.said(line(), uses);
    let f = only(&a);
    assert_eq!(f.id.as_str(), "contended-atomic");
    assert!(f.title.contains("hits at count_hit() c.c:7"), "{}", f.title);
    assert!((f.share_of_thread_time - 0.5).abs() < 0.02, "{f:?}");
    // Of half of what they run 0.85 times half, expected; at most all of the half.
    assert!(
        (f.gain.mid - 1.0 / (1.0 - 0.85 * 0.25)).abs() < 0.03,
        "{:?}",
        f.gain
    );
    assert!(
        (f.gain.high - alone(1.0 / 0.5, 0.5)).abs() < 0.1,
        "{:?}",
        f.gain
    );
    assert!(f.gain.low > 1.0 && f.gain.low < 1.05, "{:?}", f.gain);
}

#[test]
fn a_reference_count_has_its_own_advice() {
    let w = World::new("std::__shared_count<2>::~__shared_count()");
    let uses = vec![w.hits(0), w.hits(1)];
    let a = w.said(line(), uses);
    assert_eq!(only(&a).causes[0].id, "shared-reference-count");
}

#[test]
fn neighbours_share_a_line_and_nothing_else() {
    let w = World::new("add_up");
    let plain = |t: usize| LineUse {
        locked: false,
        offset: 8 * t as u8,
        ..w.hits(t)
    };
    let uses = vec![plain(0), plain(1)];
    let a = w.said(line(), uses);
    assert_eq!(ids(&a), ["false-sharing"]);
    let words = format!("{:?}", a.findings[0].evidence);
    assert!(
        words.contains("bytes 0 to 7") && words.contains("bytes 8 to 15"),
        "{words}"
    );
}

#[test]
fn who_only_reads_takes_from_who_writes_beside_it() {
    // The sums of one worker beside the pointer of the other.
    let uses = |w: &World, offset| {
        let writes = LineUse {
            locked: false,
            ..w.hits(0)
        };
        let reads = LineUse {
            locked: false,
            writes: false,
            offset,
            ..w.hits(1)
        };
        vec![writes, reads]
    };
    let w = World::new("add_up");
    let neighbours = uses(&w, 56);
    let a = w.said(line(), neighbours);
    assert_eq!(ids(&a), ["false-sharing"]);
    assert!((a.findings[0].share_of_thread_time - 0.5).abs() < 0.02);
    // What one writes and the other reads is handed over: who writes it waits for nothing.
    let w = World::new("hand_over");
    let same = uses(&w, 0);
    let a = w.said(line(), same);
    assert!(ids(&a).is_empty() && a.dismissed.is_empty(), "{a:#?}");
}

#[test]
fn plain_stores_of_both_to_one_word_are_no_false_sharing() {
    let w = World::new("tell");
    let plain = |t: usize| LineUse {
        locked: false,
        ..w.hits(t)
    };
    let uses = vec![plain(0), plain(1)];
    assert_eq!(ids(&w.said(line(), uses)), ["contended-line"]);
}

#[test]
fn who_comes_by_seldom_takes_nothing_away() {
    // One reads all the time, the other writes in four samples: that cannot be what the first one loses.
    let w = World::new("look_up");
    let reads = LineUse {
        locked: false,
        writes: false,
        ..w.hits(0)
    };
    let writes = LineUse { n: 4, ..w.hits(1) };
    let line = SharedLine {
        samples: 204,
        turns: 8,
        ..line()
    };
    let a = w.said(line, vec![reads, writes]);
    assert!(ids(&a).is_empty() && a.dismissed.is_empty(), "{a:#?}");
    // At a tenth it loses twice what the other one spends, and no more.
    let w = World::new("look_up");
    let reads = LineUse {
        locked: false,
        writes: false,
        ..w.hits(0)
    };
    let writes = LineUse { n: 20, ..w.hits(1) };
    let line = SharedLine {
        samples: 220,
        turns: 40,
        ..self::line()
    };
    let a = w.said(line, vec![reads, writes]);
    let all = a.findings.iter().chain(&a.dismissed);
    assert!(all.clone().all(|f| f.gain.mid < 1.05), "{a:#?}");
}

#[test]
fn what_nobody_writes_and_what_one_thread_uses_is_no_fight() {
    let w = World::new("look_up");
    let reads = |t: usize| LineUse {
        locked: false,
        writes: false,
        ..w.hits(t)
    };
    let uses = vec![reads(0), reads(1)];
    let a = w.said(line(), uses);
    assert!(a.findings.is_empty() && a.dismissed.is_empty());
    let w = World::new("count_hit");
    let uses = vec![w.hits(0)];
    let a = w.said(line(), uses);
    assert!(a.findings.is_empty() && a.dismissed.is_empty());
}

#[test]
fn threads_that_use_a_line_one_after_the_other_do_not_fight() {
    let w = World::new("count_hit");
    let uses = vec![w.hits(0), w.hits(1)];
    let line = SharedLine { turns: 9, ..line() };
    let a = w.said(line, uses);
    assert!(a.findings.is_empty() && a.dismissed.is_empty());
}

#[test]
fn of_random_places_in_an_array_nobody_knows_whose_they_are() {
    const LINES: u32 = 10;
    let said = |locked: bool| {
        let w = World::new("count_bin");
        let bin = |at: u32| LineUse {
            line: at / 16,
            locked,
            offset: (at * 4 % 64) as u8,
            size: 4,
            n: 2,
            ..w.hits(at as usize % 2)
        };
        let uses = (0..16 * LINES).map(bin).collect();
        let line = |n: u32| SharedLine {
            address: 0x5000 + 64 * u64::from(n),
            samples: 32,
            turns: 16,
            ..line()
        };
        let a = analysis(&w.model((0..LINES).map(line).collect(), uses));
        let all = a.findings.iter().chain(&a.dismissed);
        all.map(|f| f.id.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(said(true), ["contended-atomic"]);
    assert!(said(false).is_empty());
}

#[test]
fn lone_tail_of_a_run_does_not_hide_a_fight() {
    let mut w = World::new("count_hit");
    let wait = w.p.site("join", "c.c", 30);
    let [first, last] = w.threads;
    w.s.runs(last, w.hit, ms(900))
        .waits(first, Wait::futex(wait, 0x10), ms(900));
    let alone = LineUse {
        n: 500,
        ..w.hits(1)
    };
    let uses = vec![w.hits(0), alone];
    let line = SharedLine {
        samples: 700,
        ..line()
    };
    let a = w.said(line, uses);
    assert_eq!(ids(&a), ["contended-atomic"]);
}

#[test]
fn who_works_alone_loses_nothing() {
    let mut w = World::new("count_hit");
    w.s = Schedule::new();
    let wait = w.p.site("wait", "c.c", 30);
    for turn in 0..400 {
        let (at, off) = (w.threads[turn % 2], w.threads[1 - turn % 2]);
        w.s.runs(at, w.hit, ms(3))
            .waits(off, Wait::futex(wait, 0x10), ms(3));
    }
    let uses = vec![w.hits(0), w.hits(1)];
    let a = w.said(line(), uses);
    let mut all = a.findings.iter().chain(&a.dismissed);
    assert!(all.all(|f| f.id != FindingId::ContendedAtomic), "{a:#?}");
}

#[test]
fn who_takes_turns_on_one_processor_loses_nothing() {
    let mut w = World::new("count_hit");
    w.s = Schedule::new();
    for turn in 0..400 {
        let (at, off) = (w.threads[turn % 2], w.threads[1 - turn % 2]);
        w.s.runs(at, w.hit, ms(3)).queues(off, w.hit, ms(3));
    }
    let uses = vec![w.hits(0), w.hits(1)];
    let a = w.said(line(), uses);
    let mut all = a.findings.iter().chain(&a.dismissed);
    assert!(all.all(|f| f.id != FindingId::ContendedAtomic), "{a:#?}");
}

#[test]
fn a_word_that_loops_wait_for_is_a_lock() {
    let w = World::new("spin_lock");
    let uses = vec![w.hits(0), w.hits(1)];
    let line = SharedLine {
        waits: 60,
        ..line()
    };
    let a = w.said(line, uses);
    assert!(a.findings.is_empty() && a.dismissed.is_empty());
}

#[test]
fn the_words_of_locks_have_findings_of_their_own() {
    let mut w = World::new("count_hit");
    let lock = w.p.mutex("lock");
    w.p.raw().objects[lock as usize].addr = 0x5000 - 8;
    let uses = vec![w.hits(0), w.hits(1)];
    let a = w.said(line(), uses);
    assert!(!ids(&a).contains(&"contended-atomic"), "{a:#?}");
    // Beside the lock's 40 bytes it is no part of it.
    let mut w = World::new("count_hit");
    let lock = w.p.mutex("lock");
    w.p.raw().objects[lock as usize].addr = 0x5000 - 40;
    let uses = vec![w.hits(0), w.hits(1)];
    assert!(ids(&w.said(line(), uses)).contains(&"contended-atomic"));
}

#[test]
fn what_a_lock_guards_is_no_fight() {
    let said = |hold_ns: u64| {
        let mut w = World::new("add_up");
        let lock = w.p.mutex("lock");
        for t in w.threads {
            w.p.acquires(t, lock, w.hit, 1_000_000).hold(hold_ns);
        }
        let plain = |t: usize| LineUse {
            locked: false,
            ..w.hits(t)
        };
        let uses = vec![plain(0), plain(1)];
        let a = w.said(line(), uses);
        let all = a.findings.iter().chain(&a.dismissed);
        all.filter(|f| f.id == FindingId::ContendedLine).count()
    };
    // Held for 0.6 s of the 0.6 s that each is at the line; for a hundredth of it.
    assert_eq!(said(600), 0);
    assert_eq!(said(6), 1);
}

#[test]
fn what_the_c_library_shares_is_its_own_affair() {
    let mut w = World::new("count_hit");
    let libc = w.p.module("/lib/libc.so.6");
    let frame = w.p.frame_in(libc, "arena_get2", "arena.c", 9);
    let stack = w.p.stack(&[frame]);
    let within = |t: usize| LineUse { stack, ..w.hits(t) };
    let uses = vec![within(0), within(1)];
    let a = w.said(line(), uses);
    assert!(a.findings.is_empty() && a.dismissed.is_empty(), "{a:#?}");
}

#[test]
fn a_few_samples_are_no_evidence() {
    let w = World::new("count_hit");
    let few = |t: usize| LineUse { n: 9, ..w.hits(t) };
    let line = SharedLine {
        samples: 18,
        turns: 9,
        ..line()
    };
    let uses = vec![few(0), few(1)];
    let a = w.said(line, uses);
    assert!(a.findings.is_empty() && a.dismissed.is_empty());
}

/// Pairs of workers, one after the other, each for 30 ms: a third of what they run is at one line, a third at another. What the two
/// of a pair do there.
fn pairs(pairs: u64, mut of: [LineUse; 2]) -> Analysis {
    let mut p = ProfileBuilder::new("frames");
    p.cpus(2);
    let places = ["copy", "count", "work"].map(|name| {
        let module = p.module(&format!("/opt/lib/{name}.so")); // each far from the others
        let frame = p.frame_in(module, name, "f.c", 20);
        p.stack(&[frame])
    });
    let mut s = Schedule::new();
    let mut uses = Vec::new();
    for pair in 0..pairs {
        of.reverse(); // who comes next does what the other one did
        for of in &of {
            let thread = p.thread("w").start("run", "c.c", 1).cpu(ms(30)).id();
            if pair > 0 {
                s.starts(thread, ms(30) * pair);
            }
            for at in places {
                s.runs(thread, at, ms(10));
            }
            uses.extend([0, 1].map(|line| LineUse {
                line,
                thread,
                stack: places[line as usize],
                n: 4,
                ..of.clone()
            }));
        }
    }
    let line = |address| SharedLine {
        address,
        samples: 8 * pairs,
        turns: 3 * pairs, // the first sample of each thread is none
        ..line()
    };
    let mut profile = p.build();
    s.put_into(&mut profile);
    profile.sched.as_mut().unwrap().lines = Some(SharedLines {
        samples: 24 * pairs,
        lines: vec![line(0x5000), line(0x6000)],
        uses,
        ..SharedLines::default()
    });
    analysis(&Model::build(profile))
}

/// Of eight bytes.
fn adds(offset: u8, locked: bool) -> LineUse {
    LineUse {
        offset,
        size: 8,
        locked,
        reads: true,
        writes: true,
        ..LineUse::default()
    }
}

#[test]
fn threads_that_follow_one_another_count_together() {
    let a = pairs(50, [adds(0, true), adds(0, true)]);
    let f = only(&a);
    assert_eq!(f.id.as_str(), "contended-atomic");
    assert!(f.title.starts_with("2 threads at a time"), "{}", f.title);
    let words = format!("{:?}", f.evidence);
    assert!(
        words.contains("one after the other it was 100 threads"),
        "{words}"
    );
}

#[test]
fn bytes_of_a_thread_that_has_ended_are_free() {
    let a = pairs(50, [adds(0, false), adds(8, false)]);
    assert_eq!(ids(&a), ["false-sharing", "false-sharing"]);
}

#[test]
fn two_atomics_of_the_same_threads_are_priced_together() {
    let a = pairs(50, [adds(0, true), adds(0, true)]);
    let f = only(&a);
    let names = ["copy()", "count()"];
    assert!(
        names.iter().all(|name| f.title.contains(name)),
        "{}",
        f.title
    );
    assert!(f.causes[0].fix.contains("; as well, "), "{:?}", f.causes);
    // Two thirds of all samples.
    assert!(f.share_of_thread_time > 0.5, "{}", f.share_of_thread_time);
    // More than the two alone would buy.
    assert!(f.gain.mid > 1.3 && f.gain.high > 2.0, "{:?}", f.gain);
}

/// Each thread at its own bytes: its lock, 24 bytes from the other's. `of_both`: threads that take the first one.
fn locks_side_by_side(of_both: bool) -> Analysis {
    let mut w = World::new("record");
    let locks = ["a", "b"].map(|name| w.p.mutex(name));
    for (at, lock) in locks.into_iter().enumerate() {
        let object = &mut w.p.raw().objects[lock as usize];
        object.addr = 0x5000 + 40 * at as u64;
    }
    for (t, lock) in w.threads.into_iter().zip(locks) {
        w.p.acquires(t, lock, w.hit, 1_000_000).hold(600);
    }
    if of_both {
        w.p.acquires(w.threads[1], locks[0], w.hit, 1_000_000)
            .hold(600);
    }
    let uses = [0, 1].map(|t| LineUse {
        offset: 40 * t as u8,
        size: 4,
        ..w.hits(t)
    });
    w.said(line(), uses.to_vec())
}

#[test]
fn locks_that_each_thread_has_for_itself_are_neighbours() {
    let a = locks_side_by_side(false);
    assert_eq!(ids(&a), ["false-sharing"]);
    let cause = &a.findings[0].causes[0];
    assert!(cause.text.contains("its own lock"), "{cause:?}");
    assert!(cause.fix.contains("lock and data"), "{cause:?}");
    // One that both take is a lock.
    let a = locks_side_by_side(true);
    assert!(!ids(&a).contains(&"false-sharing"), "{a:#?}");
}
