//! What traced sections touched, as it is read from files that are cut short, damaged or hostile.

use convoy_profile::{Process, Profile, ReadWarning, Sections};

use crate::draw::profile;
use crate::hostile::{file, number, sections};

/// Indices of what was read must all lead somewhere.
pub fn assert_sound(s: &Sections, processes: &[Process]) {
    let within = |ix: u32, len: usize| (ix as usize) < len;
    let process = |site: u32| &processes[s.sites[site as usize].process as usize];
    let words = |words: &[u32]| words.iter().all(|&ix| within(ix, s.words.len()));
    for row in &s.words {
        let process = &processes[row.process as usize];
        assert!(row
            .seen
            .only
            .is_none_or(|ix| within(ix, process.threads.len())));
    }
    for row in &s.sites {
        let process = &processes[row.process as usize];
        assert!(row
            .object
            .is_none_or(|ix| within(ix, process.objects.len())));
        assert!(row.stack == 0 || within(row.stack, process.stacks.len()));
        assert!(within(row.frame, process.frames.len()) && words(&row.words));
    }
    for row in &s.code {
        let frames = process(row.site).frames.len();
        assert!(within(row.frame, frames) && row.from.is_none_or(|ix| within(ix, frames)));
        assert!(words(&row.words));
    }
    for row in &s.calls {
        let process = process(row.site);
        assert!(row.frame.is_none_or(|ix| within(ix, process.frames.len())));
        assert!(row
            .object
            .is_none_or(|ix| within(ix, process.objects.len())));
    }
    for row in &s.follows {
        assert!(within(row.first, s.sites.len()) && within(row.then, s.sites.len()));
    }
    for row in &s.samples {
        assert!(within(row.thread, process(row.site).threads.len()));
        for touch in &row.touches {
            let code = [touch.read_by, touch.written_by];
            assert!(within(touch.word, s.words.len()));
            assert!(code.iter().flatten().all(|&ix| within(ix, s.code.len())));
        }
    }
}

/// A profile with every table of sections.
fn full() -> (Profile, Sections) {
    let of = |seed| {
        let profile = profile(seed, 12);
        let s = profile.sections.clone()?;
        let tables = [
            s.sites.len(),
            s.words.len(),
            s.code.len(),
            s.calls.len(),
            s.follows.len(),
        ];
        let touched = s.samples.iter().any(|sample| !sample.touches.is_empty());
        (touched && tables.iter().all(|&rows| rows > 2)).then_some((profile, s))
    };
    (0..).find_map(of).unwrap()
}

#[test]
fn a_lost_table_costs_what_refers_to_it_and_no_more() {
    let (profile, whole) = full();
    let bytes = profile.to_bytes().unwrap();
    for (tag, name) in [
        (b"XSIT", "sites of sections"),
        (b"XWRD", "words of memory"),
        (b"XCOD", "code of sections"),
        (b"XCAL", "calls in sections"),
        (b"XFOL", "sections in a row"),
        (b"XSMP", "whole sections"),
    ] {
        let rest: Vec<_> = sections(&bytes)
            .into_iter()
            .filter(|s| s.0 != *tag)
            .collect();
        let (read, warnings) = Profile::read(&file(&rest)).unwrap();
        let read_sections = read.sections.unwrap();
        assert_sound(&read_sections, &read.processes);
        let said = warnings
            .iter()
            .any(|w| matches!(w, ReadWarning::SchedCut { table, .. } if table == name));
        assert!(said, "{name}: {warnings:?}");
        if tag != b"XSIT" {
            assert_eq!(read_sections.sites.len(), whole.sites.len(), "{name}");
        }
    }
}

#[test]
fn words_move_up_behind_a_gap() {
    let (profile, whole) = full();
    let mut parts = sections(&profile.to_bytes().unwrap());
    // The same rows, said to begin with number 1: what was said of number 0 led nowhere.
    for part in parts.iter_mut().filter(|part| &part.0 == b"XWRD") {
        part.2 = [number(1), part.2[1..].to_vec()].concat();
    }
    let (read, _) = Profile::read(&file(&parts)).unwrap();
    let read = read.sections.unwrap();
    assert!(whole.sites.iter().any(|site| !site.words.is_empty()));
    for (was, is) in whole.sites.iter().zip(&read.sites) {
        let moved: Vec<u32> = was
            .words
            .iter()
            .filter(|&&ix| ix > 0)
            .map(|ix| ix - 1)
            .collect();
        assert_eq!(is.words, moved);
    }
}
