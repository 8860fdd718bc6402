//! fine-grained-tasks: what passing on work costs, by samples, of tasks, goroutines, messages and pools of processes.

use convoy_model::finding::Finding;
use convoy_model::FindingId;
use convoy_model::OffReason;
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, us, ProfileBuilder};

use crate::kit::{alone, analysis, go_stack, model, workers};

fn told(p: ProfileBuilder, s: Schedule) -> Option<Finding> {
    let found = analysis(&model(p, s)).findings.into_iter();
    found
        .into_iter()
        .find(|f| f.id == FindingId::FineGrainedTasks)
}

/// Two threads that run these stacks, innermost function first, for so many of each 20 ms.
fn samples(stacks: &[(&[&str], u64)]) -> Option<Finding> {
    samples_in("app.rs", stacks)
}

fn samples_in(file: &str, stacks: &[(&[&str], u64)]) -> Option<Finding> {
    requests(file, stacks, 0)
}

/// The same, if they come in from elsewhere after so long.
fn requests(file: &str, stacks: &[(&[&str], u64)], idle_ms: u64) -> Option<Finding> {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let [c, openmp] = ["libc.so.6", "libgomp.so.1"].map(|library| p.module(library));
    let ids = workers(&mut p, 2);
    let poll = p.site("next_request", "app.rs", 9);
    let mut s = Schedule::new();
    for &t in &ids {
        for _ in 0..20 {
            if idle_ms > 0 {
                s.waits(t, Wait::new(OffReason::Poll, poll), ms(idle_ms));
            }
            for (functions, n) in stacks {
                let frames = functions.iter().map(|f| match *f {
                    "malloc" | "printf" | "pthread_cond_signal" => p.frame_in(c, f, "", 0),
                    f if JAVA.iter().any(|name| f.starts_with(name)) => p.generated(f),
                    f if f.contains("_next") => p.frame_in(openmp, f, "", 0),
                    f => p.frame(f, file, 7),
                });
                let frames: Vec<_> = frames.collect();
                let stack = p.stack(&frames);
                for _ in 0..*n {
                    s.runs(t, stack, ms(1));
                }
            }
        }
    }
    told(p, s)
}

const JAVA: [&str; 4] = ["java.", "jdk.", "Invoices.", "StubRoutines"];
const WORK: &[&str] = &["app::digest", "tokio::runtime::task::core::Core<T,S>::poll"];
const SPAWN: &[&str] = &[
    "core::ptr::write",
    "tokio::runtime::task::raw::RawTask::new",
    "tokio::task::spawn::spawn_inner",
    "app::main::{{closure}}",
    "tokio::runtime::park::CachedParkThread::block_on",
];
const RUN: &[&str] = &[
    "<tokio::runtime::task::harness::Harness<T,S>>::complete",
    "tokio::runtime::scheduler::multi_thread::worker::Context::run_task",
];
const SEEK: &[&str] = &[
    "tokio::runtime::scheduler::multi_thread::worker::Core::steal_work",
    "tokio::runtime::scheduler::multi_thread::worker::Context::run",
];
const NETWORK: &[&str] = &[
    "send",
    "tokio::net::tcp::stream::TcpStream::poll_write",
    "app::serve",
];

#[test]
fn tasks_of_small_pieces_are_told_with_where_they_are_made() {
    let f = samples(&[(WORK, 10), (SPAWN, 4), (RUN, 6)]).expect("told");
    assert!(f.title.contains("app::main::{closure}"), "{}", f.title);
    // Half of what both processors do, of which 0.935 goes, and an eighth of what is left; at best,
    // what is left runs faster alone.
    assert!((f.gain.mid - 1.0 / 0.466).abs() < 0.01, "{:?}", f.gain);
    assert!((f.gain.high - alone(2.1, 0.5)).abs() < 0.3, "{:?}", f.gain);
    // Looking for tasks may be for want of them: half of it.
    let f = samples(&[(WORK, 10), (SPAWN, 4), (RUN, 2), (SEEK, 4)]).expect("told");
    assert!((f.gain.mid - 1.0 / 0.584).abs() < 0.01, "{:?}", f.gain);
    assert!((f.gain.high - alone(2.1, 0.5)).abs() < 0.3, "{:?}", f.gain);
}

#[test]
fn who_waits_for_requests_gains_no_more_than_their_work_takes() {
    let told = |idle| requests("app.rs", &[(SPAWN, 10), (RUN, 5), (WORK, 5)], idle);
    let (busy, idle) = (told(0).unwrap().gain, told(60).unwrap().gain);
    assert!(busy.mid > 2.0, "{busy:?}");
    // A quarter of the run is work.
    assert!(idle.mid < 4.0 / 3.0 && idle.high < 1.45, "{idle:?}");
    assert!(told(1000).is_none());
}

#[test]
fn work_and_its_input_are_no_passing_on() {
    assert_eq!(samples(&[(WORK, 20)]), None);
    assert_eq!(
        samples(&[(WORK, 10), (NETWORK, 10)]),
        None,
        "what a server sends"
    );
    assert_eq!(
        samples(&[(WORK, 10), (SEEK, 10)]),
        None,
        "there are no tasks"
    );
    assert_eq!(
        samples(&[(WORK, 17), (SPAWN, 2), (RUN, 1)]),
        None,
        "little of it"
    );
}

#[test]
fn iterations_that_are_given_out_one_by_one_are_told_with_the_loop() {
    let work: &[&str] = &["digest", "sum_up._omp_fn.0"];
    for next in [
        &["GOMP_loop_nonmonotonic_dynamic_next", "sum_up._omp_fn.0"][..],
        &["printf", "__kmpc_dispatch_next_8u", "sum_up._omp_fn.0"],
    ] {
        let f = samples(&[(work, 10), (next, 10)]).expect("told");
        assert!(f.title.contains("sum_up"), "{}", f.title);
        assert!(f.causes[0].fix.contains("schedule(dynamic, n)"), "{f:?}");
    }
    let start: &[&str] = &["GOMP_loop_dynamic_start", "sum_up._omp_fn.0"];
    assert_eq!(samples(&[(work, 10), (start, 10)]), None, "once a loop");
}

#[test]
fn futures_of_small_pieces_are_told_with_how_they_are_passed_on() {
    let work: &[&str] = &["digest", "main::{lambda}", "std::__invoke_impl<int>"];
    let store: &[&str] = &[
        "malloc",
        "std::__future_base::_State_baseV2::_M_set_result",
        "Pool::run",
    ];
    let wake: &[&str] = &["pthread_cond_signal", "Pool::enqueue"];
    let f = samples(&[(work, 10), (store, 4), (wake, 6)]).expect("told");
    assert!(f.title.contains("Pool::run"), "{}", f.title);
    assert!((f.gain.mid - 1.0 / 0.466).abs() < 0.01, "{:?}", f.gain);
    // A pool without futures has locks as any other program.
    assert_eq!(samples(&[(work, 10), (wake, 10)]), None);
    // Where there is no line table the task may be inlined into what calls it.
    let task: &[&str] = &["std::packaged_task<int ()>::operator()", "Pool::run"];
    assert_eq!(samples_in("", &[(work, 10), (task, 10)]), None);
}

/// Without a line table, what was inlined has no name of its own.
#[test]
fn tasks_of_java_are_told_where_the_program_makes_them() {
    let submit: &[&str] = &[
        "java.util.concurrent.ThreadPoolExecutor.execute",
        "java.util.concurrent.AbstractExecutorService.submit",
        "Invoices.main",
        "StubRoutines (1)",
    ];
    let unpark: &[&str] = &[
        "pthread_cond_signal",
        "jdk.internal.misc.Unsafe.unpark",
        "java.util.concurrent.LinkedBlockingQueue.offer",
        "java.util.concurrent.ThreadPoolExecutor.execute",
        "Invoices.main",
        "StubRoutines (1)",
    ];
    let run: &[&str] = &[
        "java.util.concurrent.ThreadPoolExecutor.runWorker",
        "java.lang.Thread.run",
        "StubRoutines (1)",
    ];
    let f = samples_in("", &[(submit, 6), (unpark, 4), (run, 10)]).expect("told");
    assert!(
        f.title
            .contains("most at Invoices.main(): passing them on takes 50 %"),
        "{}",
        f.title
    );
    // What runs the tasks may be the tasks, or not.
    assert!((f.gain.mid - 1.0 / 0.466).abs() < 0.01, "{:?}", f.gain);
    assert!(f.gain.high > 4.0, "{:?}", f.gain);
    // What a stream does to its items is compiled into the library.
    let stream: &[&str] = &[
        "java.util.stream.Streams$RangeLongSpliterator.forEachRemaining",
        "java.util.stream.ReduceOps$ReduceTask.doLeaf",
        "java.util.concurrent.ForkJoinTask.doExec",
        "java.util.concurrent.ForkJoinPool.runWorker",
        "StubRoutines (1)",
    ];
    assert!(samples_in("", &[(stream, 18), (submit, 2)]).is_none());
}

#[test]
fn a_function_that_calls_the_task_may_be_the_task() {
    for function in [
        "tokio::runtime::task::raw::poll",
        "rayon_core::join::join_context::{{closure}}",
        "<rayon_core::job::StackJob<L,F,R> as rayon_core::job::Job>::execute",
        "tbb::detail::d1::start_for<tbb::detail::d1::blocked_range<int>, main::{lambda(int)#1}>::run_body",
    ] {
        let caller = "app::main";
        let told = |file| samples_in(file, &[(&[function, caller], 20)]).is_some();
        assert!(told("app.rs"), "{function}");
        assert!(!told(""), "{function}");
    }
    let made = &["tokio::runtime::task::raw::RawTask::new", "app::main"][..];
    assert!(samples_in("", &[(made, 20)]).is_some());
}

#[test]
fn tasks_of_c_and_cxx_are_told() {
    let cxx = &[
        "tbb::detail::r1::spawn(tbb::detail::d1::task&)",
        "tbb::detail::d1::task_group::run",
        "walk",
    ][..];
    let waits = &[
        "tbb::detail::r1::wait(tbb::detail::d1::wait_context&)",
        "walk",
    ][..];
    let f = samples(&[(&["leaf", "walk"], 10), (cxx, 10)]).expect("told");
    assert!(f.title.contains("at walk()"), "{}", f.title);
    assert_eq!(samples(&[(&["leaf", "walk"], 10), (waits, 10)]), None);
}

#[test]
fn messages_are_their_copies_and_telling_of_them_but_not_what_they_are_for() {
    let copy = &[
        "memcpy",
        "v8::internal::ValueSerializer::WriteObject()",
        "node::worker::Message::Serialize()",
    ][..];
    let tell = &[
        "write",
        "uv_async_send",
        "node::worker::MessagePort::PostMessage()",
    ][..];
    let work = &[
        "sharpen",
        "Builtins_JSEntry",
        "node::worker::MessagePort::OnMessage()",
    ][..];
    let handler = &[
        "Builtins_ArrayMap",
        "node::worker::MessagePort::OnMessage()",
    ][..];
    let f = samples(&[(copy, 4), (tell, 4), (work, 8), (handler, 4)]).expect("told");
    assert!(
        f.title.ends_with("takes 40 % of the CPU time"),
        "{}",
        f.title
    );
    assert_eq!(samples(&[(work, 10), (handler, 10)]), None);
}

/// Two goroutines that hand over what they compute, one in so many pieces, on two processors; who is woken has one only after this.
fn late(late: u64, polls: bool, others: f64) -> Option<Finding> {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2).raw().without_agent = true;
    let work = go_stack(&mut p, &["main.digest", "main.worker", "runtime.goexit"]);
    let send = go_stack(
        &mut p,
        &["runtime.chansend", "main.worker", "runtime.goexit"],
    );
    let idle = go_stack(
        &mut p,
        &["runtime.futex", "runtime.stopm", "runtime.mstart"],
    );
    let poll = go_stack(
        &mut p,
        &["runtime.netpoll", "runtime.findRunnable", "runtime.mstart"],
    );
    let ids = workers(&mut p, 2);
    let mut s = Schedule::new();
    for _ in 0..2000 {
        for (ix, &t) in ids.iter().enumerate() {
            s.queues(t, work, late);
            s.runs(t, work, us(85));
            s.runs(t, send, us(15));
            match polls {
                true => s.waits(t, Wait::new(OffReason::Poll, poll), us(50)),
                false => s.waits(
                    t,
                    Wait::futex(idle, 0x100).woken_by(ids[1 - ix], send),
                    us(50),
                ),
            };
        }
    }
    let mut m = model(p, s);
    let meta = &mut m.meta;
    let cpu_ns = (meta.end_ns - meta.start_ns) * 2;
    meta.machine.cpus_online = 2;
    meta.others_ns = (others * cpu_ns as f64) as u64;
    let found = analysis(&m).findings.into_iter();
    found
        .into_iter()
        .find(|f| f.id == FindingId::FineGrainedTasks)
}

#[test]
fn goroutines_that_wait_for_idle_processors_are_told_with_less_of_it() {
    let f = late(us(100), false, 0.0).expect("told");
    // Of 250 us, 85 are work on each of two processors, and 100 waiting for one that is idle.
    assert!((1.5..2.0).contains(&f.gain.mid), "{:?}", f.gain);
    assert!((3.0..4.2).contains(&f.gain.high), "{:?}", f.gain);
    assert_eq!(
        late(us(5), false, 0.0),
        None,
        "they are soon on a processor"
    );
    assert_eq!(late(us(100), true, 0.0), None, "they wait for the network");
    assert_eq!(
        late(us(100), false, 0.35),
        None,
        "others have those processors"
    );
}

/// A process of Python and two others that it made, which spend so many of 100 samples in copying and reading what it sends.
fn copies(percent: u64) -> Option<Finding> {
    let copy = [
        "__memcpy_avx_unaligned",
        "_PyBytes_Resize",
        "_io__RawIOBase_read",
    ];
    copies_in(&copy, percent, 0)
}

/// The same in these functions, of a process that hands out so many pieces to each.
fn copies_in(copy: &[&str], percent: u64, pieces: u64) -> Option<Finding> {
    let mut p = ProfileBuilder::new("python3");
    p.cpus(2);
    let mut s = Schedule::new();
    let feeder = p.thread("feeder").start("run", "a.c", 1).cpu(1).id();
    let write = p.site("_Py_write", "", 0);
    s.process(0).runs(feeder, write, ms(1));
    for child in 1..3 {
        p.process("python3");
        let copy: Vec<_> = copy.iter().map(|f| p.frame(f, "", 0)).collect();
        let (copy, read, work) = (
            p.stack(&copy),
            p.site("_Py_read", "", 0),
            p.site("adler32", "a.c", 2),
        );
        for at in 0..200 {
            let stack = match at % 100 {
                n if n < percent / 2 => copy,
                n if n < percent => read,
                _ => work,
            };
            s.process(child).runs(0, stack, ms(1));
        }
        for _ in 0..pieces {
            let task = Wait::new(OffReason::Pipe, read).woken_from(0, feeder, write);
            s.waits(0, task, us(1));
        }
    }
    told(p, s)
}

#[test]
fn making_bytes_of_large_pieces_is_copying_them_and_of_small_ones_is_not() {
    let pickle = ["save_tuple", "_pickle_Pickler_dump"];
    let f = copies_in(&pickle, 60, 100).expect("told");
    assert!(f.title.contains("copy data"), "{}", f.title);
    let small = copies_in(&pickle, 60, 2000);
    assert!(small.is_none_or(|f| !f.title.contains("copy data")));
}

#[test]
fn data_that_go_with_the_pieces_are_told_apart_from_too_many_pieces() {
    let f = copies(60).expect("told");
    assert!(
        f.title.contains("copy data to one another: 6"),
        "{}",
        f.title
    );
    assert!(f.causes[0].fix.contains("shared_memory"), "{:?}", f.causes);
    // 0.9 of it goes, and both processors are busy as before.
    assert!((f.gain.mid - 1.0 / 0.46).abs() < 0.05, "{:?}", f.gain);
    assert!((4.0..4.7).contains(&f.gain.high), "{:?}", f.gain);
    assert_eq!(copies(18), None);
}
