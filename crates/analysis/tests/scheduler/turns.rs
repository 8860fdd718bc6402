//! What is a lock, and what hands over work, where only the kernel tells who waits for whom.

use convoy_model::finding::Finding;
use convoy_model::{Model, OffReason};
use convoy_profile::{FunctionStart, Reason};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, us, ProfileBuilder};

use crate::kit::{analysis, ids, model, workers};

/// Three threads work for 5 ms in turns: each waits at one place, and ends the next one's wait at another.
fn turns(p: ProfileBuilder, wait: u32, wake: u32, work: u32) -> Model {
    turns_at(p, wait, wake, work, |_| &[0x7000])
}

/// The same, where each waits at these words one after another.
fn turns_at(
    mut p: ProfileBuilder,
    wait: u32,
    wake: u32,
    work: u32,
    words: fn(u64) -> &'static [u64],
) -> Model {
    p.raw().without_agent = true;
    let threads = workers(&mut p, 3);
    let mut s = Schedule::new();
    for (at, &t) in threads.iter().enumerate() {
        let before = threads[(at + 2) % 3];
        let mut words = words(at as u64).iter().cycle();
        let mut wait = || {
            let word = words.next().copied().unwrap_or(0x7000);
            Wait::futex(wait, word).woken_by(before, wake)
        };
        s.waits(t, wait(), ms(1 + 5 * at as u64));
        for _ in 0..40 {
            s.runs(t, work, ms(5)).waits(t, wait(), ms(10));
        }
    }
    model(p, s)
}

/// Two places without a name, called from one function without a name or from two, all in `run()`.
fn stripped(functions: [u64; 2]) -> Model {
    let mut p = ProfileBuilder::new("app");
    let mut without_name = |start: u64| {
        let frame = p.unknown_frame(Some(0), Reason::NoSymbol);
        if start != 0 {
            p.raw().starts.push(FunctionStart {
                frame,
                address: start,
            });
        }
        p.stack(&[frame])
    };
    let (wait, wake) = (without_name(functions[0]), without_name(functions[1]));
    let work = p.site("compute", "a.c", 3);
    turns(p, wait, wake, work)
}

#[test]
fn functions_without_a_name_are_told_by_where_they_begin() {
    let said = |functions| ids(&analysis(&stripped(functions)));
    assert_eq!(said([0x1000, 0x1000]), ["contended-futex"]);
    assert!(!said([0x1000, 0x1010]).contains(&"contended-futex"));
    assert!(!said([0, 0]).contains(&"contended-futex"), "nobody knows");
}

/// Workers take from one queue and put into another: all of it is in one function, and it calls two that share one lock.
fn queues(waits_in: &str, wakes_in: &str) -> Model {
    let mut p = ProfileBuilder::new("app");
    let libc = p.module("/usr/lib/libc.so.6");
    let mut called = |library: &str, function: &str, line: u32| {
        let inner = p.frame_in(libc, library, "", 0);
        let frame = p.frame(function, "q.c", line);
        let worker = p.frame("worker", "a.c", line + 50);
        p.stack(&[inner, frame, worker])
    };
    let wait = called(waits_in, "push", 10);
    let wake = called(wakes_in, "pop", 30);
    let work = p.site("compute", "a.c", 3);
    turns(p, wait, wake, work)
}

#[test]
fn who_takes_from_one_queue_and_puts_into_another_waits_for_no_lock() {
    let said = |waits, wakes| ids(&analysis(&queues(waits, wakes)));
    let lock = said("pthread_mutex_lock", "pthread_mutex_unlock");
    assert_eq!(lock, ["contended-futex"]);
    let condition = said("pthread_cond_wait", "pthread_cond_signal");
    assert!(!condition.contains(&"contended-futex"), "{condition:?}");
}

/// Threads that follow one another through a function of the program's, each at a condition of its own, or all at one.
fn tickets(waits_in: &str, words: fn(u64) -> &'static [u64]) -> Vec<&'static str> {
    let mut p = ProfileBuilder::new("app");
    let libc = p.module("/usr/lib/libc.so.6");
    let mut append = |library: &str, line: u32| {
        let inner = p.frame_in(libc, library, "", 0);
        let frame = p.frame("append", "sink.c", line);
        p.stack(&[inner, frame])
    };
    let (wait, wake) = (append(waits_in, 29), append("pthread_cond_signal", 38));
    let work = p.site("compute", "a.c", 3);
    ids(&analysis(&turns_at(p, wait, wake, work, words)))
}

#[test]
fn who_waits_for_a_turn_at_a_condition_of_its_own_waits_for_no_lock() {
    let own = |at| [&[0x100, 0x104][..], &[0x200, 0x204], &[0x300, 0x304]][at as usize];
    let said = tickets("pthread_cond_wait", own);
    assert!(!said.contains(&"contended-futex"), "{said:?}");
    let one = tickets("pthread_cond_wait", |_| &[0x100, 0x104]);
    assert_eq!(one, ["contended-futex"]);
}

/// Two processes that work in turns while others wait for a lock on a file, and do nothing else: `name` is what they run.
fn script(name: &str) -> Vec<&'static str> {
    let mut p = ProfileBuilder::new("bash");
    p.cpus(2);
    p.raw().without_agent = true;
    let mut s = Schedule::new();
    for turn in 0..2 {
        p.process("gzip");
        p.raw().without_agent = true;
        let (work, pipe) = (p.site("deflate", "g.c", 1), p.site("read", "g.c", 2));
        s.process(1 + turn);
        s.waits(
            0,
            Wait::new(OffReason::Pipe, pipe),
            ms(1 + 10 * u64::from(turn)),
        );
        for _ in 0..20 {
            s.runs(0, work, ms(10));
            s.waits(0, Wait::new(OffReason::Pipe, pipe), ms(10));
        }
    }
    for one in 0..30 {
        p.process(name);
        p.raw().without_agent = true;
        let lock = p.site("main", "flock.c", 1);
        s.process(3 + one);
        s.starts(0, ms(1 + 10 * u64::from(one)));
        s.waits(0, Wait::new(OffReason::Ipc, lock), ms(30));
    }
    let mut model = model(p, s);
    let offs = model.sched.iter_mut().flat_map(|sched| &mut sched.offs);
    offs.filter(|off| off.reason == OffReason::Ipc)
        .for_each(|off| off.nr = 73);
    ids(&analysis(&model))
}

#[test]
fn a_script_that_waits_for_flock_waits_for_a_lock() {
    assert!(script("flock").contains(&"contended-file-lock"));
    assert!(
        !script("sleeper").contains(&"contended-file-lock"),
        "it works for nobody"
    );
}

/// Two processes that take turns with a file: they wait for its lock in two functions, and write it through to the disk under it in
/// one of them so many times for each wait. Work outside takes as long as in it.
fn claims(syncs: u64) -> Vec<Finding> {
    let mut p = ProfileBuilder::new("batch");
    p.cpus(2);
    let mut s = Schedule::new();
    let name = s.name("/var/jobs");
    for one in 0..2 {
        if one > 0 {
            p.process("batch");
        }
        let (run, sync) = (p.site("run", "b.c", 20), p.site("claim", "b.c", 14));
        let (claim, give) = (p.site("claim", "b.c", 12), p.site("give", "b.c", 17));
        s.process(one);
        let lock = |at| Wait::new(OffReason::Ipc, at).named(name);
        s.waits(0, lock(claim), us(1 + 500 * u64::from(one)));
        for _ in 0..100 {
            s.runs(0, sync, us(100));
            for _ in 0..syncs {
                s.waits(0, Wait::new(OffReason::Sync, sync).named(name), us(200));
            }
            s.runs(0, run, us(100));
            s.waits(0, lock(claim), us(300));
            s.waits(0, lock(give), us(200));
        }
    }
    let mut model = model(p, s);
    let offs = model.sched.iter_mut().flat_map(|sched| &mut sched.offs);
    offs.filter(|off| off.reason == OffReason::Ipc)
        .for_each(|off| off.nr = 73);
    analysis(&model).findings
}

#[test]
fn one_file_has_one_lock_and_what_is_written_under_it_is_said_with_it() {
    let only = |syncs| {
        let mut found = claims(syncs);
        let ids: Vec<_> = found.iter().map(|f| f.id.as_str()).collect();
        assert_eq!(ids, ["contended-file-lock"]);
        found.remove(0)
    };
    let (plain, written) = (only(0), only(2));
    assert!(plain.causes[0].fix.starts_with("less work"), "{plain:?}");
    assert!(written.causes[0].fix.contains("for many"), "{written:?}");
    assert!(written.evidence.iter().any(|e| e.key == "sync_ns"));
    // All that is left at best is 0.8 of what they run outside of it.
    assert!(written.gain.high > 6.0, "{written:?}");
    assert!(written.gain.mid > plain.gain.mid, "{written:?}");
}
