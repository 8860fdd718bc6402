//! Reports of fixed profiles, byte for byte. `CONVOY_BLESS=1 cargo test -p convoy-report` rewrites
//! them after a change that was meant; read the difference before it is committed.

use convoy_analysis::Params;
use convoy_model::Model;
use convoy_profile::{Collector, Exit, Op, Profile, Reason};
use convoy_report::text::{render, Options, Source, View};
use convoy_report::{json, Report};
use convoy_testkit::{assert_golden, ms, ns, us, ProfileBuilder};

/// Runs `check` on the report of a profile.
fn with_report(profile: &Profile, check: impl FnOnce(&Report<'_>)) {
    let thresholds = Params::default();
    let model = Model::build(profile.clone());
    let analysis = convoy_analysis::counters::analyze(&model, &thresholds);
    check(&Report {
        model: &model,
        analysis: &analysis,
        critical: None,
        sections: None,
        thresholds: &thresholds,
    });
}

fn golden(name: &str, profile: &Profile, options: &Options) {
    with_report(profile, |report| {
        let text = render(report, options).unwrap();
        let widest = text.lines().map(|l| l.chars().count()).max().unwrap_or(0);
        assert!(
            options.color || widest <= options.width,
            "{name}: {widest} columns\n{text}"
        );
        assert_golden(format!("../../tests/golden/report/{name}.txt"), &text);
    });
}

#[test]
fn a_ticket_has_each_finding_and_the_report_below() {
    with_report(&hot_lock(), |report| {
        let text = convoy_report::markdown::render(report, &page(View::Summary)).unwrap();
        assert_golden("../../tests/golden/report/ticket.md", &text);
    });
}

fn page(view: View) -> Options {
    Options {
        view,
        source: Source::File("run.convoy".into()),
        ..Options::default()
    }
}

/// Four workers, one lock held half of the time, two sites.
fn hot_lock() -> Profile {
    let mut p = ProfileBuilder::new("server");
    p.cpus(4).wall(ms(1000));
    let insert = p.frame("cache_insert", "src/cache.c", 41);
    let expire = p.frame("cache_expire", "src/cache.c", 88);
    let release = p.site("cache_insert", "src/cache.c", 52);
    let worker = p.frame("worker_main", "src/server.c", 120);
    let (at_insert, at_expire) = (p.stack(&[insert, worker]), p.stack(&[expire, worker]));
    let created = p.site("main", "src/server.c", 150);
    let lock = p.mutex("cache_lock");
    let quiet = p.mutex("config_lock");
    let workers: Vec<_> = (0..4)
        .map(|i| {
            p.thread(&format!("worker-{i}"))
                .start("worker_main", "src/server.c", 100)
                .created_at(created)
                .cpu(ms(520))
                .run_delay(ms(20))
                .id()
        })
        .collect();
    for (i, &w) in workers.iter().enumerate() {
        let next = workers[(i + 1) % workers.len()];
        p.acquires(w, lock, at_insert, 60_000)
            .hold(us(3))
            .cost(ns(45));
        p.contended(w, lock, at_insert, 2_000, ms(300))
            .held_by(next, expire, release)
            .hold(us(4));
        p.contended(w, lock, at_expire, 500, ms(110))
            .held_by(next, insert, release)
            .hold(us(9));
        p.acquires(w, quiet, at_expire, 40).hold(ns(80));
        p.join(
            p.main_thread(),
            w,
            created,
            if i == 0 { ms(990) } else { us(3) },
        );
    }
    p.build()
}

/// Two readers, one slow transformer, two writers, linked by condition variables.
fn pipeline() -> Profile {
    let mut p = ProfileBuilder::new("encode");
    p.cpus(8).wall(ms(2000));
    let created = p.site("main", "encode.c", 90);
    let (put, take) = (
        p.site("queue_put", "queue.c", 20),
        p.site("queue_take", "queue.c", 40),
    );
    let (raw, done) = (p.cond("raw_ready"), p.cond("done_ready"));
    let group = |p: &mut ProfileBuilder, name: &str, line: u32, n: u32, cpu: u64| -> Vec<_> {
        (0..n)
            .map(|i| {
                p.thread(&format!("{name}-{i}"))
                    .start(name, "encode.c", line)
                    .created_at(created)
                    .cpu(cpu)
                    .id()
            })
            .collect()
    };
    let readers = group(&mut p, "reader", 10, 2, ms(150));
    let coders = group(&mut p, "coder", 30, 1, ms(1950));
    let writers = group(&mut p, "writer", 50, 2, ms(120));
    for &reader in &readers {
        p.cond_waits(reader, raw, put, 900, ms(1840))
            .woken_by(coders[0], take);
    }
    for &writer in &writers {
        p.cond_waits(writer, done, take, 900, ms(1870))
            .woken_by(coders[0], put);
    }
    p.op(coders[0], raw, take, Op::CondSignal, 1_800);
    p.op(coders[0], done, put, Op::CondSignal, 1_800);
    p.build()
}

/// Many acquisitions, nothing to gain.
fn clean() -> Profile {
    let mut p = ProfileBuilder::new("tool");
    p.cpus(2).wall(ms(500));
    let created = p.site("main", "tool.c", 9);
    for i in 0..2 {
        let lock = p.mutex(&format!("shard{i}"));
        let at = p.site("update", "tool.c", 30);
        let t = p
            .thread(&format!("w{i}"))
            .start("work", "tool.c", 20)
            .created_at(created)
            .cpu(ms(495))
            .id();
        p.acquires(t, lock, at, 1_050_000).hold(ns(30)).cost(ns(14));
    }
    p.build()
}

/// Everything that can be wrong with a recording.
fn troubled() -> Profile {
    let mut p = ProfileBuilder::new("launcher");
    p.cpus(2).wall(ms(300)).exit(Exit::Signal(11));
    p.meta().command.push("--name=\u{1b}[31mred\u{7}".into());
    p.meta()
        .notes
        .push("the clock was set back by 3 ms during the run".into());
    p.meta().collectors.push(Collector {
        name: "kernel".into(),
        active: false,
        lost: "why threads are off the CPU outside of locks".into(),
        enable: "sudo convoy record -- COMMAND".into(),
    });
    p.process("größer");
    let stripped = p.module("/usr/lib/libstripped.so.1");
    let nameless = p.unknown_frame(Some(stripped), Reason::NoSymbol);
    let (at, jit) = (
        p.stack(&[nameless]),
        p.unknown_frame(None, Reason::NoModule),
    );
    let at_jit = p.stack(&[jit]);
    let lock = p.mutex("m");
    let a = p
        .thread("a\u{1b}]0;x")
        .start("run", "a.c", 1)
        .cpu(ms(100))
        .id();
    let b = p.thread("b").start("run", "a.c", 1).cpu(ms(100)).id();
    p.acquires(a, lock, at, 1_000);
    p.contended(b, lock, at_jit, 300, ms(150));
    p.raw().drops = vec![("reentrant".into(), 3), ("stack-no-rule".into(), 12)];
    p.build()
}

#[test]
fn hot_lock_summary() {
    golden("hot-lock", &hot_lock(), &page(View::Summary));
}

#[test]
fn hot_lock_in_a_terminal() {
    let options = Options {
        color: true,
        unicode: true,
        width: 80,
        source: Source::Live,
        ..Options::default()
    };
    golden("hot-lock-terminal", &hot_lock(), &options);
}

#[test]
fn hot_lock_page() {
    golden(
        "hot-lock-page",
        &hot_lock(),
        &page(View::Lock("cache_lock".into())),
    );
}

/// A lock that is waited for at one line, which two functions call.
fn two_callers() -> Profile {
    let mut p = ProfileBuilder::new("shop");
    p.cpus(4).wall(ms(1000));
    let (take, big) = (p.frame("take", "shop.c", 7), p.mutex("big_lock"));
    let unlock = p.site("take", "shop.c", 9);
    let threads = ["a", "b"].map(|name| p.thread(name).start("w", "shop.c", 1).cpu(ms(400)).id());
    for (function, line, wait_ns) in [("order", 20, ms(300)), ("bill", 30, ms(100))] {
        let caller = p.frame(function, "shop.c", line);
        let at = p.stack(&[take, caller]);
        p.acquires(threads[0], big, at, 100).hold(us(900));
        p.contended(threads[0], big, at, 50, wait_ns)
            .held_by(threads[1], take, unlock);
    }
    p.build()
}

#[test]
fn places_that_read_the_same_are_a_line() {
    let options = page(View::Lock("big_lock".into()));
    golden("two-callers-page", &two_callers(), &options);
    golden("two-callers-all", &two_callers(), &page(View::All));
}

#[test]
fn hot_lock_all() {
    golden("hot-lock-all", &hot_lock(), &page(View::All));
}

#[test]
fn pipeline_summary() {
    golden("pipeline", &pipeline(), &page(View::Summary));
}

#[test]
fn pipeline_groups() {
    golden("pipeline-groups", &pipeline(), &page(View::ThreadGroups));
}

#[test]
fn clean_summary_explains_itself() {
    golden("clean", &clean(), &page(View::Summary));
}

#[test]
fn troubled_summary_says_what_is_missing() {
    golden(
        "troubled",
        &troubled(),
        &Options {
            width: 72,
            ..page(View::Summary)
        },
    );
}

/// Four workers without a lock that is seen; what they do shows in the kernel's counters only.
fn unexplained() -> Profile {
    let mut p = ProfileBuilder::new("allocating");
    p.cpus(2).wall(ms(1000));
    for i in 0..4 {
        p.thread(&format!("worker-{i}"))
            .cpu(ms(300))
            .sys(ms(180))
            .run_delay(ms(300));
    }
    p.edit_thread(0).lives(0, ms(1)).cpu(ms(1));
    let mut profile = p.build();
    for thread in &mut profile.processes[0].threads[1..] {
        thread.voluntary_switches = 12_000;
    }
    profile.meta.collectors.push(Collector {
        name: "scheduler".into(),
        active: false,
        lost: "who woke whom (not asked for)".into(),
        enable: "--scheduler auto".into(),
    });
    profile
}

#[test]
fn what_was_not_seen_is_said_and_not_ruled_out() {
    golden("not-explained", &unexplained(), &page(View::Summary));
}

#[test]
fn reasons_to_look_further_are_said_beside_a_finding() {
    let mut profile = unexplained();
    let mut p = ProfileBuilder::new("allocating");
    let (lock, at) = (p.mutex("m"), p.site("f", "f.c", 1));
    p.thread("worker-0");
    p.thread("worker-1");
    for thread in 1..=2 {
        p.acquires(thread, lock, at, 1_000);
        p.contended(thread, lock, at, 500, ms(250));
    }
    let locks = p.build().processes.remove(0);
    let process = &mut profile.processes[0];
    process.objects = locks.objects;
    process.counts = locks.counts;
    process.details = locks.details;
    process.modules = locks.modules;
    process.frames = locks.frames;
    process.stacks = locks.stacks;
    golden(
        "not-explained-beside-a-finding",
        &profile,
        &page(View::Summary),
    );
}

/// Eight threads on two CPUs that spin on a trylock which nearly always fails.
#[test]
fn spinning_on_trylock_is_judged_without_events() {
    let mut p = ProfileBuilder::new("barrier");
    p.cpus(2).wall(ms(1000));
    let lock = p.mutex("gate");
    let at = p.site("arrive", "barrier.c", 7);
    for i in 0..8 {
        let t = p
            .thread(&format!("worker-{i}"))
            .cpu(ms(248))
            .run_delay(ms(752))
            .id();
        p.trylocks(t, lock, at, 2_000_000, 1_980_000).busy(ms(200));
    }
    p.edit_thread(0).lives(0, ms(1)).cpu(ms(1));
    let mut profile = p.build();
    for thread in &mut profile.processes[0].threads[1..] {
        thread.involuntary_switches = 62;
    }
    golden("trylock-spin", &profile, &page(View::Summary));
}

#[test]
fn nothing_recorded() {
    let mut profile = clean();
    profile.processes.clear();
    golden("nothing", &profile, &page(View::Summary));
}

#[test]
fn the_screen_is_not_exceeded() {
    for profile in [hot_lock(), pipeline(), clean(), troubled()] {
        with_report(&profile, |report| {
            let lines = render(report, &page(View::Summary))
                .unwrap()
                .lines()
                .count();
            assert!(lines <= 45, "{lines} lines");
        });
    }
}

#[test]
fn locks_are_found_by_name_part_address_site_and_expression() {
    with_report(&hot_lock(), |report| {
        let find = |pattern: &str| render(report, &page(View::Lock(pattern.into())));
        let whole = find("cache_lock").unwrap();
        let address = report
            .model
            .objects
            .iter()
            .find(|o| o.name == "cache_lock")
            .unwrap()
            .addr;
        for pattern in [
            "cache_loc",
            "^cache.*k$",
            "cache_insert",
            &format!("0x{address:x}"),
        ] {
            assert_eq!(find(pattern).as_ref(), Ok(&whole), "{pattern}");
        }
        let both = find("_lock").unwrap();
        assert!(
            both.starts_with("cache_lock") && both.contains("\nconfig_lock\n"),
            "{both}"
        );
        assert!(
            find("nowhere").unwrap_err().contains("none of"),
            "{:?}",
            find("nowhere")
        );
        assert!(
            find("*[").unwrap_err().contains("no regular expression"),
            "{:?}",
            find("*[")
        );
    });
}

#[test]
fn names_from_the_program_never_reach_the_terminal_as_commands() {
    for color in [false, true] {
        with_report(&troubled(), |report| {
            for view in [
                View::Summary,
                View::All,
                View::ThreadGroups,
                View::Lock("m".into()),
            ] {
                let text = render(
                    report,
                    &Options {
                        color,
                        unicode: true,
                        ..page(view)
                    },
                )
                .unwrap();
                let ours = text.replace("\u{1b}[0m", "");
                let foreign = ours.split("\u{1b}[").skip(1).any(|rest| {
                    let code = rest.split('m').next().unwrap_or_default();
                    !["1", "2", "31", "33", "1;32", "1;36"].contains(&code)
                });
                assert!(
                    !foreign && !text.contains('\u{7}') && !text.contains("\u{1b}]"),
                    "{text}"
                );
                // The command asks for red, which is one of ours: it must not be followed by its text.
                assert!(!text.contains("\u{1b}[31mred"), "{text}");
            }
        });
    }
}

#[test]
fn json_is_golden_too() {
    with_report(&hot_lock(), |report| {
        assert_golden(
            "../../tests/golden/report/hot-lock.json",
            &json::render(report),
        );
    });
}
