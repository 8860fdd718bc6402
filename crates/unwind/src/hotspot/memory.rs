//! The memory of a process.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Addresses of processes: not the first page, and far from where sums overflow.
pub(super) const ADDRESSES: std::ops::Range<u64> = 4096..1 << 57;
/// Longest name.
const NAME: usize = 512;

pub(super) struct Memory(File);

impl Memory {
    pub(super) fn of(dir: &Path) -> Option<Self> {
        File::open(dir.join("mem")).ok().map(Self)
    }

    pub(super) fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    /// As many of these as can be read.
    pub(super) fn fill<'a>(&self, address: u64, buffer: &'a mut [u8]) -> &'a [u8] {
        let read = self.0.read_at(buffer, address).unwrap_or(0);
        &buffer[..read]
    }

    pub(super) fn u8(&self, address: u64) -> Option<u8> {
        self.bytes(address).map(u8::from_le_bytes)
    }

    pub(super) fn u16(&self, address: u64) -> Option<u16> {
        self.bytes(address).map(u16::from_le_bytes)
    }

    pub(super) fn i32(&self, address: u64) -> Option<i32> {
        self.bytes(address).map(i32::from_le_bytes)
    }

    /// Also of pointers.
    pub(super) fn u64(&self, address: u64) -> Option<u64> {
        self.bytes(address).map(u64::from_le_bytes)
    }

    /// A pointer that leads somewhere: sums of it and an offset are addresses, too.
    pub(super) fn pointer(&self, address: u64) -> Option<u64> {
        self.u64(address).filter(|to| ADDRESSES.contains(to))
    }

    /// Text that ends with a NUL.
    pub(super) fn text(&self, address: u64) -> Option<String> {
        const SHORT: usize = 64;
        let mut buffer = [0; NAME];
        // Most are short, and lie at the end of a page as often as anywhere.
        for length in [SHORT, NAME] {
            let read = self.fill(address, &mut buffer[..length]);
            if let Some(end) = read.iter().position(|&byte| byte == 0) {
                return String::from_utf8(read[..end].to_vec()).ok();
            }
        }
        None
    }

    /// Text of that length.
    pub(super) fn text_of(&self, address: u64, length: u16) -> Option<String> {
        let mut buffer = vec![0; usize::from(length).min(NAME)];
        let read = self.fill(address, &mut buffer);
        (read.len() == usize::from(length).min(NAME))
            .then(|| String::from_utf8_lossy(read).into_owned())
    }
}
