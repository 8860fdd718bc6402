//! Traces in a damaged file.

use convoy_profile::*;

use crate::draw::profile;
use crate::hostile::{file, number, sections};

pub fn assert_sound(trace: &Trace, processes: &[Process]) {
    for t in &trace.processes {
        let p = &processes[t.process as usize];
        let thread = |ix: u32| (ix as usize) < p.threads.len();
        let windows = t.windows.windows(2);
        assert!(windows.into_iter().all(|w| w[0].end_ns <= w[1].start_ns));
        assert!(t
            .objects
            .iter()
            .all(|o| o.object.is_none_or(|ix| (ix as usize) < p.objects.len())));
        assert!(t
            .sites
            .iter()
            .all(|s| s.frame == NO_FRAME || (s.frame as usize) < p.frames.len()));
        assert!(t
            .sites
            .iter()
            .all(|s| s.stack == 0 || (s.stack as usize) < p.stacks.len()));
        assert!(t.threads.iter().all(|t| thread(t.thread)));
        assert!(t.blocks.iter().all(|b| thread(b.thread)));
    }
}

/// With rows in each table of its trace.
fn full() -> (Profile, ProcessTrace) {
    let of = |seed| {
        let profile = profile(seed, 12);
        let t = profile.trace.as_ref()?.processes.first()?.clone();
        let tables = [
            t.windows.len(),
            t.objects.len(),
            t.sites.len(),
            t.threads.len(),
            t.blocks.len(),
        ];
        tables.iter().all(|&rows| rows > 2).then_some((profile, t))
    };
    (0..).find_map(of).unwrap()
}

#[test]
fn a_lost_table_is_named_and_the_others_stay() {
    let (profile, whole) = full();
    let bytes = profile.to_bytes().unwrap();
    for (tag, name) in [
        (b"EWIN", "windows of the trace"),
        (b"EOBJ", "objects of the trace"),
        (b"ESIT", "call sites of the trace"),
        (b"ETHR", "threads of the trace"),
        (b"EBLK", "blocks of events"),
    ] {
        let rest = sections(&bytes).into_iter().filter(|s| s.0 != *tag);
        let (read, warnings) = Profile::read(&file(&rest.collect::<Vec<_>>())).unwrap();
        let trace = read.trace.unwrap();
        assert_sound(&trace, &read.processes);
        let said = warnings
            .iter()
            .any(|w| matches!(w, ReadWarning::TraceCut { table, .. } if table == name));
        assert!(said, "{name}: {warnings:?}");
        if tag != b"EBLK" {
            assert_eq!(trace.processes[0].blocks, whole.blocks, "{name}");
        }
    }
}

#[test]
fn a_trace_without_its_head_spans_its_blocks() {
    let (profile, whole) = full();
    let bytes = profile.to_bytes().unwrap();
    let rest = sections(&bytes).into_iter().filter(|s| s.0 != *b"EPRC");
    let (read, _) = Profile::read(&file(&rest.collect::<Vec<_>>())).unwrap();
    let trace = &read.trace.unwrap().processes[0];
    assert_eq!(trace.blocks, whole.blocks);
    let first = whole.blocks.iter().map(|b| b.start_ns).min();
    assert_eq!(Some(trace.start_ns), first);
}

#[test]
fn numbers_that_skip_rows_without_a_loss_are_refused() {
    let (profile, whole) = full();
    let mut parts = sections(&profile.to_bytes().unwrap());
    for part in parts.iter_mut().filter(|part| &part.0 == b"EOBJ") {
        part.2 = [number(1_000_000), part.2[1..].to_vec()].concat();
    }
    let (read, warnings) = Profile::read(&file(&parts)).unwrap();
    let trace = &read.trace.unwrap().processes[0];
    assert!(
        trace.objects.len() < 1000,
        "no memory for rows that are not there"
    );
    assert!(!warnings.is_empty() && trace.blocks == whole.blocks);
}
