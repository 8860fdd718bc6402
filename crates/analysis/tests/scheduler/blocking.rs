//! blocking-io, holder-off-cpu, contended-futex, page-faults, memory-lock.

use convoy_analysis::arbitration::{cross_check, merge};
use convoy_model::finding::Subject;
use convoy_model::{FindingId, Model, ObjectId, OffReason};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, us, ProfileBuilder};

use crate::kit::{analysis, found, ids, model, only};

/// Four threads compute for 6 ms, then wait for one that is in this for 4 ms.
fn somebody_blocks(reason: OffReason, others_wait_for_it: bool) -> Model {
    somebody_is_in([(reason, 2), (reason, 2)], others_wait_for_it)
}

/// The same, one after the other in two waits of so many milliseconds.
fn somebody_is_in(parts: [(OffReason, u64); 2], others_wait_for_it: bool) -> Model {
    let mut p = ProfileBuilder::new("app");
    let (work, wait) = (p.site("work", "a.c", 10), p.site("next", "a.c", 20));
    let write = p.site("write_frame", "a.c", 33);
    let writer = p.thread("writer").start("writer", "a.c", 30).cpu(1).id();
    let workers: Vec<_> = (0..4)
        .map(|_| p.thread("w").start("work", "a.c", 9).cpu(1).id())
        .collect();
    let mut s = Schedule::new();
    let file = s.name("/var/out.y4m");
    for _ in 0..100 {
        s.waits(
            writer,
            Wait::futex(wait, 0x300).woken_by(workers[0], work),
            ms(6),
        );
        for (reason, part_ms) in parts {
            s.waits(writer, Wait::new(reason, write).named(file), ms(part_ms));
        }
        for &w in &workers {
            s.runs(w, work, ms(6));
            let end = if others_wait_for_it {
                Wait::futex(wait, 0x100).woken_by(writer, write)
            } else {
                Wait::new(OffReason::Poll, wait)
            };
            s.waits(w, end, ms(4));
        }
    }
    model(p, s)
}

#[test]
fn io_that_others_wait_for_is_told_with_its_file() {
    let model = somebody_blocks(OffReason::File, true);
    let a = analysis(&model);
    let f = only(&a);
    assert_eq!(f.id.as_str(), "blocking-io");
    let Subject::File(name, _) = f.subject else {
        panic!("{f:?}");
    };
    assert_eq!(
        model.sched.as_ref().unwrap().name(name),
        Some("/var/out.y4m")
    );
    assert_eq!(
        f.title,
        "40 % of the run few threads work because /var/out.y4m is read or written at write_frame() a.c:33"
    );
    // 4 of 10 ms, but four CPUs' work of 6 ms is left in any case.
    assert!((f.gain.high - 10.0 / 6.0).abs() < 0.01, "{:?}", f.gain);
    assert_eq!(f.gain.low, 1.0);
}

#[test]
fn io_in_the_background_is_nobodys_loss() {
    assert_eq!(
        ids(&analysis(&somebody_blocks(OffReason::Sync, false))),
        [""; 0]
    );
}

#[test]
fn an_idle_server_has_nothing_to_fix() {
    let mut p = ProfileBuilder::new("server");
    let (serve, poll) = (p.site("serve", "s.c", 3), p.site("loop", "s.c", 9));
    let mut s = Schedule::new();
    for at in 0..4 {
        let t = p.thread("s").cpu(1).id();
        for _ in 0..20 {
            s.waits(t, Wait::new(OffReason::Poll, poll), ms(40 + at));
            s.runs(t, serve, ms(5));
            s.waits(t, Wait::new(OffReason::Poll, poll), ms(5 - at));
        }
    }
    let a = analysis(&model(p, s));
    assert_eq!(ids(&a), [""; 0]);
    assert!(a.verdict.contains("waited for requests"), "{}", a.verdict);
}

/// Two threads that serve in turn, each for 4 ms, of which 3 are a file's; and have nothing to do for so many before that.
fn served(idle_ms: u64) -> Vec<&'static str> {
    let mut p = ProfileBuilder::new("server");
    p.cpus(2);
    let (serve, poll) = (p.site("serve", "s.c", 3), p.site("loop", "s.c", 9));
    let threads = [0, 1].map(|_| p.thread("s").cpu(1).id());
    let mut s = Schedule::new();
    let file = s.name("/var/db");
    for at in 0..200 {
        let (one, other) = (threads[at % 2], threads[1 - at % 2]);
        for (t, polls_ms) in [(one, idle_ms), (other, idle_ms + 4)] {
            s.waits(t, Wait::new(OffReason::Poll, poll), ms(polls_ms));
        }
        let read = Wait::new(OffReason::File, serve).named(file);
        s.waits(one, read, ms(3)).runs(one, serve, ms(1));
    }
    ids(&analysis(&model(p, s)))
}

#[test]
fn files_are_nobodys_loss_where_nobody_asks_for_most_of_the_time() {
    assert_eq!(served(1), ["blocking-io"]);
    assert_eq!(served(6), [""; 0]);
}

#[test]
fn page_faults_and_the_address_space_have_their_own_ids() {
    for (reason, id) in [
        (OffReason::PageFault, "page-faults"),
        (OffReason::Memory, "memory-lock"),
    ] {
        assert_eq!(ids(&analysis(&somebody_blocks(reason, true))), [id]);
        assert_eq!(ids(&analysis(&somebody_blocks(reason, false))), [""; 0]);
    }
}

#[test]
fn what_is_mapped_anew_is_touched_anew_and_both_go() {
    let parts = [(OffReason::PageFault, 2), (OffReason::Memory, 2)];
    let a = analysis(&somebody_is_in(parts, true));
    let f = only(&a);
    assert_eq!(f.id.as_str(), "memory-lock");
    let alone = |reason| {
        let other = (OffReason::Sleep, 2);
        only(&analysis(&somebody_is_in([(reason, 2), other], true)))
            .gain
            .mid
    };
    let both = 1.0 / (1.0 / alone(OffReason::PageFault) + 1.0 / alone(OffReason::Memory) - 1.0);
    assert!(
        (f.gain.mid / both - 1.0).abs() < 0.01,
        "{:?} {both}",
        f.gain
    );
}

#[test]
fn samples_in_page_faults_go_with_the_calls_that_map() {
    let gain = |faults_per_sample: f64, unmap_us: u64| {
        let mut p = ProfileBuilder::new("app");
        p.cpus(2);
        let (work, map) = (p.site("work", "a.c", 10), p.site("table", "a.c", 20));
        let frames = [p.frame("munmap", "", 0), p.frame("table", "a.c", 21)];
        let unmap = p.stack(&frames);
        let threads = [0, 1].map(|_| p.thread("w").cpu(1).id());
        let mut s = Schedule::new();
        for _ in 0..50 {
            for t in threads {
                s.runs(t, work, ms(8) - us(unmap_us))
                    .runs(t, unmap, us(unmap_us));
                s.waits(t, Wait::new(OffReason::Memory, map), ms(2));
            }
        }
        let mut m = model(p, s);
        for slice in m.sched.iter_mut().flat_map(|sched| &mut sched.slices) {
            slice.n *= 100;
            slice.faults = (slice.n as f64 * faults_per_sample) as u64;
        }
        let a = analysis(&m);
        let f = only(&a);
        assert_eq!(f.id.as_str(), "memory-lock");
        let told = f.evidence.iter().any(|e| e.text.contains("page faults"));
        (f.gain.mid, told)
    };
    let (without, told) = gain(0.0, 500);
    assert!(!told && (without - 10.0 / 7.75).abs() < 0.05, "{without}");
    // Half of what they run goes as well.
    let (half, told) = gain(0.5, 500);
    assert!(told && (half - 10.0 / 4.15).abs() < 0.1, "{half}");
    // A few are what is touched once, or interrupts.
    assert_eq!(gain(0.04, 500), (without, false));
    // What is kept is touched all the same.
    let (kept, told) = gain(0.5, 1);
    assert!(!told && kept < without, "{kept}");
}

#[test]
fn pages_that_a_program_reads_of_itself_are_its_start() {
    let said = |faults: u64| {
        let mut m = somebody_blocks(OffReason::PageFault, true);
        let offs = m.sched.iter_mut().flat_map(|sched| &mut sched.offs);
        let mut offs = offs.filter(|off| off.reason == OffReason::PageFault);
        offs.next().expect("a fault").n = faults;
        assert!(offs.next().is_none());
        ids(&analysis(&m))
    };
    assert_eq!(said(60), ["page-faults"]);
    assert_eq!(said(40), [""; 0]);
}

/// Three threads take turns in a section of 5 ms that is left elsewhere in the same function, or not.
fn convoy(unlock_in_same_function: bool, held_off_cpu: bool, with_object: bool) -> Model {
    let held = held_off_cpu.then_some((OffReason::Sync, "/var/log/app.log"));
    convoy_in(unlock_in_same_function, held, with_object)
}

/// The same, where the holder waits for something, or not.
fn convoy_in(
    unlock_in_same_function: bool,
    held: Option<(OffReason, &str)>,
    with_object: bool,
) -> Model {
    let mut p = ProfileBuilder::new("app");
    let lock = p.site("put", "cache.c", 10);
    let unlock = if unlock_in_same_function {
        p.site("put", "cache.c", 19)
    } else {
        p.site("deliver", "queue.c", 70)
    };
    let work = p.site("put", "cache.c", 14);
    let log = p.site("put", "cache.c", 15);
    let addr = if with_object {
        let object = p.mutex("cache_lock");
        p.raw().objects[object as usize].addr
    } else {
        p.raw().without_agent = true;
        0x7000
    };
    let threads: Vec<_> = (0..3)
        .map(|_| p.thread("w").start("work", "a.c", 1).cpu(1).id())
        .collect();
    let mut s = Schedule::new();
    let held = held.map(|(reason, name)| (reason, s.name(name)));
    for (at, &t) in threads.iter().enumerate() {
        s.waits(
            t,
            Wait::futex(lock, addr).woken_by(threads[(at + 2) % 3], unlock),
            ms(1 + 5 * at as u64),
        );
        for _ in 0..40 {
            if let Some((reason, file)) = held {
                s.runs(t, work, ms(1));
                s.waits(t, Wait::new(reason, log).named(file), ms(4));
            } else {
                s.runs(t, work, ms(5));
            }
            s.waits(
                t,
                Wait::futex(lock, addr).woken_by(threads[(at + 2) % 3], unlock),
                ms(10),
            );
        }
    }
    model(p, s)
}

#[test]
fn a_lock_convoy_is_told_without_the_agent() {
    let a = analysis(&convoy(true, false, false));
    let f = only(&a);
    assert_eq!(f.id.as_str(), "contended-futex");
    assert!(f.title.contains("put() cache.c:10"), "{}", f.title);
    assert!(f.gain.high > 1.5, "{:?}", f.gain);
}

#[test]
fn handing_over_work_is_no_lock() {
    let a = analysis(&convoy(false, false, false));
    assert!(!ids(&a).contains(&"contended-futex"), "{:?}", ids(&a));
}

#[test]
fn a_lock_that_the_agent_saw_is_left_to_detect() {
    let a = analysis(&convoy(true, false, true));
    assert!(!ids(&a).contains(&"contended-futex"), "{:?}", ids(&a));
}

#[test]
fn a_holder_in_an_event_loop_promises_nothing() {
    let gain = |name| {
        let a = analysis(&convoy_in(true, Some((OffReason::Poll, name)), true));
        let mut all = a.findings.into_iter().chain(a.dismissed);
        let found = all.find(|f| f.id == FindingId::HolderOffCpu);
        found.expect("found").gain
    };
    assert!(gain("socket:[17]").mid > 1.5);
    let gain = gain("anon_inode:[eventpoll]");
    assert_eq!(gain.mid, 1.0);
    assert!(gain.high > 1.5, "{gain:?}");
}

#[test]
fn detect_promises_little_where_the_holder_is_in_an_event_loop() {
    let gain = |reason, name| {
        let model = convoy_in(true, Some((reason, name)), true);
        let mut list = [found("contended-lock", Subject::Object(ObjectId(0)), 2.0)];
        cross_check(&model, &analysis(&model), &mut list);
        (list[0].gain.low, list[0].gain.mid)
    };
    assert_eq!(gain(OffReason::Sync, "/var/log/app.log"), (1.5, 2.0));
    // 4 ms of the 5 that a section takes.
    let (low, mid) = gain(OffReason::Poll, "anon_inode:[eventpoll]");
    assert!(low == 1.0 && (1.15..1.25).contains(&mid), "{low} {mid}");
}

#[test]
fn what_a_lock_buys_is_left_to_the_device_that_its_holder_waits_for() {
    let gain = |reason, name| {
        let model = convoy_in(true, Some((reason, name)), true);
        let lock = found("contended-lock", Subject::Object(ObjectId(0)), 5.0);
        let a = analysis(&model);
        let (list, _) = merge(&model, &a, vec![lock.clone()], Vec::new());
        let of = |id: &str| list.iter().find(|f| f.id.as_str() == id).unwrap().clone();
        (lock.gain, of("contended-lock").gain, of("holder-off-cpu"))
    };
    let (before, lock, holder) = gain(OffReason::Sync, "/var/log/app.log");
    assert!(before.low > 1.5 && lock.mid < before.mid, "{lock:?}");
    let alone = holder.evidence.iter().find(|e| e.key == "waits_gain");
    let alone = alone.expect("it can be written through less often").value;
    assert!((lock.mid - alone).abs() < 0.01, "{lock:?} {alone}");
    assert!(holder.gain.mid > alone, "which buys more: {holder:?}");
    assert_eq!(lock.low, 1.0, "the device may be what limits it");
    // Who answers a socket serves several at a time.
    let (before, lock, _) = gain(OffReason::Socket, "socket:[17]");
    assert_eq!((lock.low, lock.mid), (before.low, before.mid));
}

#[test]
fn io_under_a_lock_is_said_of_the_lock() {
    for with_object in [true, false] {
        let a = analysis(&convoy(true, true, with_object));
        let ids = ids(&a);
        assert!(ids.contains(&"holder-off-cpu"), "{ids:?}");
        assert!(!ids.contains(&"blocking-io"), "{ids:?}");
        let f = a
            .findings
            .iter()
            .find(|f| f.id == FindingId::HolderOffCpu)
            .unwrap();
        assert_eq!(matches!(f.subject, Subject::Site(..)), with_object);
        assert!(f.title.contains("fsync"), "{}", f.title);
        assert!(
            f.evidence.iter().any(|e| e.text.contains("app.log")),
            "{f:?}"
        );
    }
    assert!(!ids(&analysis(&convoy(true, false, true))).contains(&"holder-off-cpu"));
}

#[test]
fn who_queues_for_a_lock_waits_for_what_all_holders_before_him_are_in() {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let (lock, release) = (p.site("append", "a.c", 20), p.site("append", "a.c", 22));
    let sync = p.site("flush", "a.c", 9);
    let work = p.site("work", "a.c", 3);
    let threads: Vec<_> = (0..3)
        .map(|_| p.thread("w").start("work", "a.c", 1).cpu(1).id())
        .collect();
    let mut s = Schedule::new();
    let file = s.name("/var/journal");
    for (at, &t) in threads.iter().enumerate() {
        let before = threads[(at + 2) % 3];
        // One after the other: each waits for the two before it.
        s.waits(
            t,
            Wait::futex(lock, 0x300).woken_by(before, release),
            ms(5 * at as u64 + 1),
        );
        for _ in 0..40 {
            s.waits(t, Wait::new(OffReason::Sync, sync).named(file), ms(4));
            s.runs(t, work, ms(1));
            s.waits(
                t,
                Wait::futex(lock, 0x300).woken_by(before, release),
                ms(10),
            );
        }
    }
    let a = analysis(&model(p, s));
    let f = &a.findings[0];
    assert_eq!(f.id.as_str(), "holder-off-cpu", "{:#?}", a.findings);
    assert!(
        f.title.contains("(journal) at flush() a.c:9"),
        "{}",
        f.title
    );
    assert!(f.evidence.iter().any(|e| e.text.contains("/var/journal")));
    // Of 15 ms each waits 8 for what the two before it are in, not only for the last one's 4.
    assert!(f.share_of_thread_time > 0.4, "{}", f.share_of_thread_time);
    assert!(
        !ids(&a).contains(&"contended-futex"),
        "the cause is said once"
    );
}

/// Processes of one program that end one another's waits on a futex: a mutex in memory that they share. Without an
/// agent each has one thread that waits for somebody.
#[test]
fn a_lock_that_forked_processes_share_is_told() {
    let mut p = ProfileBuilder::new("worker");
    p.raw().without_agent = true;
    let mut places = Vec::new();
    for process in 0..3 {
        if process > 0 {
            p.process("worker");
            p.raw().without_agent = true;
        }
        let lock = p.site("update", "w.c", 10);
        places.push((
            lock,
            p.site("update", "w.c", 19),
            p.site("update", "w.c", 14),
        ));
    }
    let mut s = Schedule::new();
    for (at, &(lock, _, work)) in (0u32..).zip(&places) {
        let before = (at + 2) % 3;
        let wait = || Wait::futex(lock, 0x100).woken_from(before, 0, places[before as usize].1);
        s.process(at);
        s.waits(0, wait(), ms(1 + 5 * u64::from(at)));
        for _ in 0..40 {
            s.runs(0, work, ms(5)).waits(0, wait(), ms(10));
        }
    }
    let a = analysis(&model(p, s));
    let f = only(&a);
    assert_eq!(f.id.as_str(), "contended-futex");
    assert!(
        f.title
            .starts_with("3 threads of 3 processes of worker wait"),
        "{}",
        f.title
    );
}
