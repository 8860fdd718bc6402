//! Which code may be translated: what is mapped readable, executable, not writable and not shared.

use alloc::vec;
use alloc::vec::Vec;

use super::sys;

/// An executable mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub lo: u64,
    pub hi: u64,
    /// Its code stays what it is until someone changes the mapping.
    pub stable: bool,
    /// It lies above the stack, which must be able to grow.
    pub vdso: bool,
}

/// The executable mappings as they were read last.
#[derive(Debug, Default)]
pub struct Maps {
    ranges: Vec<Range>,
    /// The program has changed some of them since.
    pub stale: bool,
    /// The first reading, and what all of them took: reading them costs a millisecond in large programs.
    begin_ns: u64,
    spent_ns: u64,
}

/// Reading the mappings takes one of so many parts of the time at most,
const SHARE: u64 = 20;
/// and so much more.
const BURST_NS: u64 = 50_000_000;

impl Maps {
    /// The mapping of an address.
    pub fn find(&mut self, address: u64) -> Option<Range> {
        if !self.stale {
            if let Some(range) = self.known(address) {
                return Some(range);
            }
        }
        let begin = sys::now_ns();
        if self.begin_ns == 0 {
            self.begin_ns = begin;
        }
        if self.spent_ns > BURST_NS + (begin - self.begin_ns) / SHARE {
            return None;
        }
        self.read();
        self.spent_ns += sys::now_ns() - begin;
        self.known(address)
    }

    fn known(&self, address: u64) -> Option<Range> {
        let behind = self.ranges.partition_point(|range| range.lo <= address);
        let range = *self.ranges.get(behind.checked_sub(1)?)?;
        (address < range.hi).then_some(range)
    }

    fn read(&mut self) {
        self.ranges.clear();
        let ranges = &mut self.ranges;
        self.stale = !each_line(|line| ranges.extend(parse(line)));
    }
}

/// Calls it with each line of /proc/self/maps; false = they cannot be read.
fn each_line(mut take: impl FnMut(&[u8])) -> bool {
    let mut buffer = vec![0u8; 32 << 10];
    let mut line = Vec::with_capacity(512);
    sys::read_file(c"/proc/self/maps", &mut buffer, |bytes| {
        for &byte in bytes {
            if byte == b'\n' {
                take(&line);
                line.clear();
            } else {
                line.push(byte);
            }
        }
    })
}

/// Addresses for so many bytes where nothing is mapped, at most `reach` away from all of [lo, hi); the best first:
/// below by `first` or more, as what is above may be a heap that grows.
pub fn gaps(lo: u64, hi: u64, first: u64, reach: u64, bytes: u64) -> Vec<u64> {
    let mut below = Vec::new();
    let mut above = Vec::new();
    let mut end = 1 << 20;
    let mut gap = |from: u64, to: u64| {
        let from = from.max(hi.saturating_sub(reach));
        let under = to.min(lo.saturating_sub(first));
        if under
            .checked_sub(bytes)
            .is_some_and(|address| address >= from)
        {
            below.push((under - bytes) & !0xfff);
        }
        let (from, over) = (from.max(hi), to.min(lo.saturating_add(reach)));
        if over
            .checked_sub(bytes)
            .is_some_and(|address| address >= from)
        {
            above.push((over - bytes) & !0xfff);
        }
    };
    each_line(|line| {
        if let Some((lo, hi)) = bounds(line) {
            // The stack grows into what is below it.
            let reserved = if line.ends_with(b"[stack]") {
                1 << 30
            } else {
                0
            };
            gap(end, lo.saturating_sub(reserved));
            end = end.max(hi);
        }
    });
    below.reverse();
    below.extend(above.into_iter().rev());
    below
}

fn bounds(line: &[u8]) -> Option<(u64, u64)> {
    let mut bounds = line
        .split(|&byte| byte == b' ')
        .next()?
        .split(|&byte| byte == b'-');
    Some((hexadecimal(bounds.next()?)?, hexadecimal(bounds.next()?)?))
}

/// A line of /proc/self/maps, if it is an executable mapping: `lo-hi rwxp offset device inode path`.
fn parse(line: &[u8]) -> Option<Range> {
    let mut fields = line.split(|&byte| byte == b' ');
    let (lo, hi) = bounds(line)?;
    let rights = fields.nth(1)?;
    if rights.get(2) != Some(&b'x') {
        return None;
    }
    let stable = rights == b"r-xp";
    Some(Range {
        lo,
        hi,
        stable,
        vdso: line.ends_with(b"[vdso]"),
    })
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(digits).ok()?;
    u64::from_str_radix(text, 16).ok()
}
