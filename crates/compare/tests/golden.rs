//! Comparisons of fixed profiles, byte for byte. `CONVOY_BLESS=1 cargo test -p convoy-compare` rewrites them after
//! a change that was meant; read the difference before it is committed.

use convoy_analysis::Params;
use convoy_compare::{
    compare, json, markdown, sarif, text, Comparison, Error, File, Gate, Limit, Summary,
};
use convoy_model::Model;
use convoy_profile::{Exit, Op, Profile, ReadWarning};
use convoy_report::Report;
use convoy_testkit::{assert_golden, ms, us, ProfileBuilder};

fn summary(name: &str, profile: &Profile) -> Summary {
    read(name, profile, &[])
}

/// Of a file that could be read with these warnings.
fn read(name: &str, profile: &Profile, damage: &[ReadWarning]) -> Summary {
    let thresholds = Params::default();
    let model = Model::build(profile.clone());
    let analysis = convoy_analysis::counters::analyze(&model, &thresholds);
    Summary::of(
        name,
        &Report {
            model: &model,
            analysis: &analysis,
            critical: None,
            sections: None,
            thresholds: &thresholds,
        },
    )
    .with_file(&File::of(profile, damage))
}

/// How a server is built, and how it runs.
#[derive(Debug, Clone, Copy)]
struct Build {
    /// Length of the run, and of the waits of each worker for the cache's lock.
    wall: u64,
    waits: u64,
    /// What a rebuild changes: lines, directories, addresses.
    moved: u32,
    /// A second lock is taken and waited for.
    logs: bool,
}

const SLOW: Build = Build {
    wall: ms(1000),
    waits: ms(410),
    moved: 0,
    logs: false,
};
const FAST: Build = Build {
    wall: ms(640),
    waits: ms(18),
    moved: 7,
    logs: false,
};

/// Four workers, a lock that is initialised in a function and taken at two places of another.
fn server(build: Build) -> Profile {
    let mut p = ProfileBuilder::new("server");
    p.cpus(4).wall(build.wall);
    let dir = if build.moved > 0 {
        "/build/b/src"
    } else {
        "/build/a/src"
    };
    let cache = format!("{dir}/cache.c");
    for i in 0..build.moved {
        p.frame(&format!("new_{i}"), &cache, i + 1);
    }
    let line = |line: u32| line + build.moved;
    let insert = p.frame("cache_insert", &cache, line(41));
    let again = p.frame("cache_insert", &cache, line(60));
    let worker = p.frame("worker_main", &format!("{dir}/server.c"), 120);
    let (first, second) = (p.stack(&[insert, worker]), p.stack(&[again, worker]));
    let created = p.site("main", &format!("{dir}/server.c"), 150);
    let init = p.site("cache_new", &cache, line(12));
    let lock = p.mutex("");
    {
        let object = &mut p.raw().objects[lock as usize];
        (object.symbol, object.init_stack) = (None, init);
    }
    let log = build.logs.then(|| p.mutex("log_lock"));
    let write = p.site("log_write", &format!("{dir}/log.c"), 9);
    for i in 0..4 {
        let w = p
            .thread(&format!("worker-{i}"))
            .start("worker_main", &format!("{dir}/server.c"), 100)
            .created_at(created)
            .cpu(build.wall - build.waits - ms(5))
            .run_delay(ms(1))
            .id();
        p.acquires(w, lock, first, 60_000).hold(us(2));
        let each = build.waits * 3 / 4;
        p.contended(w, lock, first, 1_500, each)
            .held_by(w, insert, first)
            .hold(us(3));
        p.contended(w, lock, second, 500, build.waits - each)
            .hold(us(5));
        if let Some(log) = log {
            p.op(w, log, write, Op::MutexLock, 9_000);
            p.contended(w, log, write, 900, ms(200)).hold(us(200));
        }
    }
    p.build()
}

fn compared(before: &[Build], after: &[Build]) -> Comparison {
    let summaries = |side: &str, builds: &[Build]| -> Vec<Summary> {
        let runs = builds.iter().enumerate();
        runs.map(|(n, build)| summary(&format!("{side}-{n}.convoy"), &server(*build)))
            .collect()
    };
    compare(&summaries("before", before), &summaries("after", after)).unwrap()
}

fn golden(name: &str, got: &str) {
    assert_golden(format!("../../tests/golden/diff/{name}"), got);
}

fn gate(limits: &[&str], c: &Comparison) -> Gate {
    let limits: Vec<Limit> = limits.iter().map(|limit| limit.parse().unwrap()).collect();
    Gate::of(&limits, c)
}

fn wall(build: Build, wall_ms: u64) -> Build {
    Build {
        wall: ms(wall_ms),
        ..build
    }
}

#[test]
fn a_fix_in_another_build_is_told_with_an_interval() {
    let before = [wall(SLOW, 1000), wall(SLOW, 1030), wall(SLOW, 985)];
    let after = [wall(FAST, 640), wall(FAST, 655), wall(FAST, 630)];
    let c = compared(&before, &after);
    golden("fix.txt", &text(&c, &Gate::default(), true));
    golden("fix.json", &json(&c, &Gate::default()));
    golden("fix.md", &markdown(&c, &Gate::default()));
    golden("fix.sarif", &sarif(&c, &Gate::default(), "0.0.0-test"));
    // Nothing of the lock is lost or new for the lines alone.
    let lock = &c.locks[0];
    assert!(lock
        .sites
        .iter()
        .all(|s| s.before.is_some() && s.after.is_some()));
    assert!(c.sentence.starts_with("Faster by 57 % ("), "{}", c.sentence);
}

#[test]
fn a_regression_trips_the_gate() {
    let worse = Build { logs: true, ..SLOW };
    let c = compared(&[FAST], &[worse]);
    let limits = [
        "lock.wait_share>+5pp",
        "wall>+3%",
        "findings.new>0",
        "lock[log].wait>1ms",
    ];
    let gate = gate(&limits, &c);
    golden("regression.txt", &text(&c, &gate, false));
    golden("regression.sarif", &sarif(&c, &gate, "0.0.0-test"));
    assert!(
        gate.breaches.len() >= 5 && gate.not_judged.is_empty(),
        "{gate:?}"
    );
    assert_eq!(
        c.wall_ns.speed_interval(),
        None,
        "one run a side claims no interval"
    );
}

#[test]
fn the_same_runs_differ_in_nothing() {
    let c = compared(&[SLOW], &[Build { moved: 9, ..SLOW }]);
    golden("same.txt", &text(&c, &Gate::default(), false));
    let limits = [
        "lock.wait_share>+1pp",
        "wall>+1%",
        "cpu>+1%",
        "findings.new>0",
        "gain>+1%",
    ];
    assert_eq!(gate(&limits, &c), Gate::default());
}

#[test]
fn what_cannot_be_compared_is_said() {
    let full = summary("full.convoy", &server(SLOW));
    let empty = summary("empty.convoy", &Profile::default());
    assert_eq!(
        compare(std::slice::from_ref(&full), &[empty]),
        Err(Error::Nothing {
            name: "empty.convoy".into(),
            why: "no process was recorded".into(),
        })
    );
    assert_eq!(
        compare(std::slice::from_ref(&full), &[]),
        Err(Error::NoRuns("after"))
    );
    let mut attached = server(SLOW);
    attached.meta.exit = Exit::Running;
    attached.meta.machine.cpus_allowed = 8;
    let c = compare(&[full], &[summary("attached.convoy", &attached)]).unwrap();
    golden("remarks.txt", &text(&c, &Gate::default(), false));
    assert!(!c.sentence.contains("aster"), "{}", c.sentence);
}

/// Limits that are not judged, with the reason.
fn doubts(gate: &Gate) -> Vec<(&str, &str)> {
    let open = gate.not_judged.iter();
    open.map(|open| (open.limit.as_str(), open.doubt.why.as_str()))
        .collect()
}

#[test]
fn what_the_comparison_cannot_know_is_not_judged() {
    let mut attached = server(SLOW);
    attached.meta.exit = Exit::Running;
    let [attached, full] = [
        ("attached.convoy", &attached),
        ("full.convoy", &server(SLOW)),
    ]
    .map(|(name, profile)| summary(name, profile));
    let limits = [
        "wall>+3%",
        "wall>1ms",
        "cpu>+3%",
        "lock.wait>+3%",
        "lock.wait_share>+5pp",
        "findings.new>0",
        "gain>+1%",
    ];
    let c = compare(std::slice::from_ref(&attached), std::slice::from_ref(&full)).unwrap();
    let judged = gate(&limits, &c);
    golden("not-judged.txt", &text(&c, &judged, false));
    golden("not-judged.md", &markdown(&c, &judged));
    golden("not-judged.json", &json(&c, &judged));
    golden("not-judged.sarif", &sarif(&c, &judged, "0.0.0-test"));
    // A value after needs nothing of the run before.
    let found: Vec<_> = judged.breaches.iter().map(|b| b.limit.as_str()).collect();
    assert_eq!(found, ["wall>1ms"]);
    let open: Vec<_> = doubts(&judged).into_iter().map(|d| d.0).collect();
    assert_eq!(open, ["wall>+3%", "cpu>+3%", "lock.wait>+3%"]);
    let backwards = gate(&["wall>1ms"], &compare(&[full], &[attached]).unwrap());
    assert_eq!(doubts(&backwards).len(), 1);
}

#[test]
fn a_recorder_that_was_killed_does_not_know_how_long_the_program_ran() {
    let mut killed = server(FAST);
    killed.meta.exit = Exit::Unknown;
    let full = summary("full.convoy", &server(SLOW));
    let c = compare(&[full], &[summary("killed.convoy", &killed)]).unwrap();
    assert!(!c.sentence.contains("aster"), "{}", c.sentence);
    let gate = gate(&["wall>1ms", "lock.contended>0", "lock.wait_share>1%"], &c);
    assert_eq!(gate.breaches.len(), 1, "{gate:?}");
    assert!(doubts(&gate)
        .iter()
        .all(|(_, why)| why.starts_with("killed.convoy: its end was not seen")));
}

#[test]
fn what_was_recorded_in_some_runs_only_is_not_judged() {
    let limits = [
        "lock.wait_share>+5pp",
        "lock.wait_share>5%",
        "locks.wait_share>+1pp",
        "findings.new>0",
        "findings>0",
        "wall>+3%",
    ];
    let full = summary("full.convoy", &server(SLOW));
    let open = |other: &Summary| -> Vec<String> {
        let sides = [std::slice::from_ref(other), std::slice::from_ref(&full)];
        let gate = gate(&limits, &compare(sides[0], sides[1]).unwrap());
        doubts(&gate).iter().map(|(l, _)| (*l).to_owned()).collect()
    };
    let mut blind = full.clone();
    blind.locks_seen = false;
    assert_eq!(
        open(&blind),
        [
            "lock.wait_share>+5pp",
            "locks.wait_share>+1pp",
            "findings.new>0"
        ]
    );
    let mut heard = full.clone();
    heard.listened = true;
    assert_eq!(open(&heard), ["findings.new>0"]);
    // A limit on locks would hold for ever where none are recorded.
    let c = compare(std::slice::from_ref(&blind), std::slice::from_ref(&blind)).unwrap();
    let gate = gate(&["lock.wait_share>5%"], &c);
    let [(_, why)] = doubts(&gate)[..] else {
        panic!("{gate:?}")
    };
    assert!(why.contains("no process carried the agent"), "{why}");
}

#[test]
fn a_lock_that_is_nowhere_is_not_judged_and_one_that_went_is() {
    let logs = Build { logs: true, ..SLOW };
    let limits = ["lock[log_lcok].wait>1ms", "lock[log_lock].wait>1ms"];
    let went = gate(&limits, &compared(&[logs], &[FAST]));
    assert_eq!(
        doubts(&went),
        [(
            "lock[log_lcok].wait>1ms",
            "no lock of either side is called log_lcok, so that the limit could only hold; locks there are: mutex initialised in cache_new() cache.c:19, log_lock"
        )]
    );
    assert_eq!(went.breaches, [], "nothing waits for a lock that is gone");
    let gone = gate(&limits, &compared(&[FAST], &[FAST]));
    assert_eq!(doubts(&gone).len(), 2);
    // A rebuild gives it another name: either will do.
    for name in ["cache.c:12", "cache.c:19"] {
        let named = [format!("lock[{name}].wait>1s")];
        let named: Vec<_> = named.iter().map(String::as_str).collect();
        assert_eq!(gate(&named, &compared(&[SLOW], &[FAST])), Gate::default());
    }
}

/// A rebuilt server under another name.
fn renamed(build: Build, name: &str) -> Profile {
    let mut profile = server(build);
    profile.meta.command = vec![format!("/build/{name}")];
    let process = &mut profile.processes[0];
    process.exe = format!("/build/{name}");
    process.modules[0].path.clone_from(&process.exe);
    process.modules[0].build_id = name.bytes().collect();
    profile
}

/// A program that has nothing of the server.
fn other() -> Profile {
    let mut p = ProfileBuilder::new("packer");
    p.cpus(4).wall(ms(640));
    let site = p.site("pack_block", "/build/pack.c", 7);
    let lock = p.mutex("blocks");
    let w = p.thread("packer").cpu(ms(600)).id();
    p.acquires(w, lock, site, 5_000).hold(us(2));
    let mut profile = p.build();
    profile.processes[0].modules[0].build_id = vec![7];
    profile
}

#[test]
fn different_programs_have_no_cause_in_common() {
    let [before, after] = [
        ("server.convoy", &server(SLOW)),
        ("packer.convoy", &other()),
    ]
    .map(|(name, profile)| [summary(name, profile)]);
    let c = compare(&before, &after).unwrap();
    assert_eq!(
        c.sentence,
        "These are different programs, server before and packer after (run time 1.00 s before, 640 ms after)."
    );
    let limits = [
        "wall>+3%",
        "wall>1ms",
        "findings.new>0",
        "lock[blocks].acquisitions<1",
    ];
    let gate = gate(&limits, &c);
    golden("different.txt", &text(&c, &gate, false));
    let open: Vec<_> = doubts(&gate).into_iter().map(|d| d.0).collect();
    assert_eq!(open, ["wall>+3%", "findings.new>0"]);
    assert_eq!(gate.breaches.len(), 1, "{gate:?}");
}

#[test]
fn a_program_under_another_name_is_the_same_by_its_code_or_build() {
    let before = [summary("server.convoy", &server(SLOW))];
    let mut copied = other();
    copied.processes[0].modules[0].build_id = server(SLOW).processes[0].modules[0].build_id.clone();
    for (after, why) in [(renamed(FAST, "server.new"), "code"), (copied, "build-id")] {
        let c = compare(&before, &[summary("after.convoy", &after)]).unwrap();
        assert_eq!(c.different, None, "the same {why}");
        assert!(c.sentence.starts_with("Faster by"), "{}", c.sentence);
        assert!(
            c.remarks[1].contains("but by build or code"),
            "{:?}",
            c.remarks
        );
    }
    // The folder is no part of the name.
    let mut moved = other();
    moved.meta.command = vec!["/elsewhere/server".into()];
    let c = compare(&before, &[summary("after.convoy", &moved)]).unwrap();
    assert_eq!(c.different, None);
}

/// A file that ends before it should.
fn cut(name: &str, profile: &Profile) -> Summary {
    let bytes = profile.to_bytes().unwrap();
    let (profile, damage) = Profile::read(&bytes[..bytes.len() - 40]).unwrap();
    assert!(!damage.is_empty());
    read(name, &profile, &damage)
}

#[test]
fn a_file_that_is_cut_is_named_and_only_its_run_time_is_judged() {
    let full = [summary("full.convoy", &server(SLOW))];
    let damage = [ReadWarning::Truncated { bytes: 150_000 }];
    let after = read("cut.convoy", &server(FAST), &damage);
    let c = compare(&full, std::slice::from_ref(&after)).unwrap();
    let limits = [
        "wall<-3%",
        "cpu>+90%",
        "lock.wait_share>1%",
        "lock.contended>1",
        "findings>0",
    ];
    let judged = gate(&limits, &c);
    golden("cut.txt", &text(&c, &judged, false));
    golden("cut.md", &markdown(&c, &judged));
    golden("cut.json", &json(&c, &judged));
    golden("cut.sarif", &sarif(&c, &judged, "0.0.0-test"));
    assert_eq!(judged.breaches.len(), 1, "{judged:?}");
    let open = doubts(&judged);
    assert!(
        open.iter()
            .all(|(_, why)| why.starts_with("cut.convoy is not whole")),
        "{open:?}"
    );
    assert!(!c.sentence.contains("because"), "{}", c.sentence);
    // CPU time that is added up from threads is no more than theirs.
    let mut summed = server(FAST);
    (summed.meta.cpu_user_ns, summed.meta.cpu_sys_ns) = (0, 0);
    let c = compare(&full, &[read("cut.convoy", &summed, &damage)]).unwrap();
    assert_eq!(doubts(&gate(&["cpu>+90%"], &c)).len(), 1);
    // A run before that is cut leaves the values after as they are.
    let c = compare(&[cut("cut.convoy", &server(SLOW))], &full).unwrap();
    let gate = gate(&["lock.wait_share>1%", "findings.new>0"], &c);
    assert_eq!((gate.breaches.len(), gate.not_judged.len()), (1, 1));
}

#[test]
fn what_is_left_out_of_a_file_without_harm_is_no_damage() {
    let full = [summary("full.convoy", &server(SLOW))];
    let newer = ReadWarning::UnknownSection {
        tag: "NEXT".into(),
        offset: 9,
    };
    let after = [read("newer.convoy", &server(FAST), &[newer])];
    let c = compare(&full, &after).unwrap();
    assert!(c.sentence.contains("because"), "{}", c.sentence);
    assert!(c.runs().all(|run| run.lost.is_empty()));
}
