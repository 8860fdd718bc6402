//! The kernel's BPF ring buffer, read in place: records can be looked at before it is decided how many of them are
//! taken, which the merging needs and libbpf's reader cannot do.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use super::map::Mapping;

/// Length word of a record that is still being written.
const BUSY: u32 = 1 << 31;
/// Length word of a record that its writer has given up.
const DISCARDED: u32 = 1 << 30;
/// Length and page number, before each record.
const HEADER_BYTES: u64 = 8;

/// A reader of the only consumer.
#[derive(Debug)]
pub(super) struct RingBuf {
    /// One page with the position of the reader.
    consumer: Mapping,
    /// One page with the position of the writers, and twice the data: a record that wraps is in one piece.
    producer: Mapping,
    page: usize,
    mask: u64,
    /// Looked at up to here.
    seen: u64,
}

/// Where a record lies. Valid until [`RingBuf::release`] has passed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    position: u64,
    bytes: u32,
}

impl RingBuf {
    pub fn new(map: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        Ok(Self {
            consumer: Mapping::new(map, 0, page, true)?,
            producer: Mapping::new(map, page, page + 2 * bytes, false)?,
            page,
            mask: bytes as u64 - 1,
            seen: 0,
        })
    }

    /// The next complete record that was not looked at yet.
    pub fn look(&mut self) -> Option<Place> {
        loop {
            if self.seen >= self.producer.word(0).load(Ordering::Acquire) {
                return None;
            }
            let header = self.page + (self.seen & self.mask) as usize;
            let length = self.producer.half_word(header).load(Ordering::Acquire);
            if length & BUSY != 0 {
                return None;
            }
            let bytes = length & !DISCARDED;
            let position = self.seen + HEADER_BYTES;
            self.seen = position + u64::from(bytes).next_multiple_of(8);
            if length & DISCARDED == 0 {
                return Some(Place { position, bytes });
            }
        }
    }

    /// The bytes of a record.
    pub fn record(&self, place: Place) -> &[u8] {
        let offset = self.page + (place.position & self.mask) as usize;
        self.producer.published(offset, place.bytes as usize)
    }

    /// Gives everything before this record back to the kernel; everything looked at if there is none.
    pub fn release(&self, first_kept: Option<Place>) {
        let upto = first_kept.map_or(self.seen, |place| place.position - HEADER_BYTES);
        self.consumer.word(0).store(upto, Ordering::Release);
    }
}
