//! Putting in and taking out.

use convoy_inject::{Measure, Owner, Probes};

use super::target::{all_whole, compile, wait_for_calls, Target};

#[test]
fn every_byte_is_as_before_after_50_cycles_under_load() {
    let program = compile("probed.c", &[]);
    let mut target = Target::start(&program, "threads");
    let before = target.code();
    let names = ["leaf", "outer", "recurse", "tail_caller", "chooses"];
    let all: Vec<_> = (0..)
        .zip(names)
        .map(|(row, name)| target.probe(row, name, Measure::Time))
        .collect();
    let rows: Vec<u32> = (0..names.len() as u32).collect();
    let mut probes = Probes::begin(target.pid(), Owner::this()).unwrap();
    for cycle in 0..50 {
        all_whole(&probes.insert(&all).unwrap());
        assert_ne!(target.code(), before, "cycle {cycle}");
        probes.read().unwrap();
        probes.remove(&rows).unwrap();
        assert_eq!(target.code(), before, "cycle {cycle}");
    }
    all_whole(&probes.insert(&all).unwrap());
    wait_for_calls(&mut probes);
    probes.end().unwrap();
    assert_eq!(target.code(), before);
    target.go_on();
    assert!(target.line().starts_with("calls "));
    target.finish();
}
