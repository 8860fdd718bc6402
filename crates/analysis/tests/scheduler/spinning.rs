//! busy-waiting.

use convoy_model::{FindingId, Model, OffReason, SpinKind};
use convoy_profile::{OffCpu, ThreadRef};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, us, ProfileBuilder};

use crate::kit::{analysis, ids, model};

/// A main thread that works, and helpers that spin until it has something for them. On too few CPUs it queues.
fn helpers(spin: bool, short: bool) -> Model {
    helpers_on(if short { 2 } else { 4 }, spin, short)
}

fn helpers_on(cpus: u32, spin: bool, short: bool) -> Model {
    let mut p = ProfileBuilder::new("redis-like");
    p.cpus(cpus);
    let (serve, help) = (p.site("serve", "r.c", 3), p.site("help", "r.c", 40));
    let frame = p.frame("io_thread_main", "r.c", 44);
    let look = p.stack(&[frame]);
    let helpers: Vec<_> = (0..2)
        .map(|_| p.thread("io").start("io", "r.c", 40).cpu(1).id())
        .collect();
    let mut s = Schedule::new();
    let wait = s.spin_loop(SpinKind::Polling, Some(frame));
    for _ in 0..50 {
        if short {
            s.queues(0, serve, ms(8));
        }
        s.runs(0, serve, ms(2));
        let length = if short { 10 } else { 2 };
        for &h in &helpers {
            s.runs(h, help, ms(1));
            if spin {
                s.spins(h, look, wait, ms(length - 1));
            } else {
                s.waits(h, Wait::futex(look, 0x10), ms(length - 1));
            }
        }
    }
    model(p, s)
}

#[test]
fn threads_that_spin_take_cpus_from_one_that_works() {
    let a = analysis(&helpers(true, true));
    let f = a
        .findings
        .iter()
        .find(|f| f.id == FindingId::BusyWaiting)
        .unwrap();
    assert!(f.title.contains("io_thread_main() r.c:44"), "{}", f.title);
    assert!(f.gain.high > 3.0 && f.gain.low > 1.05, "{:?}", f.gain);
    assert_eq!(a.loops.len(), 1);
    assert_eq!(a.loops[0].threads, 2);
    assert!(!a.loops[0].waits_for.is_empty());
    let (io, main) = (&a.groups[0], &a.groups[1]);
    assert!(io.cm_ns > io.cm_working_ns && main.cm_working_ns > main.cm_ns);
}

#[test]
fn where_cpus_are_not_short_nothing_is_promised() {
    let a = analysis(&helpers(true, false));
    let f = a
        .findings
        .iter()
        .find(|f| f.id == FindingId::BusyWaiting)
        .unwrap();
    assert_eq!((f.gain.low, f.gain.mid, f.gain.high), (1.0, 1.0, 1.0));
}

#[test]
fn where_other_programs_have_the_cpus_nothing_is_promised() {
    let a = analysis(&helpers_on(4, true, true));
    let f = a
        .findings
        .iter()
        .find(|f| f.id == FindingId::BusyWaiting)
        .unwrap();
    assert_eq!((f.gain.low, f.gain.mid), (1.0, 1.0));
    assert!(f.gain.high > 3.0, "{:?}", f.gain);
}

#[test]
fn threads_that_sleep_do_not_spin() {
    let a = analysis(&helpers(false, false));
    assert!(!ids(&a).contains(&"busy-waiting"));
    assert!(a.loops.is_empty());
}

#[test]
fn spinning_is_not_work() {
    let a = analysis(&helpers(true, false));
    assert!(a.parallelism.active_mean > a.parallelism.working_mean + 0.9);
    assert_eq!(a.parallelism.only_spinning_ns, 0);
}

/// Four threads spin until each has got a CPU for its share, and hardly anything is work. Nobody who is at work waits for
/// a CPU: who has been waited for is among those that spin.
#[test]
fn where_all_spin_the_work_that_is_left_says_what_the_fix_buys() {
    let mut p = ProfileBuilder::new("barrier-like");
    p.cpus(2);
    let share = p.site("share", "b.c", 3);
    let frame = p.frame("spin_barrier", "b.c", 44);
    let look = p.stack(&[frame]);
    let threads: Vec<_> = (0..4)
        .map(|_| p.thread("phase").start("phase", "b.c", 40).cpu(1).id())
        .collect();
    let mut s = Schedule::new();
    let wait = s.spin_loop(SpinKind::Polling, Some(frame));
    for round in 0..50 {
        for (i, &t) in threads.iter().enumerate() {
            let first = (i + round) % 4 < 2;
            if !first {
                s.queues(t, share, ms(5));
            }
            s.runs(t, share, ms(1));
            s.spins(t, look, wait, ms(4));
            if first {
                s.queues(t, share, ms(5));
            }
        }
    }
    let a = analysis(&model(p, s));
    let f = a
        .findings
        .iter()
        .find(|f| f.id == FindingId::BusyWaiting)
        .unwrap();
    // A fifth of the CPU time is work: five times at most, as far as some seventy samples of it tell.
    assert!(f.gain.high > 4.9 && f.gain.high < 12.0, "{:?}", f.gain);
    assert!(f.gain.mid > 1.8 && f.gain.low > 1.2, "{:?}", f.gain);
}

/// Four threads on two CPUs take turns at a lock of their own, and other programs have half of the time of a CPU: those that wait give
/// way, or are taken off.
fn in_turns(gives_way: bool) -> convoy_model::finding::Gain {
    let mut p = ProfileBuilder::new("ticket");
    p.cpus(2);
    let share = p.site("share", "t.c", 3);
    let frame = p.frame("ticket_lock", "t.c", 17);
    let look = p.stack(&[frame]);
    let threads: Vec<_> = (0..4)
        .map(|_| p.thread("w").start("run", "t.c", 40).cpu(1).id())
        .collect();
    let mut s = Schedule::new();
    let wait = s.spin_loop(SpinKind::Pause, Some(frame));
    for round in 0..200 {
        for (i, &t) in threads.iter().enumerate() {
            match (i + round) % 4 {
                0 => s.runs(t, share, ms(1)).queues(t, share, ms(3)),
                1 => s.spins(t, look, wait, ms(2)).queues(t, share, ms(2)),
                _ => s.queues(t, share, ms(4)),
            };
        }
    }
    let mut profile = p.build();
    s.put_into(&mut profile);
    let ready = threads.iter().map(|&thread| OffCpu {
        thread: ThreadRef { process: 0, thread },
        stack: look,
        reason: OffReason::Preempted,
        nr: if gives_way { 24 } else { -1 },
        n: 300,
        sum_ns: ms(600),
        ..OffCpu::default()
    });
    profile.sched.as_mut().unwrap().offs.extend(ready);
    let a = analysis(&Model::build(profile));
    let found = a
        .findings
        .into_iter()
        .find(|f| f.id == FindingId::BusyWaiting);
    found.expect("said").gain
}

#[test]
fn who_gives_way_leaves_cpus_to_others_that_work_would_not() {
    let (taken, given) = (in_turns(false), in_turns(true));
    // A third of the CPU time is work: of four milliseconds one on one CPU, half of that on two, more or less by luck.
    assert!(given.high > 7.0, "{given:?}");
    assert!(given.mid > 1.5 * taken.mid, "{given:?} {taken:?}");
    assert!(given.high > 2.0 * taken.high, "{given:?} {taken:?}");
    assert_eq!(given.low, taken.low, "nothing more is promised");
}

/// Threads that spin for a moment before each sleep: a sample hits one slice of many, and stands for all of them.
#[test]
fn short_slices_spin_as_often_as_their_samples_say() {
    let mut p = ProfileBuilder::new("barrier-like");
    p.cpus(2);
    let share = p.site("share", "b.c", 3);
    let frame = p.frame("spin_barrier", "b.c", 44);
    let look = p.stack(&[frame]);
    let threads: Vec<_> = (0..2)
        .map(|_| p.thread("phase").start("phase", "b.c", 40).cpu(1).id())
        .collect();
    let mut s = Schedule::new();
    let wait = s.spin_loop(SpinKind::Polling, Some(frame));
    let barrier = Wait::new(OffReason::Futex, share);
    // The recorder gives a sample's slice alone to its code: three of four are in the loop.
    for &t in &threads {
        for _ in 0..100 {
            s.runs(t, share, us(100));
            s.waits(t, barrier, us(100));
            for _ in 0..3 {
                s.spins(t, look, wait, us(100));
                s.waits(t, barrier, us(100));
            }
            for _ in 0..96 {
                s.runs_until(t, share, us(100));
                s.waits(t, barrier, us(100));
            }
        }
    }
    let a = analysis(&model(p, s));
    let [spin] = a.loops.as_slice() else {
        panic!("{:?}", a.loops)
    };
    assert!((0.7..0.8).contains(&spin.share), "{spin:?}");
}
