//! Threads, signals, faults, full records, changing code and new processes, in the midst of sections.
#![cfg(target_arch = "x86_64")]

#[path = "../common/mod.rs"]
mod build;

use std::process::Command;

#[test]
fn programs_survive_what_happens_to_their_sections() {
    let program = build::program("stress-host", &["play.c"], &["stress.c"], &[]);
    let tests = [
        "threads",
        "alarm-storm",
        "alarm-digest",
        "signals-together",
        "fault",
        "limit",
        "invalidate",
        "refill",
        "unmaps",
        "writable",
        "processes",
    ];
    for test in tests {
        let out = Command::new(&program)
            .arg(test)
            .output()
            .expect("the test program runs");
        assert!(
            out.status.success(),
            "{test}: {} {}",
            out.status,
            String::from_utf8_lossy(&out.stderr)
        );
    }
}
