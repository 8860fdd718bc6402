//! The ring that an event shares with the kernel: one page with the positions, then the records.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Positions in the first page (`struct perf_event_mmap_page`).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// Smaller ones lose events at once.
const LEAST_BYTES: usize = 32 << 10;

/// A mapped ring.
#[derive(Debug)]
pub(super) struct Ring {
    base: NonNull<u8>,
    page: usize,
    /// Of the records, a power of two.
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and only this value refers to it.
unsafe impl Send for Ring {}

impl Ring {
    /// As large as asked for, or half of it, or a quarter ...: users without privileges may lock 516 KiB for
    /// each processor, all their rings together.
    pub(super) fn largest(event: &OwnedFd, bytes: usize) -> io::Result<Self> {
        let mut bytes = bytes.next_power_of_two().max(rustix::param::page_size());
        loop {
            match Self::map(event, bytes) {
                Err(e) if e.raw_os_error() == Some(libc::EPERM) && bytes / 2 >= LEAST_BYTES => {
                    bytes /= 2;
                }
                result => return result,
            }
        }
    }

    fn map(event: &OwnedFd, bytes: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page + bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Self { base, page, bytes })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Appends all records that are in it, and makes room for new ones.
    pub(super) fn take(&mut self, into: &mut Vec<u8>) {
        // Only this side writes the tail. Acquire: the records before the head are there.
        let tail = self.position(DATA_TAIL).load(Ordering::Relaxed);
        let head = self.position(DATA_HEAD).load(Ordering::Acquire);
        let n = head.wrapping_sub(tail).min(self.bytes as u64) as usize;
        let at = (tail & (self.bytes as u64 - 1)) as usize;
        let first = n.min(self.bytes - at);
        into.extend_from_slice(self.records(at, first));
        into.extend_from_slice(self.records(0, n - first));
        // Release: all reads are done before the kernel may write there again.
        self.position(DATA_TAIL).store(head, Ordering::Release);
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page is mapped as long as `self` lives, both positions are aligned 64-bit words in
        // it, and the kernel accesses them as atomics.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Bytes between tail and head.
    fn records(&self, at: usize, n: usize) -> &[u8] {
        // SAFETY: `at + n` is within the mapping, by the caller's arithmetic; the kernel does not write between
        // tail and head, and the tail moves only after the slice has been copied.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(self.page + at), n) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping that `map` made; nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.page + self.bytes) };
    }
}
