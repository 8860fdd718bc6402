//! What a section costs translated, compared with native: `cargo bench -p convoy-translate`.

#[path = "../tests/common/mod.rs"]
mod build;

use std::process::Command;

fn main() {
    let program = build::program("bench-host", &["play.c"], &["bench.c"], &[]);
    let status = Command::new(program).status().expect("the bench runs");
    assert!(status.success(), "{status}");
}
