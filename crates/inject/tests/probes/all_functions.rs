//! Probes of all functions of a process, for tests and for `examples/probe_everything.rs`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use convoy_inject::{Inserted, Measure, Probe, ROWS};
use convoy_probes::{Functions, Image, Segment};
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags};

/// Finds the functions of a file that a process has mapped, by their frames: also of stripped files.
///
/// # Panics
/// The process has not mapped the file, or it has no frames.
pub fn functions(file: &Path, pid: u32) -> Vec<Range<u64>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let line = maps
        .lines()
        .find(|l| l.ends_with(file.to_str().unwrap()))
        .unwrap();
    let base = u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
    let bytes = fs::read(file).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let first = elf.segments().map(|s| s.address()).min().unwrap() & !0xfff;
    let bias = base.wrapping_sub(first);
    let segments = elf.segments().map(|s| {
        let SegmentFlags::Elf { p_flags } = s.flags() else {
            panic!("no ELF file")
        };
        Segment {
            at: s.address().wrapping_add(bias),
            bytes: s.data().unwrap().to_vec(),
            is_code: p_flags & object::elf::PF_X != 0,
        }
    });
    let image = Image::new(segments.collect());
    let frames = elf.section_by_name(".eh_frame").unwrap().address();
    let functions = Functions::parse(&image, frames.wrapping_add(bias));
    functions.all().iter().map(|f| f.range.clone()).collect()
}

/// Probes of these functions; rows are used again when there are no more.
pub fn probes(functions: impl IntoIterator<Item = Range<u64>>, measure: Measure) -> Vec<Probe> {
    let probe = |(i, function)| Probe::new(i % ROWS, function, measure);
    (0..).zip(functions).map(probe).collect()
}

/// Leaves out parts that the compiler moved elsewhere, which are no functions.
pub fn without_parts(mut inserted: Vec<Inserted>) -> Vec<Inserted> {
    inserted.retain(|i| !matches!(i, Inserted::No { why } if why.contains("a part of")));
    inserted
}

/// Shares of functions whose entry has a probe, and that have all that was asked for; 0..1.
pub fn shares(inserted: &[Inserted]) -> (f64, f64) {
    let share = |is_good: &dyn Fn(&Inserted) -> bool| {
        let good = inserted.iter().filter(|i| is_good(i)).count();
        good as f64 / inserted.len().max(1) as f64
    };
    let has_entry = |i: &Inserted| !matches!(i, Inserted::No { .. });
    (share(&has_entry), share(&|i| *i == Inserted::Whole))
}

/// Counts why functions have no probe, or none of their exits; most frequent first.
pub fn reasons(inserted: &[Inserted]) -> Vec<(&str, usize)> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for one in inserted {
        if let Inserted::No { why } | Inserted::CallsOnly { why } = one {
            // In front of the last colon stands which function it is.
            let why = why.rsplit(": ").next().unwrap_or(why);
            *reasons.entry(why).or_default() += 1;
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    reasons
}

/// Reads the code of all files that a process has mapped. Stubs, which are of no file, may stay
/// mapped.
///
/// # Panics
/// The process is gone, or may not be looked at.
pub fn code(pid: u32) -> Vec<u8> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut all = Vec::new();
    for line in maps
        .lines()
        .filter(|l| l.contains(" r-xp ") && l.contains('/'))
    {
        let (lo, hi) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let address = |text| u64::from_str_radix(text, 16).unwrap();
        let mut bytes = vec![0; (address(hi) - address(lo)) as usize];
        memory.read_exact_at(&mut bytes, address(lo)).unwrap();
        all.extend(bytes);
    }
    all
}
