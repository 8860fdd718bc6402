//! A trace file: its header, its log of blocks, its chunks.
//!
//! Read and not mapped: the program could truncate the file under a mapping and kill us with SIGBUS.

use std::fs::File;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use convoy_abi as abi;
use convoy_sections::{Access, AccessKind, Block};
use zerocopy::{FromBytes, IntoBytes};

use crate::side_file;

const CHUNK_WORDS: usize = abi::CV_TRACE_CHUNK_BYTES / 8;
/// Of the log, read at a time.
const LOG_BYTES: u64 = 1 << 20;

/// An open trace file.
#[derive(Debug)]
pub(super) struct TraceFile {
    file: File,
    pub start_ns: u64,
    /// Of the log.
    read_bytes: u64,
    /// What made no sense.
    pub damaged: u64,
}

/// Words of whole sections.
#[derive(Debug)]
pub(super) struct Chunk(Vec<u64>);

impl TraceFile {
    /// `None` if it is none, or its agent is not ready yet.
    pub fn open(path: &Path) -> Option<Self> {
        let file = side_file::open(path)?;
        let header = header(&file)?;
        Some(Self {
            file,
            start_ns: header.arena_start_ns,
            read_bytes: 0,
            damaged: 0,
        })
    }

    pub fn header(&self) -> Option<abi::Trace> {
        header(&self.file)
    }

    /// Takes what was handed over, and gives the room back. `all`: also what is in the hands of threads that
    /// have ended with their process.
    pub fn take_chunks(&mut self, all: bool) -> Vec<Chunk> {
        let Some(header) = self.header() else {
            return Vec::new();
        };
        let mut taken = Vec::new();
        for (i, chunk) in header.chunks.iter().enumerate() {
            let ready = chunk.state == abi::CV_CHUNK_READY;
            if !(ready || all && chunk.state == abi::CV_CHUNK_OWNED) {
                continue;
            }
            let at = abi::CV_TRACE_HEADER_BYTES
                + abi::CV_TRACE_BLOCKS_BYTES
                + i * abi::CV_TRACE_CHUNK_BYTES;
            let mut words = vec![0u64; (chunk.words as usize).min(CHUNK_WORDS)];
            if self
                .file
                .read_exact_at(words.as_mut_bytes(), at as u64)
                .is_err()
            {
                self.damaged += 1;
                continue;
            }
            if !words.is_empty() {
                taken.push(Chunk(words));
            }
            // At the end nobody needs it, and who recovers a session may have to read it again.
            if ready && !all {
                self.give_back(i);
            }
        }
        taken
    }

    fn give_back(&mut self, chunk: usize) {
        let at = offset_of!(abi::Trace, chunks) + chunk * size_of::<abi::TraceChunk>();
        let free = abi::CV_CHUNK_FREE.to_ne_bytes();
        // Four aligned bytes of a page that the program has mapped: one store.
        if self.file.write_all_at(&free, at as u64).is_err() {
            self.damaged += 1;
        }
    }

    /// Gives back the memory of all but the header, which says from then on that there is nothing: thousands of processes may come after
    /// one another. That it fails costs memory and no more.
    pub fn clear(&self) {
        let Some(mut header) = self.header() else {
            return;
        };
        header.blocks_used = 0;
        header.chunks.fill(abi::TraceChunk::default());
        if self.file.write_all_at(header.as_bytes(), 0).is_err() {
            return;
        }
        let from = abi::CV_TRACE_HEADER_BYTES as libc::off_t;
        let bytes = abi::CV_TRACE_BLOCKS_BYTES + abi::CV_TRACE_CHUNKS * abi::CV_TRACE_CHUNK_BYTES;
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: fallocate has no memory arguments, and the descriptor is ours. A hole, not an end: whoever still maps the file reads
        // zeros and is not killed by SIGBUS.
        unsafe { libc::fallocate(self.file.as_raw_fd(), hole, from, bytes as libc::off_t) };
    }

    /// What was logged since the last call. Call it after [`Self::take_chunks`]: what those name is in it then.
    pub fn new_blocks(&mut self, mut each: impl FnMut(u32, Block)) {
        let Some(header) = self.header() else { return };
        let used = header.blocks_used.min(abi::CV_TRACE_BLOCKS_BYTES as u64);
        let mut part = Vec::new();
        while self.read_bytes < used {
            part.resize((used - self.read_bytes).min(LOG_BYTES) as usize, 0u8);
            let at = abi::CV_TRACE_HEADER_BYTES as u64 + self.read_bytes;
            let parsed = match self.file.read_exact_at(&mut part, at) {
                Ok(()) => parse_blocks(&part, &mut each),
                Err(_) => 0,
            };
            if parsed == 0 {
                self.damaged += 1;
                self.read_bytes = u64::MAX; // it cannot be followed any further
                return;
            }
            self.read_bytes += parsed as u64;
        }
    }
}

fn header(file: &File) -> Option<abi::Trace> {
    let mut header = abi::Trace::default();
    file.read_exact_at(header.as_mut_bytes(), 0).ok()?;
    (header.magic == abi::CV_TRACE_MAGIC && header.version == abi::CV_TRACE_VERSION)
        .then_some(header)
}

/// Reads whole blocks from the front; how many bytes that were.
fn parse_blocks(part: &[u8], each: &mut impl FnMut(u32, Block)) -> usize {
    let mut at = 0;
    while let Some((head, rest)) = part
        .get(at..)
        .and_then(|rest| abi::TraceBlock::read_from_prefix(rest).ok())
    {
        let size = head.bytes as usize;
        let accesses = head.accesses as usize * size_of::<abi::TraceAccess>();
        if size < size_of::<abi::TraceBlock>() + accesses || size % 8 != 0 {
            return 0;
        }
        if size > part.len() - at {
            break;
        }
        let list = rest.get(..accesses).unwrap_or_default();
        let accesses = list
            .chunks_exact(size_of::<abi::TraceAccess>())
            .filter_map(|raw| access(&abi::TraceAccess::read_from_bytes(raw).ok()?))
            .collect();
        let block = Block {
            ip: head.ip,
            code_bytes: head.code_bytes,
            instructions: head.instructions,
            accesses,
        };
        each(head.id, block);
        at += size;
    }
    at
}

fn access(raw: &abi::TraceAccess) -> Option<Access> {
    let kind = match raw.kind {
        abi::CV_ACCESS_PLAIN => AccessKind::Plain,
        abi::CV_ACCESS_REPEAT => AccessKind::Repeat,
        abi::CV_ACCESS_MASKED => AccessKind::Masked,
        abi::CV_ACCESS_LANES => AccessKind::Lanes,
        abi::CV_ACCESS_RESULT => AccessKind::Result,
        abi::CV_ACCESS_VALUE => AccessKind::Value,
        _ => return None,
    };
    let has = |flag| raw.flags & flag != 0;
    Some(Access {
        at: raw.at,
        instruction: raw.instruction,
        kind,
        reads: has(abi::CV_ACCESS_READ),
        writes: has(abi::CV_ACCESS_WRITE),
        atomic: has(abi::CV_ACCESS_ATOMIC),
        implicit: has(abi::CV_ACCESS_STACK),
        lanes: raw.lanes,
        size: raw.size,
        field: has(abi::CV_ACCESS_FIELD).then_some(raw.field),
    })
}

/// Words of a section's header.
const HEAD: usize = size_of::<abi::Section>() / 8;

impl Chunk {
    /// Each section with its events; how many records made no sense (the first one ends the chunk).
    pub fn sections(&self) -> (Vec<(abi::Section, &[u64])>, u64) {
        let mut found = Vec::new();
        let mut rest = self.0.as_slice();
        while let Ok((head, _)) = abi::Section::read_from_prefix(rest.as_bytes()) {
            let words = head.words as usize;
            let Some(events) = rest.get(HEAD..words) else {
                return (found, 1);
            };
            found.push((head, events));
            rest = &rest[words..];
        }
        (found, u64::from(!rest.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(sections: &[(u32, &[u64])]) -> Vec<u64> {
        let mut words = Vec::new();
        for (count, events) in sections {
            let head = abi::Section {
                words: *count,
                begin_ns: words.len() as u64,
                ..abi::Section::default()
            };
            let at = words.len();
            words.resize(at + HEAD, 0);
            words[at..].as_mut_bytes().copy_from_slice(head.as_bytes());
            words.extend_from_slice(events);
        }
        words
    }

    #[test]
    fn sections_of_a_chunk_follow_one_another() {
        let whole = Chunk(chunk(&[(12, &[7, 8]), (10, &[]), (11, &[9])]));
        let (sections, damaged) = whole.sections();
        let events: Vec<_> = sections.iter().map(|(_, e)| e.to_vec()).collect();
        assert_eq!(events, [vec![7, 8], vec![], vec![9]]);
        assert_eq!(damaged, 0);
    }

    #[test]
    fn a_length_that_cannot_be_ends_the_chunk() {
        for length in [0, 1, 9, 13, u32::MAX] {
            let torn = Chunk(chunk(&[(11, &[5]), (length, &[7, 8])]));
            let (sections, damaged) = torn.sections();
            assert_eq!((sections.len(), damaged), (1, 1), "{length}");
        }
    }

    /// A file as the agent makes it, with one block and one chunk.
    fn file(dir: &Path, block: abi::TraceBlock, change: impl Fn(&mut abi::Trace)) -> TraceFile {
        let path = dir.join("t1.0");
        let size = abi::CV_TRACE_HEADER_BYTES
            + abi::CV_TRACE_BLOCKS_BYTES
            + abi::CV_TRACE_CHUNKS * abi::CV_TRACE_CHUNK_BYTES;
        let words = chunk(&[(11, &[5])]);
        let mut header = abi::Trace {
            magic: abi::CV_TRACE_MAGIC,
            version: abi::CV_TRACE_VERSION,
            blocks_used: u64::from(block.bytes),
            ..abi::Trace::default()
        };
        header.chunks[1] = abi::TraceChunk {
            state: abi::CV_CHUNK_READY,
            words: words.len() as u32,
        };
        change(&mut header);
        let out = File::create(&path).unwrap();
        out.set_len(size as u64).unwrap();
        out.write_all_at(header.as_bytes(), 0).unwrap();
        let log = abi::CV_TRACE_HEADER_BYTES;
        out.write_all_at(block.as_bytes(), log as u64).unwrap();
        let at = log + abi::CV_TRACE_BLOCKS_BYTES + abi::CV_TRACE_CHUNK_BYTES;
        out.write_all_at(words.as_bytes(), at as u64).unwrap();
        TraceFile::open(&path).unwrap()
    }

    const BLOCK: abi::TraceBlock = abi::TraceBlock {
        bytes: 48,
        id: 1,
        ip: 0x1000,
        code_bytes: 9,
        instructions: 3,
        accesses: 1,
        words: 2,
        reserved: 0,
    };

    fn blocks(file: &mut TraceFile) -> Vec<u32> {
        let mut ids = Vec::new();
        file.new_blocks(|id, block| {
            assert_eq!(block.accesses.len(), 1);
            ids.push(id);
        });
        ids
    }

    #[test]
    fn what_was_handed_over_is_taken_once_and_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file(dir.path(), BLOCK, |_| {});
        assert_eq!(file.take_chunks(false).len(), 1);
        assert_eq!(blocks(&mut file), [1]);
        let header = file.header().unwrap();
        assert_eq!(header.chunks[1].state, abi::CV_CHUNK_FREE);
        assert!(file.take_chunks(true).is_empty() && blocks(&mut file).is_empty());
        assert_eq!(file.damaged, 0);
    }

    #[test]
    fn a_chunk_that_a_thread_still_has_is_read_at_the_end_only() {
        let dir = tempfile::tempdir().unwrap();
        let owned = |header: &mut abi::Trace| header.chunks[1].state = abi::CV_CHUNK_OWNED;
        let mut file = file(dir.path(), BLOCK, owned);
        assert!(file.take_chunks(false).is_empty());
        assert_eq!(file.take_chunks(true).len(), 1);
    }

    #[test]
    fn what_is_cleared_has_nothing_and_takes_no_room() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut before = file(dir.path(), BLOCK, |_| {});
        let taken = |file: &TraceFile| file.file.metadata().unwrap().blocks();
        let used = taken(&before);
        before.clear();
        assert!(taken(&before) < used);
        let mut after = TraceFile::open(&dir.path().join("t1.0")).unwrap();
        assert!(after.take_chunks(true).is_empty() && blocks(&mut after).is_empty());
        assert_eq!((after.damaged, before.take_chunks(true).len()), (0, 0));
    }

    #[test]
    fn numbers_that_lead_out_of_the_file_lead_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = file(dir.path(), BLOCK, |header| {
            header.blocks_used = u64::MAX;
            header.chunks.fill(abi::TraceChunk {
                state: abi::CV_CHUNK_READY,
                words: u32::MAX,
            });
        });
        let most = abi::CV_TRACE_CHUNK_BYTES / 8;
        let taken = file.take_chunks(true);
        assert!(taken.iter().all(|c| c.0.len() <= most));
        // Behind the one block there are zeroes, which are none.
        assert_eq!(blocks(&mut file), [1]);
        assert_eq!(file.damaged, 1);
        assert!(blocks(&mut file).is_empty());
    }

    #[test]
    fn other_files_are_no_trace() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t1.0");
        assert!(TraceFile::open(&path).is_none());
        std::fs::write(&path, "short").unwrap();
        assert!(TraceFile::open(&path).is_none());
        let link = dir.path().join("t2.0");
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        assert!(TraceFile::open(&link).is_none());
    }
}
