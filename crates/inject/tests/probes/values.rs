//! What probes count.

use std::path::Path;

use convoy_inject::{Measure, Owner, Probes};

use super::target::{all_whole, calls, compile, of, Target};

/// What it prints without probes.
fn alone(program: &Path) -> String {
    let mut target = Target::start(program, "counts");
    target.go_on();
    let result = target.line();
    target.finish();
    result
}

fn exact(flags: &[&str]) {
    let program = compile("probed.c", flags);
    let mut target = Target::start(&program, "counts");
    let names = [
        "leaf",
        "outer",
        "recurse",
        "survives",
        "jumps_out",
        "tail_caller",
        "chooses",
        "naps",
    ];
    let all: Vec<_> = (0..)
        .zip(names)
        .map(|(row, name)| target.probe(row, name, Measure::Time))
        .collect();
    let mut probes = Probes::begin(target.pid(), Owner::this()).unwrap();
    all_whole(&probes.insert(&all).unwrap());
    target.go_on();
    let result = target.line();
    assert_eq!(result, alone(&program));
    let cells = probes.read().unwrap().cells;
    let counted: Vec<u64> = (0..)
        .zip(names)
        .map(|(row, _)| calls(&cells, row))
        .collect();
    assert_eq!(
        counted[1..],
        [1000, 10_000, 1000, 6000, 1000, 1000, 10],
        "{names:?}"
    );
    let naps = of(&cells, 7).next().unwrap();
    assert!(naps.wall_ns >= 200_000_000 && naps.histogram.iter().sum::<u32>() == 10);
    assert!(
        cells.iter().all(|c| c.inside == 0 && c.skipped == 0),
        "{cells:?}"
    );
    probes.end().unwrap();
    target.finish();
}

#[test]
fn calls_and_times_are_exact() {
    exact(&[]);
}

#[test]
fn static_and_stripped_of_frames_programs_too() {
    exact(&["-static"]);
    exact(&["-no-pie"]);
    exact(&["-fcf-protection", "-fno-plt"]);
}

#[test]
fn cpu_time_is_what_the_kernel_says() {
    let mut target = Target::start(&compile("probed.c", &[]), "threads");
    let mut probes = Probes::begin(target.pid(), Owner::this()).unwrap();
    all_whole(
        &probes
            .insert(&[target.probe(0, "spins", Measure::Time)])
            .unwrap(),
    );
    std::thread::sleep(std::time::Duration::from_millis(600));
    let cells = probes.read().unwrap().cells;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", target.pid())).unwrap();
    let (mut cpu, mut wall) = (0, 0);
    for cell in of(&cells, 0) {
        let Some(ns) = cell.cpu_ns else {
            eprintln!("skipped: no rseq here");
            return;
        };
        assert!(ns <= cell.wall_ns + cell.wall_ns / 50, "{cell:?}");
        cpu += ns;
        wall += cell.wall_ns;
    }
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    let kernel = ticks * 10_000_000;
    assert!(
        cpu > 0 && cpu <= kernel + 50_000_000,
        "{cpu} of {kernel} (wall {wall})"
    );
    probes.end().unwrap();
    target.go_on();
    target.line();
    target.finish();
}
