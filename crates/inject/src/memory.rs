//! A process's memory from outside: `/proc/PID/mem` and `/proc/PID/maps`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use zerocopy::{FromBytes, IntoBytes};

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;

/// Memory of the image that the process ran when this was opened: after an exec, reads and writes
/// fail or go to pages that nobody uses any more.
#[derive(Debug)]
pub(crate) struct Memory(File);

impl Memory {
    pub fn open(pid: u32) -> io::Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/mem"))?;
        Ok(Self(file))
    }

    /// Also where the page may only be read: the kernel lets a tracer write to private pages.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at).map_err(gone)
    }

    pub fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, at).map_err(gone)
    }

    /// As much as there is, at most `words`.
    pub fn words(&self, at: u64, words: usize) -> Vec<u64> {
        let mut bytes = vec![0; words * 8];
        let n = self.0.read_at(&mut bytes, at).unwrap_or(0);
        let chunks = bytes[..n].chunks_exact(8);
        chunks
            .map(|w| u64::from_le_bytes(w.try_into().unwrap_or_default()))
            .collect()
    }

    pub fn get<T: FromBytes + IntoBytes>(&self, at: u64) -> io::Result<T> {
        let mut value = T::new_zeroed();
        self.read(at, value.as_mut_bytes())?;
        Ok(value)
    }

    pub fn put<T: IntoBytes + zerocopy::Immutable>(&self, at: u64, value: &T) -> io::Result<()> {
        self.write(at, value.as_bytes())
    }

    /// A NUL-terminated text of at most 255 bytes.
    pub fn text(&self, at: u64) -> io::Result<String> {
        let mut bytes = [0; 256];
        let n = self.0.read_at(&mut bytes, at)?;
        let bytes = bytes[..n].split(|b| *b == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Nothing at all can be read or written any more when the image is gone.
fn gone(e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::WriteZero | io::ErrorKind::UnexpectedEof => {
            io::Error::from_raw_os_error(libc::ESRCH)
        }
        _ => e,
    }
}

/// A line of `/proc/PID/maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Region {
    pub lo: u64,
    pub hi: u64,
    pub executable: bool,
    /// Offset of `lo` in the file.
    pub offset: u64,
    /// Inode of the file, 0 = none.
    pub inode: u64,
    /// Empty: anonymous. Without the remark that the file was unlinked.
    pub path: String,
}

impl Region {
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// All of them by address.
pub(crate) fn regions(pid: u32) -> io::Result<Vec<Region>> {
    let text = fs::read(format!("/proc/{pid}/maps"))?;
    Ok(String::from_utf8_lossy(&text)
        .lines()
        .filter_map(region)
        .collect())
}

/// `lo-hi perms offset major:minor inode path`
fn region(line: &str) -> Option<Region> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut rest = line;
    let mut field = || {
        let (head, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = tail.trim_start_matches(' ');
        head
    };
    let (lo, hi) = field().split_once('-')?;
    let (lo, hi) = (hex(lo)?, hex(hi)?);
    let permissions = field();
    let offset = hex(field())?;
    field();
    let inode = field().parse().ok()?;
    Some(Region {
        lo,
        hi,
        executable: permissions.as_bytes().get(2) == Some(&b'x'),
        offset,
        inode,
        path: rest.strip_suffix(" (deleted)").unwrap_or(rest).to_owned(),
    })
}

/// Pages of anonymous executable memory that have ever been written, by address. The kernel joins
/// neighbours that are mapped alike: what was mapped by itself may begin anywhere.
pub(crate) fn code_pages(pid: u32, regions: &[Region]) -> Vec<u64> {
    const ENTRY_BYTES: u64 = 8;
    /// In memory, or in swap: Documentation/admin-guide/mm/pagemap.rst of the kernel.
    const IS_THERE: u64 = 3 << 62;
    let map = File::open(format!("/proc/{pid}/pagemap"));
    let mut pages = Vec::new();
    for region in regions {
        if !region.executable || region.inode != 0 || region.path.starts_with("[v") {
            continue;
        }
        let count = (region.hi - region.lo) / PAGE;
        let mut entries = vec![0; (count * ENTRY_BYTES) as usize];
        let read = map.as_ref().is_ok_and(|map| {
            map.read_exact_at(&mut entries, region.lo / PAGE * ENTRY_BYTES)
                .is_ok()
        });
        for (index, entry) in (0..count).zip(entries.chunks_exact(ENTRY_BYTES as usize)) {
            let entry = u64::from_le_bytes(entry.try_into().unwrap_or_default());
            if !read || entry & IS_THERE != 0 {
                pages.push(region.lo + index * PAGE);
            }
        }
    }
    pages
}

/// How far a jump of five bytes reaches, with room for the size of what it comes from.
pub(crate) const REACH: u64 = 1 << 30;

/// Room for `bytes` that nothing is mapped in, at most `reach` from `near`.
pub(crate) fn gap(regions: &[Region], near: u64, bytes: u64, reach: u64) -> Option<u64> {
    // Below the lowest addresses the kernel maps nothing without rights.
    const LOWEST: u64 = 1 << 20;
    let mut best: Option<u64> = None;
    let mut end = LOWEST;
    for region in regions {
        if region.lo >= end.saturating_add(bytes) {
            // Just below the next mapping, and just behind the last one.
            for at in [region.lo - bytes, end] {
                let is_better = best.is_none_or(|b| at.abs_diff(near) < b.abs_diff(near));
                if at.abs_diff(near) < reach && is_better {
                    best = Some(at);
                }
            }
        }
        end = end.max(region.hi);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_keeps_blanks_of_a_path() {
        let r =
            region("7f00-8f00 r-xp 00001000 fe:01 1234      /a dir/lib c.so (deleted)").unwrap();
        assert_eq!(
            (r.lo, r.hi, r.offset, r.inode),
            (0x7f00, 0x8f00, 0x1000, 1234)
        );
        assert_eq!(
            (r.path.as_str(), r.file_name()),
            ("/a dir/lib c.so", "lib c.so")
        );
        assert!(r.executable);
        assert!(region("7f00-8f00 rw-p 0 00:00 0").unwrap().path.is_empty());
        assert!(region("nonsense").is_none());
    }

    #[test]
    fn gap_is_the_nearest_hole_that_is_large_enough() {
        let at = |lo, hi| Region {
            lo,
            hi,
            executable: false,
            offset: 0,
            inode: 0,
            path: String::new(),
        };
        let all = [
            at(0x50_0000, 0x60_0000),
            at(0x60_1000, 0x70_0000),
            at(0x90_0000, 0xa0_0000),
        ];
        assert_eq!(gap(&all, 0x65_0000, 0x4000, 1 << 31), Some(0x70_0000));
        assert_eq!(gap(&all, 0x65_0000, 0x1000, 1 << 31), Some(0x60_0000));
        assert_eq!(gap(&all, 0x65_0000, 0x4000, 0x1000), None);
    }

    #[test]
    fn written_pages_of_joined_mappings_are_found() {
        let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let bytes = 64 * PAGE as usize;
        // SAFETY: new memory, which nobody else uses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        let fifth = at as u64 + 5 * PAGE;
        // SAFETY: within the mapping above.
        unsafe { (fifth as *mut u8).write(1) };
        let pid = std::process::id();
        let mut pages = code_pages(pid, &regions(pid).unwrap());
        pages.retain(|page| (at as u64..at as u64 + bytes as u64).contains(page));
        assert_eq!(pages, [fifth]);
        // SAFETY: mapped above.
        unsafe { libc::munmap(at, bytes) };
    }

    #[test]
    fn own_memory_is_read_and_written() {
        let value = Box::new(7u64);
        let at = &raw const *value as u64;
        let memory = Memory::open(std::process::id()).unwrap();
        assert_eq!(memory.get::<u64>(at).unwrap(), 7);
        memory.put(at, &8u64).unwrap();
        assert_eq!(memory.words(at, 1), [8]);
        assert!(memory.get::<u64>(0).is_err());
        assert!(regions(std::process::id())
            .unwrap()
            .iter()
            .any(|r| r.executable));
    }
}
