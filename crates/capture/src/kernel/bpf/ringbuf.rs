//! The kernel's BPF ring buffer, read in place: records can be looked at before it is decided how many of them are
//! taken, which the merging needs and libbpf's reader cannot do.

use std::borrow::Cow;
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
    /// One page with the position of the writers, and the data. Once: the kernel has it twice in a row, for records that
    /// wrap, but what is mapped twice counts twice as memory of convoy's.
    producer: Mapping,
    page: usize,
    bytes: usize,
    /// Looked at up to here.
    seen: u64,
}

/// Where a record lies. Valid until [`RingBuf::release`] has passed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    position: u64,
    bytes: u32,
}

/// What comes next in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// A complete record.
    At(Place),
    /// One that is still being written; what other processors have written after it cannot be had before.
    Unfinished,
    /// There is no more.
    Nothing,
}

impl RingBuf {
    pub fn new(map: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        Ok(Self {
            consumer: Mapping::new(map, 0, page, true)?,
            producer: Mapping::new(map, page, page + bytes, false)?,
            page,
            bytes,
            seen: 0,
        })
    }

    /// The next record that was not looked at yet.
    pub fn look(&mut self) -> Look {
        loop {
            if self.seen >= self.producer.word(0).load(Ordering::Acquire) {
                return Look::Nothing;
            }
            let header = self.page + self.index(self.seen);
            let length = self.producer.half_word(header).load(Ordering::Acquire);
            if length & BUSY != 0 {
                return Look::Unfinished;
            }
            let bytes = length & !DISCARDED;
            let position = self.seen + HEADER_BYTES;
            self.seen = position + u64::from(bytes).next_multiple_of(8);
            if length & DISCARDED == 0 {
                return Look::At(Place { position, bytes });
            }
        }
    }

    /// The bytes of a record; a copy of one that wraps.
    pub fn record(&self, place: Place) -> Cow<'_, [u8]> {
        let start = self.index(place.position);
        let bytes = place.bytes as usize;
        let whole = bytes.min(self.bytes - start);
        let first = self.producer.published(self.page + start, whole);
        if whole == bytes {
            return Cow::Borrowed(first);
        }
        let rest = self.producer.published(self.page, bytes - whole);
        Cow::Owned([first, rest].concat())
    }

    /// Where a position is in the data.
    fn index(&self, position: u64) -> usize {
        (position & (self.bytes as u64 - 1)) as usize
    }

    /// Gives everything before this record back to the kernel; everything looked at if there is none.
    pub fn release(&self, first_kept: Option<Place>) {
        let upto = first_kept.map_or(self.seen, |place| place.position - HEADER_BYTES);
        self.consumer.word(0).store(upto, Ordering::Release);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    /// A file that looks like the kernel's map.
    #[derive(Debug)]
    pub struct Written {
        file: File,
        page: usize,
        bytes: usize,
        position: u64,
    }

    impl Written {
        pub fn new(bytes: usize) -> Self {
            let page = rustix::param::page_size();
            let file = tempfile::tempfile().unwrap();
            file.set_len((2 * page + bytes) as u64).unwrap();
            Self {
                file,
                page,
                bytes,
                position: 0,
            }
        }

        pub fn reader(&self) -> RingBuf {
            RingBuf::new(self.file.as_fd(), self.bytes).unwrap()
        }

        fn at(&self, position: u64, bytes: &[u8]) {
            for (i, byte) in (0u64..).zip(bytes) {
                let index = (position + i) as usize % self.bytes;
                let offset = 2 * self.page + index;
                self.file.write_all_at(&[*byte], offset as u64).unwrap();
            }
        }

        /// Reserves room for a record; where it is.
        pub fn begin(&mut self, content: &[u8]) -> u64 {
            let start = self.position;
            self.at(start, &(content.len() as u32 | BUSY).to_ne_bytes());
            self.at(start + HEADER_BYTES, content);
            self.position += HEADER_BYTES + (content.len() as u64).next_multiple_of(8);
            let head = self.position.to_ne_bytes();
            self.file.write_all_at(&head, self.page as u64).unwrap();
            start
        }

        pub fn end(&self, start: u64, length: usize, flags: u32) {
            self.at(start, &(length as u32 | flags).to_ne_bytes());
        }

        pub fn write(&mut self, content: &[u8]) {
            let start = self.begin(content);
            self.end(start, content.len(), 0);
        }
    }

    fn next(reader: &mut RingBuf) -> Vec<u8> {
        let Look::At(place) = reader.look() else {
            panic!("no record")
        };
        reader.record(place).into_owned()
    }

    #[test]
    fn records_that_wrap_are_whole_and_discarded_ones_are_passed() {
        let mut written = Written::new(4096);
        let mut reader = written.reader();
        for round in 0..100u8 {
            // No divisor of the buffer's length: after some rounds a record lies over its end.
            let content: Vec<u8> = (0..203).map(|i: u8| i ^ round).collect();
            let start = written.begin(&[7; 40]);
            written.end(start, 40, DISCARDED);
            written.write(&content);
            assert_eq!(next(&mut reader), content);
            assert_eq!(reader.look(), Look::Nothing);
            reader.release(None);
        }
    }

    #[test]
    fn nothing_after_an_unfinished_record_is_there_yet() {
        let mut written = Written::new(4096);
        let mut reader = written.reader();
        let start = written.begin(b"slow");
        written.write(b"fast");
        assert_eq!(reader.look(), Look::Unfinished);
        written.end(start, 4, 0);
        assert_eq!(next(&mut reader), b"slow");
        assert_eq!(next(&mut reader), b"fast");
        assert_eq!(reader.look(), Look::Nothing);
    }
}
