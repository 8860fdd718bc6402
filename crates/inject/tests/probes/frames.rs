//! Functions of a file that a process has mapped, by their frames: also of stripped files.

use std::fs;
use std::ops::Range;
use std::path::Path;

use convoy_probes::{Functions, Image, Segment};
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags};

/// Their addresses in the process.
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
