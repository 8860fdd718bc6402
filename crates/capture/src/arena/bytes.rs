//! The bytes of an arena, wherever they lie: in memory, or in a file of which only a window is.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

use zerocopy::{FromBytes, IntoBytes};

/// What is read at once. The records of one thread lie together, and those that all threads share are few.
const PIECE_BYTES: u64 = 64 << 10;
/// Pieces kept: 4 MiB.
const KEPT: usize = 64;

/// The bytes of an arena.
pub(crate) trait Bytes {
    /// Where they end.
    fn end(&self) -> u64;

    /// Fills `into` with what lies at `at`. False if not all of that is there; then `into` may hold anything.
    fn fill(&self, at: u64, into: &mut [u8]) -> bool;
}

/// The value that lies at `at`.
pub(super) fn value_at<T: FromBytes + IntoBytes>(bytes: &dyn Bytes, at: u64) -> Option<T> {
    let mut value = T::new_zeroed();
    bytes.fill(at, value.as_mut_bytes()).then_some(value)
}

impl Bytes for Vec<u8> {
    fn end(&self) -> u64 {
        self.len() as u64
    }

    fn fill(&self, at: u64, into: &mut [u8]) -> bool {
        let found = usize::try_from(at).ok().and_then(|at| {
            let end = at.checked_add(into.len())?;
            self.get(at..end)
        });
        found.map(|found| into.copy_from_slice(found)).is_some()
    }
}

impl Bytes for File {
    fn end(&self) -> u64 {
        self.metadata().map_or(0, |file| file.len())
    }

    fn fill(&self, at: u64, into: &mut [u8]) -> bool {
        self.read_exact_at(into, at).is_ok()
    }
}

/// A file that is read in pieces.
///
/// Read and not mapped: the program could truncate the file under a mapping and kill us with SIGBUS. And not read whole:
/// of ten thousand threads it has 200 MB, each of which is looked at once.
#[derive(Debug)]
pub(crate) struct Pieces<'f> {
    file: &'f File,
    end: u64,
    /// The pieces read last, by their number; the latest first.
    kept: RefCell<Vec<(u64, Vec<u8>)>>,
}

impl<'f> Pieces<'f> {
    /// Of an open file, up to where it ends now.
    pub fn new(file: &'f File) -> Self {
        Self {
            file,
            end: file.end(),
            kept: RefCell::default(),
        }
    }

    /// Reads a piece into the place of the one that was not used for longest.
    fn read(&self, number: u64, kept: &mut Vec<(u64, Vec<u8>)>) {
        let mut piece = match kept.len() {
            KEPT => kept.pop().map_or_else(Vec::new, |(_, piece)| piece),
            _ => Vec::new(),
        };
        let start = number * PIECE_BYTES;
        let bytes = self.end.saturating_sub(start).min(PIECE_BYTES);
        piece.resize(bytes as usize, 0);
        // It may have been made shorter meanwhile: what is not there is nothing.
        if !self.file.fill(start, &mut piece) {
            piece.clear();
        }
        kept.insert(0, (number, piece));
    }
}

impl Bytes for Pieces<'_> {
    fn end(&self) -> u64 {
        self.end
    }

    fn fill(&self, at: u64, into: &mut [u8]) -> bool {
        let mut kept = self.kept.borrow_mut();
        let mut done = 0;
        while done < into.len() {
            let Some(at) = at.checked_add(done as u64).filter(|at| *at < self.end) else {
                return false;
            };
            let number = at / PIECE_BYTES;
            match kept.iter().position(|(n, _)| *n == number) {
                Some(0) => {}
                Some(place) => kept[..=place].rotate_right(1),
                None => self.read(number, &mut kept),
            }
            let found = kept.first().map_or(&[][..], |(_, piece)| piece);
            let found = found.get((at % PIECE_BYTES) as usize..).unwrap_or_default();
            let n = found.len().min(into.len() - done);
            if n == 0 {
                return false;
            }
            into[done..done + n].copy_from_slice(&found[..n]);
            done += n;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that tell where they are.
    fn content(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|i| (i / 251 + i * 7) as u8).collect()
    }

    #[test]
    fn a_file_in_pieces_is_the_same_as_in_memory() {
        let pieces_there_are = KEPT + 9; // more than are kept
        let whole = content(pieces_there_are * PIECE_BYTES as usize + 777);
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&whole, 0).unwrap();
        let pieces = Pieces::new(&file);
        assert_eq!(pieces.end(), whole.end());
        let mut state = 7u64;
        for _ in 0..5_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = (state >> 33) % (whole.end() + 100);
            let bytes = [1, 8, 64, 12_096, 70_000][(state >> 20) as usize % 5];
            let (mut mine, mut theirs) = (vec![0; bytes], vec![0; bytes]);
            let there = whole.fill(at, &mut theirs);
            assert_eq!(pieces.fill(at, &mut mine), there, "{bytes} at {at}");
            assert!(!there || mine == theirs, "{bytes} at {at}");
        }
        assert!(pieces.kept.borrow().len() <= KEPT);
    }

    #[test]
    fn a_file_that_gets_shorter_or_longer_meanwhile_is_read_as_far_as_it_goes() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&content(200_000), 0).unwrap();
        let pieces = Pieces::new(&file);
        file.write_all_at(&[1], 900_000).unwrap();
        assert!(!pieces.fill(300_000, &mut [0]), "not there when it began");
        file.set_len(70_000).unwrap();
        assert!(pieces.fill(60_000, &mut [0; 5_000]));
        assert!(!pieces.fill(150_000, &mut [0]));
        assert!(!pieces.fill(u64::MAX, &mut [0]));
    }
}
