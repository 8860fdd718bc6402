//! serial-jobs: processes that are started one after the other; fine-grained-tasks: those that are started for little each.

use convoy_model::finding::Finding;
use convoy_model::FindingId;
use convoy_model::OffReason;
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, us, ProfileBuilder};

use crate::kit::{analysis, model};

/// A process that starts these one after the other (or all together), each for so long.
fn steps(runner: &str, programs: &[(&str, u64)], together: bool) -> Option<Finding> {
    steps_of(&[runner], programs, together)
}

/// The same of one with these arguments.
fn steps_of(runner: &[&str], programs: &[(&str, u64)], together: bool) -> Option<Finding> {
    let mut p = ProfileBuilder::new(runner[0]);
    p.cpus(2).raw().ppid = 1;
    p.raw().args = runner.iter().map(|arg| (*arg).to_owned()).collect();
    let wait = p.site("waitpid", "run.c", 5);
    let all: u64 = programs.iter().map(|(_, each)| each).sum();
    let mut s = Schedule::new();
    s.waits(
        0,
        Wait::new(OffReason::Child, wait),
        ms(if together { all / 2 } else { all }),
    );
    let mut at = 0;
    for (n, (program, each)) in programs.iter().enumerate() {
        p.process(program);
        let work = p.site("work", "tool.c", 10);
        s.process(n as u32 + 1)
            .starts(0, ms(at))
            .runs(0, work, ms(*each));
        // Two at a time, or one.
        at += if together && n % 2 == 0 { 0 } else { *each };
    }
    let found = analysis(&model(p, s)).findings;
    found.into_iter().find(|f| f.id == FindingId::SerialJobs)
}

#[test]
fn steps_of_a_build_are_expected_to_run_together() {
    let f = steps("make", &[("xz", 100); 8], false).expect("eight steps");
    // Nine tenths of half the run; at most half of it.
    assert!((f.gain.mid - 1.0 / 0.55).abs() < 0.01, "{:?}", f.gain);
    assert!((f.gain.high - 2.0).abs() < 0.01, "{:?}", f.gain);
    assert_eq!(f.gain.low, 1.0);
    assert!(f.causes[0].fix.contains("make -j2"), "{:?}", f.causes);
    assert!(
        f.title.starts_with("make (1000) runs 8 steps"),
        "{}",
        f.title
    );
}

#[test]
fn what_a_build_starts_one_by_one_though_it_may_start_several_depends_on_one_another() {
    assert!(steps_of(&["make", "-s", "-j2"], &[("xz", 100); 8], false).is_none());
    assert!(steps_of(&["make", "-s"], &[("xz", 100); 8], false).is_some());
}

#[test]
fn of_a_script_only_steps_of_one_kind_are() {
    let f = steps("dash", &[("xz", 100); 8], false).expect("a loop");
    assert!((f.gain.mid - 4.0 / 3.0).abs() < 0.01, "{:?}", f.gain);
    assert!(f.causes[0].fix.contains("xargs -P 2"), "{:?}", f.causes);
    let sequence = ["fetch", "unpack", "convert", "sort", "pack", "send"];
    let sequence = sequence.map(|program| (program, 100));
    assert!(
        steps("dash", &sequence, false).is_none(),
        "each needs the one before"
    );
}

#[test]
fn many_small_steps_are_steps_as_well() {
    assert!(steps("make", &[("cc1", 10); 80], false).is_some());
}

#[test]
fn a_build_has_steps_of_some_kinds_and_what_is_all_different_may_be_a_chain() {
    let kinds = ["cc1", "cc1plus"].map(|program| [(program, 100); 4]);
    assert!(steps("make", kinds.as_flattened(), false).is_some());
    assert!(steps("dash", kinds.as_flattened(), false).is_none());
    let chain = ["fetch", "clean", "join", "train", "test", "plot"].map(|program| (program, 100));
    assert!(steps("make", &chain, false).is_none());
}

#[test]
fn what_runs_together_or_is_one_long_step_is_none() {
    assert!(steps("make", &[("xz", 100); 8], true).is_none());
    assert!(steps("make", &[("xz", 100); 3], false).is_none(), "too few");
    let long = [("ld", 1000), ("cc", 50), ("cc", 50), ("cc", 50), ("cc", 50)];
    assert!(
        steps("make", &long, false).is_none(),
        "one step is nearly all"
    );
}

/// Steps of which each is a process that waits for two others, which work together for a part of their time.
#[test]
fn steps_may_be_pipelines() {
    let told = |together_ms: u64| {
        let mut p = ProfileBuilder::new("bash");
        p.cpus(2).raw().ppid = 1;
        let wait = p.site("waitpid", "run.c", 5);
        let mut s = Schedule::new();
        let each = 100 + (100 - together_ms);
        s.waits(0, Wait::new(OffReason::Child, wait), ms(8 * each));
        for n in 0..8 {
            let (step, at) = (1 + 3 * n as u32, n * each);
            p.process("make");
            let pid = p.raw().pid;
            let wait = p.site("wait", "make.c", 5);
            s.process(step).starts(0, ms(at));
            s.waits(0, Wait::new(OffReason::Child, wait), ms(each));
            for (nth, begins) in [(1, at), (2, at + 100 - together_ms)] {
                p.process("xz");
                p.raw().ppid = pid;
                let work = p.site("work", "xz.c", 10);
                s.process(step + nth).starts(0, ms(begins));
                s.runs(0, work, ms(100));
            }
        }
        let found = analysis(&model(p, s)).findings;
        found.into_iter().find(|f| f.id == FindingId::SerialJobs)
    };
    let f = told(30).expect("eight steps, one after the other");
    assert!(f.title.contains("runs 8 steps"), "{}", f.title);
    // 1.7 of 2 are at once already; half of it is expected.
    assert!((f.gain.high - 1.7).abs() < 0.05, "{:?}", f.gain);
    assert!(told(90).is_none(), "two threads work nearly all the time");
}

/// What is said of a process that runs for so long (us) and then starts one, the next of these, that runs for so long, and so on 400 times.
fn each_of(starter: (&str, u64), above: &str, programs: &[&str], us_each: u64) -> Option<Finding> {
    let mut p = ProfileBuilder::new(above);
    p.cpus(2).raw().ppid = 1;
    let mut s = Schedule::new();
    let wait = p.site("waitpid", "run.c", 5);
    let (own, each) = (us(starter.1), us(us_each));
    s.waits(0, Wait::new(OffReason::Child, wait), 400 * (own + each));
    p.process(starter.0);
    let next = p.site("next", "xargs.c", 7);
    s.process(1).starts(0, 0);
    for _ in 0..400 {
        s.runs(0, next, own);
        s.waits(0, Wait::new(OffReason::Child, wait), each);
    }
    s.runs(0, next, us(10));
    let pid = p.raw().pid;
    for (n, program) in (0..400u32).zip(programs.iter().cycle()) {
        p.process(program);
        p.raw().ppid = pid;
        let work = p.site("work", "tool.c", 10);
        s.process(n + 2)
            .starts(0, u64::from(n) * (own + each) + own)
            .runs(0, work, each);
    }
    let found = analysis(&model(p, s)).findings;
    found
        .into_iter()
        .find(|f| f.id == FindingId::FineGrainedTasks)
}

#[test]
fn a_program_for_each_piece_of_a_list_costs_its_starts() {
    let f = each_of(("xargs", 1000), "bash", &["gzip"], 1000).expect("four hundred starts");
    // Of 2 ms each 0.6 ms are a start, and 1 ms is that of xargs: nine tenths of both.
    assert!((f.gain.mid - 2.0 / 0.56).abs() < 0.1, "{:?}", f.gain);
    assert!(f.gain.low > 1.0 && f.gain.high > 15.0, "{:?}", f.gain);
    assert!(f.title.contains("most gzip"), "{}", f.title);
    assert!(f.causes[0].fix.contains("xargs"), "{:?}", f.causes);
    // Of others it is not known what they do between two.
    let shell = each_of(("bash", 1000), "bash", &["gzip"], 1000)
        .unwrap()
        .gain;
    assert!((shell.mid - 2.0 / 1.46).abs() < 0.1, "{shell:?}");
    let copies = each_of(("server", 0), "bash", &["server"], 500).unwrap();
    assert!(
        copies.title.contains("copies of itself"),
        "{}",
        copies.title
    );
    assert!(copies.causes[0].fix.contains("pool"), "{:?}", copies.causes);
}

#[test]
fn a_program_for_each_piece_is_worth_its_start_if_it_has_much_to_do_or_is_a_step_of_a_build() {
    let told = |starter, above, us_each| each_of(starter, above, &["gzip"], us_each).is_some();
    assert!(told(("env", 1000), "bash", 800));
    assert!(!told(("env", 1000), "bash", 8000));
    assert!(!told(("xargs", 1000), "bash", 20_000));
    assert!(!told(("find", 20_000), "bash", 1000), "it looks for them");
    assert!(!told(("bash", 1000), "make", 1000));
    assert!(!told(("make", 1000), "bash", 1000));
}

#[test]
fn a_script_that_starts_all_sorts_of_programs_has_no_list_of_pieces() {
    let of = |programs: &[&str]| each_of(("bash", 100), "bash", programs, 1000).is_some();
    assert!(of(&["sed", "sed", "grep"]));
    assert!(!of(&["sed", "grep", "cut"]));
}
