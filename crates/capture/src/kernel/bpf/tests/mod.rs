//! Live tests: they need root and a kernel with BPF, and say so where they cannot run.

mod trace;

use super::*;
use trace::{Kept, Trace};

/// A source, unless this machine has none.
fn source(options: &BpfOptions, ring_events: Option<usize>) -> Option<BpfSource> {
    match BpfSource::open_with_rings(options, ring_events) {
        Ok(source) => Some(source),
        Err(trouble) => {
            eprintln!("skipped: {trouble}");
            None
        }
    }
}

#[test]
fn a_shell_and_its_children_are_followed_from_fork_to_exit() {
    let Some(mut source) = source(&BpfOptions::default(), None) else {
        return;
    };
    source.adopt_children_of_self(true);
    let mut shell = std::process::Command::new("sh")
        .args(["-c", "sleep 0.01 & sleep 0.02; wait"])
        .spawn()
        .expect("sh");
    source.adopt_children_of_self(false);
    let outsider = std::process::Command::new("sleep").arg("0.01").status();
    assert!(outsider.expect("sleep").success());
    let pid = shell.id();
    assert!(shell.wait().expect("sh").success());

    let mut trace = Trace::default();
    source.drain(&mut trace, true);
    trace.check_order();
    let forked: Vec<u32> = trace.forked();
    assert_eq!(forked.len(), 3, "the shell and two sleeps: {forked:?}");
    assert_eq!(forked[0], pid);
    let exited: Vec<u32> = trace
        .kept
        .iter()
        .filter_map(|kept| match kept {
            Kept::Exit { tid, .. } => Some(*tid),
            _ => None,
        })
        .collect();
    assert_eq!(exited.len(), 3);
    assert!(forked.iter().all(|tid| exited.contains(tid)));
    let execs = trace
        .kept
        .iter()
        .filter(|kept| matches!(kept, Kept::Exec { .. }))
        .count();
    assert_eq!(execs, 3);
    // clock_nanosleep blocks, with a stack that came before.
    assert!(trace.blocked_in(libc::SYS_clock_nanosleep) >= 2);
    trace.check_stacks();
}
