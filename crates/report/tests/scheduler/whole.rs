//! From a schedule through both rooms to the page, as the program does it.

use convoy_critical::{analyze, cross_check, merge};
use convoy_detect::Thresholds;
use convoy_model::{Model, OffReason, SpinKind};
use convoy_profile::Profile;
use convoy_report::text::{render, View};
use convoy_report::Report;
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::page;

/// The page of a profile with both rooms' findings put together.
fn text(profile: &Profile, view: View) -> String {
    let thresholds = Thresholds::default();
    let model = Model::build(profile);
    let mut analysis = convoy_detect::analyze(&model, &thresholds);
    let critical = analyze(&model, &convoy_critical::Thresholds::default());
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
