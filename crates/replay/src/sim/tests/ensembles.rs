//! Several runs: spread, ranges, choice of rules.

use super::*;
use crate::fidelity::Fingerprint;

#[test]
fn runs_are_sorted_and_differ_by_their_seeds() {
    let program = contended(LockKind::Mutex, 4, 500);
    let seeds = [1, 2, 3, 4, 5];
    let runs = run_many(&program, &machine(), &Options::default(), &seeds).expect("valid");
    assert_eq!(runs.walls_ns.len(), 5);
    assert!(runs.walls_ns.is_sorted());
    assert_eq!(runs.median.wall_ns, runs.walls_ns[2]);
    assert!(runs.spread() > 0.0);
    let mean = runs.walls_ns.iter().sum::<f64>() / 5.0;
    assert!((runs.fingerprint.wall_ns / mean - 1.0).abs() < 1e-9);
}

#[test]
fn runs_of_a_deadlock_are_counted() {
    let program = program(vec![vec![Op::SemWait { sem: 0 }]]).with_semaphore(0);
    let runs = run_many(&program, &machine(), &Options::default(), &[1, 2]).expect("valid");
    assert_eq!((runs.stuck, runs.walls_ns.len()), (2, 0));
    assert!(runs.median.stuck.is_some());
    assert_eq!(runs.spread(), 0.0);
    let range = wall_range(&program, &machine(), &Options::default(), &[1]);
    assert_eq!(range, Ok(None));
}

#[test]
fn no_seed_is_an_error() {
    let program = contended(LockKind::Mutex, 2, 5);
    let runs = run_many(&program, &machine(), &Options::default(), &[]);
    assert_eq!(runs, Err(SimError::NoSeed));
}

#[test]
fn a_program_without_contention_has_no_range() {
    let program = program(vec![sections(100, 100.0, 300.0, 0)]).with_locks(LockKind::Mutex, 1);
    let range = wall_range(&program, &machine(), &Options::default(), &[1]).expect("valid");
    let range = range.expect("a program that ends");
    assert_eq!((range.low, range.high), (range.mid, range.mid));
}

#[test]
fn the_range_of_a_gain_holds_its_middle() {
    let base = contended(LockKind::Mutex, 4, 500);
    let mut what_if = base.clone();
    what_if.locks[0].kind = LockKind::Absent;
    let seeds = [1, 2, 3];
    let saved = saved_range(&base, &what_if, &machine(), &Options::default(), &seeds);
    let saved = saved.expect("valid").expect("programs that end");
    assert!(saved.low <= saved.mid && saved.mid <= saved.high);
    assert!(saved.low < saved.high);
    assert!(saved.mid > 0.2, "{saved:?}");
    let nothing = saved_range(&base, &base, &machine(), &Options::default(), &seeds);
    let nothing = nothing.expect("valid").expect("programs that end");
    assert_eq!((nothing.low, nothing.mid, nothing.high), (0.0, 0.0, 0.0));
}

#[test]
fn rules_are_found_again_from_the_run_that_they_made() {
    let program = contended(LockKind::Mutex, 4, 2000);
    let hidden = Rules {
        waker_cpu: 0.0,
        wakeup_preemption: 0.0,
        newidle_min_idle_ns: 0.0,
    };
    let options = Options {
        rules: hidden,
        ..Options::default()
    };
    let recorded = run_many(&program, &machine(), &options, &[11, 12]).expect("valid");
    let recorded = recorded.fingerprint;
    let default = Options::default();
    let far = run_many(&program, &machine(), &default, &[1, 2])
        .expect("valid")
        .fingerprint;
    let found = calibrate_rules(&program, &machine(), &default, &recorded, &[1, 2]);
    let found = found.expect("valid");
    assert!(
        found.residual < 0.3 * recorded.distance(&far),
        "{found:?}, not {far:?}"
    );
    assert_eq!(found.residual, recorded.distance(&found.replayed));
}

#[test]
fn rules_stay_as_they_are_where_they_do_not_matter() {
    let program = program(vec![sections(100, 100.0, 300.0, 0)]).with_locks(LockKind::Mutex, 1);
    let options = Options::default();
    let recorded = Fingerprint::of(&run_unfinished(&program, &options));
    let found = calibrate_rules(&program, &machine(), &options, &recorded, &[1]).expect("valid");
    assert_eq!((found.rules, found.residual), (Rules::default(), 0.0));
}

#[test]
fn a_part_of_a_long_program_tells_the_rules_of_all_of_it() {
    let ops = |thread: u32| sections(8000, 1000.0, 200.0, thread * 8000);
    let program = program((0..4).map(ops).collect()).with_locks(LockKind::Mutex, 1);
    let hidden = Rules {
        waker_cpu: 0.0,
        wakeup_preemption: 0.0,
        newidle_min_idle_ns: 0.0,
    };
    let options = Options {
        rules: hidden,
        ..Options::default()
    };
    let recorded = Fingerprint::of(&run_unfinished(&program, &options));
    let options = Options {
        max_ops: Some(20_000),
        ..Options::default()
    };
    let found = calibrate_rules(&program, &machine(), &options, &recorded, &[1]).expect("valid");
    assert_eq!(found.rules.waker_cpu, 0.0, "{found:?} of {recorded:?}");
    assert!(found.residual < 0.1, "{found:?} of {recorded:?}");
}

#[test]
fn a_cut_run_is_neither_complete_nor_stuck() {
    let program = contended(LockKind::Mutex, 4, 500);
    let options = Options {
        max_ops: Some(1000),
        ..Options::default()
    };
    let outcome = run_unfinished(&program, &options);
    assert!(outcome.is_cut);
    assert_eq!((outcome.ops, outcome.stuck), (1000, None));
    let whole = run_program(&program);
    assert_eq!((whole.ops, whole.is_cut), (4 * 500 * 4, false));
    assert!(outcome.wall_ns < whole.wall_ns / 4.0);
}

#[test]
fn threads_that_fit_the_cpus_are_never_queued() {
    let few = run_program(&contended(LockKind::Mutex, 2, 500));
    assert_eq!(few.queued, 0);
    assert!(run_program(&contended(LockKind::Mutex, 3, 500)).queued > 0);
}
