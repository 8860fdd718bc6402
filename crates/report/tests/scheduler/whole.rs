//! From a schedule through both rooms to the page, as the program does it.

use convoy_analysis::arbitration::{cross_check, merge};
use convoy_analysis::scheduler::analyze;
use convoy_analysis::Params;
use convoy_model::{Model, OffReason, SpinKind};
use convoy_profile::Profile;
use convoy_report::text::{render, View};
use convoy_report::Report;
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::page;

/// The page of a profile with both rooms' findings put together.
fn text(profile: &Profile, view: View) -> String {
    let thresholds = Params::default();
    let model = Model::build(profile.clone());
    let mut analysis = convoy_analysis::counters::analyze(&model, &thresholds);
    let critical = analyze(&model, &convoy_analysis::Params::default());
    cross_check(&model, &critical, &mut analysis.findings);
    let (found, dismissed) = (
        std::mem::take(&mut analysis.findings),
        std::mem::take(&mut analysis.dismissed),
    );
    (analysis.findings, analysis.dismissed) = merge(&model, &critical, found, dismissed);
    let report = Report {
        model: &model,
        analysis: &analysis,
        critical: Some(&critical),
        sections: None,
        thresholds: &thresholds,
    };
    render(&report, &page(view)).unwrap()
}

fn finish(p: ProfileBuilder, s: Schedule) -> Profile {
    let mut profile = p.build();
    s.put_into(&mut profile);
    profile
}

/// The main thread prepares for 40 ms what four threads then do in 60 ms, ten times.
fn serial_phase() -> Profile {
    let mut p = ProfileBuilder::new("app");
    p.cpus(4).wall(ms(1000));
    let main = p.frame("main", "app.c", 90);
    let load = p.frame("load", "app.c", 40);
    let parse = p.frame("parse", "app.c", 44);
    let (serial, join) = (p.stack(&[parse, load, main]), p.stack(&[main]));
    let (work, idle) = (
        p.site("work", "app.c", 10),
        p.site("next_item", "app.c", 20),
    );
    let workers: Vec<_> = (0..4)
        .map(|_| p.thread("w").start("work", "app.c", 9).cpu(ms(600)).id())
        .collect();
    let mut s = Schedule::new();
    for _ in 0..10 {
        s.runs(0, serial, ms(40));
        let joins = Wait::futex(join, 0x200).woken_by(workers[0], work);
        s.waits(0, joins, ms(60));
        for &w in &workers {
            s.waits(w, Wait::futex(idle, 0x100).woken_by(0, serial), ms(40));
            s.runs(w, work, ms(60));
        }
    }
    finish(p, s)
}

/// Four threads compute for 6 ms, then wait for one that syncs a file for 4 ms.
fn blocking_io() -> Profile {
    let mut p = ProfileBuilder::new("app");
    p.cpus(4).wall(ms(1000));
    let (work, wait) = (p.site("work", "a.c", 10), p.site("next", "a.c", 20));
    let write = p.site("write_frame", "a.c", 33);
    let writer = p.thread("writer").start("writer", "a.c", 30).cpu(1).id();
    let workers: Vec<_> = (0..4)
        .map(|_| p.thread("w").start("work", "a.c", 9).cpu(ms(600)).id())
        .collect();
    let mut s = Schedule::new();
    let file = s.name("/var/out.y4m");
    for _ in 0..100 {
        let handed = Wait::futex(wait, 0x300).woken_by(workers[0], work);
        s.waits(writer, handed, ms(6));
        s.waits(writer, Wait::new(OffReason::Sync, write).named(file), ms(4));
        for &w in &workers {
            s.runs(w, work, ms(6));
            s.waits(w, Wait::futex(wait, 0x100).woken_by(writer, write), ms(4));
        }
    }
    finish(p, s)
}

/// Four threads take turns at a lock; whoever holds it syncs a file.
fn sync_under_a_lock() -> Profile {
    let mut p = ProfileBuilder::new("log");
    p.cpus(4).wall(ms(1600));
    let (put, sync) = (p.site("put", "l.c", 20), p.site("flush", "l.c", 24));
    let unlock = p.site("put", "l.c", 27);
    let held = p.frame("put", "l.c", 20);
    let work = p.site("work", "l.c", 5);
    let lock = p.mutex("log_lock");
    let address = p.raw().objects[lock as usize].addr;
    let threads: Vec<_> = (0..4)
        .map(|_| p.thread("w").start("w", "l.c", 1).cpu(ms(40)).id())
        .collect();
    for (i, &t) in threads.iter().enumerate() {
        let before = threads[(i + 3) % 4];
        p.contended(t, lock, put, 40, ms(1140))
            .held_by(before, held, unlock);
    }
    let mut s = Schedule::new();
    let file = s.name("/var/log/app.log");
    for turn in 0..160 {
        for (i, &t) in threads.iter().enumerate() {
            let before = threads[(i + 3) % 4];
            if turn % 4 == i {
                s.runs(t, work, ms(1));
                s.waits(t, Wait::new(OffReason::Sync, sync).named(file), ms(9));
            } else {
                s.waits(
                    t,
                    Wait::futex(put, address).woken_by(before, unlock),
                    ms(10),
                );
            }
        }
    }
    finish(p, s)
}

/// Two helpers spin on the two CPUs that the main thread needs.
fn busy_waiting() -> Profile {
    let mut p = ProfileBuilder::new("store");
    p.cpus(2).wall(ms(500));
    let (serve, help) = (p.site("serve", "r.c", 3), p.site("help", "r.c", 40));
    let frame = p.frame("io_thread_main", "r.c", 44);
    let look = p.stack(&[frame]);
    let helpers: Vec<_> = (0..2)
        .map(|_| p.thread("io").start("io", "r.c", 40).cpu(ms(500)).id())
        .collect();
    let mut s = Schedule::new();
    let wait = s.spin_loop(SpinKind::Polling, Some(frame));
    for _ in 0..50 {
        s.queues(0, serve, ms(8));
        s.runs(0, serve, ms(2));
        for &h in &helpers {
            s.runs(h, help, ms(1));
            s.spins(h, look, wait, ms(9));
        }
    }
    finish(p, s)
}

/// Runs of blanks as one: what is said, however it is wrapped.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_serial_phase_is_told_with_its_path_and_marked_in_time() {
    let profile = serial_phase();
    let summary = words(&text(&profile, View::Summary));
    assert!(summary.contains("[serial-code]"), "{summary}");
    assert!(
        summary.contains("code parse() app.c:44 < load() app.c:40 < main() app.c:90"),
        "{summary}"
    );
    assert!(
        summary.contains("one 40 % of the run, three or more 60 %"),
        "{summary}"
    );
    let page = text(&profile, View::Critical);
    assert!(page.contains("\n  a a a a a"), "{page}");
    assert!(
        words(&page).contains("1 40 % of the run parse() app.c:44"),
        "{page}"
    );
    assert!(
        !page.contains("work() app.c:10\n      CMetric 0 ns"),
        "{page}"
    );
}

#[test]
fn a_wait_for_a_disk_is_followed_from_those_who_wait_for_it() {
    let profile = blocking_io();
    let summary = words(&text(&profile, View::Summary));
    assert!(summary.contains("[blocking-io]"), "{summary}");
    assert!(
        summary.contains("code write_frame() a.c:33 file /var/out.y4m"),
        "{summary}"
    );
    let page = words(&text(&profile, View::Critical));
    assert!(
        page.contains(
            "because writer (1001) waited at write_frame() a.c:33, for /var/out.y4m (100 % of it)"
        ),
        "{page}"
    );
    // Pauses are no low parallelism: no code is to blame for them.
    assert!(page.contains("nowhere fewer than 2.5 for long"), "{page}");
    assert!(page.contains("parallelism was never low"), "{page}");
}

#[test]
fn a_loop_that_waits_is_told_with_what_it_burns() {
    let profile = busy_waiting();
    let summary = words(&text(&profile, View::Summary));
    assert!(summary.contains("[busy-waiting]"), "{summary}");
    assert!(
        summary.contains("loop io_thread_main() r.c:44 (store+0x1000-0x1010): only loads"),
        "{summary}"
    );
    let page = words(&text(&profile, View::Critical));
    assert!(
        page.contains("burns 900 ms of CPU time, 82 % of all"),
        "{page}"
    );
    assert!(
        page.contains("waits for serve() r.c:3 (number 1 above)"),
        "{page}"
    );
}

#[test]
fn a_lock_is_told_by_both_rooms_and_they_say_that_they_agree() {
    let profile = sync_under_a_lock();
    let summary = words(&text(&profile, View::Summary));
    // One fsync for several of them buys more than the lock alone.
    let (holder, lock) = summary.split_once("[contended-lock]").unwrap();
    assert!(holder.contains("[holder-off-cpu]"), "{summary}");
    assert!(
        lock.contains("the scheduler agrees: 100 % of the waits"),
        "{summary}"
    );
    assert!(holder.contains("code flush() l.c:24"), "{summary}");
    assert!(
        holder.contains("waits put() l.c:20; held since"),
        "{summary}"
    );
    let page = words(&text(&profile, View::Lock("log_lock".into())));
    assert!(
        page.contains("0.1 threads worked on average, and for 100 % of that time too few"),
        "{page}"
    );
}
