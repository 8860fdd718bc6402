//! What a holder of probes leaves that is killed, and two of them at one process.

use std::process::Command;

use convoy_inject::{Measure, Owner, Probes};

use super::target::{all_whole, compile, wait_for_calls, Target};

const NAMES: [&str; 4] = ["leaf", "outer", "recurse", "chooses"];

fn begin_all(target: &Target, owner: Owner) -> Probes {
    let mut probes = Probes::begin(target.pid(), owner).unwrap();
    let all: Vec<_> = (0..)
        .zip(NAMES)
        .map(|(row, n)| target.probe(row, n, Measure::Time))
        .collect();
    all_whole(&probes.insert(&all).unwrap());
    probes
}

/// A process that ends at once: as its owner, probes are left over.
fn ended() -> Owner {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let owner = Owner {
        pid: child.id(),
        start_ticks: 1,
    };
    child.kill().unwrap();
    child.wait().unwrap();
    owner
}

#[test]
fn next_one_takes_out_what_a_killed_one_has_left() {
    let mut target = Target::start(&compile("probed.c", &[]), "threads");
    let before = target.code();
    for _ in 0..5 {
        // It is never told to end, as after SIGKILL.
        std::mem::forget(begin_all(&target, ended()));
        assert_ne!(target.code(), before);
        let probes = Probes::begin(target.pid(), Owner::this()).unwrap();
        assert!(target.code() == before);
        drop(probes);
        let mut again = begin_all(&target, Owner::this());
        wait_for_calls(&mut again);
        again.end().unwrap();
        assert!(target.code() == before);
    }
    target.go_on();
    assert!(target.line().starts_with("calls "));
    target.finish();
}

#[test]
fn second_one_is_refused_while_the_first_lives() {
    let target = Target::start(&compile("probed.c", &[]), "threads");
    let first = begin_all(&target, Owner::this());
    let refusal = Probes::begin(target.pid(), Owner::this()).unwrap_err();
    assert!(refusal.found.contains("another convoy"), "{refusal}");
    first.end().unwrap();
    Probes::begin(target.pid(), Owner::this())
        .unwrap()
        .end()
        .unwrap();
}
