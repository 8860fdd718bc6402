//! Modules of the probed process, read from its memory: also of files that are deleted, stripped,
//! or not seen from here.

use std::io;

use convoy_probes::{Image, Module, Segment};
use object::{Object, ObjectSection};

use crate::image::{mapped_file, Image as File};
use crate::memory::{Memory, Region};

const PT_LOAD: u32 = 1;
/// `.eh_frame_hdr`, which says where `.eh_frame` is.
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const MAX_PROGRAM_HEADERS: u16 = 64;
/// Encoding of a signed distance of four bytes from its own place (LSB core, section 10.5.1).
const DISTANCE: u8 = 0x1b;

/// The address range of the module that covers `at`, by its regions, and its first address.
fn regions_of(regions: &[Region], at: u64) -> Option<&[Region]> {
    let index = regions.iter().position(|r| (r.lo..r.hi).contains(&at))?;
    let path = &regions[index].path;
    let first = regions[..=index]
        .iter()
        .rposition(|r| r.path == *path && r.offset == 0)?;
    // The zeroed data behind a file is anonymous, and lies next to it. What follows after a gap is
    // somebody's own: without a heap by brk, that may be everything up to the libraries.
    let mut end = regions[first].lo;
    let is_same = |r: &&Region| {
        let is_next = std::mem::replace(&mut end, r.hi) == r.lo;
        r.path == *path || (r.path.is_empty() && is_next)
    };
    let count = regions[first..].iter().take_while(is_same).count();
    // Another module of the same file would begin with its first byte again.
    let all = &regions[first..first + count];
    let again = all
        .iter()
        .skip(1)
        .position(|r| r.offset == 0 && r.path == *path && r.inode != 0);
    let all = again.map_or(all, |n| &all[..n.max(index - first) + 1]);
    (index - first < all.len()).then_some(all)
}

/// Reads and analyses the module that covers an address; with its address range.
pub(super) fn read(
    pid: u32,
    memory: &Memory,
    regions: &[Region],
    at: u64,
) -> Result<(std::ops::Range<u64>, Module), String> {
    let region = regions.iter().find(|r| (r.lo..r.hi).contains(&at));
    let region = region.ok_or("nothing is mapped there")?;
    if region.path.is_empty() || region.inode == 0 {
        return Err("it is in generated code, which has no call frame information".into());
    }
    let all = regions_of(regions, at).ok_or("its file is not mapped from its beginning")?;
    let (Some(first), Some(last)) = (all.first(), all.last()) else {
        return Err("its file is not mapped".into());
    };
    let range = first.lo..last.hi;
    let eh_frame = eh_frame(memory, first.lo)
        .or_else(|| eh_frame_of_file(pid, first))
        .ok_or("its file has no call frame information (.eh_frame)")?;
    let segments = all.iter().filter(|r| !r.path.is_empty());
    let segments = segments.filter_map(|r| segment(memory, r).ok());
    let module = Module::new(Image::new(segments.collect()), eh_frame);
    if module.functions().all().is_empty() {
        return Err("its call frame information cannot be read".into());
    }
    Ok((range, module))
}

fn segment(memory: &Memory, region: &Region) -> io::Result<Segment> {
    let mut bytes = vec![0; (region.hi - region.lo) as usize];
    memory.read(region.lo, &mut bytes)?;
    Ok(Segment {
        at: region.lo,
        bytes,
        is_code: region.executable,
    })
}

/// Address of `.eh_frame` of the ELF file that is mapped at `base`.
fn eh_frame(memory: &Memory, base: u64) -> Option<u64> {
    let mut header = [0; HEADER_BYTES];
    memory.read(base, &mut header).ok()?;
    if header[..4] != *b"\x7fELF" {
        return None;
    }
    let word = |bytes: &[u8], at: usize| -> Option<u64> {
        Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
    };
    let offset = word(&header, 32)?;
    let count = u16::from_le_bytes(header[56..58].try_into().ok()?).min(MAX_PROGRAM_HEADERS);
    let mut headers = vec![0; usize::from(count) * PROGRAM_HEADER_BYTES];
    memory.read(base.checked_add(offset)?, &mut headers).ok()?;
    let kind = |h: &[u8]| u32::from_le_bytes(h[..4].try_into().unwrap_or_default());
    let headers: Vec<&[u8]> = headers.chunks_exact(PROGRAM_HEADER_BYTES).collect();
    let loaded = headers.iter().filter(|h| kind(h) == PT_LOAD);
    // The one with the file's first byte.
    let first = loaded
        .filter_map(|h| (word(h, 8)? == 0).then(|| word(h, 16))?)
        .next()?;
    let frames = headers.iter().find(|h| kind(h) == PT_GNU_EH_FRAME)?;
    let at = base.wrapping_sub(first).wrapping_add(word(frames, 16)?);
    let mut start = [0; 8];
    memory.read(at, &mut start).ok()?;
    let [version, encoding, _, _, distance @ ..] = start;
    let distance = i64::from(i32::from_le_bytes(distance));
    (version == 1 && encoding == DISTANCE).then(|| at.wrapping_add_signed(4 + distance))
}

/// The same by the table of sections, which is not in memory: static programs have no
/// `.eh_frame_hdr`.
fn eh_frame_of_file(pid: u32, first: &Region) -> Option<u64> {
    let bytes = mapped_file(pid, first)?;
    let file = object::File::parse(&*bytes).ok()?;
    let section = file.section_by_name(".eh_frame")?;
    let segment = File::first_address(&bytes)?;
    Some(
        first
            .lo
            .wrapping_sub(segment)
            .wrapping_add(section.address()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(lo: u64, hi: u64, offset: u64, path: &str) -> Region {
        Region {
            lo,
            hi,
            executable: true,
            offset,
            inode: u64::from(!path.is_empty()),
            path: path.to_owned(),
        }
    }

    #[test]
    fn a_module_ends_with_the_zeroed_data_behind_it() {
        let all = [
            region(0x1000, 0x3000, 0, "/bin/server"),
            region(0x4000, 0x5000, 0x2000, "/bin/server"),
            region(0x5000, 0x6000, 0, ""),
            // No heap by brk separates it from what is mapped next.
            region(0x7000_0000, 0x7000_1000, 0, ""),
            region(0x7000_1000, 0x7000_2000, 0, "/lib/libc.so.6"),
            region(0x7000_2000, 0x7000_3000, 0, ""),
        ];
        let range = |at| {
            let of = regions_of(&all, at)?;
            Some((of.first()?.lo, of.last()?.hi))
        };
        assert_eq!(range(0x1800), Some((0x1000, 0x6000)));
        assert_eq!(range(0x4000), Some((0x1000, 0x6000)));
        assert_eq!(range(0x7000_1800), Some((0x7000_1000, 0x7000_3000)));
    }
}
