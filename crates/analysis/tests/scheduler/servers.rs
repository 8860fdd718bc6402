//! Requests of other programs that queue for the one thread of a server: too-few-threads, and serial-code where it does not do it all.

use convoy_model::finding::Finding;
use convoy_model::{FindingId, Model, OffReason};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{analysis, ids, model, only};

/// A server that works all the time, each answer taking 10 ms, for so many clients that wait for their turn and run for this long.
fn server(client: &str, clients: usize, client_ms: u64, other_work: bool) -> Model {
    asked_through(OffReason::Socket, client, clients, client_ms, other_work)
}

/// The same of clients that wait in this.
fn asked_through(
    reason: OffReason,
    client: &str,
    clients: usize,
    client_ms: u64,
    other_work: bool,
) -> Model {
    let mut p = ProfileBuilder::new("httpd");
    p.cpus(2);
    let serve = p.site("compress", "httpd.c", 10);
    p.process(client);
    let recv = p.site("recv", "load.c", 20);
    let parse = p.site("parse", "load.c", 30);
    let threads: Vec<_> = (0..clients)
        .map(|_| p.thread("c").start("ask", "load.c", 1).cpu(1).id())
        .collect();
    let mut s = Schedule::new();
    for at in 0..100 {
        s.process(0).runs(0, serve, ms(10));
        s.process(1);
        for (n, &id) in threads.iter().enumerate() {
            let wait = Wait::new(reason, recv).woken_from(0, 0, serve);
            let runs = match at % clients == n {
                true => client_ms,
                false => 0,
            };
            s.waits(id, wait, ms(10 - runs)).runs(id, parse, ms(runs));
        }
        // Somebody else has work now and then, so that this is a parallel program.
        if other_work {
            let work = if at % 10 == 0 { 10 } else { 0 };
            let idle = Wait::new(OffReason::Sleep, parse);
            s.runs(0, parse, ms(work)).waits(0, idle, ms(10 - work));
        }
    }
    model(p, s)
}

#[test]
fn requests_that_queue_for_one_thread_need_a_second_one() {
    let a = analysis(&server("load", 4, 0, false));
    let f = only(&a);
    assert_eq!(f.id.as_str(), "too-few-threads");
    // Four fifths of half the run.
    assert!((f.gain.mid - 1.0 / 0.6).abs() < 0.02, "{:?}", f.gain);
    assert_eq!(f.gain.low, 1.0);
    assert!(f.causes[0].fix.contains("httpd"), "{:?}", f.causes);
    let seen = "4 threads of other programs ask it, and 4.0 wait for its answer at a time";
    assert!(
        f.evidence.iter().any(|e| e.text == seen),
        "{:?}",
        f.evidence
    );
}

#[test]
fn what_one_client_asks_for_is_asked_for_when_the_answer_is_there() {
    assert_eq!(ids(&analysis(&server("load", 1, 0, false))), [""; 0]);
}

#[test]
fn stages_of_a_pipeline_ask_for_nothing() {
    let pipeline = asked_through(OffReason::Pipe, "tar", 2, 0, false);
    assert_eq!(ids(&analysis(&pipeline)), [""; 0]);
}

#[test]
fn who_listens_and_is_always_busy_may_be_so_with_one_request_after_the_other() {
    let told = |seen: bool, in_turns: u64| {
        let mut p = ProfileBuilder::new("httpd");
        p.cpus(2).raw().listens = true;
        let serve = p.site("compress", "httpd.c", 10);
        p.process("load");
        let poll = p.site("poll", "load.c", 20);
        let mut s = Schedule::new();
        for at in 0..100 {
            let ask = ms(u64::from(at < in_turns)) / 10;
            let request = Wait::new(OffReason::Poll, serve).woken_from(1, 0, poll);
            s.process(0).runs(0, serve, ms(10)).waits(0, request, ask);
            let answer = Wait::new(OffReason::Poll, poll).woken_from(0, 0, serve);
            s.process(1).waits(0, answer, ms(10)).runs(0, poll, ask);
            if !seen {
                s = Schedule::new();
            }
        }
        if !seen {
            s.process(0).runs(0, serve, ms(1000));
        }
        let found = analysis(&model(p, s)).findings;
        found.first().map_or(1.0, |f| f.gain.mid)
    };
    let near = |mid: f64, of: f64| assert!((mid - of).abs() < 0.03, "{mid}");
    near(told(true, 100), 1.0);
    // Half of half the run where nothing is known, four fifths where the next request is there.
    near(told(true, 20), 4.0 / 3.0);
    near(told(false, 0), 4.0 / 3.0);
    near(told(true, 1), 1.0 / 0.6);
}

#[test]
fn processes_of_one_program_wait_for_one_another_for_other_reasons() {
    assert_eq!(ids(&analysis(&server("httpd", 4, 0, false))), [""; 0]);
}

#[test]
fn a_server_beside_other_work_is_expected_to_be_divided_as_well() {
    let first = |clients| {
        analysis(&server("load", clients, 1, true))
            .findings
            .remove(0)
    };
    let (several, one) = (first(4), first(1));
    assert!(several.gain.mid > one.gain.mid + 0.1, "{several:?} {one:?}");
    let fix = |f: &Finding| f.causes[0].fix.contains("that serve requests");
    assert!(fix(&several) && !fix(&one), "{several:?} {one:?}");
}

/// A server with two threads of one kind of which one at a time works, in turns, for so many clients that do nothing but ask, each
/// for its own answer of 10 ms, of which it works for so many and waits for something else for the rest.
fn in_turn(clients: usize, works_ms: u64) -> Vec<Finding> {
    let mut p = ProfileBuilder::new("quoted");
    p.cpus(2).raw().listens = true;
    let serve = p.site("price", "quoted.c", 10);
    let wait = p.site("wait", "quoted.c", 20);
    let mut thread = || p.thread("s").start("run", "quoted.c", 1).cpu(1).id();
    let servers = [thread(), thread()];
    p.process("load");
    let recv = p.site("recv", "load.c", 20);
    let (parse, join) = (p.site("parse", "load.c", 30), p.site("main", "load.c", 40));
    let mut thread = || p.thread("c").start("ask", "load.c", 1).cpu(1).id();
    let clients: Vec<_> = (0..clients).map(|_| thread()).collect();
    let mut s = Schedule::new();
    let socket = s.name("socket: tcp to port 80");
    s.process(1);
    let ends = Wait::futex(join, 0x100).woken_from(1, clients[0], parse);
    s.waits(0, ends, ms(1000));
    for at in 0..100 {
        let (works, idles) = (servers[at % 2], servers[(at + 1) % 2]);
        let next = Wait::new(OffReason::Poll, wait).woken_by(works, serve);
        s.process(0).runs(works, serve, ms(works_ms));
        s.waits(works, Wait::new(OffReason::Poll, wait), ms(10 - works_ms));
        s.waits(idles, next, ms(10));
        s.process(1);
        for &id in &clients {
            let answer = Wait::new(OffReason::Socket, recv).named(socket);
            let answer = answer.woken_from(0, works, serve);
            s.waits(id, answer, ms(9)).runs(id, parse, ms(1));
        }
    }
    analysis(&model(p, s)).findings
}

#[test]
fn of_several_threads_that_serve_one_at_a_time_may_be_let_through() {
    let found = in_turn(4, 10);
    let first = found.first().expect("something");
    assert_eq!(first.id.as_str(), "serial-code", "{found:?}");
    let fix = &first.causes[0].fix;
    assert!(fix.contains("one of the 2 threads of quoted"), "{fix}");
    // Those who ask wait because it is busy: more of them would wait as well.
    assert!(
        found.iter().all(|f| f.id != FindingId::BlockingCalls),
        "{found:?}"
    );
    let two = in_turn(2, 10);
    let says = |f: &Finding| f.causes[0].fix.contains("at a time serve a request");
    assert!(!two.iter().any(says), "no more requests than threads");
    let waits = in_turn(4, 6);
    assert!(!waits.iter().any(says), "it waits itself: {waits:#?}");
}

/// A process without threads that is busy for so much of a second, and accepts connections or does not.
fn alone(listens: bool, busy_ms: u64) -> Vec<&'static str> {
    let mut p = ProfileBuilder::new("httpd");
    p.cpus(2).raw().listens = listens;
    let (serve, poll) = (
        p.site("compress", "httpd.c", 10),
        p.site("poll", "httpd.c", 20),
    );
    let mut s = Schedule::new();
    s.runs(0, serve, ms(busy_ms));
    s.waits(0, Wait::new(OffReason::Poll, poll), ms(1000 - busy_ms));
    ids(&analysis(&model(p, s)))
}

#[test]
fn a_server_that_is_never_idle_has_more_than_it_can_do() {
    assert_eq!(alone(true, 980), ["too-few-threads"]);
    assert_eq!(
        alone(true, 900),
        [""; 0],
        "one client may ask again and again"
    );
    assert_eq!(alone(false, 980), [""; 0]);
}
