//! busy-waiting: which loops are one, in whichever process, thread and function of a library they are.

use convoy_model::finding::Finding;
use convoy_model::{FindingId, Model, SpinKind};
use convoy_testkit::sched::Schedule;
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{alone, analysis};

/// A loop: its function, its library, how it waits, where it begins and for how many of 100 ms a thread is in it.
#[derive(Clone, Copy)]
struct Loop {
    function: &'static str,
    module: &'static str,
    kind: SpinKind,
    begins: u64,
    lasts: u64,
}

const PROGRESS: Loop = Loop {
    function: "opal_progress",
    module: "libopen-pal.so.40",
    kind: SpinKind::KnownFunction,
    begins: 0x1000,
    lasts: 3,
};
/// Another one of the same library.
const COMPONENT: Loop = Loop {
    function: "mca_btl_vader_component_progress",
    begins: 0x2000,
    ..PROGRESS
};

/// Processes of these programs, in which each thread of these kinds is in all of these loops, and else at work. There is a
/// processor for each of them.
fn spins(programs: &[&str], threads: &[&str], loops: &[Loop]) -> Vec<Finding> {
    let mut p = ProfileBuilder::new(programs[0]);
    p.cpus((programs.len() * threads.len()) as u32);
    let mut s = Schedule::new();
    for (process, program) in (0u32..).zip(programs) {
        if process > 0 {
            p.process(program);
        }
        s.process(process);
        let work = p.site("work", "a.c", 1);
        let of = |name: &&str| p.thread(name).start(name, "a.c", 2).cpu(1).id();
        let ids: Vec<_> = threads.iter().map(of).collect();
        for of in loops {
            let module = p.module(of.module);
            let frame = p.frame_in(module, of.function, "", 0);
            let (stack, spin) = (p.stack(&[frame]), s.spin_loop(of.kind, Some(frame)));
            for &t in &ids {
                s.spins(t, stack, spin, ms(of.lasts));
            }
        }
        let lasts: u64 = loops.iter().map(|of| of.lasts).sum();
        for &t in &ids {
            s.runs(t, work, ms(100 - lasts));
        }
    }
    let mut profile = p.build();
    s.put_into(&mut profile);
    let all = &mut profile.sched.as_mut().expect("was put there").loops;
    for (spin, of) in all.iter_mut().zip(loops.iter().cycle()) {
        (spin.lo, spin.hi) = (of.begins, of.begins + 0x10);
    }
    let a = analysis(&Model::build(profile));
    let all = a.findings.into_iter().chain(a.dismissed);
    all.filter(|f| f.id == FindingId::BusyWaiting).collect()
}

fn titles(programs: &[&str], threads: &[&str], loops: &[Loop]) -> Vec<String> {
    let found = spins(programs, threads, loops).into_iter();
    found.map(|f| f.title).collect()
}

#[test]
fn a_loop_that_all_processes_of_a_program_wait_in_is_one() {
    // 2.5 % of the CPU time each is not worth a line, 10 % together is.
    let wait = Loop {
        function: "wait_for_token",
        module: "libring.so",
        kind: SpinKind::Polling,
        lasts: 10,
        ..PROGRESS
    };
    let found = titles(&["rank"; 4], &["r"], &[wait]);
    assert_eq!(found.len(), 1, "{found:?}");
    let said = "takes 10 % of the CPU time, in 4 threads of 4 processes of rank";
    assert!(found[0].ends_with(said), "{found:?}");
    assert_eq!(
        titles(&["rank", "io", "viewer", "log"], &["r"], &[wait]),
        [""; 0]
    );
}

#[test]
fn functions_of_a_library_that_are_known_to_poll_are_one_wait() {
    let both = |other| titles(&["rank"], &["r", "r"], &[PROGRESS, other]);
    let found = both(COMPONENT);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].ends_with(" takes 6.0 % of the CPU time, in r"),
        "{found:?}"
    );
    let of_another = Loop {
        module: "libucp.so.0",
        ..COMPONENT
    };
    assert_eq!(both(of_another), [""; 0], "3 % each");
}

#[test]
fn loops_of_one_library_that_are_not_known_are_told_apart() {
    let polls = |of| Loop {
        kind: SpinKind::Polling,
        ..of
    };
    let both = |other| titles(&["rank"], &["r", "r"], &[polls(PROGRESS), polls(other)]).len();
    assert_eq!(both(COMPONENT), 0, "3 % each");
    // Calls of a function that polls may be found at several lines.
    let same = Loop {
        begins: PROGRESS.begins,
        ..COMPONENT
    };
    assert_eq!(both(same), 1);
}

/// Threads of one process, of which each spins in its own loop for a third of the time, if it has one, on two processors.
fn on_two_processors(threads: &[(&str, Option<&'static str>)]) -> Vec<Finding> {
    let mut p = ProfileBuilder::new("feed");
    p.cpus(2);
    let mut s = Schedule::new();
    let work = p.site("work", "a.c", 1);
    for (n, (name, function)) in threads.iter().enumerate() {
        let t = p.thread(name).start(name, "a.c", 2).cpu(1).id();
        for _ in 0..10 {
            if let Some(function) = function {
                let module = p.module("feed");
                let frame = p.frame_in(module, function, "ring.c", n as u32);
                let (stack, spin) = (
                    p.stack(&[frame]),
                    s.spin_loop(SpinKind::Polling, Some(frame)),
                );
                s.spins(t, stack, spin, ms(5));
            }
            s.runs(t, work, ms(10));
        }
    }
    let mut profile = p.build();
    s.put_into(&mut profile);
    let all = &mut profile.sched.as_mut().expect("was put there").loops;
    for (spin, n) in all.iter_mut().zip(0..) {
        (spin.lo, spin.hi) = (n / 10 * 0x100, n / 10 * 0x100 + 0x10);
    }
    let a = analysis(&Model::build(profile));
    let all = a.findings.into_iter().chain(a.dismissed);
    all.filter(|f| f.id == FindingId::BusyWaiting).collect()
}

#[test]
fn threads_that_spin_for_one_another_are_one_wait() {
    let (feeds, takes) = (("feed", Some("publish")), ("take", Some("next_tick")));
    let found = on_two_processors(&[feeds, takes, takes]);
    assert_eq!(found.len(), 1, "{found:#?}");
    let title = &found[0].title;
    let said = ["publish()", " and next_tick()", " and take"];
    assert!(said.iter().all(|said| title.contains(said)), "{title}");
    let of = |key: &str| found[0].evidence.iter().filter(|e| e.key == key).count();
    assert_eq!(
        (of("spinning_ns"), of("elsewhere_ns")),
        (1, 2),
        "{found:#?}"
    );
    // Where others work that do not spin, it may be them that each waits for: then it is told by the data.
    let works = ("render", None);
    assert_eq!(on_two_processors(&[feeds, takes, works]).len(), 2);
    let (push, pop) = (
        ("feed", Some("Ring<64>::push(int)")),
        ("take", Some("Ring<64>::pop()")),
    );
    assert_eq!(on_two_processors(&[push, pop, works]).len(), 1);
    // The same threads at two places.
    let again = ("take", Some("last_tick"));
    assert_eq!(on_two_processors(&[takes, again, works]).len(), 1);
}

#[test]
fn a_thread_in_several_loops_counts_once_and_threads_of_two_groups_add_up() {
    let burnt = |threads: &[&str]| {
        let found = spins(&["rank"], threads, &[PROGRESS, COMPONENT]);
        found[0].evidence[0].text.clone()
    };
    let two = burnt(&["io", "io"]);
    assert!(two.ends_with("burnt by 2 threads"), "{two}");
    let three = burnt(&["io", "io", "render"]);
    assert!(three.ends_with("burnt by 3 threads"), "{three}");
}

/// A monitor's word and what it guards go from processor to processor, which no loop shows.
#[test]
fn a_monitor_that_java_spins_for_may_cost_more_than_the_loop() {
    let of = |function| {
        let spin = Loop {
            function,
            module: "libjvm.so",
            kind: SpinKind::Pause,
            lasts: 20,
            ..PROGRESS
        };
        spins(&["java"], &["t", "t"], &[spin]).remove(0)
    };
    let monitor = of("ObjectMonitor::TrySpin(JavaThread*)");
    assert!(
        monitor.causes[0].fix.contains("synchronized"),
        "{monitor:?}"
    );
    // No processor is short: what goes is three quarters of what samples found in the virtual machine's functions, and nothing
    // for sure. 0.9 of the 80 ms that each works may be the monitor's price.
    assert!((1.1..1.2).contains(&monitor.gain.mid), "{monitor:?}");
    assert_eq!(monitor.gain.low, 1.0);
    // The rest of the run stays, whatever little is left of the work.
    let high = 100.0 / (100.0 - 0.9 * 80.0);
    assert!(
        (high..4.0 * high).contains(&monitor.gain.high),
        "{monitor:?}"
    );
    let other = of("SpinPause");
    assert!(other.causes[0].fix.starts_with("block after"), "{other:?}");
    assert_eq!(other.gain.high, 1.0);
}

/// Two threads that are in a Rust mutex for 60 of 100 ms: 20 ms look whether it is free, 40 ms in its fast path, which the
/// function `fast_in` calls.
fn fights(fast_in: &str) -> Finding {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let mut s = Schedule::new();
    let app = p.module("app");
    let mut stack = |called: &str, by: &str| {
        let called = format!("std::sys::sync::mutex::futex::Mutex::{called}");
        let frames = [called.as_str(), by].map(|name| p.frame_in(app, name, "", 0));
        (p.stack(&frames), frames[0])
    };
    let (looks, frame) = stack("spin", "app::count");
    let (takes, _) = stack("lock", fast_in);
    let work = p.site("app::work", "a.rs", 1);
    let spin = s.spin_loop(SpinKind::Pause, Some(frame));
    for _ in 0..2 {
        let t = p.thread("t").start("t", "a.rs", 2).cpu(1).id();
        s.spins(t, looks, spin, ms(20));
        s.runs(t, takes, ms(40)).runs(t, work, ms(40));
    }
    let mut profile = p.build();
    s.put_into(&mut profile);
    let a = analysis(&Model::build(profile));
    let mut all = a.findings.into_iter().chain(a.dismissed);
    all.find(|f| f.id == FindingId::BusyWaiting)
        .expect("a loop")
}

#[test]
fn the_fast_path_of_a_mutex_that_is_fought_for_goes_with_it() {
    let found = fights("app::count");
    // All but a tenth of 60 %, with as many processors as threads.
    let mid = 1.0 / (1.0 - 0.9 * 0.6);
    assert!((found.gain.mid / mid - 1.0).abs() < 0.1, "{found:?}");
    assert_eq!(found.gain.low, 1.0, "{found:?}");
    // At best all of it.
    let high = 1.0 / (1.0 - 0.6);
    assert!(
        (high..alone(high, 0.6)).contains(&found.gain.high),
        "{found:?}"
    );
    assert!(found.gain.method.contains("samples"), "{found:?}");
    // That of another lock stays.
    let found = fights("app::own");
    let mid = 1.0 / (1.0 - 0.9 * 0.2);
    assert!((found.gain.mid / mid - 1.0).abs() < 0.1, "{found:?}");
}
