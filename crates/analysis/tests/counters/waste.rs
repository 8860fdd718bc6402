//! Threads that are made, woken or kept waiting for nothing: what is said of recordings made for it.
use convoy_analysis::counters::analyze;
use convoy_analysis::Params;
use convoy_model::finding::Finding;
use convoy_model::Model;
use convoy_profile::Op;
use convoy_testkit::ProfileBuilder;
use convoy_testkit::{ms, s, us};

fn found(builder: ProfileBuilder, id: &str) -> Option<Finding> {
    let model = Model::build(builder.build());
    let analysis = analyze(&model, &Params::default());
    analysis.findings.into_iter().find(|f| f.id.as_str() == id)
}

fn gain(finding: Option<&Finding>) -> (f64, f64, f64) {
    finding.map_or((0.0, 0.0, 0.0), |f| (f.gain.low, f.gain.mid, f.gain.high))
}

/// `n` threads in a row, each with so much work, made by a main thread that waits for each.
fn one_after_the_other(n: u64, work_ns: u64) -> ProfileBuilder {
    let mut b = ProfileBuilder::new("app");
    let each = work_ns + us(40);
    b.cpus(2).wall(n * each);
    let at = b.site("run", "app.c", 10);
    for i in 0..n {
        let begin = i * each + us(20);
        let task = b
            .thread("task")
            .start("task", "app.c", 1)
            .created_at(at)
            .lives(begin, begin + work_ns + us(7))
            .cpu(work_ns + us(7))
            .id();
        b.join(0, task, at, each - us(13));
    }
    b.edit_thread(0).lives(0, n * each).cpu(n * us(13));
    b
}

#[test]
fn threads_for_little_work_each_are_said_with_what_a_fixed_set_would_save() {
    let finding = found(one_after_the_other(1000, us(10)), "short-lived-threads");
    let (low, mid, high) = gain(finding.as_ref());
    // One after the other, each takes 50 us, of which 10 are work.
    assert!(
        low > 1.0 && low < mid && mid > 1.5 && mid < high,
        "{low} {mid} {high}"
    );
    assert!(
        high.is_infinite(),
        "without samples nothing says what making a thread costs: {high}"
    );
    let text = finding.map(|f| f.causes[0].fix.clone()).unwrap_or_default();
    assert!(text.contains("run() app.c:10"), "{text}");
}

#[test]
fn threads_are_said_with_where_they_are_made_as_far_as_that_is_known() {
    let mut b = one_after_the_other(400, us(10));
    let at = b.site("blur", "app.c", 16);
    for i in 0..300 {
        let begin = i * us(50) + us(20);
        let inner = b.thread("inner").start("main._omp_fn.0", "app.c", 17);
        let inner = inner.created_at(at).lives(begin, begin + us(20));
        inner.cpu(us(17)).id();
    }
    for thread in b.raw().threads.iter_mut().filter(|th| th.name == "task") {
        thread.create_stack = 0;
    }
    let finding = found(b, "short-lived-threads").expect("said");
    assert!(
        finding.title.contains("some of them inner"),
        "{}",
        finding.title
    );
    let fix = &finding.causes[0].fix;
    assert!(
        fix.contains("inside of another at blur() app.c:16"),
        "{fix}"
    );
}

#[test]
fn threads_with_enough_to_do_are_not_said() {
    assert_eq!(
        found(one_after_the_other(1000, ms(1)), "short-lived-threads"),
        None
    );
    assert_eq!(
        found(one_after_the_other(50, us(10)), "short-lived-threads"),
        None
    );
}

/// A writer that waits for half of a second, and readers that end so long after it.
fn readers_and_writer(after_ns: u64, reader_wait_ns: u64) -> ProfileBuilder {
    let mut b = ProfileBuilder::new("app");
    b.cpus(2).wall(s(1));
    let lock = b.rwlock("table");
    let (read, write) = (b.site("read", "app.c", 20), b.site("write", "app.c", 30));
    let writer = b
        .thread("writer")
        .start("writer", "app.c", 3)
        .lives(0, ms(900))
        .cpu(ms(20))
        .id();
    b.op(writer, lock, write, Op::RwlockWr, 100)
        .waits(100, ms(870))
        .hold(us(1));
    for _ in 0..3 {
        let end = ms(900) + after_ns;
        let reader = b
            .thread("reader")
            .start("reader", "app.c", 2)
            .lives(0, end)
            .cpu(ms(600))
            .id();
        b.op(reader, lock, read, Op::RwlockRd, 9000).hold(us(90));
        b.op(reader, lock, read, Op::RwlockRd, 10)
            .waits(10, reader_wait_ns);
    }
    b
}

#[test]
fn a_writer_for_whom_all_others_go_on_is_starved() {
    let finding = found(readers_and_writer(ms(1), ms(1)), "starved-thread");
    let (low, mid, high) = gain(finding.as_ref());
    assert_eq!(low, 1.0);
    assert!(mid > 2.0 && high > 7.0, "{mid} {high}");
    let text = finding.map(|f| f.causes[0].fix.clone()).unwrap_or_default();
    assert!(
        text.contains("WRITER") && text.contains("read() app.c:20"),
        "{text}"
    );
}

#[test]
fn nobody_starves_if_the_others_have_their_own_end_or_wait_as_well() {
    assert_eq!(
        found(readers_and_writer(ms(90), ms(1)), "starved-thread"),
        None
    );
    // In turns: each of its waits is one long hold of somebody.
    let mut b = ProfileBuilder::new("app");
    b.cpus(2).wall(s(1));
    let lock = b.mutex("chain");
    let at = b.site("front", "app.c", 20);
    for (name, wait) in [("front", ms(800)), ("back", ms(1))] {
        let t = b
            .thread(name)
            .start(name, "app.c", 2)
            .lives(0, ms(900))
            .cpu(ms(50))
            .id();
        b.contended(t, lock, at, 100, wait);
    }
    assert_eq!(found(b, "starved-thread"), None);
    // All alive when the process ends: who goes on for whom is not known.
    assert_eq!(
        found(readers_and_writer(0, ms(600)), "starved-thread"),
        None
    );
}

/// Eight threads that wait so often on a condition variable that is broadcast, and take its mutex so often.
fn waiters(waits: u64, taken: u64) -> ProfileBuilder {
    waiters_before(waits, taken, 0)
}

/// The same, behind which the one that broadcasts queues for a CPU.
fn waiters_before(waits: u64, taken: u64, queues: u64) -> ProfileBuilder {
    let mut b = ProfileBuilder::new("app");
    b.cpus(2).wall(s(1));
    let (lock, cond) = (b.mutex("lock"), b.cond("there"));
    let (get, put) = (b.site("get", "app.c", 5), b.site("put", "app.c", 9));
    for _ in 0..8 {
        let t = b
            .thread("worker")
            .start("worker", "app.c", 1)
            .cpu(ms(150))
            .sys(ms(120))
            .id();
        b.acquires(t, lock, get, taken);
        b.cond_waits(t, cond, get, waits, ms(800));
    }
    let producer = b
        .thread("producer")
        .start("producer", "app.c", 2)
        .cpu(ms(800) - queues)
        .sys(ms(600) - queues)
        .run_delay(queues)
        .id();
    b.acquires(producer, lock, put, 10_000);
    b.op(producer, cond, put, Op::CondBroadcast, 10_000);
    b
}

#[test]
fn who_waits_again_without_letting_the_mutex_go_was_woken_for_nothing() {
    let finding = found(waiters(10_000, 1250), "futile-wakeups");
    let (low, mid, high) = gain(finding.as_ref());
    assert!(low >= 1.0 && mid > 1.1 && high > mid, "{low} {mid} {high}");
    let text = finding.map(|f| f.causes[0].fix.clone()).unwrap_or_default();
    assert!(text.contains("put() app.c:9"), "{text}");
}

#[test]
fn who_wakes_them_all_no_longer_queues_behind_them() {
    let of = |queues| {
        let finding = found(waiters_before(10_000, 1250, queues), "futile-wakeups");
        gain(finding.as_ref())
    };
    // 0.3 s of its second go on a CPU or before one: of the latter as much as goes of what all run.
    let (on, before) = (of(0), of(ms(300)));
    assert!(before.1 > 0.9 * on.1, "{on:?} {before:?}");
    assert!(before.2 > 1.5 && before.0 <= before.1, "{on:?} {before:?}");
}

/// Eight threads that wait for their turns, half of whose processor time is wake-ups for nothing; beside one that computes all the
/// time, or not.
fn turns(beside: bool) -> (f64, f64, f64) {
    let mut b = ProfileBuilder::new("app");
    b.cpus(2).wall(s(1));
    let (lock, cond) = (b.mutex("lock"), b.cond("turn"));
    let at = b.site("append", "app.c", 5);
    for i in 0..8 {
        let t = b.thread("worker").start("worker", "app.c", 1);
        let t = t.cpu(ms(125)).sys(ms(80)).id();
        if i == 0 {
            b.join(0, t, at, ms(999));
        }
        b.acquires(t, lock, at, 1250);
        b.op(t, cond, at, Op::CondBroadcast, 1250);
        b.cond_waits(t, cond, at, 8000, ms(850));
    }
    if beside {
        b.thread("busy").start("busy", "app.c", 2).cpu(ms(990)).id();
    }
    gain(found(b, "futile-wakeups").as_ref())
}

#[test]
fn who_waits_for_a_turn_waits_for_the_wake_ups_between() {
    let (low, mid, high) = turns(false);
    // The other half of the processor time may take less then.
    assert!(low >= 1.0 && mid > 1.5 && high < 4.5, "{low} {mid} {high}");
    // Of the processor time a third is theirs then.
    let (_, with, _) = turns(true);
    assert!(with < 1.5 && with < mid, "{with} {mid}");
}

/// Eight threads of a pool that are all woken for each of 10,000 requests, and take another lock besides for each of them; who asks
/// and wakes them is ready to run without a processor for so long, and then waits for the answer.
fn requests(queues: u64) -> (f64, f64, f64) {
    let mut b = ProfileBuilder::new("app");
    b.cpus(2).wall(s(1));
    let (lock, cond) = (b.mutex("lock"), b.cond("there"));
    let (reply, done) = (b.mutex("reply"), b.cond("done"));
    let (get, put) = (b.site("get", "app.c", 5), b.site("put", "app.c", 9));
    let wait = b.site("wait", "app.c", 15);
    let client = b.thread("client").start("client", "app.c", 2);
    let client = client.cpu(ms(200)).sys(ms(150)).run_delay(queues).id();
    let mut worker = 0;
    for _ in 0..8 {
        let t = b.thread("worker").start("worker", "app.c", 1);
        worker = t.cpu(ms(60)).sys(ms(45)).id();
        b.acquires(worker, lock, get, 1250);
        b.acquires(worker, reply, get, 1250);
        b.cond_waits(worker, cond, get, 5000, ms(700))
            .woken_by(client, put);
        b.op(worker, done, get, Op::CondSignal, 1250);
    }
    b.join(0, client, wait, ms(999));
    b.contended(client, lock, put, 10_000, ms(300));
    b.op(client, cond, put, Op::CondBroadcast, 10_000);
    b.cond_waits(client, done, wait, 10_000, ms(490) - queues)
        .woken_by(worker, get);
    gain(found(b, "futile-wakeups").as_ref())
}

#[test]
fn who_wakes_them_all_gets_its_answer_sooner() {
    // The other lock is none of theirs: three of four wake-ups are for nothing. 46 % of what is run goes, and as much of what it
    // waits for.
    let (_, mid, high) = requests(ms(100));
    assert!((1.6..2.0).contains(&mid) && high >= mid, "{mid} {high}");
    // Where it need not queue for one, others do not either: it waits for something else.
    assert!(requests(0).1 < 1.3);
}

#[test]
fn a_barrier_made_of_a_condition_variable_wakes_nobody_for_nothing() {
    // Each takes the mutex before each wait, and all go on.
    assert_eq!(found(waiters(10_000, 10_000), "futile-wakeups"), None);
    // Each broadcast wakes one.
    assert_eq!(found(waiters(1250, 10), "futile-wakeups"), None);
}

/// Four threads that want the one token of a semaphore; `drawn` calls more of one of them were not counted but drawn.
fn one_token(made_by: &str, drawn: u64) -> Option<Finding> {
    let mut b = ProfileBuilder::new("app");
    b.cpus(4).wall(s(1));
    let made = b.site(made_by, "thread_pthread.h", 388);
    let semaphore = b.object(convoy_profile::ObjectKind::Sem).init(made).id();
    let (wait, post) = (b.site("take", "a.c", 10), b.site("give", "a.c", 20));
    let at = b.frame("take", "a.c", 10);
    for i in 0..4 {
        let t = b
            .thread("w")
            .start("run", "a.c", 1)
            .lives(0, s(1))
            .cpu(ms(200))
            .id();
        b.op(t, semaphore, wait, Op::SemWait, 100)
            .waits(100, ms(700));
        b.op(t, semaphore, post, Op::SemPost, 100);
        if i == 0 && drawn > 0 {
            b.unattributed(t, at, Op::SemWait, drawn);
        }
    }
    found(b, "small-pool")
}

#[test]
fn a_pool_is_one_although_some_calls_were_drawn() {
    assert!(one_token("make_pool", 0).is_some());
    assert!(one_token("make_pool", 60).is_some());
    assert!(
        one_token("make_pool", 400).is_none(),
        "it takes more than it gives"
    );
}

#[test]
fn a_lock_of_pythons_gets_the_advice_for_a_lock() {
    let fix = |made_by| {
        one_token(made_by, 0)
            .map(|f| f.causes[0].fix.clone())
            .unwrap_or_default()
    };
    assert!(fix("make_pool").starts_with("more tokens"));
    let lock = fix("PyThread_allocate_lock");
    assert!(
        lock.starts_with("hold it for a shorter time after take() a.c:10"),
        "{lock}"
    );
}
