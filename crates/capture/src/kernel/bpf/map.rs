//! Memory that the BPF programs write and convoy reads. Nearly all `unsafe` of the source is here.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use zerocopy::{FromBytes, Immutable, KnownLayout};

/// A shared mapping of a BPF map.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps so many bytes from this offset; the kernel checks that the map has them.
    pub fn new(map: BorrowedFd<'_>, offset: usize, bytes: usize, write: bool) -> io::Result<Self> {
        let protection = libc::PROT_READ | if write { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        match NonNull::new(start.cast()) {
            Some(start) if start.as_ptr() as usize != usize::MAX => Ok(Self { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// A word that both sides use. The offset must be aligned.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset % 8 == 0 && offset + 8 <= self.bytes);
        // SAFETY: inside of the mapping, aligned, and shared only through atomic or single aligned accesses.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// As [`Self::word`], of half the size.
    pub fn half_word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset % 4 == 0 && offset + 4 <= self.bytes);
        // SAFETY: as in `word`.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// A copy of what lies there. What the kernel overwrites meanwhile may be torn: ask only for what it has
    /// published.
    pub fn read<T: FromBytes + KnownLayout + Immutable>(&self, offset: usize) -> Option<T> {
        if offset.checked_add(size_of::<T>())? > self.bytes {
            return None;
        }
        // SAFETY: inside of the mapping, and any bytes are a value of the type.
        Some(unsafe { self.start.as_ptr().add(offset).cast::<T>().read_unaligned() })
    }

    /// Bytes that the kernel has published and will not write again before it is told that they were read. Empty
    /// if they are not inside of the mapping.
    pub fn published(&self, offset: usize, bytes: usize) -> &[u8] {
        match offset.checked_add(bytes) {
            // SAFETY: inside of the mapping, and not written while borrowed, as the caller promises by not
            // moving the reader's position on.
            Some(end) if end <= self.bytes => unsafe {
                std::slice::from_raw_parts(self.start.as_ptr().add(offset), bytes)
            },
            _ => &[],
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and no reference to it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
