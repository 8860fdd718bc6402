//! Programs to record.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use super::BpfSource;

/// Compiled once for all tests; the directory goes with the machine's temporary files.
fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let dir = tempfile::tempdir().expect("temporary directory").keep();
        let source = dir.join("workload.c");
        std::fs::write(&source, include_str!("workload.c")).expect("write");
        let program = dir.join("workload");
        // As distributions compile: without frame pointers.
        let compiled = Command::new("cc")
            .args(["-O2", "-Wall", "-pthread", "-o"])
            .args([&program, &source])
            .status();
        assert!(compiled.expect("cc").success());
        program
    })
}

fn command(name: &str, number: u32) -> Command {
    let mut command = Command::new(program());
    command
        .args([name, &number.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Starts a program and records it.
pub(super) fn recorded(source: &BpfSource, name: &str, number: u32) -> Child {
    let mut command = command(name, number);
    source.adopt_children_of_self(true);
    let child = command.spawn();
    source.adopt_children_of_self(false);
    child.expect("workload")
}

/// Starts a program that says when it is ready, and does not record it.
pub(super) fn running(name: &str) -> Child {
    let mut child = command(name, 0).spawn().expect("workload");
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    output.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    // Its main thread still has to block.
    std::thread::sleep(Duration::from_millis(50));
    child
}

/// Ends a program that runs until its input ends.
pub(super) fn end(mut child: Child) {
    drop(child.stdin.take());
    child.wait().expect("wait");
}
