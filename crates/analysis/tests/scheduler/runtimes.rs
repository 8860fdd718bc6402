//! Locks of run-time systems: of goroutines, and the interpreter locks of Python and Ruby.

use convoy_model::{FindingId, Model, OffReason};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{analysis, ids, model, only, workers};

/// Two threads of Go: one runs a goroutine that has the lock, and wakes the other, which has nothing to run until then.
/// `ready`: what makes the goroutine ready that it is woken for.
fn goroutines(ready: &str, in_lock: bool) -> Model {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2).raw().without_agent = true;
    let stack = |p: &mut ProfileBuilder, functions: &[&str]| {
        let frames: Vec<_> = functions.iter().map(|f| p.frame(f, "app.go", 7)).collect();
        p.stack(&frames)
    };
    let idle = stack(
        &mut p,
        &["runtime.futex", "runtime.stopm", "runtime.findRunnable"],
    );
    let wakes = stack(
        &mut p,
        &[
            "runtime.futex",
            "runtime.wakep",
            ready,
            "runtime.systemstack",
        ],
    );
    let work = stack(&mut p, &["main.render", "main.(*cache).get"]);
    let locks = [
        "internal/sync.(*Mutex).lockSlow",
        "sync.(*Mutex).Lock",
        "main.(*cache).get",
    ];
    let locks = stack(&mut p, &locks);
    let ids = workers(&mut p, 2);
    let mut s = Schedule::new();
    for at in 0..600 {
        let (runs, waits) = (ids[at % 2], ids[1 - at % 2]);
        s.runs(
            runs,
            if in_lock && at % 60 == 0 { locks } else { work },
            ms(1),
        );
        s.waits(waits, Wait::futex(idle, 0x100).woken_by(runs, wakes), ms(1));
    }
    model(p, s)
}

#[test]
fn goroutines_that_exclude_one_another_are_told_by_whom_they_wake() {
    let by_lock = "runtime.readyWithTime.goready.func1";
    for (in_lock, said) in [
        (true, "at the lock of main.(*cache).get() app.go:7"),
        (false, "at a lock, mostly while main.render() app.go:7"),
    ] {
        let a = analysis(&goroutines(by_lock, in_lock));
        let f = only(&a);
        assert_eq!(f.id.as_str(), "contended-futex");
        assert!(f.title.contains(said), "{}", f.title);
        // One of two processors is idle: 0.8 of what that is, a fifth of it for sure.
        assert!((1.5..2.1).contains(&f.gain.mid), "{:?}", f.gain);
    }
    let by_channel = goroutines("runtime.send.goready.func1", false);
    let titles = analysis(&by_channel).findings.into_iter().map(|f| f.title);
    assert!(titles.into_iter().all(|title| !title.contains("at a lock")));
}

/// Two threads of an interpreter that run in turns; who does not, waits in this function.
fn in_turns(p: &mut ProfileBuilder, module: &str, taker: &[&str]) -> (Vec<u32>, Schedule) {
    p.cpus(2);
    let module = p.module(module);
    let frames: Vec<_> = taker.iter().map(|f| p.frame_in(module, f, "", 0)).collect();
    let (wait, work) = (p.stack(&frames), p.site("_PyEval_EvalFrameDefault", "", 0));
    let ids = workers(p, 2);
    let mut s = Schedule::new();
    for at in 0..200 {
        let (runs, waits) = (ids[at % 2], ids[1 - at % 2]);
        s.runs(runs, work, ms(5));
        s.waits(waits, Wait::futex(wait, 0x100).woken_by(runs, wait), ms(5));
    }
    (ids, s)
}

fn python(taker: &[&str]) -> Model {
    let mut p = ProfileBuilder::new("python3");
    let (_, s) = in_turns(&mut p, "python3.11", taker);
    model(p, s)
}

fn ruby(taker: &[&str]) -> Model {
    let mut p = ProfileBuilder::new("ruby");
    let (_, s) = in_turns(&mut p, "libruby-3.1.so.3.1.2", taker);
    model(p, s)
}

#[test]
fn threads_of_ruby_that_take_turns_are_told_with_or_without_symbols() {
    for taker in [
        &["gvl_acquire_common", "rb_nogvl"][..],
        &["rb_native_cond_wait", "", "", "rb_io_wait"],
        &["", "", "rb_threadptr_execute_interrupts"],
    ] {
        let a = analysis(&ruby(taker));
        let f = only(&a);
        assert_eq!(f.id.as_str(), "interpreter-lock", "{taker:?}");
        let begin = "2 threads of Ruby contend for the interpreter lock (GVL)";
        assert!(f.title.starts_with(begin), "{}", f.title);
        assert!(f.causes[0].fix.contains("puma"), "{:?}", f.causes);
        assert!((1.3..2.0).contains(&f.gain.mid), "{:?}", f.gain);
    }
    for other in [
        &["", "", "rb_ensure"][..],
        &["rb_native_cond_wait", "rb_io_wait"],
        &["", "", "", "", "", "rb_nogvl"],
        &["rb_mutex_lock", ""],
        &[
            "rb_native_cond_wait",
            "thread_sched_wait_running_turn",
            "thread_sched_to_waiting_until_wakeup",
            "native_sleep",
        ],
    ] {
        assert!(
            !ids(&analysis(&ruby(other))).contains(&"interpreter-lock"),
            "{other:?}"
        );
    }
}

#[test]
fn threads_of_python_that_take_turns_are_told_with_or_without_symbols() {
    for taker in [
        &["PyCOND_TIMEDWAIT", "take_gil", "PyEval_RestoreThread"][..],
        &["", "_PyEval_EvalFrameDefault"],
        &["", "PyGILState_Ensure"],
    ] {
        let a = analysis(&python(taker));
        let f = only(&a);
        assert_eq!(f.id.as_str(), "interpreter-lock", "{taker:?}");
        assert!(f.title.starts_with("2 threads of Python"), "{}", f.title);
        assert!((1.3..2.0).contains(&f.gain.mid), "{:?}", f.gain);
        assert!((2.0..3.1).contains(&f.gain.high), "{:?}", f.gain);
    }
    for other in [
        &["PyThread_acquire_lock_timed", ""][..],
        &["", "PyObject_Vectorcall"],
    ] {
        assert!(
            !ids(&analysis(&python(other))).contains(&"interpreter-lock"),
            "{other:?}"
        );
    }
}

/// What is advised to two threads of Python that run in turns, where one of them waits so often for a pipe, and others were made.
fn advised(children: u32, pipes: u64) -> Vec<String> {
    let mut p = ProfileBuilder::new("python3");
    let (ids, mut s) = in_turns(&mut p, "python3.11", &["take_gil"]);
    let work = p.site("_PyEval_EvalFrameDefault", "", 0);
    for _ in 0..pipes {
        s.waits(ids[0], Wait::new(OffReason::Pipe, work), ms(1) / 10);
    }
    for child in 1..=children {
        p.process("python3");
        let compute = p.site("compute", "a.c", 2);
        s.process(child).runs(0, compute, ms(1));
    }
    let a = analysis(&model(p, s));
    let lock = a
        .findings
        .iter()
        .find(|f| f.id == FindingId::InterpreterLock);
    let causes = &lock.expect("said").causes;
    causes.iter().map(|cause| cause.fix.clone()).collect()
}

#[test]
fn threads_of_a_pool_of_processes_are_advised_larger_pieces() {
    let pool = advised(2, 60);
    assert_eq!(pool.len(), 1, "{pool:?}");
    assert!(pool[0].contains("chunksize"), "{pool:?}");
    for other in [advised(0, 60), advised(2, 10)] {
        assert!(
            other[0].starts_with("processes instead of threads"),
            "{other:?}"
        );
    }
}

/// A process of Python with two others that it made. Of 100 ms so many are its second thread's, in a function that reads
/// pipes and one that does not; the others have the rest.
fn pool(reads: u64, computes: u64) -> Vec<(&'static str, [f64; 3])> {
    let mut p = ProfileBuilder::new("python3");
    p.cpus(2);
    let (read, compute) = (p.site("_Py_read", "", 0), p.site("parse", "a.c", 1));
    let handler = p.thread("python3").start("pool", "", 1).cpu(1).id();
    let mut s = Schedule::new();
    for _ in 0..100 {
        s.runs(handler, read, ms(1) * reads);
        s.runs(handler, compute, ms(1) * computes);
    }
    for child in 1..3 {
        p.process("python3");
        let (work, next) = (p.site("work", "a.c", 2), p.site("next", "a.c", 3));
        let pipe = Wait::new(OffReason::Pipe, next).woken_from(0, handler, read);
        for _ in 0..100 {
            s.process(child)
                .runs(0, work, ms(100 - reads - computes) / 2);
            s.waits(0, pipe, ms(1));
        }
    }
    let a = analysis(&model(p, s));
    let found = a.findings.into_iter();
    found
        .map(|f| (f.id.as_str(), [f.gain.low, f.gain.mid, f.gain.high]))
        .collect()
}

#[test]
fn processes_that_are_busy_with_passing_on_work_are_told() {
    let told = |found: &[(&str, [f64; 3])]| {
        found
            .iter()
            .find(|f| f.0 == "fine-grained-tasks")
            .map(|f| f.1)
    };
    let gain = told(&pool(30, 30)).expect("told");
    // 60 % is handing out, and 24 % of the others' 40 %; 0.9 of both goes. What is left takes 0.24 of the run as it is used now, and 0.2
    // on both processors.
    assert!((gain[1] - 1.0 / 0.222).abs() < 0.05, "{gain:?}");
    // At most all of that and 0.8 of what the others run: how fast the 8 % that are left are alone is not known.
    assert!(gain[2].is_infinite(), "{gain:?}");
    assert_eq!(told(&pool(0, 60)), None, "it computes");
    assert_eq!(told(&pool(10, 10)), None, "it hardly runs");
}

/// A worker of Node.js that copies messages for so many percent of its time.
fn messages(copies: u64) -> Vec<String> {
    let mut p = ProfileBuilder::new("node");
    p.cpus(2);
    let copy = [
        "memcpy",
        "v8::internal::ValueDeserializer::ReadObject()",
        "node::worker::Message::Deserialize()",
    ];
    let copy = copy.map(|f| p.frame(f, "", 0));
    let (copy, work) = (p.stack(&copy), p.site("sharpen", "a.js", 4));
    let ids = workers(&mut p, 2);
    let mut s = Schedule::new();
    for at in 0..200 {
        for &id in &ids {
            s.runs(id, if at % 100 < copies { copy } else { work }, ms(1));
        }
    }
    let found = analysis(&model(p, s)).findings.into_iter();
    found
        .filter(|f| f.id == FindingId::FineGrainedTasks)
        .map(|f| f.title)
        .collect()
}

#[test]
fn messages_that_are_copied_are_told() {
    let told = messages(60);
    assert_eq!(told.len(), 1);
    assert!(
        told[0].starts_with("passing on messages between threads takes 6"),
        "{told:?}"
    );
    assert_eq!(messages(20), [""; 0]);
}

/// The verdict on a program that hardly works, whose threads wait for events in this function.
fn of_an_idle_program(waits_in: &str) -> String {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let (event, work) = (p.site(waits_in, "poll.rs", 9), p.site("main", "a.rs", 4));
    let mut s = Schedule::new();
    for id in workers(&mut p, 2) {
        s.runs(id, work, ms(10));
        s.waits(id, Wait::new(OffReason::Poll, event), ms(990));
    }
    analysis(&model(p, s)).verdict
}

#[test]
fn that_tasks_wait_without_a_thread_is_said_where_nothing_else_is() {
    let tasks = of_an_idle_program("tokio::runtime::io::driver::Driver::turn");
    assert!(tasks.contains("waited for each other"), "{tasks}");
    let threads = of_an_idle_program("serve");
    assert!(threads.starts_with("No thread was active"), "{threads}");
    assert!(!threads.contains("waited for each other"), "{threads}");
}
