//! blocking-io and holder-off-cpu of files that are written through to the disk again and again.

use convoy_analysis::scheduler::Analysis;
use convoy_model::finding::Finding;
use convoy_model::{FindingId, Model, OffReason};
use convoy_profile::{CallSamples, NameIx, StackIx, ThreadIx, ThreadRef};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{analysis, ids, model, only};

/// A database whose threads commit: rows are made, a journal and then the data written through.
struct Db {
    p: ProfileBuilder,
    s: Schedule,
    row: StackIx,
    /// Two call paths to fdatasync(), and one to unlink().
    journal: StackIx,
    data: StackIx,
    unlink: StackIx,
    files: [NameIx; 2],
}

impl Db {
    fn new() -> Self {
        let mut p = ProfileBuilder::new("db");
        p.cpus(2);
        let call = |p: &mut ProfileBuilder, of: &str, by: &str, line| {
            let of = p.frame(of, "libc.c", 1);
            let by = p.frame(by, "pager.c", line);
            p.stack(&[of, by])
        };
        let journal = call(&mut p, "fdatasync", "sync_journal", 70);
        let data = call(&mut p, "fdatasync", "sync_data", 80);
        let unlink = call(&mut p, "unlink", "end_commit", 90);
        let row = p.site("insert", "db.c", 10);
        let mut s = Schedule::new();
        let files = [s.name("/data/db-journal"), s.name("/data/db")];
        Self {
            p,
            s,
            row,
            journal,
            data,
            unlink,
            files,
        }
    }

    fn worker(&mut self) -> ThreadIx {
        self.p.thread("w").start("worker", "db.c", 1).cpu(1).id()
    }

    /// 3 ms for the row, 9 ms for the commit: 6 of them in fdatasync(), half of that on a processor.
    fn commit(&mut self, t: ThreadIx) {
        let [journal, data] = self.files;
        let wait = |stack, file| Wait::new(OffReason::Sync, stack).named(file);
        self.s.runs(t, self.row, ms(3));
        self.s.waits(t, wait(self.journal, journal), ms(2));
        self.s.runs(t, self.journal, ms(3));
        self.s.waits(t, wait(self.data, data), ms(1));
        self.s.runs(t, self.unlink, ms(2));
        self.s
            .waits(t, Wait::new(OffReason::Disk, self.unlink), ms(1));
    }

    fn said(self) -> Analysis {
        analysis(&model(self.p, self.s))
    }
}

/// Three threads commit one after the other, while the others sleep and try again.
fn in_turns() -> Db {
    in_turns_with(0)
}

/// The same, where so many milliseconds pass until the next one wakes up.
fn in_turns_with(late_ms: u64) -> Db {
    let mut db = Db::new();
    let threads: Vec<_> = (0..3).map(|_| db.worker()).collect();
    let retry = db.p.site("busy", "db.c", 50);
    for _ in 0..40 {
        for &t in &threads {
            db.commit(t);
            for &other in threads.iter().filter(|&&other| other != t) {
                db.s.waits(other, Wait::new(OffReason::Sleep, retry), ms(12));
            }
            for &t in threads.iter().filter(|_| late_ms > 0) {
                db.s.waits(t, Wait::new(OffReason::Sleep, retry), ms(late_ms));
            }
        }
    }
    db
}

#[test]
fn all_places_and_calls_of_a_commit_are_one_cost() {
    let a = in_turns().said();
    let f = a
        .findings
        .iter()
        .find(|f| f.id == FindingId::BlockingIo)
        .unwrap();
    let all = a.findings.iter().chain(&a.dismissed);
    assert_eq!(all.filter(|f| f.id == FindingId::BlockingIo).count(), 1);
    assert!(
        f.title.contains("at sync_journal() pager.c:70"),
        "{}",
        f.title
    );
    // Of 12 ms 9 are of the commit, and four of five of these are expected to go.
    assert!((f.share_of_thread_time - 0.75).abs() < 0.01, "{f:?}");
    assert!((f.gain.mid - 12.0 / 4.8).abs() < 0.05, "{:?}", f.gain);
    // At most all that it takes, more or less by the luck of 120 samples.
    assert!(f.gain.high > 4.0 && f.gain.high < 15.0, "{:?}", f.gain);
    assert_eq!(f.gain.low, 1.0, "nothing is promised");
    let fix = &f.causes[0].fix;
    assert!(fix.contains("a transaction for many rows"), "{fix}");
    assert!(f.caveats.iter().any(|c| c.contains("is lost")), "{f:?}");
}

#[test]
fn who_sleeps_between_two_tries_sleeps_on_but_a_schedule_stays() {
    let left = |late_ms| {
        let a = in_turns_with(late_ms).said();
        let all = a.findings.iter().chain(&a.dismissed);
        let f = all
            .into_iter()
            .find(|f| f.id == FindingId::BlockingIo)
            .unwrap();
        (12 + late_ms) as f64 / f.gain.high
    };
    // One of 5 ms without work is between tries; 12 of 16 are a schedule.
    let prompt = left(0);
    assert!((left(1) - prompt).abs() < 0.15, "{} {prompt}", left(1));
    assert!(left(12) > prompt + 11.0, "{} {prompt}", left(12));
}

/// An event loop alone with its clients, which waits for these milliseconds between two commits; or a thread beside it that others
/// give what it writes.
fn alone(idle_ms: u64, rows: u64, in_a_thread: bool) -> Db {
    let mut db = Db::new();
    let poll = db.p.site("loop", "ev.c", 5);
    let t = if in_a_thread { db.worker() } else { 0 };
    for _ in 0..100 {
        db.commit(t);
        for _ in 0..rows {
            db.s.runs(t, db.row, ms(3));
        }
        let wait = match in_a_thread {
            true => Wait::futex(poll, 0x100).woken_by(0, poll),
            false => Wait::new(OffReason::Poll, poll),
        };
        if idle_ms > 0 {
            db.s.waits(t, wait, ms(idle_ms));
        }
    }
    if in_a_thread {
        db.s.waits(
            0,
            Wait::new(OffReason::Poll, poll),
            ms(1_200 + 100 * idle_ms),
        );
    }
    db
}

#[test]
fn clients_wait_for_the_one_thread_that_writes_through() {
    let a = alone(0, 0, false).said();
    let f = only(&a);
    assert_eq!(f.id.as_str(), "blocking-io");
    assert!((f.gain.mid - 12.0 / 4.8).abs() < 0.05, "{:?}", f.gain);
    assert_eq!(f.gain.low, 1.0);
    assert!(a.verdict.contains("active (none for"), "{}", a.verdict);
}

#[test]
fn who_does_not_wait_need_not_get_back_on_a_processor() {
    let share = |queues_ms: u64| {
        let mut db = Db::new();
        for _ in 0..100 {
            let wait = Wait::new(OffReason::Sync, db.data).named(db.files[1]);
            db.s.waits(0, wait, ms(1)).queues(0, db.row, ms(queues_ms));
            db.s.waits(0, wait, ms(1)).runs(0, db.row, ms(2));
            db.s.waits(0, wait, ms(1)).runs(0, db.data, ms(1));
        }
        only(&db.said()).share_of_thread_time
    };
    // The waits, what it waits for a processor after them, and a third of the rest, as of three samples.
    for queues in [1, 8] {
        let expected = (3 + queues + 1) as f64 / (6 + queues) as f64;
        let share = share(queues);
        assert!((share - expected).abs() < 0.01, "{share} {expected}");
    }
}

#[test]
fn one_thread_that_has_time_or_other_work_is_no_matter() {
    assert_eq!(ids(&alone(12, 0, false).said()), [""; 0], "idle for half");
    assert_eq!(ids(&alone(0, 20, false).said()), [""; 0], "4 % in fsync");
    assert_eq!(ids(&alone(0, 0, true).said()), [""; 0], "a log");
}

/// A thread that commits what two others give it, who wait in between, are woken for nothing, and look again: for room in its
/// queue, which it makes, or for what another thread gives them.
fn a_log(for_room: bool) -> Analysis {
    let mut db = Db::new();
    let writer = db.p.thread("log").start("drain", "log.c", 1).cpu(1).id();
    let other = db.p.thread("in").start("accept", "in.c", 1).cpu(1).id();
    let put = db.p.site("put", "log.c", 20);
    let threads = [db.worker(), db.worker()];
    let waker = if for_room { writer } else { other };
    let wait = Wait::futex(put, 0x100).woken_by(waker, db.unlink);
    for _ in 0..60 {
        db.commit(writer);
        db.s.runs(other, put, ms(1));
        db.s.waits(other, Wait::new(OffReason::Poll, put), ms(11));
        for t in threads {
            db.s.runs(t, db.row, ms(1)).waits(t, wait, ms(5));
            db.s.queues(t, put, ms(1)).waits(t, wait, ms(5));
        }
    }
    db.said()
}

#[test]
fn a_log_that_others_wait_for_limits_them_however_often_they_are_woken() {
    let a = a_log(true);
    let f = a
        .findings
        .iter()
        .find(|f| f.id == FindingId::BlockingIo)
        .unwrap();
    assert!(f.title.contains("wait for"), "{}", f.title);
    assert!(f.title.contains("/data/db"), "{}", f.title);
    // Ten of twelve milliseconds are waits, and another one the way back to a CPU after them.
    assert!(f.gain.mid > 2.0, "{:?}", f.gain);
    assert!(f.gain.high > 5.0, "{:?}", f.gain);
    let a = a_log(false);
    let mut all = a.findings.iter();
    assert!(
        all.all(|f| f.id != FindingId::BlockingIo),
        "{:#?}",
        a.findings
    );
}

#[test]
fn one_call_at_the_end_is_nothing_that_could_be_rarer() {
    let mut db = Db::new();
    db.s.runs(0, db.row, ms(300));
    for _ in 0..400 {
        let wait = Wait::new(OffReason::Sync, db.data).named(db.files[1]);
        db.s.waits(0, wait, ms(1)).runs(0, db.data, 10_000);
    }
    assert_eq!(ids(&db.said()), [""; 0]);
}

#[test]
fn a_few_of_them_are_a_checkpoint() {
    let few = |n| {
        let mut db = Db::new();
        for at in 0..2 * n {
            db.commit(0);
            if at % 2 > 0 {
                db.s.runs(0, db.row, ms(3));
            }
        }
        ids(&db.said())
    };
    assert_eq!(few(4), [""; 0]);
    assert_eq!(few(40), ["blocking-io"]);
}

/// Threads wait at the end of each step for the main thread, which writes its result: so many bits at a time, in calls that were
/// sampled so often.
fn steps(size_class: u8, n: u64) -> Model {
    steps_of(size_class, n, 1)
}

/// The same of which each is waited for so many times.
fn steps_of(size_class: u8, n: u64, waits: u64) -> Model {
    let mut db = Db::new();
    db.p.cpus(4);
    let write = db.p.site("save", "step.c", 30);
    let meet = db.p.site("meet", "step.c", 40);
    let threads: Vec<_> = (0..3).map(|_| db.worker()).collect();
    for _ in 0..60 {
        for &t in &threads {
            db.s.runs(t, db.row, ms(6));
            db.s.waits(t, Wait::futex(meet, 0x40).woken_by(0, meet), ms(9));
        }
        db.s.waits(0, Wait::futex(meet, 0x80).woken_by(threads[0], meet), ms(6));
        let wait = |reason, stack| Wait::new(reason, stack).named(db.files[1]);
        db.s.waits(0, wait(OffReason::File, write), ms(3));
        for _ in 0..waits {
            db.s.waits(0, wait(OffReason::Sync, db.data), ms(3) / waits);
        }
        db.s.runs(0, write, ms(3));
    }
    let mut profile = db.p.build();
    let file = db.files[1];
    db.s.put_into(&mut profile);
    profile.sched.as_mut().unwrap().writes = vec![CallSamples {
        thread: ThreadRef::default(),
        stack: write,
        name: Some(file),
        size_class,
        reads: false,
        n,
    }];
    Model::build(profile)
}

#[test]
fn much_data_is_written_behind_not_less_often() {
    let blocking = |size_class, n| {
        let a = analysis(&steps(size_class, n));
        let mut found = a
            .findings
            .into_iter()
            .filter(|f| f.id == FindingId::BlockingIo);
        let first: Finding = found.next().expect("found");
        assert!(found.next().is_none(), "once");
        first
    };
    let (little, much) = (blocking(9, 1), blocking(22, 60));
    assert!(little.causes[0].fix.contains("one fsync for several"));
    assert!(much.causes[0].fix.contains("write behind"), "{much:?}");
    // Of 15 ms 9, overlapped with the 6 of the others; or 6 of them, the other waits of a commit included, and five commits in one.
    let gain = |f: &Finding| f.gain.clone();
    assert!(
        (much.gain.mid - 15.0 / 12.0).abs() < 0.02,
        "{:?}",
        gain(&much)
    );
    assert!(
        (little.gain.mid - 15.0 / 10.2).abs() < 0.02,
        "{:?}",
        gain(&little)
    );
    assert!(
        (much.gain.high - 15.0 / 6.0).abs() < 0.02,
        "{:?}",
        gain(&much)
    );
    // Each commit of 1 MB in lines: three milliseconds of calls.
    let lines = blocking(9, 60);
    assert!(lines.causes[0].fix.contains("write behind"), "{lines:?}");
    assert_eq!(lines.gain.mid, much.gain.mid);
    // A few samples may be luck.
    let unknown = blocking(13, 3);
    assert!(unknown.causes[0].fix.contains("one fsync for several"));
    assert!(unknown.caveats[1].contains("not known"), "{unknown:?}");
    assert!((unknown.gain.mid - 15.0 / 12.0).abs() < 0.02, "{unknown:?}");
    assert_eq!(unknown.gain.high, little.gain.high);
}

#[test]
fn a_lock_that_is_held_to_write_through_is_a_group_commit_to_make() {
    let mut db = Db::new();
    let (lock, unlock) = (
        db.p.site("commit", "db.c", 20),
        db.p.site("commit", "db.c", 29),
    );
    let threads: Vec<_> = (0..3).map(|_| db.worker()).collect();
    for (at, &t) in threads.iter().enumerate() {
        let before = threads[(at + 2) % 3];
        let wait = || Wait::futex(lock, 0x100).woken_by(before, unlock);
        db.s.waits(t, wait(), ms(1 + 12 * at as u64));
        for _ in 0..40 {
            db.commit(t);
            db.s.waits(t, wait(), ms(24));
        }
    }
    let a = db.said();
    let f = a.findings.iter().find(|f| f.id == FindingId::HolderOffCpu);
    let f = f.expect("a lock");
    assert!(f.causes[0].fix.contains("group commit"), "{f:?}");
    assert!(f.caveats.iter().any(|c| c.contains("is lost")), "{f:?}");
    // Not only the waits: what the calls run goes with them.
    assert!(f.gain.mid > 2.4 && f.gain.high > 4.0, "{:?}", f.gain);
    assert!(!ids(&a).contains(&"blocking-io"), "said once");
    let others = a
        .findings
        .iter()
        .filter(|of| of.id == FindingId::HolderOffCpu);
    assert!(
        others.skip(1).all(|of| of.gain.mid < f.gain.mid),
        "one has it"
    );
}

#[test]
fn little_for_each_wait_is_little_however_few_commits_can_be_told_apart() {
    let fix = |waits| {
        let a = analysis(&steps_of(13, 20, waits));
        let mut found = a.findings.into_iter();
        let f = found
            .find(|f| f.id == FindingId::BlockingIo)
            .expect("found");
        f.causes[0].fix.clone()
    };
    // 2 MB for each of 60 commits, and 40 KB for each of 50 waits.
    assert!(fix(1).contains("write behind"));
    assert!(fix(50).contains("one fsync for several"));
}
