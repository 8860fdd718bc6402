//! small-writes.

use convoy_analysis::arbitration::merge;
use convoy_analysis::scheduler::Analysis;
use convoy_model::finding::Subject;
use convoy_model::{FindingId, Model, ObjectId, OffReason};
use convoy_profile::{CallSamples, StackIx, ThreadIx, ThreadRef};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, us, ProfileBuilder};

use crate::kit::{alone, analysis, found, ids};

const LOG: &str = "/var/log/app.log";

/// Two threads that write half of the time, and compute otherwise.
struct Writers {
    p: ProfileBuilder,
    s: Schedule,
    threads: [ThreadIx; 2],
    log: StackIx,
    serve: StackIx,
    /// Bits of how much at a time.
    size_class: u8,
    /// What each of them writes to.
    files: [&'static str; 2],
    /// Whether what they compute is reading a few bytes at a time.
    reads: bool,
    /// Whether the first one asks and is answered somewhere else, too.
    talks: bool,
}

impl Writers {
    fn new(size_class: u8, file: &'static str) -> Self {
        let mut p = ProfileBuilder::new("server");
        p.cpus(2);
        let write = p.frame("write", "write.c", 26);
        let append = p.frame("log_line", "log.c", 31);
        let log = p.stack(&[write, append]);
        let serve = p.site("serve", "serve.c", 12);
        let threads = [0, 1].map(|_| p.thread("w").start("run", "serve.c", 1).cpu(ms(600)).id());
        let mut s = Schedule::new();
        for _ in 0..20 {
            for t in threads {
                s.runs(t, log, ms(15)).runs(t, serve, ms(15));
            }
        }
        Self {
            p,
            s,
            threads,
            log,
            serve,
            size_class,
            files: [file; 2],
            reads: false,
            talks: false,
        }
    }

    /// Both take a lock for what they write, of which the calls are all but a little.
    fn under_a_lock(mut self) -> Self {
        let lock = self.p.mutex("log_lock");
        let take = self.p.site("log_line", "log.c", 30);
        for t in self.threads {
            let calls = self.p.contended(t, lock, take, 300, ms(250));
            calls.hold(us(1_100));
        }
        let addr = self.p.raw().objects[lock as usize].addr;
        for (t, other) in [(0, 1), (1, 0)] {
            let wait = Wait::futex(take, addr).woken_by(self.threads[other], take);
            self.s.waits(self.threads[t], wait, ms(250));
        }
        self
    }

    fn model(self) -> Model {
        let mut profile = self.p.build();
        self.s.put_into(&mut profile);
        let sched = profile.sched.as_mut().unwrap();
        let mut name = |file: &str| {
            let known = sched.names.iter().position(|name| name == file);
            let name = known.unwrap_or(sched.names.len());
            if known.is_none() {
                sched.names.push(file.into());
            }
            Some(name as u32)
        };
        let names = self.files.map(&mut name);
        let peer = name("socket: tcp port 80");
        let row = |(stack, reads)| {
            [0, 1].map(|ix| CallSamples {
                thread: ThreadRef {
                    process: 0,
                    thread: self.threads[ix],
                },
                stack,
                name: names[ix],
                size_class: self.size_class,
                reads,
                n: 100,
            })
        };
        let calls = [(self.log, false), (self.serve, true)].into_iter();
        let calls = calls.take(1 + usize::from(self.reads));
        sched.writes = calls.flat_map(row).collect();
        if self.talks {
            let Some(first) = sched.writes.first().cloned() else {
                panic!("it writes");
            };
            let at_peer = |reads| CallSamples {
                name: peer,
                reads,
                n: 2,
                ..first.clone()
            };
            sched.writes.extend([false, true].map(at_peer));
        }
        Model::build(profile)
    }

    fn said(self) -> Analysis {
        analysis(&self.model())
    }
}

#[test]
fn lines_that_are_written_one_by_one_are_said_with_file_place_and_length() {
    let a = Writers::new(6, LOG).said();
    assert_eq!(ids(&a), ["small-writes"]);
    let f = &a.findings[0];
    assert!(
        f.title.contains(
            "2 threads write some 48 bytes at a time to app.log at log_line() log.c:31: 50 %"
        ),
        "{}",
        f.title
    );
    // Of half of what they run 95 of a hundred, but for what is written.
    let left = 1.0 - 0.95 * 0.5 * (1.0 - 48.0 / 4144.0);
    assert!((f.gain.mid - 1.0 / left).abs() < 0.03, "{:?}", f.gain);
    assert!((f.gain.high - alone(2.0, 0.5)).abs() < 0.2, "{:?}", f.gain);
    assert!(f.gain.low > 1.1 && f.gain.low < 1.4, "{:?}", f.gain);
}

#[test]
fn pages_journals_and_what_is_no_file_are_none() {
    for (size_class, file) in [
        (13, LOG),
        (6, "/dev/null"),
        (6, "anon_inode:[eventfd]"),
        (6, "socket: udp port 53"),
    ] {
        let a = Writers::new(size_class, file).said();
        assert!(
            ids(&a).is_empty() && a.dismissed.is_empty(),
            "{file} {a:#?}"
        );
    }
    let mut w = Writers::new(6, LOG);
    let sync = w.p.site("commit", "log.c", 50);
    let log = w.s.name(LOG);
    w.s.waits(
        w.threads[0],
        Wait::new(OffReason::Sync, sync).named(log),
        ms(1),
    );
    assert!(!ids(&w.said()).contains(&"small-writes"));
}

#[test]
fn a_few_of_them_are_no_matter() {
    let mut w = Writers::new(6, LOG);
    let serve = w.p.site("serve", "serve.c", 12);
    for t in w.threads {
        w.s.runs(t, serve, ms(3_000));
    }
    assert!(ids(&w.said()).is_empty());
}

#[test]
fn a_thread_that_waits_for_more_to_log_limits_nobody() {
    // The same, but each waits for work for four times as long.
    let mut w = Writers::new(6, LOG);
    let next = w.p.site("next", "queue.c", 9);
    for t in w.threads {
        w.s.waits(t, Wait::new(OffReason::Poll, next), ms(2_400));
    }
    let a = w.said();
    let found = a.findings.iter().chain(&a.dismissed);
    for f in found.filter(|f| f.id == FindingId::SmallWrites) {
        assert!(f.gain.mid < 1.02 && f.gain.low == 1.0, "{:?}", f.gain);
    }
}

/// The main thread writes 40 ms a few bytes at a time, then `workers` others compute for 60 ms, ten times. So many of them compute all the time.
fn writes_between(awaited: bool, workers: usize, beside: usize) -> Analysis {
    let mut p = ProfileBuilder::new("app");
    p.cpus(workers as u32);
    let main = p.frame("main", "app.c", 90);
    let (write, save) = (
        p.frame("write", "write.c", 26),
        p.frame("save", "app.c", 31),
    );
    let (save, join) = (p.stack(&[write, save, main]), p.stack(&[main]));
    let work = p.site("work", "app.c", 10);
    let next = p.site("next", "app.c", 20);
    let workers: Vec<_> = (0..workers)
        .map(|_| p.thread("w").start("work", "app.c", 9).cpu(1).id())
        .collect();
    let mut s = Schedule::new();
    for _ in 0..10 {
        s.runs(0, save, ms(40));
        s.waits(
            0,
            Wait::futex(join, 0x200).woken_by(workers[0], work),
            ms(60),
        );
        for (ix, &w) in workers.iter().enumerate() {
            let wait = match awaited {
                true => Wait::futex(next, 0x100).woken_by(0, save),
                false => Wait::new(OffReason::Poll, next),
            };
            match ix < beside {
                true => s.runs(w, work, ms(100)),
                false => s.waits(w, wait, ms(40)).runs(w, work, ms(60)),
            };
        }
    }
    let mut profile = p.build();
    s.put_into(&mut profile);
    let sched = profile.sched.as_mut().unwrap();
    sched.names.push("/data/result.txt".into());
    sched.writes.push(CallSamples {
        thread: ThreadRef {
            process: 0,
            thread: 0,
        },
        stack: save,
        name: Some(sched.names.len() as u32 - 1),
        size_class: 3,
        reads: false,
        n: 133,
    });
    analysis(&Model::build(profile))
}

#[test]
fn what_a_thread_writes_while_the_others_wait_for_it_goes_from_the_run() {
    let a = writes_between(true, 2, 0);
    assert_eq!(ids(&a), ["small-writes"]);
    // 400 of 1000 ms, of which a twentieth and what is written are left.
    let mid = a.findings[0].gain.mid;
    assert!((mid - 1.0 / (1.0 - 0.95 * 0.4)).abs() < 0.02, "{mid}");
    let a = writes_between(false, 2, 0);
    let mut found = a.findings.iter().chain(&a.dismissed);
    assert!(found.all(|f| f.gain.mid < 1.2), "{:?}", ids(&a));
}

#[test]
fn beside_others_what_a_thread_writes_is_a_part_of_the_run() {
    let a = writes_between(true, 8, 2);
    let mut found = a.findings.iter().chain(&a.dismissed);
    let f = found
        .find(|f| f.id == FindingId::SmallWrites)
        .expect("said");
    // A third of the 400 ms.
    let mid = 1.0 / (1.0 - 0.95 * 0.4 / 3.0);
    assert!((f.gain.mid - mid).abs() < 0.02, "{:?}", f.gain);
}

#[test]
fn a_file_for_each_thread_is_one_matter() {
    let one = Writers::new(6, LOG).said().findings[0].gain.clone();
    let mut w = Writers::new(6, LOG);
    w.files = ["/var/log/a.log", "/var/log/b.log"];
    let a = w.said();
    assert_eq!(ids(&a), ["small-writes"]);
    let f = &a.findings[0];
    assert!(
        f.title.contains("to a.log and 1 other file at"),
        "{}",
        f.title
    );
    assert_eq!(f.gain, one);
}

#[test]
fn what_the_same_threads_read_goes_with_it() {
    let mut w = Writers::new(6, LOG);
    w.reads = true;
    let a = w.said();
    assert_eq!(ids(&a), ["small-writes"]);
    let f = &a.findings[0];
    let said = [
        "write some 48 bytes at a time",
        "; and read some 48",
        ": 100 %",
    ];
    assert!(
        said.iter().all(|said| f.title.contains(said)),
        "{}",
        f.title
    );
    let fix = &f.causes[0].fix;
    assert!(
        fix.contains("in a buffer of each thread") && fix.contains("mmap()"),
        "{fix}"
    );
    // All that they run are such calls: it is no work.
    assert!(f.gain.mid > 10.0 && f.gain.low > 2.0, "{:?}", f.gain);
}

#[test]
fn what_waits_for_the_lock_that_they_are_made_under_goes_too() {
    let alone = Writers::new(6, LOG).said().findings[0].gain.clone();
    let model = Writers::new(6, LOG).under_a_lock().model();
    let a = analysis(&model);
    let f = a
        .findings
        .iter()
        .find(|f| f.id == FindingId::SmallWrites)
        .unwrap();
    assert!(f.title.contains(", under log_lock: "), "{}", f.title);
    assert!(matches!(f.subject, Subject::Site(ObjectId(0), _)), "{f:?}");
    assert!(f.gain.mid > 1.3 * alone.mid, "{:?} {alone:?}", f.gain);
    // The lock is what they are made under: it is said once, and with what to do.
    let lock = found("contended-lock", Subject::Object(ObjectId(0)), 1.5);
    let (list, rest) = merge(&model, &a, vec![lock], Vec::new());
    assert!(
        list.iter().all(|f| f.id != FindingId::ContendedLock),
        "{list:#?}"
    );
    assert!(rest.iter().any(|f| f.id == FindingId::ContendedLock));
}

/// The first thread writes to a pipe that the second one reads. `answers`: which writes to another one that the first one reads.
fn through_a_pipe(size_class: u8, answers: bool) -> Analysis {
    between(Writers::new(size_class, "pipe: unnamed"), answers)
}

fn between(mut w: Writers, answers: bool) -> Analysis {
    let get = w.p.site("get", "in.c", 24);
    let [a, b] = w.threads;
    for (t, other) in [(b, Some(a)), (a, answers.then_some(b))] {
        if let Some(other) = other {
            let wait = Wait::new(OffReason::Pipe, get).woken_by(other, w.log);
            for _ in 0..40 {
                w.s.waits(t, wait, us(500));
            }
        }
    }
    w.said()
}

#[test]
fn messages_through_a_pipe_are_gathered_if_nobody_answers() {
    let a = through_a_pipe(5, false);
    let f = a
        .findings
        .iter()
        .find(|f| f.id == FindingId::SmallWrites)
        .unwrap();
    assert_eq!(f.causes[0].id, "message-per-call");
    assert!(f.title.contains("at log_line() log.c:31"), "{}", f.title);
    assert!(f.gain.mid > 1.3 && f.gain.high < 3.5, "{:?}", f.gain);
    for (size_class, answers) in [(5, true), (1, false), (13, false)] {
        let a = through_a_pipe(size_class, answers);
        let mut all = a.findings.iter().chain(&a.dismissed);
        assert!(
            all.all(|f| f.id != FindingId::SmallWrites),
            "{size_class} {a:#?}"
        );
    }
}

#[test]
fn who_talks_at_one_socket_gathers_what_goes_to_another() {
    let messages = |file, reads| {
        let mut w = Writers::new(5, file);
        (w.talks, w.reads) = (true, reads);
        let a = between(w, false);
        a.findings.iter().any(|f| f.id == FindingId::SmallWrites)
    };
    assert!(messages("pipe: unnamed", false));
    assert!(messages("socket: tcp to port 514", false));
    assert!(!messages("socket: tcp to port 514", true), "it is answered");
}
