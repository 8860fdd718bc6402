//! What the bands of the first screen mark, by the subject of the finding.

use super::*;
use convoy_analysis::counters::Analysis;
use convoy_analysis::Params;
use convoy_model::finding::{Gain, Subject};
use convoy_model::{Model, ObjectId};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

/// The first of two threads holds a lock for the first half, in which the second one waits for
/// it; then both work.
fn model() -> Model {
    let mut p = ProfileBuilder::new("p");
    p.wall(ms(100));
    let (lock, take) = (p.mutex("L"), p.site("take", "p.c", 3));
    let address = p.raw().objects[lock as usize].addr;
    let work = p.site("work", "p.c", 5);
    let holder = p.thread("holder").start("hold", "p.c", 1).cpu(ms(100)).id();
    let waiter = p.thread("waiter").start("wait", "p.c", 2).cpu(ms(50)).id();
    p.contended(waiter, lock, take, 1, ms(50));
    let mut s = Schedule::new();
    s.runs(holder, work, ms(100));
    s.waits(
        waiter,
        Wait::futex(take, address).woken_by(holder, work),
        ms(50),
    );
    s.runs(waiter, work, ms(50));
    let mut profile = p.build();
    s.put_into(&mut profile);
    Model::build(profile)
}

fn bands_of(model: &Model, subject: Subject) -> Bands {
    bands_with(model, subject, None)
}

fn bands_with(
    model: &Model,
    subject: Subject,
    critical: Option<&convoy_analysis::scheduler::Analysis>,
) -> Bands {
    let finding = Finding {
        id: convoy_model::FindingId::ContendedLock,
        subject,
        title: String::new(),
        evidence: Vec::new(),
        causes: Vec::new(),
        undecided: String::new(),
        gain: Gain::none("", ""),
        share_of_thread_time: 0.0,
        caveats: Vec::new(),
    };
    let thresholds = Params::default();
    let analysis = convoy_analysis::counters::analyze(model, &thresholds);
    let report = Report {
        model,
        analysis: &analysis,
        critical,
        sections: None,
        thresholds: &thresholds,
    };
    bands(&report, Some(&finding), &Roles::of(model)).unwrap()
}

fn sums(bands: &Bands, role: &str, model: &Model) -> [u64; 3] {
    let roles = Roles::of(model);
    let own = |band: &&Band| {
        band.role
            .is_some_and(|at| roles.list[at].name.contains(role))
    };
    let band = bands.bands.iter().find(own).unwrap();
    [Part::Culprit, Part::Blocked, Part::Running].map(|part| (band.sum(part) / 1e6).round() as u64)
}

#[test]
fn the_holder_of_a_lock_and_its_waiters_are_marked() {
    let model = model();
    let bands = bands_of(&model, Subject::Object(ObjectId(0)));
    assert_eq!(sums(&bands, "hold", &model), [50, 0, 50]);
    assert_eq!(sums(&bands, "wait", &model), [0, 50, 50]);
    assert_eq!(bands.culprit, "holds L while others wait");
    let first = &bands.bands[0].columns;
    assert!(first[0][0] + first[0][1] > 0.0, "the lock is held at first");
    assert_eq!(
        first[COLUMNS - 1][0] + first[COLUMNS - 1][1],
        0.0,
        "and not at the end"
    );
}

#[test]
fn waits_while_a_straggler_runs_are_marked() {
    let model = model();
    let holder = model
        .threads
        .iter()
        .position(|t| t.name == "holder")
        .unwrap();
    let bands = bands_of(&model, Subject::Thread(ThreadId(holder as u32)));
    assert_eq!(sums(&bands, "hold", &model), [100, 0, 0]);
    assert_eq!(sums(&bands, "wait", &model), [0, 50, 50]);
}

#[test]
fn waits_of_background_threads_are_not_marked() {
    let model = model();
    let holder = model
        .threads
        .iter()
        .position(|t| t.name == "holder")
        .unwrap();
    let holder = ThreadId(holder as u32);
    let critical = convoy_analysis::scheduler::Analysis {
        threads: vec![convoy_analysis::scheduler::ThreadRow {
            thread: holder,
            worker: true,
            ..Default::default()
        }],
        ..Default::default()
    };
    let bands = bands_with(&model, Subject::Thread(holder), Some(&critical));
    assert_eq!(sums(&bands, "wait", &model), [0, 0, 50]);
    assert_eq!(bands.blocked, "", "the legend has what is there");
}

#[test]
fn the_limiting_stage_is_the_one_that_the_scheduler_saw_busy() {
    let model = model();
    let group = |name| model.threads.iter().find(|t| t.name == name).unwrap().group;
    let row = |name, running_ns| convoy_analysis::scheduler::GroupRow {
        group: group(name),
        life_ns: ms(100),
        running_ns,
        ..Default::default()
    };
    let critical = convoy_analysis::scheduler::Analysis {
        groups: vec![row("waiter", ms(50)), row("holder", ms(100))],
        threads: ["waiter", "holder"]
            .map(|name| convoy_analysis::scheduler::ThreadRow {
                thread: ThreadId(model.threads.iter().position(|t| t.name == name).unwrap() as u32),
                worker: true,
                ..Default::default()
            })
            .to_vec(),
        ..Default::default()
    };
    let stages = Subject::Groups(vec![group("waiter"), group("holder")]);
    let bands = bands_with(&model, stages, Some(&critical));
    assert_eq!(sums(&bands, "hold", &model), [100, 0, 0]);
    assert_eq!(sums(&bands, "wait", &model), [0, 50, 50]);
}

#[test]
fn stages_in_lock_step_wait_for_each_other() {
    let mut p = ProfileBuilder::new("p");
    p.wall(ms(100));
    let (work, wait) = (p.site("work", "p.c", 5), p.site("wait", "p.c", 6));
    let mut s = Schedule::new();
    let [a, b] = [("a", 1), ("b", 2)]
        .map(|(name, line)| p.thread(name).start(name, "p.c", line).cpu(ms(50)).id());
    for _ in 0..5 {
        s.runs(a, work, ms(10));
        s.waits(a, Wait::futex(wait, 0x10).woken_by(b, work), ms(10));
        s.waits(b, Wait::futex(wait, 0x20).woken_by(a, work), ms(10));
        s.runs(b, work, ms(10));
    }
    let mut profile = p.build();
    s.put_into(&mut profile);
    let model = Model::build(profile);
    let group = |name| model.threads.iter().find(|t| t.name == name).unwrap().group;
    let bands = bands_of(&model, Subject::Groups(vec![group("a"), group("b")]));
    for name in ["a", "b"] {
        assert_eq!(sums(&bands, name, &model), [0, 50, 50], "{name}");
    }
}

#[test]
fn a_run_without_a_timeline_has_no_bands() {
    let (model, thresholds) = (Model::default(), Params::default());
    let analysis = Analysis::default();
    let report = Report {
        model: &model,
        analysis: &analysis,
        critical: None,
        sections: None,
        thresholds: &thresholds,
    };
    assert!(bands(&report, None, &Roles::of(&model)).is_none());
}
