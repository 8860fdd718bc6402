//! too-few-threads: all work all the time, or one does all there is.

use convoy_model::finding::{Finding, Subject};
use convoy_model::{FindingId, Model, OffReason};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{analysis, ids, model, only};

fn busy(threads: usize, cpus: u32) -> Model {
    busy_program("app", threads, cpus, false)
}

/// Whether it makes threads is what its code calls for.
fn busy_program(name: &str, threads: usize, cpus: u32, makes_threads: bool) -> Model {
    let mut p = ProfileBuilder::new(name);
    p.cpus(cpus).raw().makes_threads = makes_threads;
    let work = p.site("work", "a.c", 10);
    let mut s = Schedule::new();
    for _ in 0..threads {
        let t = p.thread("w").cpu(1).id();
        s.runs(t, work, ms(1000));
    }
    model(p, s)
}

#[test]
fn one_thread_is_not_judged() {
    let a = analysis(&busy(1, 8));
    assert_eq!(ids(&a), [""; 0]);
    assert!(
        a.verdict.starts_with("One thread at a time did the work")
            && a.verdict.contains("100 % of it is in work()"),
        "{}",
        a.verdict
    );
}

/// One thread of a virtual machine works, called from there.
fn called_from(task: &str) -> Model {
    let mut p = ProfileBuilder::new("java");
    p.cpus(2);
    let frames = ["price", task, "main"].map(|function| p.frame(function, "", 0));
    let work = p.stack(&frames);
    let mut s = Schedule::new();
    s.runs(0, work, ms(1000));
    model(p, s)
}

#[test]
fn one_thread_that_has_all_parts_of_a_parallel_stream_is_too_few() {
    let a = analysis(&called_from("java.util.stream.ReduceOps$ReduceTask.doLeaf"));
    let f = only(&a);
    assert_eq!(f.id.as_str(), "too-few-threads");
    assert!(f.causes[0].fix.contains("source"), "{:?}", f.causes);
    // Four fifths of half the run, at most half of it.
    assert!((f.gain.mid - 1.0 / 0.6).abs() < 0.01, "{:?}", f.gain);
    assert!((f.gain.high - 2.0).abs() < 0.01, "{:?}", f.gain);
    assert_eq!(f.gain.low, 1.0);
    let sequential = "java.util.stream.ReferencePipeline$3$1.accept";
    assert_eq!(ids(&analysis(&called_from(sequential))), [""; 0]);
}

/// As [`busy_program`], while other programs have so many CPUs.
fn beside(threads: usize, cpus: u32, makes_threads: bool, others: f64) -> Vec<Finding> {
    let mut model = busy_program("encode", threads, cpus, makes_threads);
    model.meta.others_ns = (others * 1e9) as u64;
    analysis(&model).findings
}

#[test]
fn threads_that_leave_cpus_idle_are_too_few() {
    let a = analysis(&busy(2, 8));
    let f = only(&a);
    assert_eq!(
        (f.id.as_str(), &f.subject),
        ("too-few-threads", &Subject::Run)
    );
    assert!((f.gain.high - 4.0).abs() < 0.01);
    assert_eq!(f.gain.low, 1.0);
    assert_eq!(ids(&analysis(&busy(8, 8))), [""; 0]);
}

#[test]
fn what_other_programs_have_is_not_to_be_had() {
    let free = beside(2, 8, false, 0.0).remove(0);
    let taken = beside(2, 8, false, 4.0).remove(0);
    assert!(free.title.ends_with("too few for 8 CPUs"), "{}", free.title);
    assert!(
        taken.title.ends_with(", of which other programs have 4.0"),
        "{}",
        taken.title
    );
    // Half of what two threads on four CPUs leave, instead of two on eight.
    assert!((free.gain.mid - 1.6).abs() < 0.01, "{:?}", free.gain);
    assert!(
        (taken.gain.mid - 4.0 / 3.0).abs() < 0.01,
        "{:?}",
        taken.gain
    );
    assert!(beside(2, 8, false, 5.9).is_empty());
    let half = beside(1, 2, true, 0.5).remove(0);
    assert!(
        half.title.ends_with("of which other programs have 0.5"),
        "{}",
        half.title
    );
    assert!((half.gain.mid - 1.2).abs() < 0.01, "{:?}", half.gain);
    assert!(beside(1, 2, true, 1.0).is_empty());
}

#[test]
fn what_is_known_to_be_done_with_threads_elsewhere_is_expected_to_be() {
    let a = analysis(&busy_program("gzip", 1, 2, false));
    let f = only(&a);
    assert!((f.gain.mid - 1.6).abs() < 0.01, "{:?}", f.gain);
    assert!(f.causes[0].fix.contains("pigz"), "{:?}", f.causes);
}

#[test]
fn a_long_request_may_be_divided_by_a_server_that_can() {
    let said = |name, does, waits, requests| {
        let mut p = ProfileBuilder::new(name);
        p.cpus(2);
        let (work, wait) = (p.site(does, "a.c", 10), p.site(waits, "a.c", 20));
        let mut s = Schedule::new();
        for _ in 0..requests {
            s.runs(0, work, ms(1000 / requests - 1));
            s.waits(0, Wait::new(OffReason::Poll, wait), ms(1));
        }
        analysis(&model(p, s)).findings.into_iter().next()
    };
    let read = "secure_read";
    let f = said("postgres", "ExecScan", read, 2).unwrap();
    assert_eq!(f.id.as_str(), "too-few-threads");
    assert!(f.causes[0].fix.contains("parallel"), "{:?}", f.causes);
    // Half of half the run; at most half of it.
    assert!((f.gain.mid - 4.0 / 3.0).abs() < 0.01, "{:?}", f.gain);
    assert!((f.gain.high - 2.0).abs() < 0.02, "{:?}", f.gain);
    let short = said("postgres", "ExecScan", read, 5);
    assert!(short.is_none(), "{short:?}");
    let writes = said("postgres", "heap_update", read, 2);
    assert!(writes.is_none(), "{writes:?}");
    let no_client = said("postgres", "ExecScan", "WaitLatch", 2);
    assert!(no_client.is_none(), "{no_client:?}");
    assert!(said("app", "ExecScan", read, 2).is_none());
}

#[test]
fn one_thread_of_a_program_that_can_have_more_is_too_few() {
    let a = analysis(&busy_program("encode", 1, 2, true));
    let f = only(&a);
    assert_eq!(
        (f.id.as_str(), &f.subject),
        ("too-few-threads", &Subject::Run)
    );
    assert!(f.causes[0].fix.contains("work()"), "{:?}", f.causes);
    // Half of half the run, as nobody has seen a second thread, at most half of it; nothing is promised.
    assert!((f.gain.mid - 4.0 / 3.0).abs() < 0.01, "{:?}", f.gain);
    assert!((f.gain.high - 2.0).abs() < 0.01, "{:?}", f.gain);
    assert_eq!(f.gain.low, 1.0);
    // In an interpreter one thread at a time runs, in a virtual machine the program has as many as it has made, and one CPU is no
    // more than one thread can use.
    for (name, cpus) in [("python3.11", 2), ("java", 2), ("encode", 1)] {
        assert_eq!(ids(&analysis(&busy_program(name, 1, cpus, true))), [""; 0]);
    }
}

/// The first thread waits, at times for another one, which does all the work and ends that so often; it ends a wait of that so often.
fn one_extra(name: &str, given: u64, done: u64) -> Model {
    let mut p = ProfileBuilder::new(name);
    p.cpus(2).raw().makes_threads = true;
    let (work, take) = (p.site("work", "a.c", 10), p.site("take", "a.c", 20));
    let (put, get) = (p.site("put", "a.c", 30), p.site("get", "a.c", 40));
    let worker = p.thread("w").start("run", "a.c", 9).cpu(1).id();
    let mut s = Schedule::new();
    for at in 0..100 {
        s.runs(worker, work, ms(10));
        if at < given {
            let wait = Wait::futex(take, 0x100).woken_by(0, put);
            s.waits(worker, wait, ms(1));
        }
        let wait = Wait::futex(get, 0x200);
        let wait = if at < done {
            wait.woken_by(worker, work)
        } else {
            wait
        };
        let read = Wait::new(OffReason::Poll, get);
        s.waits(0, read, ms(9)).waits(0, wait, ms(1));
    }
    model(p, s)
}

#[test]
fn one_thread_that_is_handed_tasks_is_too_few() {
    let said = |name, given, done| {
        let found = analysis(&one_extra(name, given, done)).findings;
        let mut few = found
            .into_iter()
            .filter(|f| f.id == FindingId::TooFewThreads);
        few.next().map(|f| f.gain.mid)
    };
    let mid = said("zstd", 2, 20).unwrap();
    assert!((mid - 1.6).abs() < 0.02, "{mid}");
    assert_eq!(said("zstd", 1, 20), None, "it was started");
    assert_eq!(said("zstd", 2, 2), None, "it has ended");
    assert_eq!(
        said("node", 2, 20),
        None,
        "its tasks are a virtual machine's"
    );
}

/// One process of an interpreter works, and the one that made it waits like this.
fn one_worker_process(program: &str, wait: OffReason) -> Vec<&'static str> {
    let mut p = ProfileBuilder::new(program);
    p.cpus(2);
    let join = p.site("wait", "a.c", 10);
    let mut s = Schedule::new();
    s.waits(0, Wait::new(wait, join), ms(500));
    p.process(program);
    let work = p.site("eval", "a.c", 20);
    s.process(1).runs(0, work, ms(500));
    ids(&analysis(&model(p, s)))
}

#[test]
fn one_process_of_an_interpreter_that_does_all_tasks_could_be_several() {
    assert_eq!(
        one_worker_process("python3.11", OffReason::Futex),
        ["too-few-threads"]
    );
    // It was made for one thing, or is no interpreter.
    assert_eq!(one_worker_process("python3.11", OffReason::Child), [""; 0]);
    assert_eq!(one_worker_process("app", OffReason::Futex), [""; 0]);
}

/// A program with an event loop that is always busy: in the program's code, which calls `called` and was called by `caller`. It accepts
/// connections or does not.
fn event_loop(called: &str, caller: &str, listens: bool) -> Option<f64> {
    let mut p = ProfileBuilder::new("node");
    p.cpus(2).raw().listens = listens;
    let (leaf, own) = (p.frame(called, "", 0), p.generated("JS:*handle app.js:10"));
    let entry = p.frame(caller, "", 0);
    let stack = match called {
        "" => p.stack(&[own, entry]),
        _ => p.stack(&[leaf, own, entry]),
    };
    let mut s = Schedule::new();
    for _ in 0..100 {
        s.runs(0, stack, ms(10));
    }
    let a = analysis(&model(p, s));
    a.findings.first().map(|f| {
        assert_eq!(f.id.as_str(), "too-few-threads");
        f.gain.mid
    })
}

const LOOP: &str = "uv_run";

#[test]
fn an_event_loop_that_computes_keeps_all_events_waiting() {
    let expected = |mid: Option<f64>, of: f64| assert!((mid.unwrap() - of).abs() < 0.02, "{mid:?}");
    // A call that has a variant which does not block: three quarters of half the run. Else half of it, if others ask.
    let call = "node::crypto::DeriveBitsJob<node::crypto::PBKDF2Traits>::DoThreadPoolWork()";
    expected(event_loop(call, LOOP, false), 1.6);
    let gzip = "void node::CompressionStream<node::ZlibContext>::Write<false>(v8::FunctionCallbackInfo<v8::Value> const&)";
    expected(event_loop(gzip, LOOP, false), 1.6);
    expected(event_loop("", LOOP, true), 4.0 / 3.0);
    assert_eq!(event_loop("", LOOP, false), None, "a script");
}

#[test]
fn what_an_event_loop_runs_because_a_call_has_ended_blocks_nothing() {
    let after = "node::CompressionStream<node::ZlibContext>::AfterThreadPoolWork(int)";
    assert_eq!(event_loop("", after, false), None);
    assert_eq!(
        event_loop("node::crypto::Hash::HashUpdate()", LOOP, false),
        None,
        "it has no variant"
    );
    let tls = "node::crypto::TLSWrap::ClearOut()";
    assert_eq!(event_loop("", tls, false), None);
}
