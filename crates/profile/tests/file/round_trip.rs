//! What is written is read back, whole; damage costs what it hits and no more.

use crate::draw::{profile, Random};
use convoy_profile::{Profile, ReadError, ReadWarning};

/// Indices of what was read must all lead somewhere, whatever the bytes were.
pub fn assert_sound(profile: &Profile) {
    for p in &profile.processes {
        let stack = |ix: u32| ix == 0 || (ix as usize) < p.stacks.len();
        let frame = |ix: u32| (ix as usize) < p.frames.len();
        let thread = |ix: u32| (ix as usize) < p.threads.len();
        let object = |ix: u32| (ix as usize) < p.objects.len();
        let module = |ix: Option<u32>| ix.is_none_or(|ix| (ix as usize) < p.modules.len());
        assert!(p.frames.iter().all(|f| module(f.module)));
        assert!(p.stacks.iter().flatten().all(|&ix| frame(ix)));
        assert!(p
            .threads
            .iter()
            .all(|t| stack(t.create_stack) && t.start.is_none_or(frame)));
        assert!(p
            .objects
            .iter()
            .all(|o| stack(o.init_stack) && module(o.module)));
        assert!(p
            .counts
            .iter()
            .all(|c| object(c.object) && frame(c.frame) && thread(c.thread)));
        assert!(p
            .unattributed
            .iter()
            .all(|c| frame(c.frame) && thread(c.thread)));
        assert!(p
            .details
            .iter()
            .all(|d| object(d.object) && stack(d.stack) && thread(d.thread)));
        assert!(p.pairs.iter().all(|d| object(d.object)
            && stack(d.stack)
            && stack(d.peer_stack)
            && thread(d.thread)
            && d.peer.is_none_or(thread)
            && d.peer_frame.is_none_or(frame)));
    }
    if let Some(sched) = &profile.sched {
        crate::sched::assert_sound(sched, &profile.processes);
    }
    if let Some(sections) = &profile.sections {
        crate::sections::assert_sound(sections, &profile.processes);
    }
    if let Some(experiments) = &profile.experiments {
        crate::experiments::assert_sound(experiments);
    }
    if let Some(trace) = &profile.trace {
        crate::trace::assert_sound(trace, &profile.processes);
    }
}

fn assert_same(seed: u64, rows: u64) {
    let profile = profile(seed, rows);
    let bytes = profile.to_bytes().unwrap();
    let (read, warnings) = Profile::read(&bytes).unwrap();
    assert_eq!(warnings, [], "seed {seed}");
    assert!(read == profile, "seed {seed}: {read:#?}\n{profile:#?}");
}

#[test]
fn any_profile_is_read_as_written() {
    (0..300).for_each(|seed| assert_same(seed, 12));
    (0..20).for_each(|seed| assert_same(seed, 300));
}

#[test]
fn tables_of_many_sections_are_read_as_written() {
    let long = |seed: &u64| {
        profile(*seed, 100_000)
            .processes
            .iter()
            .any(|p| p.counts.len() > 70_000)
    };
    assert_same((0..).find(long).unwrap(), 100_000);
}

#[test]
fn an_empty_profile_is_a_profile() {
    let bytes = Profile::default().to_bytes().unwrap();
    assert_eq!(Profile::read(&bytes), Ok((Profile::default(), vec![])));
}

/// A profile with every table, as small as it gets.
fn small() -> (Profile, Vec<u8>) {
    let full = |p: &Profile| {
        p.processes.len() == 2
            && p.sched.is_some()
            && p.sections.is_some()
            && p.trace.is_some()
            && p.processes
                .iter()
                .all(|p| !p.pairs.is_empty() && !p.counts.is_empty() && !p.unattributed.is_empty())
    };
    let found = (0..).map(|seed| profile(seed, 5)).find(full).unwrap();
    let bytes = found.to_bytes().unwrap();
    (found, bytes)
}

#[test]
fn a_file_cut_anywhere_gives_what_is_whole() {
    let (whole, bytes) = small();
    let mut tables = 0;
    for len in 0..bytes.len() {
        match Profile::read(&bytes[..len]) {
            Ok((part, warnings)) => {
                assert_sound(&part);
                assert!(
                    warnings.contains(&ReadWarning::Truncated { bytes: len as u64 }),
                    "{len}: {warnings:?}"
                );
                assert_eq!(part.meta, whole.meta, "the run comes first");
                tables = tables.max(part.processes.len());
            }
            Err(ReadError::Empty) => assert_eq!(len, 0),
            Err(ReadError::NothingIntact { .. }) => {
                // The first section holds the run; nothing before its end is of use.
                let meta_end = 8 + 24 + u32::from_le_bytes(bytes[20..24].try_into().unwrap());
                assert!(len < meta_end as usize, "{len}");
            }
            Err(error) => panic!("{len}: {error}"),
        }
    }
    assert_eq!(tables, 2);
}

#[test]
fn a_flipped_bit_costs_one_section() {
    let (whole, bytes) = small();
    for at in 0..bytes.len() {
        for bit in [0, 3, 7] {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            match Profile::read(&bytes) {
                Ok((part, warnings)) => {
                    assert_sound(&part);
                    assert!(!warnings.is_empty(), "byte {at}, bit {bit} went unnoticed");
                    assert!(part.meta == whole.meta || part.meta == Default::default());
                    assert_eq!(part.processes.len(), whole.processes.len(), "byte {at}");
                }
                Err(ReadError::Foreign { .. }) => assert!(at < 7, "{at}"),
                Err(ReadError::NewerVersion { .. }) => assert_eq!(at, 7),
                Err(ReadError::NothingIntact { .. }) => assert_eq!((at, bit), (7, 0), "version 0"),
                Err(error) => panic!("{at}: {error}"),
            }
        }
    }
}

#[test]
fn counts_survive_the_loss_of_the_frames() {
    let (whole, bytes) = small();
    let at = bytes.windows(4).position(|tag| tag == b"FRAM").unwrap();
    let mut damaged = bytes;
    damaged[at + 24] ^= 1;
    let (part, warnings) = Profile::read(&damaged).unwrap();
    assert_eq!(part.processes[0].counts, whole.processes[0].counts);
    assert_eq!(part.processes[0].stacks, whole.processes[0].stacks);
    assert_eq!(
        part.processes[0].frames.len(),
        whole.processes[0].frames.len()
    );
    assert_eq!(part.processes[1], whole.processes[1]);
    let texts: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(
        texts[0].starts_with("section frames of process 0 at byte"),
        "{texts:?}"
    );
    assert!(
        texts[0].contains("its checksum is wrong: what it held is missing"),
        "{texts:?}"
    );
    assert!(texts[1].contains("frames of process"), "{texts:?}");
}

#[test]
fn garbage_is_refused_or_skipped() {
    for seed in 0..400 {
        let mut r = Random::new(seed);
        let mut garbage: Vec<u8> = (0..r.below(3000)).map(|_| r.next() as u8).collect();
        if let Ok((part, _)) = Profile::read(&garbage) {
            panic!("seed {seed}: {part:?} out of nothing");
        }
        // The same behind a good beginning.
        let mut bytes = profile(seed, 4).to_bytes().unwrap();
        bytes.truncate(bytes.len() - r.below(bytes.len() as u64 / 2) as usize);
        bytes.append(&mut garbage);
        if let Ok((part, _)) = Profile::read(&bytes) {
            assert_sound(&part);
        }
    }
}

#[test]
fn errors_say_what_was_found() {
    let error = |bytes: &[u8]| Profile::read(bytes).unwrap_err().to_string();
    assert!(error(b"").starts_with("the file is empty"));
    assert!(error(b"\x7fELF\x02\x01\x01\0\0\0").contains("it begins with \"\\x7fELF"));
    assert!(error(b"x").contains("it begins with \"x\", a profile with \"CONVOY\\0\""));
    assert!(error(b"CONVOY\0\x07rest").contains("format version 7, this convoy reads up to 1"));
    assert!(error(b"CONVOY\0").contains("of 7 bytes without one intact section"));
    assert!(error(b"CONVOY\0\x01").contains("of 8 bytes without one intact section"));
}

#[test]
fn what_other_programs_had_is_a_section_that_may_be_missing() {
    let mut whole = profile(3, 2);
    let without = whole.to_bytes().unwrap();
    whole.meta.others_ns = 7_000_000_000;
    let with = whole.to_bytes().unwrap();
    assert_eq!(Profile::read(&with).unwrap().0, whole);
    assert!(with.windows(4).any(|tag| tag == b"OTHR"));
    assert_eq!(Profile::read(&without).unwrap().0.meta.others_ns, 0);
}

#[test]
fn costs_of_the_machine_are_a_section_that_may_be_missing() {
    let mut whole = profile(3, 2);
    let without = whole.to_bytes().unwrap();
    whole.meta.costs = "cpus=2\nswitch_ns=1500\n".into();
    let with = whole.to_bytes().unwrap();
    assert_eq!(Profile::read(&with).unwrap().0, whole);
    assert!(with.windows(4).any(|tag| tag == b"COST"));
    assert_eq!(Profile::read(&without).unwrap().0.meta.costs, "");
}
