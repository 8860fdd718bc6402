//! blocking-calls: pools and event loops whose threads are all in calls that block.

use convoy_model::{Model, OffReason};
use convoy_profile::{StackIx, ThreadIx};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, us, ProfileBuilder};

use crate::kit::{analysis, ids, model, only};

/// Two threads with a processor each that ask a server by this connection after each millisecond of work, and wait for
/// 4 ms; `idle` of it for a task instead. Another thread waits for them if it is `awaited`.
fn requests(connection: &str, idle: u64, awaited: bool) -> Model {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let (work, ask) = (p.site("render", "a.c", 10), p.site("ask", "a.c", 20));
    let (take, join) = (p.site("take", "a.c", 30), p.site("main", "a.c", 90));
    let main = p.thread("app").cpu(1).id();
    let workers: Vec<_> = (0..2)
        .map(|_| p.thread("w").start("work", "a.c", 9).cpu(1).id())
        .collect();
    let mut s = Schedule::new();
    let socket = s.name(connection);
    for _ in 0..100 {
        for &w in &workers {
            s.runs(w, work, ms(1));
            s.waits(
                w,
                Wait::new(OffReason::Socket, ask).named(socket),
                ms(4) - idle,
            );
            if idle > 0 {
                s.waits(w, Wait::futex(take, 0x200).woken_by(main, join), idle);
            }
        }
    }
    let wait = match awaited {
        true => Wait::futex(join, 0x100).woken_by(workers[0], work),
        false => Wait::new(OffReason::Poll, join),
    };
    s.waits(main, wait, ms(500));
    model(p, s)
}

#[test]
fn a_pool_that_asks_and_is_never_without_work_has_too_few_threads() {
    let a = analysis(&requests("socket: tcp to port 5432", 0, true));
    let f = only(&a);
    assert_eq!(f.id.as_str(), "blocking-calls");
    assert!(f.title.contains("80 % of their time"), "{}", f.title);
    // 0.85 of 4 of 5 ms; at most all of them.
    assert_eq!(f.gain.low, 1.0);
    assert!((f.gain.mid - 5.0 / 1.6).abs() < 0.02, "{:?}", f.gain);
    assert!((f.gain.high - 5.0).abs() < 0.1, "{:?}", f.gain);
}

#[test]
fn who_serves_or_waits_for_work_has_threads_enough() {
    for other in [
        requests("socket: tcp port 5432", 0, true),
        requests("socket: tcp to port 5432", ms(2), true),
        requests("socket: tcp to port 5432", 0, false),
    ] {
        assert!(!ids(&analysis(&other)).contains(&"blocking-calls"));
    }
}

/// A process with one thread that receives by this call for 12 of 15 ms, and is found in these calls between, each so many times of a
/// hundred.
fn one_thread(receives: &str, found: &[(&str, u64)]) -> Model {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let work = p.site("answer", "a.c", 10);
    let ask = stack(&mut p, &[receives, "validate"]);
    let mut s = Schedule::new();
    let socket = s.name("socket: tcp to port 7400");
    let mut found = found
        .iter()
        .map(|(call, n)| (stack(&mut p, &[call, "validate"]), *n))
        .collect::<Vec<_>>();
    for _ in 0..100 {
        let at = found.iter_mut().find(|(_, n)| *n > 0);
        let at = at.map_or(work, |(at, n)| {
            *n -= 1;
            *at
        });
        s.runs(0, at, ms(3));
        s.waits(0, Wait::new(OffReason::Socket, ask).named(socket), ms(12));
    }
    model(p, s)
}

/// An event loop, say, that calls another program between two events.
#[test]
fn one_thread_that_asks_all_the_time_could_ask_for_several() {
    let a = analysis(&one_thread("recv", &[("send", 20)]));
    let f = only(&a);
    assert_eq!(f.id.as_str(), "blocking-calls");
    assert!(
        f.title
            .starts_with("the main thread is sending or receiving for 80 %"),
        "{}",
        f.title
    );
    assert_eq!(f.gain.low, 1.0);
}

#[test]
fn who_only_receives_asks_for_nothing() {
    let said = |receives, found: &[_]| ids(&analysis(&one_thread(receives, found)));
    assert_eq!(said("recv", &[]), [""; 0], "nothing shows that it asks");
    // It prints what it receives: that goes to no socket.
    assert_eq!(said("recv", &[("write", 20)]), [""; 0]);
    assert_eq!(said("read", &[("write", 20)]), ["blocking-calls"]);
    // A word of its own now and then.
    assert_eq!(said("recv", &[("recv", 99), ("send", 1)]), [""; 0]);
    assert_eq!(
        said("recv", &[("recv", 95), ("send", 5)]),
        ["blocking-calls"]
    );
}

/// Main waits for two threads that receive.
#[test]
fn a_pool_that_only_receives_asks_for_nothing() {
    let told = |calls: [&str; 2]| {
        let mut p = ProfileBuilder::new("app");
        p.cpus(2);
        let [even, odd] = calls.map(|call| stack(&mut p, &[call, "fetch"]));
        let (receive, join) = (p.site("fetch", "a.c", 7), p.site("main", "a.c", 90));
        let main = p.thread("app").cpu(1).id();
        let threads: Vec<ThreadIx> = (0..2)
            .map(|_| p.thread("w").start("work", "a.c", 9).cpu(1).id())
            .collect();
        let mut s = Schedule::new();
        let socket = s.name("socket: tcp to port 7400");
        for at in 0..100 {
            for &t in &threads {
                s.runs(t, if at % 2 == 0 { even } else { odd }, ms(1));
                let wait = Wait::new(OffReason::Socket, receive).named(socket);
                s.waits(t, wait, ms(4));
            }
        }
        let wait = Wait::futex(join, 0x100).woken_by(threads[0], receive);
        s.waits(main, wait, ms(500));
        told(p, s)
    };
    assert_eq!(told(["recv", "recv"]), [""; 0]);
    assert_eq!(told(["recv", "send"]), ["blocking-calls"]);
    // Nothing is known of either.
    assert_eq!(told(["parse", "parse"]), ["blocking-calls"]);
}

/// A stack of functions, the innermost first, some of which are Java's.
fn stack(p: &mut ProfileBuilder, functions: &[&str]) -> StackIx {
    let frames = functions.iter().map(|f| match f.starts_with("java.") {
        true => p.generated(f),
        false => p.frame(f, "a.c", 7),
    });
    let frames: Vec<_> = frames.collect();
    p.stack(&frames)
}

/// The finding, if it is there.
fn told(p: ProfileBuilder, s: Schedule) -> Vec<&'static str> {
    let a = analysis(&model(p, s));
    let ids = a.findings.iter().map(|f| f.id.as_str());
    ids.filter(|id| *id == "blocking-calls").collect()
}

/// Two threads compute for a millisecond and are in this wait for 4 ms, a hundred times.
struct Tasks<'a> {
    wait: (OffReason, &'a [&'a str]),
    /// Where the main thread waits, and whether it is for each of them.
    join: (&'a [&'a str], bool),
}

impl Tasks<'_> {
    fn told(&self) -> Vec<&'static str> {
        let mut p = ProfileBuilder::new("app");
        p.cpus(2);
        let work = p.site("render", "a.c", 10);
        let (wait, join) = (stack(&mut p, self.wait.1), stack(&mut p, self.join.0));
        let main = p.thread("app").cpu(1).id();
        let workers: Vec<ThreadIx> = (0..2)
            .map(|_| p.thread("w").start("work", "a.c", 9).cpu(1).id())
            .collect();
        let mut s = Schedule::new();
        for at in 0..100 {
            for &w in &workers {
                s.runs(w, work, ms(1));
                s.waits(w, Wait::new(self.wait.0, wait), ms(4));
            }
            if self.join.1 || at == 99 {
                let times = if self.join.1 { 1 } else { 100 };
                s.waits(
                    main,
                    Wait::futex(join, 0x100).woken_by(workers[0], work),
                    times * ms(5),
                );
            }
        }
        told(p, s)
    }
}

const TOKIO: &[&str] = &[
    "nanosleep",
    "app::handle",
    "tokio::runtime::task::raw::poll",
    "tokio::runtime::scheduler::multi_thread::worker::Context::run",
    "tokio::runtime::task::raw::poll",
    "tokio::runtime::blocking::pool::Inner::run",
];
const JAVA: &[&str] = &[
    "pthread_cond_timedwait",
    "java.lang.Thread.sleep",
    "java.lang.App.call",
    "java.util.concurrent.ThreadPoolExecutor.runWorker",
];
const JOIN: &[&str] = &["main"];
const FUTURE: &[&str] = &["java.util.concurrent.FutureTask.get", "java.lang.App.main"];

#[test]
fn tasks_that_block_keep_the_others_of_an_event_loop_waiting() {
    let told = |reason, stack| {
        Tasks {
            wait: (reason, stack),
            join: (JOIN, false),
        }
        .told()
    };
    assert_eq!(told(OffReason::Sleep, TOKIO), ["blocking-calls"]);
    // In the pool that tokio has for this, or while there is no task.
    assert_eq!(told(OffReason::Sleep, &TOKIO[4..]), [""; 0]);
    let parked: Vec<&str> = ["tokio::runtime::park::Inner::park"]
        .iter()
        .chain(TOKIO)
        .copied()
        .collect();
    assert_eq!(told(OffReason::Sleep, &parked), [""; 0]);
    let node = &["nanosleep", "callback", "uv_run", "main"];
    assert_eq!(told(OffReason::Sleep, node), ["blocking-calls"]);
    // It waits for another thread, which may have work for it.
    assert_eq!(told(OffReason::Futex, node), [""; 0]);
    assert_eq!(told(OffReason::Sleep, &node[..2]), [""; 0]);
}

/// A thread of a pool that sleeps may be paced by that; not so if somebody waits for each result.
#[test]
fn a_pool_that_sleeps_is_too_small_for_who_waits_for_each_result() {
    let told = |stack, join| {
        Tasks {
            wait: (OffReason::Futex, stack),
            join,
        }
        .told()
    };
    assert_eq!(told(JAVA, (FUTURE, true)), ["blocking-calls"]);
    assert_eq!(told(JAVA, (FUTURE, false)), [""; 0]);
    assert_eq!(told(JAVA, (JOIN, true)), [""; 0]);
    let takes = &[
        "pthread_cond_wait",
        "java.util.concurrent.ThreadPoolExecutor.getTask",
        JAVA[3],
    ];
    assert_eq!(told(takes, (FUTURE, true)), [""; 0]);
}

/// Two threads sleep for 4 ms and run for so long, a hundred times, and wait for the main one before that, after that, or neither; it
/// waits for them.
fn sleepers(given: (bool, bool), ran_us: u64) -> Vec<&'static str> {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let (work, fetch) = (p.site("score", "a.c", 10), p.site("fetch", "a.c", 20));
    let (take, join) = (p.site("take", "a.c", 30), p.site("main", "a.c", 90));
    let workers: Vec<ThreadIx> = (0..2)
        .map(|_| p.thread("w").start("run", "a.c", 9).cpu(1).id())
        .collect();
    let mut s = Schedule::new();
    let task = |is_given: bool| match Wait::futex(take, 0x200) {
        wait if is_given => wait.woken_by(0, join),
        wait => wait,
    };
    s.runs(0, join, ms(1));
    for &w in &workers {
        s.waits(w, task(given.0), ms(1));
        for _ in 0..100 {
            s.waits(w, Wait::new(OffReason::Sleep, fetch), ms(4));
            s.runs(w, work, us(ran_us));
        }
        s.waits(w, task(given.1), ms(1));
    }
    let end = Wait::futex(join, 0x100).woken_by(workers[0], work);
    s.waits(0, end, ms(400) + us(100 * ran_us));
    s.runs(0, join, ms(1));
    told(p, s)
}

#[test]
fn threads_that_are_given_work_and_sleep_are_a_pool() {
    assert_eq!(sleepers((false, true), 100), ["blocking-calls"]);
    // Before the first sleep it may be a common start; and who does next to nothing may keep a rate.
    assert_eq!(sleepers((true, false), 100), [""; 0]);
    assert_eq!(sleepers((true, true), 10), [""; 0]);
}

/// A thread receives from another program, and wakes one of its own each time.
fn hands_on(sends: bool) -> Vec<&'static str> {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let (parse, receive) = (p.site("parse", "a.c", 10), p.site("receive", "a.c", 20));
    let (send, take) = (stack(&mut p, &["send", "ask"]), p.site("take", "a.c", 30));
    let reader = p.thread("r").start("read", "a.c", 9).cpu(1).id();
    let mut s = Schedule::new();
    let socket = s.name("socket: tcp to port 7400");
    for _ in 0..100 {
        s.runs(reader, if sends { send } else { parse }, ms(1));
        s.waits(
            reader,
            Wait::new(OffReason::Socket, receive).named(socket),
            ms(4),
        );
        s.waits(0, Wait::futex(take, 0x100).woken_by(reader, parse), ms(4));
        s.runs(0, parse, ms(1));
    }
    ids(&analysis(&model(p, s)))
}

#[test]
fn a_stream_that_is_handed_on_is_no_request() {
    assert!(hands_on(true).contains(&"blocking-calls"));
    assert!(!hands_on(false).contains(&"blocking-calls"));
}

/// A thread that asks for 4 of 5 ms, by connections of which the first `known` have a name.
fn short_connections(known: u64, listens: bool) -> Model {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let (work, ask) = (p.site("answer", "a.c", 10), p.site("validate", "a.c", 20));
    let send = stack(&mut p, &["send", "validate"]);
    let mut s = Schedule::new();
    let named = s.name("socket: tcp to port 7400");
    let nameless = s.name("socket:");
    let at = s.name("socket: tcp port 80, listening");
    for i in 0..100 {
        s.runs(0, if i % 2 == 0 { work } else { send }, ms(1));
        let name = if i < known { named } else { nameless };
        s.waits(0, Wait::new(OffReason::Socket, ask).named(name), ms(4));
    }
    if listens {
        s.waits(0, Wait::new(OffReason::Socket, work).named(at), ms(1));
    }
    model(p, s)
}

#[test]
fn connections_without_a_name_are_like_others_of_the_same_code() {
    assert_eq!(
        ids(&analysis(&short_connections(10, true))),
        ["blocking-calls"]
    );
    assert!(ids(&analysis(&short_connections(2, true))).is_empty());
}

#[test]
fn more_is_expected_of_who_serves_than_of_a_client() {
    let (server, client) = (
        analysis(&short_connections(100, true)),
        analysis(&short_connections(100, false)),
    );
    let (server, client) = (only(&server), only(&client));
    assert!(server.gain.mid > 2.5, "{:?}", server.gain);
    assert!(client.gain.mid < 2.0, "{:?}", client.gain);
    assert_eq!((server.gain.low, client.gain.low), (1.0, 1.0));
}

/// A program that asks and is found so often in `poll()`, or in epoll.
#[test]
fn who_waits_for_many_descriptors_serves() {
    let gain = |polls: u64, events: bool| {
        let mut p = ProfileBuilder::new("app");
        p.cpus(2);
        let (send, ask) = (stack(&mut p, &["send", "ask"]), p.site("ask", "a.c", 20));
        let poll = p.site("wait", "a.c", 30);
        let mut s = Schedule::new();
        let socket = s.name("socket: tcp to port 7400");
        let any = s.name("anon_inode:[eventpoll]");
        for i in 0..100 {
            s.runs(0, send, ms(1));
            s.waits(0, Wait::new(OffReason::Socket, ask).named(socket), ms(4));
            if i < polls {
                let wait = Wait::new(OffReason::Poll, poll);
                s.waits(0, if events { wait.named(any) } else { wait }, us(100));
            }
        }
        only(&analysis(&model(p, s))).gain.mid
    };
    let client = gain(0, false);
    assert!(
        (gain(2, false) - client).abs() < 0.01,
        "one connection has a time limit"
    );
    assert!(gain(20, false) > 1.3 * client);
    assert!(gain(2, true) > 1.3 * client);
}

/// The only thread of a program asks for 4 of 5 ms, and looks in between what else has come, in this call.
fn between_looks(call: &str) -> f64 {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let (look, ask) = (stack(&mut p, &[call, "run_once"]), p.site("ask", "a.c", 20));
    let send = stack(&mut p, &["send", "ask"]);
    let mut s = Schedule::new();
    let socket = s.name("socket: tcp to port 7400");
    for _ in 0..100 {
        s.runs(0, look, us(500));
        s.runs(0, send, us(500));
        s.waits(0, Wait::new(OffReason::Socket, ask).named(socket), ms(4));
    }
    only(&analysis(&model(p, s))).gain.mid
}

#[test]
fn a_loop_of_events_that_asks_has_other_tasks_meanwhile() {
    assert!(between_looks("epoll_wait") > 2.5);
    assert!(between_looks("select_epoll_poll") > 2.5);
    assert!(between_looks("poll") < 2.0, "one connection is no loop");
}

/// Where connections arrive it waits for work.
#[test]
fn who_waits_for_connections_has_nothing_to_do() {
    assert!(ids(&analysis(&requests(
        "socket: tcp port 80, listening",
        0,
        true
    )))
    .is_empty());
}
