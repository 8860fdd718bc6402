//! Pages of profiles of every shape.

use convoy_analysis::Params;
use convoy_model::{Model, OffReason};
use convoy_profile::{Collector, Profile, Sched};
use convoy_report::Report;
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::sections::{Step, Traces};
use convoy_testkit::{ms, ns, us, ProfileBuilder};

/// As the program makes it: both rooms, one list of findings.
pub fn page(profile: &Profile) -> String {
    damaged_page(profile, &[])
}

/// The same of a file that has lost something.
pub fn damaged_page(profile: &Profile, damage: &[String]) -> String {
    let thresholds = Params::default();
    let model = Model::build(profile.clone());
    let mut analysis = convoy_analysis::counters::analyze(&model, &thresholds);
    let critical = model.sched.as_ref().map(|_| {
        let critical =
            convoy_analysis::scheduler::analyze(&model, &convoy_analysis::Params::default());
        convoy_analysis::arbitration::cross_check(&model, &critical, &mut analysis.findings);
        let (found, dismissed) = (
            std::mem::take(&mut analysis.findings),
            std::mem::take(&mut analysis.dismissed),
        );
        (analysis.findings, analysis.dismissed) =
            convoy_analysis::arbitration::merge(&model, &critical, found, dismissed);
        critical
    });
    let sections = model
        .sections
        .as_ref()
        .map(|_| convoy_diagnose::analyze(&model, &convoy_diagnose::Thresholds::default()));
    let report = Report {
        model: &model,
        analysis: &analysis,
        critical: critical.as_ref(),
        sections: sections.as_ref(),
        thresholds: &thresholds,
    };
    convoy_html::render(&report, damage)
}

/// Four threads take turns at a lock; whoever holds it works for a millisecond and syncs a file for nine.
pub fn hot_lock() -> Profile {
    turns("log_lock", "/var/log/app.log", "put")
}

/// The same in a program that names its things to do harm.
pub fn hostile() -> Profile {
    let script = "</script><script>window.harmed=1</script><img src=x onerror=window.harmed=1>";
    let mut profile = turns(
        script,
        "\"><svg onload=window.harmed=1>",
        "<b onclick='x'>&amp;",
    );
    profile.meta.command = vec!["./app".into(), script.into()];
    profile.meta.notes = vec![script.into()];
    profile
}

fn turns(lock_name: &str, file_name: &str, function: &str) -> Profile {
    let mut p = ProfileBuilder::new("log");
    p.cpus(4).wall(ms(1600));
    let (put, sync) = (p.site(function, "l.c", 20), p.site("flush", "l.c", 24));
    let unlock = p.site(function, "l.c", 27);
    let held = p.frame(function, "l.c", 20);
    let work = p.site("work", "l.c", 5);
    let lock = p.mutex(lock_name);
    let address = p.raw().objects[lock as usize].addr;
    let threads: Vec<_> = (0..4)
        .map(|_| p.thread(lock_name).start("w", "l.c", 1).cpu(ms(40)).id())
        .collect();
    for (i, &t) in threads.iter().enumerate() {
        p.acquires(t, lock, put, 60).hold(us(3)).cost(ns(45));
        p.contended(t, lock, put, 40, ms(1140))
            .held_by(threads[(i + 3) % 4], held, unlock);
    }
    let mut s = Schedule::new();
    let file = s.name(file_name);
    for turn in 0..160 {
        for (i, &t) in threads.iter().enumerate() {
            let before = threads[(i + 3) % 4];
            if turn % 4 == i {
                s.runs(t, work, ms(1));
                s.waits(t, Wait::new(OffReason::Sync, sync).named(file), ms(9));
            } else {
                let wait = Wait::futex(put, address).woken_by(before, unlock);
                s.waits(t, wait, ms(10));
            }
        }
    }
    let mut profile = p.build();
    s.put_into(&mut profile);
    profile
}

/// No scheduler was listened to.
pub fn without_scheduler() -> Profile {
    let mut profile = hot_lock();
    profile.sched = None;
    profile.meta.collectors.push(Collector {
        name: "scheduler".into(),
        active: false,
        lost: "which code runs while the others wait".into(),
        enable: "sudo sysctl kernel.perf_event_paranoid=1".into(),
    });
    profile
}

/// Nothing was seen.
pub fn empty() -> Profile {
    Profile::default()
}

/// Somebody listened, and nothing happened.
pub fn silent() -> Profile {
    Profile {
        sched: Some(Sched::default()),
        ..ProfileBuilder::new("true").build()
    }
}

/// A file that ends in the middle of its last table.
pub fn truncated() -> Profile {
    let bytes = hot_lock().to_bytes().unwrap();
    Profile::read(&bytes[..bytes.len() - 100]).unwrap().0
}

/// One lock is waited for at one line that two functions call, twelve a little, and five hardly.
pub fn many_locks() -> Profile {
    let mut p = ProfileBuilder::new("shop");
    p.cpus(4).wall(ms(1600));
    let take = p.frame("take", "s.c", 7);
    let callers = [("order", 20), ("bill", 30)].map(|(function, line)| {
        let caller = p.frame(function, "s.c", line);
        p.stack(&[take, caller])
    });
    let unlock = p.site("take", "s.c", 9);
    let threads: Vec<_> = (0..4)
        .map(|_| p.thread("shop").start("w", "s.c", 1).cpu(ms(300)).id())
        .collect();
    let big = p.mutex("big_lock");
    let address = p.raw().objects[big as usize].addr;
    for (i, &t) in threads.iter().enumerate() {
        let holder = threads[(i + 3) % 4];
        for at in callers {
            p.acquires(t, big, at, 100).hold(us(900));
            p.contended(t, big, at, 100, ms(400))
                .held_by(holder, take, unlock);
        }
    }
    for i in 0..17 {
        let lock = p.mutex(&format!("lock_{i}"));
        let wait = if i < 12 { ms(60) } else { us(40 - i) };
        p.contended(threads[0], lock, callers[0], 3, wait);
    }
    let mut s = Schedule::new();
    for (i, &t) in threads.iter().enumerate() {
        for turn in 0..4 {
            s.waits(
                t,
                Wait::futex(callers[turn % 2], address).woken_by(threads[(i + 3) % 4], unlock),
                ms(300),
            );
            s.runs(t, callers[0], ms(75));
        }
    }
    let mut profile = p.build();
    s.put_into(&mut profile);
    profile
}

/// A thread that waits for the first of 100 threads to end: the others have ended then.
pub fn joined() -> Profile {
    let mut p = ProfileBuilder::new("pool");
    p.cpus(4).wall(ms(1000));
    let at = p.site("main", "p.c", 3);
    let threads: Vec<_> = (0..101)
        .map(|_| p.thread("pool").start("w", "p.c", 1).cpu(ms(9)).id())
        .collect();
    for (i, &t) in threads.iter().enumerate().skip(1) {
        p.join(threads[0], t, at, if i == 1 { ms(900) } else { us(1) });
    }
    p.build()
}

/// 5,000 threads that wait for one another, a hundred times each.
pub fn five_thousand() -> Profile {
    let mut p = ProfileBuilder::new("server");
    p.cpus(64).wall(ms(100));
    let (work, take) = (p.site("work", "s.c", 5), p.site("take", "s.c", 9));
    let mut s = Schedule::new();
    let threads: Vec<_> = (0..5000)
        .map(|_| p.thread("conn").start("serve", "s.c", 1).cpu(us(900)).id())
        .collect();
    for (i, &t) in threads.iter().enumerate() {
        let waker = threads[(i + 1) % threads.len()];
        for _ in 0..5 {
            // All change at the same times: a schedule of few moments is quickly made.
            s.runs(t, work, us(1000));
            s.waits(t, Wait::futex(take, 0x900).woken_by(waker, work), us(9000));
        }
    }
    let mut profile = p.build();
    s.put_into(&mut profile);
    profile
}

/// `make` runs a compiler thirty times, two at a time.
pub fn build() -> Profile {
    let mut p = ProfileBuilder::new("make");
    p.cpus(2).wall(ms(1500));
    let mut s = Schedule::new();
    let wait = p.site("waitpid", "make.c", 3);
    p.edit_thread(0).cpu(ms(5)).lives(0, ms(1500));
    s.runs(0, wait, ms(5));
    s.waits(0, Wait::new(OffReason::Child, wait), ms(1495));
    for i in 0..30 {
        p.process("cc1");
        let compile = p.site("compile", "cc1.c", 7);
        let start = ms(u64::from(i / 2) * 100);
        p.edit_thread(0).cpu(ms(90)).lives(start, start + ms(90));
        s.process(1 + i).starts(0, start);
        s.runs(0, compile, ms(90));
    }
    let mut profile = p.build();
    s.put_into(&mut profile);
    profile
}

/// Sections of two threads: a line that touches what both write, and one that touches the thread's own.
pub fn traced() -> Profile {
    let mut p = ProfileBuilder::new("server");
    let lock = p.mutex("big_lock");
    let site = p.site("work", "work.c", 10);
    let (count, prepare) = (p.frame("work", "work.c", 11), p.frame("work", "work.c", 12));
    let threads = ["a", "b"].map(|name| p.thread(name).start("work", "work.c", 1).id());
    let mut traces = Traces::new();
    for turn in 0..50 {
        for (own, &thread) in (1u64..).zip(&threads) {
            p.acquires(thread, lock, site, 1);
            let private = 0x7f55_0000_0000 + own * 0x1000 + turn % 8 * 8;
            let steps = [
                Step::Read(count, 0x7f55_0010_0000),
                Step::Write(count, 0x7f55_0010_0000),
                Step::Write(prepare, private),
                Step::Read(prepare, private),
            ];
            traces.section(&mut p, thread, lock, site, 50_000, &steps);
        }
    }
    let mut profile = p.build();
    traces.put(&mut profile);
    profile
}
