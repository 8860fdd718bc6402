//! Functions that are not left by a return, run on several stacks, or in threads that end.

use convoy_inject::{Measure, Owner, Probes};

use super::target::{all_whole, calls, compile, of, Target};

struct Probed {
    target: Target,
    probes: Probes,
}

/// A program with these functions timed, in rows 0, 1, ...
fn probed(source: &str, way: &str, names: &[&str]) -> Probed {
    let target = Target::start(&compile(source, &["-falign-jumps=16"]), way);
    let mut probes = Probes::begin(target.pid(), Owner::this()).unwrap();
    let all: Vec<_> = (0..)
        .zip(names)
        .map(|(row, n)| target.probe(row, n, Measure::Time))
        .collect();
    all_whole(&probes.insert(&all).unwrap());
    Probed { target, probes }
}

impl Probed {
    fn finish(self) {
        self.probes.end().unwrap();
        self.target.finish();
    }
}

#[test]
fn exceptions_go_through_probed_functions() {
    let mut p = probed("throws.cc", "", &["thrower", "catcher"]);
    p.target.go_on();
    assert_eq!(p.target.line(), "sum 499500");
    let cells = p.probes.read().unwrap().cells;
    assert_eq!((calls(&cells, 0), calls(&cells, 1)), (3000, 1000));
    let catcher = of(&cells, 1).next().unwrap();
    assert_eq!(
        catcher.histogram.iter().sum::<u32>(),
        1000,
        "all of them return"
    );
    let thrower = of(&cells, 0).next().unwrap();
    assert_eq!(
        thrower.histogram.iter().sum::<u32>(),
        0,
        "none of them returns"
    );
    assert!(cells.iter().all(|c| c.inside == 0), "{cells:?}");
    p.finish();
}

#[test]
fn signal_handlers_on_their_own_stack_are_counted_or_skipped() {
    let mut p = probed(
        "probed.c",
        "signals",
        &["leaf", "outer", "recurse", "handles"],
    );
    p.target.go_on();
    let line = p.target.line();
    let done: u64 = line.strip_prefix("calls ").unwrap().parse().unwrap();
    let cells = p.probes.read().unwrap().cells;
    let leaf = of(&cells, 0).next().unwrap();
    assert_eq!(leaf.calls + leaf.skipped, done);
    let handles = of(&cells, 3).next().unwrap();
    assert!(
        handles.calls + handles.skipped >= 300 && handles.calls > 0,
        "{handles:?}"
    );
    assert!(
        cells.iter().all(|c| c.own_cpu_ns <= Some(1 << 40)),
        "{cells:?}"
    );
    p.finish();
}

#[test]
fn switched_stacks_keep_their_open_calls() {
    let mut p = probed("probed.c", "contexts", &["switches", "outer", "leaf"]);
    p.target.go_on();
    assert!(p.target.line().starts_with("sum "));
    let cells = p.probes.read().unwrap().cells;
    assert_eq!(
        (calls(&cells, 0), calls(&cells, 1), calls(&cells, 2)),
        (1000, 1000, 4000)
    );
    let switches = of(&cells, 0).next().unwrap();
    let outer = of(&cells, 1).next().unwrap();
    assert_eq!(outer.histogram.iter().sum::<u32>(), 1000);
    assert_eq!(
        switches.histogram.iter().sum::<u32>(),
        999,
        "one is still open"
    );
    assert_eq!(switches.inside, 1);
    assert!(
        switches.wall_ns > outer.wall_ns,
        "it was open while outer ran: {cells:?}"
    );
    p.finish();
}

#[test]
fn last_values_of_ended_threads_are_read_before_their_columns_are_free() {
    let mut p = probed("probed.c", "short", &["leaf", "outer"]);
    p.target.go_on();
    assert_eq!(p.target.line(), "calls 800");
    for _ in 0..2 {
        let cells = p.probes.read().unwrap().cells;
        assert_eq!((calls(&cells, 0), calls(&cells, 1)), (800, 200));
        let mut tids: Vec<u32> = of(&cells, 1).map(|c| c.tid).collect();
        tids.dedup();
        assert_eq!(tids.len(), 200, "a cell for each thread");
    }
    let cells = p.probes.read().unwrap().cells;
    assert_eq!(calls(&cells, 1), 0, "nothing grows with threads that ended");
    p.finish();
}

#[test]
fn children_count_nothing_and_work() {
    let mut p = probed("probed.c", "forks", &["leaf", "outer", "recurse"]);
    p.target.go_on();
    assert_eq!(p.target.line(), "good 50");
    let cells = p.probes.read().unwrap().cells;
    assert_eq!(calls(&cells, 1), 50, "those of the parent");
    p.finish();
}

#[test]
fn exec_ends_the_probes() {
    let mut p = probed("probed.c", "execs", &["leaf", "outer"]);
    p.target.go_on();
    assert_eq!(p.target.line(), "ready", "of the new program");
    assert!(p.probes.read().unwrap_err().is_gone);
    p.finish();
}

#[test]
fn within_counts_only_calls_from_inside() {
    let target = Target::start(&compile("probed.c", &[]), "counts");
    let mut probes = Probes::begin(target.pid(), Owner::this()).unwrap();
    let all = [
        target.probe(0, "leaf", Measure::Time),
        target.probe(1, "outer", Measure::Time),
        convoy_inject::Probe {
            within: Some(1),
            ..target.probe(2, "leaf", Measure::Time)
        },
        convoy_inject::Probe {
            within: Some(7),
            ..target.probe(3, "leaf", Measure::Time)
        },
    ];
    let inserted = probes.insert(&all).unwrap();
    all_whole(&inserted[..3]);
    assert_ne!(
        inserted[3],
        convoy_inject::Inserted::Whole,
        "row 7 is not there"
    );
    let mut p = Probed { target, probes };
    p.target.go_on();
    p.target.line();
    let cells = p.probes.read().unwrap().cells;
    assert_eq!(calls(&cells, 2), 4000);
    assert!(calls(&cells, 0) > 4000, "chooses calls it, too");
    let (leaf, outer) = (of(&cells, 2).next().unwrap(), of(&cells, 1).next().unwrap());
    assert!(outer.wall_ns >= leaf.wall_ns && outer.own_wall_ns < outer.wall_ns);
    p.finish();
}

#[test]
fn calls_that_were_open_when_the_timer_came_are_timed_from_then_on() {
    let mut p = probed("probed.c", "inside", &["waits_inside"]);
    let cells = p.probes.read().unwrap().cells;
    let open = of(&cells, 0).next().expect("a cell");
    assert_eq!((open.calls, open.inside), (0, 4), "{open:?}");
    let later = p.probes.read().unwrap().cells;
    let later = of(&later, 0).next().expect("a cell");
    assert!(later.wall_ns > open.wall_ns, "it goes on");
    p.target.go_on();
    assert_eq!(p.target.line(), "sum 4");
    let cells = p.probes.read().unwrap().cells;
    let done = of(&cells, 0).next().expect("a cell");
    assert_eq!((done.calls, done.inside), (0, 0), "{done:?}");
    assert_eq!(done.histogram, [0; 64], "how long they took is not known");
    assert!(done.wall_ns >= later.wall_ns);
    p.finish();
}
