//! Calls of functions that have no room for a jump, counted by uprobes of the kernel. The kernel
//! takes them out when this process ends, whatever ends it.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use convoy_probes::{uprobe_site, Cell, Probe};

use super::uprobe_price::UprobePrices;
use crate::kernel::perf::attr::{self, Attr};
use crate::procfs;

/// Bytes of a function that are looked at.
const MOST_CODE: u64 = 1 << 16;

/// Uprobes by row.
#[derive(Debug, Default)]
pub struct Uprobes {
    rows: BTreeMap<u32, Vec<File>>,
}

impl Uprobes {
    /// Counts the calls of a probe's function; gives what a call costs, nanoseconds.
    ///
    /// # Errors
    /// There is no right to do so, or the kernel has no uprobes.
    pub fn insert(&mut self, pid: u32, probe: &Probe) -> io::Result<u64> {
        let function = &probe.function;
        let length = function.end.saturating_sub(function.start).min(MOST_CODE);
        let mut code = vec![0; length as usize];
        File::open(format!("/proc/{pid}/mem"))?.read_exact_at(&mut code, function.start)?;
        let site = uprobe_site(&code, function.start);
        let prices = UprobePrices::here()?;
        let place = Place::of(pid, site.at)?;
        let mut files = Vec::new();
        // Threads that these make are counted, too.
        for tid in procfs::threads(pid) {
            match place.count(tid) {
                Ok(file) => files.push(file),
                // It has ended.
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                Err(e) => return Err(e),
            }
        }
        self.rows.insert(probe.row, files);
        Ok(match site.is_emulated {
            true => prices.emulated_ns,
            false => prices.stepped_ns,
        })
    }

    /// Takes those of some rows out; gives the rows that have none.
    pub fn remove(&mut self, rows: &[u32]) -> Vec<u32> {
        let others = rows.iter().filter(|row| self.rows.remove(row).is_none());
        others.copied().collect()
    }

    /// Calls so far: of all threads together, whose number is 0.
    pub fn read(&self) -> impl Iterator<Item = Cell> + '_ {
        self.rows.iter().map(|(row, files)| {
            let calls = files.iter().map(|file| count(file).unwrap_or(0));
            Cell {
                calls: calls.fold(0, u64::saturating_add),
                ..Cell::new(0, *row)
            }
        })
    }
}

fn count(mut file: &File) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// An instruction as the kernel wants it named.
pub(super) struct Place {
    /// Type of the events.
    kind: u32,
    path: CString,
    offset: u64,
}

impl Place {
    pub(super) fn of(pid: u32, at: u64) -> io::Result<Self> {
        let kind = fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
        let kind = kind.trim().parse().map_err(io::Error::other)?;
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let mapped = maps.lines().find_map(|line| mapping(line, at));
        let (range, offset) = mapped.ok_or(io::ErrorKind::NotFound)?;
        let path = CString::new(format!("/proc/{pid}/map_files/{range}"))?;
        Ok(Self { kind, path, offset })
    }

    pub(super) fn count(&self, tid: u32) -> io::Result<File> {
        let attr = Attr::of_uprobe(self.kind, &self.path, self.offset);
        attr::open(&attr, tid, None).map(File::from)
    }
}

/// Finds an address in a line of /proc/PID/maps: the range as it stands there, and the place in the
/// file; `None` = the line does not cover it.
fn mapping(line: &str, at: u64) -> Option<(&str, u64)> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut words = line.split_ascii_whitespace();
    let range = words.next()?;
    let (low, high) = range.split_once('-')?;
    let (low, high) = (hex(low)?, hex(high)?);
    let offset = hex(words.nth(1)?)?;
    let has_file = words.nth(1)? != "0";
    (has_file && (low..high).contains(&at)).then(|| (range, at - low + offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_its_file() {
        let line = "55d0c0a01000-55d0c0a05000 r-xp 00001000 fe:00 1234    /usr/bin/server";
        let found = Some(("55d0c0a01000-55d0c0a05000", 0x1010));
        assert_eq!(mapping(line, 0x55d0_c0a0_1010), found);
        assert_eq!(mapping(line, 0x55d0_c0a0_5000), None);
        let anonymous = "7f0000000000-7f0000001000 r-xp 00000000 00:00 0";
        assert_eq!(mapping(anonymous, 0x7f00_0000_0000), None);
    }
}
