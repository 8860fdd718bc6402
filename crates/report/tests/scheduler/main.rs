//! Reports of recordings with scheduler events, byte for byte, and what holds for all of them.

mod cases;
mod whole;
mod world;

use convoy_analysis::Params;
use convoy_report::text::{render, Options, Source, View};
use convoy_report::{json, Report};
use convoy_testkit::assert_golden;
use unicode_width::UnicodeWidthStr;
use world::World;

/// Runs `check` on the report of a recording. Findings of both rooms are put together as the program does.
fn with_report(world: &World, check: impl FnOnce(&Report<'_>)) {
    let thresholds = Params::default();
    let mut analysis = convoy_analysis::counters::analyze(&world.model, &thresholds);
    analysis
        .findings
        .extend(world.critical.findings.iter().cloned());
    check(&Report {
        model: &world.model,
        analysis: &analysis,
        critical: Some(&world.critical),
        sections: None,
        thresholds: &thresholds,
    });
}

fn page(view: View) -> Options {
    Options {
        view,
        source: Source::File("run.convoy".into()),
        ..Options::default()
    }
}

fn text(world: &World, options: &Options) -> String {
    let mut text = String::new();
    with_report(world, |report| text = render(report, options).unwrap());
    text
}

fn golden(name: &str, world: &World, options: &Options) {
    let path = format!("../../tests/golden/report/sched-{name}.txt");
    assert_golden(path, &text(world, options));
}

type Case = (&'static str, fn() -> World);

const CASES: [Case; 9] = [
    ("serial", cases::serial_phase),
    ("spinning", cases::busy_waiting),
    ("io", cases::blocking_io),
    ("pipeline", cases::pipeline),
    ("nothing-wrong", cases::nothing_wrong),
    ("perf", cases::by_perf_events),
    ("lost", cases::lost_events),
    ("no-agent", cases::without_agent),
    ("hostile", cases::hostile),
];

#[test]
fn summaries() {
    for (name, case) in CASES {
        golden(name, &case(), &page(View::Summary));
    }
}

#[test]
fn pages() {
    for (name, case) in CASES {
        golden(&format!("{name}-page"), &case(), &page(View::Critical));
    }
}

#[test]
fn page_in_a_terminal() {
    let options = Options {
        color: true,
        unicode: true,
        width: 80,
        ..page(View::Critical)
    };
    golden("io-terminal", &cases::blocking_io(), &options);
}

#[test]
fn everything_has_the_pages_of_both_rooms() {
    golden("serial-all", &cases::serial_phase(), &page(View::All));
}

#[test]
fn json_is_golden_too() {
    with_report(&cases::blocking_io(), |report| {
        let text = json::render(report);
        assert_golden("../../tests/golden/report/sched-io.json", &text);
    });
}

#[test]
fn a_lock_page_says_how_parallel_the_program_was_meanwhile() {
    let mut world = cases::blocking_io();
    // A lock page needs a use of the lock.
    world.model.uses.push(convoy_model::Use {
        op: Some(convoy_profile::Op::MutexLock),
        calls: 80,
        waits: 76,
        wait_ns: 1_320_000_000,
        ..convoy_model::Use::default()
    });
    let text = text(&world, &page(View::Lock("wal_lock".into())));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // 1100 ms nobody, 100 ms one, 120 ms three of 1320 ms.
    assert!(
        text.contains("blocked on it for 1.32 s; meanwhile 0.3 threads worked on average")
            && text.contains("for 91 % of that time too few (fewer than 2.0)"),
        "{text}"
    );
}

#[test]
fn a_profile_without_scheduler_events_says_how_to_get_them() {
    let world = cases::without_agent();
    let thresholds = Params::default();
    let analysis = convoy_analysis::counters::analyze(&world.model, &thresholds);
    let report = Report {
        model: &world.model,
        analysis: &analysis,
        critical: None,
        sections: None,
        thresholds: &thresholds,
    };
    let why = render(&report, &page(View::Critical)).unwrap_err();
    assert!(
        why.contains("no scheduler events") && why.contains("sudo"),
        "{why}"
    );
}

#[test]
fn processes_without_the_agent_are_named_where_others_have_it() {
    let text = text(&cases::with_a_foreign_child(), &page(View::Summary));
    assert!(
        text.contains("who holds them in fetcher (950); to"),
        "{text}"
    );
}

#[test]
fn ten_thousand_threads_and_groups_are_summed_up() {
    let mut world = cases::busy_waiting();
    for rows in 0..10_000 {
        let mut thread = world.critical.threads[0].clone();
        thread.cm_ns = f64::from(10_000 - rows);
        world.critical.threads.push(thread);
        world.critical.groups.push(world.critical.groups[0].clone());
        world.critical.loops.push(world.critical.loops[0].clone());
        let mut path = world.critical.paths[0].clone();
        path.share = 0.001;
        world.critical.paths.push(path);
    }
    let text = text(&world, &page(View::Critical));
    assert!(text.contains("number 1 above"), "{text}");
    assert!(text.lines().count() < 250, "{}", text.lines().count());
    assert!(text.contains("and 9,980 more with a CMetric of "), "{text}");
    assert!(
        text.contains("and 10000 with less than 0.50 % of the run"),
        "{text}"
    );
    assert!(text.contains("and 9,989 more: --format json"), "{text}");
}

/// Names of a width that no page can change: longer words than the page is wide.
#[test]
fn lines_fit_every_width() {
    for (name, case) in CASES {
        for width in [40, 60, 80, 100, 132, 200] {
            for unicode in [false, true] {
                let options = Options {
                    width,
                    unicode,
                    ..page(View::Critical)
                };
                for line in text(&case(), &options).lines() {
                    let is_one_word = line.split_whitespace().count() == 1;
                    assert!(
                        line.width() <= width || is_one_word,
                        "{name} at {width}: {} columns: {line}",
                        line.width()
                    );
                }
            }
        }
    }
}

#[test]
fn without_unicode_all_is_ascii() {
    for (name, case) in CASES {
        for view in [View::Summary, View::All, View::Critical] {
            let text = text(&case(), &page(view));
            assert!(text.is_ascii(), "{name}: {text}");
        }
    }
}

#[test]
fn nothing_from_the_program_is_a_command_to_the_terminal() {
    for color in [false, true] {
        for view in [View::Summary, View::All, View::Critical] {
            let options = Options {
                color,
                unicode: true,
                ..page(view)
            };
            let text = text(&cases::hostile(), &options);
            // Ours are the only ones that are left out here.
            let ours = ["0", "1", "2", "31", "33", "1;32", "1;36"];
            let bare = ours.iter().fold(text.clone(), |text, code| {
                text.replace(&format!("\u{1b}[{code}m"), "")
            });
            let bad = bare
                .chars()
                .find(|c| *c != '\n' && (c.is_control() || *c == '\u{202e}'));
            assert_eq!(bad, None, "{text}");
            assert!(color || bare == text, "{text}");
        }
    }
}

#[test]
fn the_screen_is_not_exceeded() {
    for (name, case) in CASES {
        let lines = text(&case(), &page(View::Summary)).lines().count();
        assert!(lines <= 45, "{name}: {lines} lines");
    }
}
