//! lock-step, and locks inside of libraries: contended-futex.

use convoy_model::{FindingId, Model, OffReason};
use convoy_profile::Reason;
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, us, ProfileBuilder};

use crate::kit::{analysis, ids, model, only, workers};

/// A reader and a writer that hand over 400 pieces: each works for one step, and waits for the other meanwhile,
/// but for what they overlap.
fn turns(step: u64, overlap: u64) -> Model {
    let mut p = ProfileBuilder::new("app");
    p.cpus(4);
    let (read, write) = (p.site("read", "r.c", 1), p.site("write", "w.c", 1));
    let (put, get) = (p.site("put", "queue.c", 5), p.site("get", "queue.c", 9));
    let reader = p.thread("reader").start("reading", "r.c", 1).cpu(1).id();
    let writer = p.thread("writer").start("writing", "w.c", 1).cpu(1).id();
    let mut s = Schedule::new();
    s.waits(writer, Wait::futex(get, 0x7000).woken_by(reader, put), step);
    for _ in 0..400 {
        s.runs(reader, read, step + overlap);
        s.waits(reader, Wait::futex(put, 0x7004).woken_by(writer, get), step);
        s.runs(writer, write, step + overlap);
        s.waits(writer, Wait::futex(get, 0x7000).woken_by(reader, put), step);
    }
    model(p, s)
}

#[test]
fn small_pieces_that_are_handed_over_one_by_one_are_told() {
    let a = analysis(&turns(us(30), 0));
    let f = only(&a);
    assert_eq!(f.id.as_str(), "lock-step");
    assert!(f.title.contains("in turns"), "{}", f.title);
    assert_eq!(f.gain.low, 1.0);
    // Both at once is twice as fast, and less to hand over a little more.
    assert!((1.3..2.5).contains(&f.gain.mid), "{:?}", f.gain);
    assert!((1.9..5.0).contains(&f.gain.high), "{:?}", f.gain);
}

#[test]
fn long_steps_are_phases_unless_they_overlap() {
    assert!(!ids(&analysis(&turns(ms(3), 0))).contains(&"lock-step"));
    assert!(ids(&analysis(&turns(ms(3), ms(1)))).contains(&"lock-step"));
}

/// Two threads that meet at a barrier after each step; one of them is later each time.
fn meetings(step: u64) -> Model {
    let mut p = ProfileBuilder::new("app");
    let ids = workers(&mut p, 2);
    meet_at(p, step, [ids[0], ids[1]], [8, 8])
}

/// The same of these threads, each of which waits at a line of its own.
fn meet_at(mut p: ProfileBuilder, step: u64, ids: [u32; 2], lines: [u32; 2]) -> Model {
    p.cpus(4);
    let work = p.site("cells", "grid.c", 3);
    let meet = lines.map(|line| p.site("cells", "grid.c", line));
    let mut s = Schedule::new();
    for round in 0..600 {
        for at in 0..2 {
            let (t, other) = (ids[at], ids[1 - at]);
            if round % 2 == at {
                s.runs(t, work, 2 * step);
            } else {
                s.runs(t, work, step);
                let barrier = Wait::futex(meet[at], 0x7000).woken_by(other, meet[1 - at]);
                s.waits(t, barrier, step);
            }
        }
    }
    model(p, s)
}

#[test]
fn threads_that_meet_after_each_small_step_are_told() {
    let a = analysis(&meetings(us(20)));
    let f = a.findings.iter().find(|f| f.id == FindingId::LockStep);
    let f = f.expect("lock-step");
    assert!(f.title.contains("meet"), "{}", f.title);
    assert!(!ids(&analysis(&meetings(ms(2)))).contains(&"lock-step"));
}

/// A pool's threads at the queue that another one fills: who gets something tells the next one that there is more.
#[test]
fn threads_that_wait_for_work_at_one_place_do_not_meet() {
    let said = |filled: u64| {
        let mut p = ProfileBuilder::new("app");
        p.cpus(4);
        let pool = workers(&mut p, 2);
        let io = p.thread("io").start("read", "io.c", 1).cpu(1).id();
        let (work, take) = (p.site("price", "pool.c", 3), p.site("take", "pool.c", 8));
        let (put, sleep) = (p.site("put", "pool.c", 5), p.site("call", "io.c", 9));
        let mut s = Schedule::new();
        for round in 0..600 {
            let (one, other) = (pool[round % 2], pool[1 - round % 2]);
            s.waits(one, Wait::futex(take, 0x7000).woken_by(io, put), filled);
            s.runs(one, work, us(40));
            s.waits(other, Wait::futex(take, 0x7000).woken_by(one, take), us(30));
            s.runs(other, work, us(20));
            s.waits(io, Wait::new(OffReason::Sleep, sleep), filled);
            s.runs(io, put, us(40));
        }
        ids(&analysis(&model(p, s))).contains(&"lock-step")
    };
    assert!(said(us(1)));
    assert!(!said(us(40)));
}

/// Two threads that wake each other after each small step, and do nothing for most of the time.
fn wake_ups(name: &str, idle: u64) -> Vec<&'static str> {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let mut thread = || p.thread(name).start("run", "a.rs", 1).cpu(1).id();
    let ids = [thread(), thread()];
    let (work, park) = (p.site("poll", "a.rs", 3), p.site("park", "park.rs", 9));
    let mut s = Schedule::new();
    for at in 0..600 {
        let (runs, waits) = (ids[at % 2], ids[1 - at % 2]);
        s.runs(runs, work, us(40));
        s.waits(runs, Wait::new(OffReason::Poll, park), idle);
        let woken = Wait::futex(park, 0x7000 + at as u64 % 2 * 8).woken_by(runs, work);
        s.waits(waits, woken, us(30) + idle);
        s.runs(waits, work, us(10));
    }
    self::ids(&analysis(&model(p, s)))
}

#[test]
fn threads_that_share_tasks_and_have_none_do_not_meet() {
    let meet = |name, idle| wake_ups(name, idle).contains(&"lock-step");
    assert!(meet("w", us(400)));
    assert!(meet("tokio-rt-worker", us(1)));
    for name in ["tokio-rt-worker", "tokio-runtime-w"] {
        assert!(!meet(name, us(400)), "{name}");
    }
}

#[test]
fn the_main_thread_of_a_team_meets_the_others() {
    let title = |lines| {
        let mut p = ProfileBuilder::new("app");
        let other = workers(&mut p, 1)[0];
        let a = analysis(&meet_at(p, us(20), [0, other], lines));
        let f = a.findings.into_iter().find(|f| f.id == FindingId::LockStep);
        let f = f.expect("lock-step");
        (f.title, f.causes[0].fix.clone())
    };
    let (meets, fix) = title([8, 8]);
    assert!(meets.contains("the main thread and"), "{meets}");
    assert!(meets.contains("meet 12 k times a second"), "{meets}");
    assert!(fix.contains("before it sleeps"), "{fix}");
    let (turns, _) = title([8, 9]);
    assert!(turns.contains("in turns"), "{turns}");
}

/// Threads in a lock of the C library's own: waits and their ends are at one line of the program.
fn stdio(leaves: (&str, &str)) -> Model {
    let mut p = ProfileBuilder::new("app");
    p.cpus(4).raw().without_agent = true;
    let libc = p.module("libc.so.6");
    let field = p.frame("field", "out.c", 7);
    let mut at = |leaf: &str| {
        let leaf = p.frame_in(libc, leaf, "", 0);
        p.stack(&[leaf, field])
    };
    let (wait, wake) = (at(leaves.0), at(leaves.1));
    let work = p.site("field", "out.c", 6);
    let ids = workers(&mut p, 2);
    let mut s = Schedule::new();
    for (at, &t) in ids.iter().enumerate() {
        let lock = Wait::futex(wait, 0x7000).woken_by(ids[1 - at], wake);
        s.waits(t, lock, ms(1 + at as u64));
        for _ in 0..100 {
            s.runs(t, work, ms(1));
            s.waits(t, lock, ms(1));
        }
    }
    model(p, s)
}

#[test]
fn a_lock_inside_of_the_c_library_is_told_by_its_name() {
    let a = analysis(&stdio((
        "__lll_lock_wait_private",
        "__lll_lock_wake_private",
    )));
    assert!(ids(&a).contains(&"contended-futex"), "{:?}", ids(&a));
    let a = analysis(&stdio(("syscall", "syscall")));
    assert!(!ids(&a).contains(&"contended-futex"), "{:?}", ids(&a));
}

/// The gain of a lock inside of the C library: low, expected and at most. Threads hardly wait, and run these functions,
/// so many milliseconds each in turn, all of which call from one line of the program.
fn hot(runs: &[(&[&str], u64)]) -> [f64; 3] {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2).raw().without_agent = true;
    let libc = p.module("libc.so.6");
    let field = p.frame("field", "out.c", 7);
    let mut at = |functions: &[&str]| {
        let frames = functions.iter().map(|f| p.frame_in(libc, f, "", 0));
        let frames: Vec<_> = frames.chain([field]).collect();
        p.stack(&frames)
    };
    let wait = at(&["__lll_lock_wait_private", "random"]);
    let wake = at(&["__lll_lock_wake_private", "random"]);
    let runs: Vec<_> = runs.iter().map(|(f, ms)| (at(f), *ms)).collect();
    let ids = workers(&mut p, 2);
    let mut s = Schedule::new();
    for (at, &t) in ids.iter().enumerate() {
        let lock = Wait::futex(wait, 0x7000).woken_by(ids[1 - at], wake);
        for _ in 0..30 {
            for &(code, n) in &runs {
                for _ in 0..n {
                    s.runs(t, code, ms(1));
                }
            }
            s.waits(t, lock, us(300));
        }
    }
    let a = analysis(&model(p, s));
    let found = a
        .findings
        .iter()
        .find(|f| f.id == FindingId::ContendedFutex);
    found.map_or([1.0; 3], |f| [f.gain.low, f.gain.mid, f.gain.high])
}

#[test]
fn a_lock_inside_of_the_c_library_costs_what_its_functions_run() {
    let program: &[&str] = &[];
    let cold = hot(&[(program, 20)]);
    let hot_one = hot(&[
        (&["__lll_lock_wait_private", "random"], 2),
        (&["random"], 10),
        (&["random_r", "random"], 3),
        (program, 5),
    ]);
    // 12 of 20 ms are the lock's own: of these, 70 % are expected to go, and with the section at most 15.
    assert!(cold[2] < 1.3, "{cold:?}");
    assert!((1.5..1.9).contains(&hot_one[1]), "{hot_one:?}");
    assert!((3.5..13.0).contains(&hot_one[2]), "{hot_one:?}");
    // One that is hardly ever waited for in the kernel is not hot: its functions work.
    let busy = hot(&[(&["random"], 15), (program, 5)]);
    assert!(busy[2] < 1.3, "{busy:?}");
}

/// Two threads of Go that work, pass on and look for the next goroutine, so many milliseconds each in turn.
fn goroutines(work: u64, calls: u64, scheduler: u64) -> Option<[f64; 3]> {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2).raw().without_agent = true;
    let parse = p.frame("main.parse", "main.go", 95);
    let worker = p.frame("main.worker", "main.go", 145);
    let (send, find) = (
        p.frame("runtime.chansend", "chan.go", 176),
        p.frame("runtime.findRunnable", "proc.go", 3300),
    );
    let codes = [
        (p.stack(&[parse, worker]), work),
        (p.stack(&[send, worker]), calls),
        (p.stack(&[find]), scheduler),
    ];
    let ids: Vec<_> = (0..2)
        .map(|_| {
            p.thread("m")
                .start("runtime.mstart", "asm.s", 1)
                .cpu(1)
                .id()
        })
        .collect();
    let mut s = Schedule::new();
    for &t in &ids {
        for _ in 0..20 {
            for (code, n) in codes {
                for _ in 0..n {
                    s.runs(t, code, ms(1));
                }
            }
        }
    }
    let a = analysis(&model(p, s));
    let found = a
        .findings
        .iter()
        .find(|f| f.id == FindingId::FineGrainedTasks);
    found.map(|f| {
        assert!(f.title.contains("main.worker() main.go:145"), "{}", f.title);
        [f.gain.low, f.gain.mid, f.gain.high]
    })
}

#[test]
fn goroutines_that_mostly_pass_on_are_said_with_what_it_costs() {
    // Half of ten is work. 0.935 of the other half and an eighth of what is left are expected to go, at most all of it and a quarter of
    // the work.
    let [low, mid, high] = goroutines(5, 2, 3).expect("found");
    assert!((1.3..1.4).contains(&low), "{low}");
    assert!((2.1..2.2).contains(&mid), "{mid}");
    assert!((2.6..5.0).contains(&high), "{high}");
    // Little of it, or a scheduler that looks for work that others do.
    assert_eq!(goroutines(9, 1, 1), None);
    assert_eq!(goroutines(6, 0, 4), None);
}

#[test]
fn two_places_without_a_name_are_no_function() {
    let mut p = ProfileBuilder::new("app");
    p.cpus(4).raw().without_agent = true;
    let stripped = p.module("mod_event.so");
    let ids = workers(&mut p, 2);
    let [pops, pushes] = ["pop", "push"].map(|leaf| {
        let caller = p.unknown_frame(Some(stripped), Reason::NoSymbol);
        let leaf = p.frame(leaf, "queue.c", 1);
        p.stack(&[leaf, caller])
    });
    let mut s = Schedule::new();
    for (at, &t) in ids.iter().enumerate() {
        let queue = Wait::futex(pops, 0x7000).woken_by(ids[1 - at], pushes);
        for _ in 0..100 {
            s.runs(t, pushes, ms(1));
            s.waits(t, queue, ms(1));
        }
    }
    let a = analysis(&model(p, s));
    assert!(
        !crate::kit::ids(&a).contains(&"contended-futex"),
        "{:?}",
        crate::kit::ids(&a)
    );
}

/// Threads that wait for a monitor of Java's in code without names, each time at another address, and with what they
/// wait for one another in.
fn monitor(wait: &str, wake: &str) -> Vec<String> {
    let mut p = ProfileBuilder::new("java");
    p.cpus(4).raw().without_agent = true;
    let jvm = p.module("libjvm.so");
    let (enter, exit) = (p.frame_in(jvm, wait, "", 0), p.frame_in(jvm, wake, "", 0));
    let ids = workers(&mut p, 3);
    let mut s = Schedule::new();
    for (at, &t) in ids.iter().enumerate() {
        s.waits(
            t,
            Wait::futex(p.site("begin", "a.c", 2), 0x1),
            ms(1 + at as u64),
        );
        for _ in 0..100 {
            let compiled = p.unknown_frame(None, Reason::NoModule);
            let (here, there) = (p.stack(&[enter, compiled]), p.stack(&[exit, compiled]));
            s.runs(t, p.stack(&[compiled]), ms(1));
            let lock = Wait::futex(here, 0x7000).woken_by(ids[(at + 1) % 3], there);
            s.waits(t, lock, ms(2));
        }
    }
    let a = analysis(&model(p, s));
    let found = a
        .findings
        .iter()
        .filter(|f| f.id == FindingId::ContendedFutex);
    found
        .map(|f| format!("{} {}", f.title, f.caveats.join(" ")))
        .collect()
}

#[test]
fn a_monitor_of_java_is_one_wherever_its_code_was_compiled_to() {
    let found = monitor(
        "ObjectMonitor::EnterI(JavaThread*)",
        "ObjectMonitor::exit(JavaThread*)",
    );
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("3 threads"), "{found:?}");
    assert!(found[0].contains("DumpPerfMapAtExit"), "{found:?}");
}
