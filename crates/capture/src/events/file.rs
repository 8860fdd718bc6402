//! An event file: its header, the states of its chunks, the chunks.
//!
//! Read and not mapped: the program could truncate the file under a mapping and kill us with SIGBUS.

use std::fs::File;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use convoy_abi as abi;
use zerocopy::{FromBytes, IntoBytes};

use crate::side_file;

const STATES_AT: u64 = abi::CV_EVENTS_HEADER_BYTES as u64;
const CHUNKS_AT: u64 = STATES_AT + abi::CV_EVENTS_STATES_BYTES as u64;

/// An open event file.
#[derive(Debug)]
pub(super) struct EventFile {
    file: File,
    /// Of the process image that it belongs to.
    pub start_ns: u64,
    /// Chunks that could not be read.
    pub damaged: u64,
}

/// A chunk that was handed over.
#[derive(Debug)]
pub(super) struct Chunk {
    pub head: abi::EventsChunk,
    /// Whole records.
    pub words: Vec<u64>,
}

impl EventFile {
    /// `None` if it is none, or its agent is not ready yet.
    pub fn open(path: &Path) -> Option<Self> {
        let file = side_file::open(path)?;
        let header = header(&file)?;
        Some(Self {
            file,
            start_ns: header.arena_start_ns,
            damaged: 0,
        })
    }

    pub fn header(&self) -> Option<abi::Events> {
        header(&self.file)
    }

    /// Opens or closes the window: whether threads record every operation from now on.
    pub fn set_window(&self, open: bool) {
        let at = offset_of!(abi::Events, window) as u64;
        // Four aligned bytes of a page that the program has mapped: one store. That it fails leaves the window as
        // it is; then there are more or fewer events, each of them right.
        let _ = self.file.write_all_at(&u32::from(open).to_ne_bytes(), at);
    }

    /// Takes what was handed over, and gives the room back. `all`: also what is in the hands of threads, at the
    /// end.
    pub fn take_chunks(&mut self, all: bool, mut each: impl FnMut(Chunk)) -> usize {
        let Some(header) = self.header() else {
            return 0;
        };
        let used = (header.chunks_used as usize).min(abi::CV_EVENTS_CHUNKS);
        let mut states = vec![0u32; used];
        if self
            .file
            .read_exact_at(states.as_mut_bytes(), STATES_AT)
            .is_err()
        {
            self.damaged += 1;
            return 0;
        }
        let (mut taken, mut lowest) = (0, None);
        for (i, state) in (0u32..).zip(states) {
            let ready = state == abi::CV_EVENTS_READY;
            if !(ready || all && state == abi::CV_EVENTS_OWNED) {
                continue;
            }
            match self.read(i) {
                Some(chunk) => each(chunk),
                None => self.damaged += 1,
            }
            taken += 1;
            // At the end nobody needs it, and who recovers a session may have to read it again.
            if ready && !all {
                self.give_back(i);
                lowest = lowest.or(Some(i));
            }
        }
        if let Some(lowest) = lowest.filter(|lowest| *lowest < header.first_free) {
            let at = offset_of!(abi::Events, first_free) as u64;
            // A guess, whoever wins.
            let _ = self.file.write_all_at(&lowest.to_ne_bytes(), at);
        }
        taken
    }

    fn read(&self, i: u32) -> Option<Chunk> {
        let at = CHUNKS_AT + u64::from(i) * abi::CV_EVENTS_CHUNK_BYTES as u64;
        let mut bytes = [0u8; size_of::<abi::EventsChunk>()];
        self.file.read_exact_at(&mut bytes, at).ok()?;
        let head = abi::EventsChunk::read_from_bytes(&bytes).ok()?;
        let mut words = vec![0u64; (head.words as usize).min(abi::CV_EVENTS_WORDS)];
        let at = at + bytes.len() as u64;
        self.file.read_exact_at(words.as_mut_bytes(), at).ok()?;
        Some(Chunk { head, words })
    }

    fn give_back(&mut self, i: u32) {
        let free = abi::CV_EVENTS_FREE.to_ne_bytes();
        // One store, as above.
        if self
            .file
            .write_all_at(&free, STATES_AT + u64::from(i) * 4)
            .is_err()
        {
            self.damaged += 1;
        }
    }

    /// Gives back the memory of all chunks, of which the header says from then on that there are none: thousands of
    /// processes may come after one another. That it fails costs memory and no more.
    pub fn clear(&self) {
        let Some(mut header) = self.header() else {
            return;
        };
        header.chunks_used = 0;
        if self.file.write_all_at(header.as_bytes(), 0).is_err() {
            return;
        }
        let bytes = abi::CV_EVENTS_CHUNKS * abi::CV_EVENTS_CHUNK_BYTES;
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: fallocate has no memory arguments, and the descriptor is ours. A hole, not an end: whoever still
        // maps the file reads zeros and is not killed by SIGBUS.
        unsafe {
            libc::fallocate(
                self.file.as_raw_fd(),
                hole,
                CHUNKS_AT as libc::off_t,
                bytes as libc::off_t,
            )
        };
    }
}

fn header(file: &File) -> Option<abi::Events> {
    let mut header = abi::Events::default();
    file.read_exact_at(header.as_mut_bytes(), 0).ok()?;
    (header.magic == abi::CV_EVENTS_MAGIC && header.version == abi::CV_EVENTS_VERSION)
        .then_some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file as the agent makes it, with these states and one word in each chunk: its number.
    fn file(dir: &Path, states: &[u32], change: impl Fn(&mut abi::Events)) -> EventFile {
        let path = dir.join("e1.0");
        let mut header = abi::Events {
            magic: abi::CV_EVENTS_MAGIC,
            version: abi::CV_EVENTS_VERSION,
            chunks_used: states.len() as u32,
            first_free: states.len() as u32,
            ..abi::Events::default()
        };
        change(&mut header);
        let out = File::create(&path).unwrap();
        let bytes = CHUNKS_AT + (abi::CV_EVENTS_CHUNKS * abi::CV_EVENTS_CHUNK_BYTES) as u64;
        out.set_len(bytes).unwrap();
        out.write_all_at(header.as_bytes(), 0).unwrap();
        out.write_all_at(states.as_bytes(), STATES_AT).unwrap();
        for i in 0..states.len() as u64 {
            let at = CHUNKS_AT + i * abi::CV_EVENTS_CHUNK_BYTES as u64;
            let head = abi::EventsChunk {
                words: 1,
                ..abi::EventsChunk::default()
            };
            out.write_all_at(head.as_bytes(), at).unwrap();
            out.write_all_at(&i.to_ne_bytes(), at + 64).unwrap();
        }
        EventFile::open(&path).unwrap()
    }

    fn taken(file: &mut EventFile, all: bool) -> Vec<u64> {
        let mut numbers = Vec::new();
        file.take_chunks(all, |chunk| numbers.extend(chunk.words));
        numbers
    }

    const STATES: [u32; 4] = [
        abi::CV_EVENTS_READY,
        abi::CV_EVENTS_OWNED,
        abi::CV_EVENTS_FREE,
        abi::CV_EVENTS_READY,
    ];

    #[test]
    fn chunks_are_taken_once_and_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file(dir.path(), &STATES, |_| {});
        assert_eq!(taken(&mut file, false), [0, 3]);
        assert!(taken(&mut file, false).is_empty());
        assert_eq!(file.header().unwrap().first_free, 0);
        assert_eq!(
            taken(&mut file, true),
            [1],
            "what a thread still has, at the end"
        );
        assert_eq!(file.damaged, 0);
    }

    #[test]
    fn chunks_being_taken_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file(dir.path(), &[abi::CV_EVENTS_TAKEN], |_| {});
        assert!(taken(&mut file, true).is_empty());
    }

    #[test]
    fn numbers_that_lead_out_of_the_file_lead_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file(dir.path(), &STATES, |header| header.chunks_used = u32::MAX);
        assert_eq!(taken(&mut file, true), [0, 1, 3]);
    }

    #[test]
    fn window_is_one_word_of_the_header() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(dir.path(), &STATES, |_| {});
        let before = file.header().unwrap();
        file.set_window(true);
        let after = file.header().unwrap();
        assert_eq!(after.window, 1);
        assert_eq!(abi::Events { window: 0, ..after }, before);
    }

    #[test]
    fn cleared_files_have_nothing_and_take_no_room() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut file = file(dir.path(), &STATES, |_| {});
        let blocks = |file: &EventFile| file.file.metadata().unwrap().blocks();
        let before = blocks(&file);
        file.clear();
        assert!(blocks(&file) < before);
        assert!(taken(&mut file, true).is_empty());
    }

    #[test]
    fn other_files_are_no_event_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e1.0");
        assert!(EventFile::open(&path).is_none());
        std::fs::write(&path, "short").unwrap();
        assert!(EventFile::open(&path).is_none());
        let link = dir.path().join("e2.0");
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        assert!(EventFile::open(&link).is_none());
    }
}
