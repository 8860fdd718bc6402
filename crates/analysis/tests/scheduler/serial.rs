//! serial-code, limiting-stage.

use convoy_analysis::arbitration::merge;
use convoy_model::finding::{Finding, Subject};
use convoy_model::{FindingId, Model, OffReason};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, us, ProfileBuilder};

use crate::kit::{analysis, found, ids, model, only};

/// The main thread prepares for `serial` ms what four threads then do in `parallel` ms, ten times.
fn phases(serial: u64, parallel: u64, cpus: u32) -> Model {
    phases_ns(ms(serial), ms(parallel), cpus)
}

fn phases_ns(serial: u64, parallel: u64, cpus: u32) -> Model {
    let mut p = ProfileBuilder::new("app");
    p.cpus(cpus);
    let main = p.frame("main", "app.c", 90);
    let load = p.frame("load", "app.c", 40);
    let parse = p.frame("parse", "app.c", 44);
    let (serial_stack, join) = (p.stack(&[parse, load, main]), p.stack(&[main]));
    let work = p.site("work", "app.c", 10);
    let idle = p.site("next_item", "app.c", 20);
    let workers: Vec<_> = (0..4)
        .map(|_| p.thread("w").start("work", "app.c", 9).cpu(1).id())
        .collect();
    let mut s = Schedule::new();
    for _ in 0..10 {
        s.runs(0, serial_stack, serial);
        s.waits(
            0,
            Wait::futex(join, 0x200).woken_by(workers[0], work),
            parallel,
        );
        for &w in &workers {
            s.waits(
                w,
                Wait::futex(idle, 0x100).woken_by(0, serial_stack),
                serial,
            );
            s.runs(w, work, parallel);
        }
    }
    model(p, s)
}

#[test]
fn a_serial_phase_is_named_with_its_function() {
    let model = phases(40, 60, 4);
    let a = analysis(&model);
    let f = only(&a);
    assert_eq!(f.id.as_str(), "serial-code");
    let Subject::Code(site) = f.subject else {
        panic!("{f:?}");
    };
    let site = &model.sites[site.0 as usize];
    assert_eq!(site.frames[site.shown].function, "parse");
    assert_eq!(
        f.title,
        "the main thread works alone in parse() app.c:44, called by load() app.c:40 for 40 % of the run"
    );
    // 1000 ms; at most 400 become 100.
    assert!((f.gain.high - 1000.0 / 700.0).abs() < 0.01, "{:?}", f.gain);
    assert_eq!(f.gain.low, 1.0);
    assert_eq!(a.parallelism.low_ns, ms(400));
    let top = &a.paths[0];
    assert_eq!((top.share * 100.0).round(), 40.0);
    assert_eq!(top.functions[0].lines[0].line, 44);
}

#[test]
fn a_run_of_a_few_milliseconds_is_too_short_to_judge() {
    let a = analysis(&phases_ns(ms(40) / 100, ms(60) / 100, 4));
    assert_eq!((ids(&a).len(), a.dismissed.len()), (0, 1));
    assert!(
        a.verdict.contains("for 10.0 ms: too short to judge"),
        "{}",
        a.verdict
    );
    let longer = analysis(&phases_ns(ms(40) / 50, ms(60) / 50, 4));
    assert_eq!(ids(&longer), ["serial-code"]);
}

#[test]
fn a_short_serial_phase_is_nobodys_problem() {
    assert_eq!(ids(&analysis(&phases(3, 97, 4))), [""; 0]);
}

#[test]
fn nothing_is_serial_on_one_cpu() {
    assert_eq!(ids(&analysis(&phases(40, 60, 1))), [""; 0]);
}

#[test]
fn functions_called_one_after_the_other_are_phases() {
    let mut p = ProfileBuilder::new("app");
    let main = p.frame("main", "app.c", 90);
    let stack = |p: &mut ProfileBuilder, name: &str| {
        let frame = p.frame(name, "app.c", 5);
        p.stack(&[frame, main])
    };
    let (load, save) = (stack(&mut p, "load"), stack(&mut p, "save"));
    let work = p.site("work", "app.c", 10);
    let workers: Vec<_> = (0..3).map(|_| p.thread("w").cpu(1).id()).collect();
    let mut s = Schedule::new();
    s.runs(0, load, ms(300));
    s.waits(0, Wait::futex(load, 1).woken_by(workers[0], work), ms(400));
    s.runs(0, save, ms(300));
    for &w in &workers {
        s.starts(w, ms(300)).runs(w, work, ms(400));
    }
    let a = analysis(&model(p, s));
    let mut titles: Vec<_> = a.findings.iter().map(|f| f.title.clone()).collect();
    titles.sort();
    assert_eq!(
        titles,
        [
            "the main thread works alone in load() app.c:5 for 30 % of the run",
            "the main thread works alone in save() app.c:5 for 30 % of the run"
        ]
    );
}

/// Eight threads of a server: one request at a time comes in, whoever is free does it. Nobody waits for anybody
/// of them.
#[test]
fn a_server_with_one_request_at_a_time_has_nothing_to_fix() {
    let mut p = ProfileBuilder::new("server");
    let (serve, poll) = (p.site("serve", "s.c", 3), p.site("next_request", "s.c", 9));
    let threads: Vec<_> = (0..8).map(|_| p.thread("s").cpu(1).id()).collect();
    let mut s = Schedule::new();
    let wait = Wait::new(OffReason::Poll, poll);
    for turn in 0..10 {
        for (at, &t) in threads.iter().enumerate() {
            s.starts(t, ms(80 * turn));
            s.waits(t, wait, ms(at as u64 * 10 + 1));
            s.runs(t, serve, ms(9));
            s.waits(t, wait, ms(70 - at as u64 * 10));
        }
    }
    let a = analysis(&model(p, s));
    assert!(a.parallelism.low_ns > ms(500), "{:?}", a.parallelism);
    assert_eq!(ids(&a), [""; 0]);
}

/// A session and so many proxies that ask and answer in turns, too short for samples; each waits for the other's messages.
fn session(proxies: usize) -> Vec<Finding> {
    let mut p = ProfileBuilder::new("proxy");
    p.cpus(2);
    let (read, events) = (p.site("read_row", "db.c", 3), p.site("loop", "proxy.c", 9));
    let start = |name: &str| (format!("{name}_main"), format!("{name}.c"));
    let mut thread = |name| {
        let (function, file) = start(name);
        p.thread(name).start(&function, &file, 1).cpu(1).id()
    };
    let session = thread("db");
    let proxies: Vec<_> = (0..proxies).map(|_| thread("proxy")).collect();
    let mut s = Schedule::new();
    for turn in 0..500 {
        let wait = |at, waker, by| Wait::new(OffReason::Poll, at).woken_by(waker, by);
        let asks = proxies[turn % proxies.len()];
        s.runs_until(session, read, us(120));
        s.waits(session, wait(read, asks, events), us(80));
        for &proxy in &proxies {
            s.waits(proxy, wait(events, session, read), us(120));
            if proxy == asks {
                s.runs_until(proxy, events, us(80));
            } else {
                s.waits(proxy, Wait::new(OffReason::Poll, events), us(80));
            }
        }
    }
    analysis(&model(p, s)).findings
}

#[test]
fn what_is_done_between_two_messages_is_not_the_function_that_waits_for_them() {
    let found = session(2);
    let told: Vec<_> = found
        .iter()
        .filter(|f| f.id == FindingId::SerialCode)
        .collect();
    let [one] = told.as_slice() else {
        panic!("once: {found:#?}");
    };
    assert!(
        one.title
            .contains("between two waits for a message at read_row()"),
        "{}",
        one.title
    );
    assert_eq!(one.causes[0].id, "one-request-at-a-time");
    assert!(!one.causes[0].fix.contains("read_row"));
    // With more sessions only the processors limit.
    assert!((one.gain.high - 2.0).abs() < 0.05, "{:?}", one.gain);
}

#[test]
fn who_asks_alone_and_waits_for_the_answer_may_have_nothing_more_to_ask() {
    let gain = |proxies| {
        let found = session(proxies);
        let mut serial = found.into_iter().filter(|f| f.id == FindingId::SerialCode);
        serial.next().map(|f| (f.gain.mid, f.gain.high))
    };
    let (one, two) = (gain(1).unwrap(), gain(2).unwrap());
    assert!(one.0 == 1.0 && (one.1 - 2.0).abs() < 0.05, "{one:?}");
    assert!(two.0 > 1.05, "{two:?}");
}

/// Three stages; the middle one takes `slow` ms an item, the others 2.
fn pipeline(slow: u64) -> Model {
    let mut p = ProfileBuilder::new("pipe");
    let (work, queue) = (p.site("stage", "pipe.c", 3), p.site("get", "pipe.c", 9));
    let [read, middle, write] = ["reader", "encoder", "writer"]
        .map(|name| p.thread(name).start(name, "pipe.c", 1).cpu(1).id());
    let mut s = Schedule::new();
    for _ in 0..50 {
        for (stage, waker) in [(read, middle), (write, middle)] {
            s.runs(stage, work, ms(2));
            s.waits(
                stage,
                Wait::futex(queue, 0x100).woken_by(waker, work),
                ms(slow - 2),
            );
        }
        s.runs(middle, work, ms(slow));
    }
    model(p, s)
}

#[test]
fn the_stage_that_limits_is_told_how_many_threads_it_needs() {
    let a = analysis(&pipeline(8));
    let f = only(&a);
    assert_eq!(f.id.as_str(), "limiting-stage");
    assert!(matches!(&f.subject, Subject::Groups(groups) if groups.len() == 3));
    let needed = f
        .evidence
        .iter()
        .find(|e| e.key == "threads_needed")
        .unwrap();
    // 4 CPUs; 8 + 2 + 2 ms of work an item need 3 ms on them: three encoders.
    assert_eq!(needed.value, 3.0);
    assert!((f.gain.high - 8.0 / 3.0).abs() < 0.01, "{:?}", f.gain);
}

/// The main thread works all the time and gives another one 10 ms pieces, each `helps` us of work.
fn with_helper(helps: u64) -> Vec<&'static str> {
    let mut p = ProfileBuilder::new("chain");
    p.cpus(2);
    let (mine, put) = (p.site("mine", "c.c", 3), p.site("put", "c.c", 9));
    let get = p.site("get", "c.c", 20);
    let helper = p.thread("logger").start("log", "c.c", 18).cpu(1).id();
    let mut s = Schedule::new();
    for _ in 0..100 {
        s.runs(0, mine, ms(10));
        s.waits(
            helper,
            Wait::futex(get, 0x100).woken_by(0, put),
            ms(10) - us(helps),
        );
        s.runs(helper, get, us(helps));
    }
    let a = analysis(&model(p, s));
    a.findings.iter().map(|f| f.id.as_str()).collect()
}

/// A chain of hashes with a logger looks like a pipeline whose first stage could be doubled, but for what the others do.
#[test]
fn the_main_thread_with_a_helper_is_no_stage() {
    assert!(with_helper(2000).contains(&"limiting-stage"));
    assert!(!with_helper(100).contains(&"limiting-stage"));
}

/// What a stage spends on handing over looks like work where only its calls are seen.
#[test]
fn a_slow_stage_is_told_once_by_the_scheduler() {
    let model = pipeline(8);
    let a = analysis(&model);
    let ours = only(&a);
    let theirs = found("slow-stage", ours.subject.clone(), 9.0);
    let (list, rest) = merge(&model, &a, vec![theirs], vec![]);
    assert_eq!(list.len(), 1, "{list:#?}");
    assert_eq!(
        (list[0].id.as_str(), &list[0].gain),
        ("limiting-stage", &ours.gain)
    );
    assert!(
        rest.iter().any(|f| f.id == FindingId::SlowStage),
        "dismissed"
    );
}

/// Main only hands out what one thread does all the time: that threads of those who ask could be fewer is no advice.
#[test]
fn one_thread_that_does_everything_is_told_once_and_promises_nothing() {
    let mut p = ProfileBuilder::new("pack");
    p.cpus(2);
    let (work, put) = (p.site("pack", "p.c", 3), p.site("put", "p.c", 9));
    let worker = p.thread("packer").start("run", "p.c", 1).cpu(1).id();
    let mut s = Schedule::new();
    for _ in 0..50 {
        s.runs(worker, work, ms(8));
        s.runs(0, put, us(50));
        let wait = Wait::futex(put, 0x100).woken_by(worker, work);
        s.waits(0, wait, ms(8) - us(50));
    }
    let model = model(p, s);
    let a = analysis(&model);
    let f = only(&a);
    assert_eq!((f.id.as_str(), f.gain.low), ("too-few-threads", 1.0));
    assert!(f.title.contains("does all the work"), "{}", f.title);
    let theirs = found("load-imbalance", f.subject.clone(), 2.0);
    let (list, rest) = merge(&model, &a, vec![theirs], vec![]);
    assert_eq!(list.len(), 1);
    assert_eq!(
        (list[0].id.as_str(), rest[0].id.as_str()),
        ("too-few-threads", "load-imbalance")
    );
    let agrees = list[0].evidence.iter().any(|e| e.key == "detect_gain");
    assert!(agrees);
}

#[test]
fn an_even_pipeline_is_well() {
    let mut p = ProfileBuilder::new("pipe");
    p.cpus(3);
    let work = p.site("stage", "pipe.c", 3);
    let queue = p.site("get", "pipe.c", 9);
    let stages = ["a", "b", "c"].map(|name| p.thread(name).start(name, "pipe.c", 1).cpu(1).id());
    let mut s = Schedule::new();
    for _ in 0..50 {
        for (at, &stage) in stages.iter().enumerate() {
            s.runs(stage, work, ms(9));
            let waker = stages[(at + 1) % 3];
            s.waits(
                stage,
                Wait::futex(queue, 0x100).woken_by(waker, work),
                ms(1),
            );
        }
    }
    assert_eq!(ids(&analysis(&model(p, s))), [""; 0]);
}

/// Two threads run the same code; one ends a little later. That is no serial code.
#[test]
fn a_last_thread_is_no_serial_code() {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let (work, join) = (p.site("work", "a.c", 3), p.site("join", "a.c", 9));
    let (a, b) = (p.thread("w").cpu(1).id(), p.thread("w").cpu(1).id());
    let mut s = Schedule::new();
    s.runs(0, join, ms(10));
    s.waits(0, Wait::futex(join, 7).woken_by(b, work), ms(120));
    s.starts(a, ms(10)).runs(a, work, ms(95));
    s.starts(b, ms(10)).runs(b, work, ms(120));
    assert!(!ids(&analysis(&model(p, s))).contains(&"serial-code"));
}

#[test]
fn threads_of_go_run_all_goroutines() {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let exit = p.frame("runtime.goexit", "asm.s", 1);
    let merge = p.frame("main.merge", "m.go", 4);
    let merge = p.stack(&[merge, exit]);
    let work = p.frame("main.work", "m.go", 9);
    let work = p.stack(&[work, exit]);
    let park = p.frame("runtime.futex", "sys.s", 8);
    let park = p.stack(&[park, exit]);
    let main = p.main_thread();
    let other = p
        .thread("app")
        .start("runtime.mstart", "asm.s", 2)
        .cpu(1)
        .id();
    let mut s = Schedule::new();
    s.runs(main, work, ms(100));
    s.runs(other, work, ms(100));
    for _ in 0..50 {
        s.runs(main, merge, ms(6));
        s.waits(other, Wait::futex(park, 0x10).woken_by(main, merge), ms(6));
        s.runs(other, merge, ms(2));
        s.waits(main, Wait::futex(park, 0x20).woken_by(other, merge), ms(2));
    }
    let a = analysis(&model(p, s));
    let f = only(&a);
    assert_eq!(f.id.as_str(), "serial-code");
    assert_eq!(
        f.title,
        "a goroutine works alone in main.merge() m.go:4 for 80 % of the run"
    );
}

/// Main goes eight calls deep alone; a tenth of it is spent in a helper of each function on the way.
#[test]
fn what_each_caller_does_itself_is_not_lost_on_the_way_to_the_innermost_function() {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let main = p.frame("main", "app.c", 1);
    let join = p.stack(&[main]);
    let mut below = vec![main];
    let mut stacks = Vec::new();
    for depth in 0..8 {
        let function = p.frame(&format!("level{depth}"), "app.c", 10 + depth);
        let helper = p.frame(&format!("helper{depth}"), "app.c", 30 + depth);
        below.insert(0, function);
        let mut stack = vec![helper];
        stack.extend(&below);
        stacks.push(p.stack(&stack));
    }
    let innermost = p.stack(&below);
    let work = p.site("work", "app.c", 50);
    let worker = p.thread("w").start("work", "app.c", 50).cpu(1).id();
    let mut s = Schedule::new();
    for _ in 0..4 {
        for &stack in &stacks {
            s.runs(0, stack, ms(10));
        }
        s.runs(0, innermost, ms(20));
        let wait = Wait::futex(work, 0x10).woken_by(0, innermost);
        s.waits(worker, wait, ms(100));
        s.waits(0, Wait::futex(join, 0x20).woken_by(worker, work), ms(100));
        s.runs(worker, work, ms(100));
    }
    let a = analysis(&model(p, s));
    let titles: Vec<&str> = a.findings.iter().map(|f| f.title.as_str()).collect();
    // 80 of its 100 ms go through it, and through the next one only 70.
    let title = "the main thread works alone in level2() app.c for 40 % of the run";
    assert!(titles.contains(&title), "{titles:?}");
}

/// Main waits for two threads, each with a function of its own, or for two with the same.
fn two_jobs(work: [u64; 2], functions: [&str; 2]) -> Model {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let join = p.site("main", "app.c", 9);
    let sites = functions.map(|name| p.site(name, "app.c", 20));
    let threads = functions.map(|name| p.thread(name).start(name, "app.c", 1).cpu(1).id());
    let mut s = Schedule::new();
    let (last, longest) = if work[0] > work[1] {
        (0, work[0])
    } else {
        (1, work[1])
    };
    s.waits(
        0,
        Wait::futex(join, 0x100).woken_by(threads[last], sites[last]),
        ms(longest),
    );
    for ((&t, site), work) in threads.iter().zip(sites).zip(work) {
        s.runs(t, site, ms(work));
    }
    model(p, s)
}

#[test]
fn the_longer_one_of_two_different_jobs_is_told() {
    let a = analysis(&two_jobs([400, 200], ["load", "index"]));
    let f = only(&a);
    assert_eq!(f.id.as_str(), "serial-code");
    assert!(f.title.contains("load"), "{}", f.title);
    // 400 ms become 300 if its work is divided evenly.
    assert!((f.gain.high - 4.0 / 3.0).abs() < 0.05, "{:?}", f.gain);
    assert_eq!(
        ids(&analysis(&two_jobs([400, 320], ["load", "index"]))),
        [""; 0]
    );
    let same = analysis(&two_jobs([400, 200], ["load", "load"]));
    assert!(!ids(&same).contains(&"serial-code"), "a matter of balance");
}

/// The first thread works for a while and then hands over a piece, which takes another one 1 ms, a hundred times. It sleeps for what is
/// left of 5 ms, or for 2 ms.
fn handed_over(by_a_clock: bool) -> Vec<&'static str> {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let (make, sleep) = (p.site("make", "a.c", 3), p.site("pace", "a.c", 5));
    let (take, work) = (p.site("take", "a.c", 9), p.site("work", "a.c", 11));
    let consumer = p.thread("w").start("consume", "a.c", 8).cpu(1).id();
    let mut s = Schedule::new();
    for at in 0..100 {
        let worked = us(1000 + 20 * (at * at * 37 % 101));
        let slept = if by_a_clock { ms(5) - worked } else { ms(2) };
        s.runs(0, make, worked);
        s.waits(0, Wait::new(OffReason::Sleep, sleep), slept);
        s.waits(consumer, Wait::futex(take, 0x100).woken_by(0, make), worked);
        s.runs(consumer, work, ms(1));
        s.waits(consumer, Wait::futex(take, 0x104), slept - ms(1));
    }
    ids(&analysis(&model(p, s)))
}

#[test]
fn who_has_less_to_do_in_a_period_sleeps_for_longer() {
    assert!(handed_over(false).contains(&"serial-code"));
    assert!(!handed_over(true).contains(&"serial-code"));
}

/// One process works for 70 ms, and another one for 30 with what it reads from it, ten times.
fn packed_by(first: &str) -> Finding {
    let mut p = ProfileBuilder::new("openssl");
    p.cpus(2);
    p.raw().without_agent = true;
    let (encrypt, read) = (p.site("encrypt", "e.c", 1), p.site("read", "e.c", 2));
    p.process(first);
    p.raw().without_agent = true;
    let (pack, write) = (p.site("pack", "p.c", 1), p.site("write", "p.c", 2));
    let mut s = Schedule::new();
    for _ in 0..10 {
        let data = Wait::new(OffReason::Pipe, read).woken_from(1, 0, write);
        s.process(0);
        s.waits(0, data, ms(70)).runs(0, encrypt, ms(30));
        let room = Wait::new(OffReason::Pipe, write).woken_from(0, 0, read);
        s.process(1);
        s.runs(0, pack, ms(70)).waits(0, room, ms(30));
    }
    let a = analysis(&model(p, s));
    let about_it = |f: &&Finding| f.id == FindingId::SerialCode && f.title.contains("pack()");
    a.findings.iter().find(about_it).expect("said").clone()
}

#[test]
fn a_stage_that_could_have_threads_is_advised_to_have_them() {
    let (known, unknown) = (packed_by("xz"), packed_by("pack"));
    assert_eq!(known.causes[0].fix, "xz -T0");
    assert!(known.caveats.is_empty(), "{:?}", known.caveats);
    // With both processors busy all the time half of it goes: three quarters of that are expected, and half of what is not known.
    for (found, expected) in [(known, 0.75 * 0.5), (unknown, 0.5 * 0.5)] {
        let gain = 1.0 / (1.0 - expected);
        assert!((found.gain.mid - gain).abs() < 0.01, "{:?}", found.gain);
    }
}

/// The main thread and one of a pool have all parts of a parallel stream in turns, each for so long, in these functions.
fn parts(task: &str, main_ms: u64, pool_ms: u64) -> Vec<Finding> {
    let mut p = ProfileBuilder::new("java");
    p.cpus(2);
    let frames = ["price", task, "run"].map(|function| p.frame(function, "", 0));
    let (work, wait) = (p.stack(&frames), p.site("await", "a.c", 20));
    let pool = p.thread("ForkJoinPool").start("pool", "a.c", 9).cpu(1).id();
    let mut s = Schedule::new();
    for _ in 0..10 {
        let (main_ns, pool_ns) = (ms(main_ms), ms(pool_ms));
        s.runs(0, work, main_ns);
        s.waits(pool, Wait::futex(wait, 0x100).woken_by(0, work), main_ns);
        s.waits(0, Wait::futex(wait, 0x200).woken_by(pool, work), pool_ns);
        s.runs(pool, work, pool_ns);
    }
    let found = analysis(&model(p, s)).findings.into_iter();
    found.filter(|f| f.id == FindingId::SerialCode).collect()
}

#[test]
fn parts_of_a_parallel_stream_that_one_thread_has_alone_are_one_finding() {
    let stream = parts("java.util.stream.AbstractTask.compute", 70, 30);
    assert_eq!(stream.len(), 1, "{stream:#?}");
    let f = &stream[0];
    assert!(f.causes[0].fix.contains("source"), "{:?}", f.causes);
    assert!(f.gain.mid > 1.5, "{:?}", f.gain);
    assert_eq!(f.gain.low, 1.0);
    let other = parts("app.Job.run", 70, 30);
    assert_eq!(other.len(), 2, "{other:#?}");
}

/// Two threads of a pool that the main thread gives 2,000 pieces of 200 us in turns: it waits for
/// each before the next one, or does other work meanwhile.
fn pool_in_turns(waits: bool) -> Option<Finding> {
    let mut p = ProfileBuilder::new("app");
    p.cpus(2);
    let (submit, render) = (p.site("submit", "app.c", 9), p.site("render", "app.c", 20));
    let pool = [(); 2].map(|()| p.thread("w").start("pool", "app.c", 1).cpu(1).id());
    let mut s = Schedule::new();
    for piece in 0..2_000 {
        let (at_it, other) = (pool[piece % 2], pool[1 - piece % 2]);
        s.runs(at_it, render, us(200));
        s.waits(
            other,
            Wait::futex(render, 0x100).woken_by(0, submit),
            us(200),
        );
        if waits {
            s.waits(
                0,
                Wait::futex(submit, 0x200).woken_by(at_it, render),
                us(200),
            );
        } else {
            s.runs(0, submit, us(200));
        }
    }
    let mut all = analysis(&model(p, s)).findings.into_iter();
    all.find(|f| f.id == FindingId::SerialCode)
}

#[test]
fn pieces_that_a_pool_is_given_in_turns_may_all_be_given_at_once() {
    let gain = pool_in_turns(true).expect("found").gain;
    // Twice as fast, and without the 20 us of each hand-over.
    assert!(gain.high > 2.2, "{gain:?}");
    assert!(gain.mid < 2.0, "{gain:?}");
    assert_eq!(pool_in_turns(false), None);
}
