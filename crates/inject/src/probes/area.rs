//! Memory of the probed process that holds stubs, near the code that jumps to them. Each stub is
//! behind a record of what it has replaced: a journal, by which the next convoy takes out what a
//! killed one has left.

use std::io;

use convoy_probes::relocate::PATCH_BYTES;
use convoy_probes::runtime;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::memory::{code_pages, Memory, Region, PAGE};

const MAGIC: u64 = 0x6165_7261_7076_6f63;
/// Areas and records of this layout.
const VERSION: u32 = 1;
const ALIGNMENT: u64 = 16;

/// The beginning of an area.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Head {
    magic: u64,
    version: u32,
    /// The process that was probed: a child made by fork has the area too.
    pub target: u32,
    /// Process of convoy that patches; 0 = nothing is patched any more.
    pub owner_pid: u32,
    reserved: u32,
    pub owner_start: u64,
    /// The table, and its bytes.
    pub table: u64,
    pub table_bytes: u64,
    /// Bytes of the area in use.
    used: u64,
    /// Bytes of the area.
    pub bytes: u64,
}

/// What a patch has replaced; its stub follows.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Record {
    at: u64,
    original: [u8; 8],
    patched: [u8; 8],
    /// Bytes of the stub.
    bytes: u64,
}

const RECORD_BYTES: u64 = size_of::<Record>() as u64;

/// Who probes whom, for a [`Head`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Session {
    pub target: u32,
    pub owner_pid: u32,
    pub owner_start: u64,
    pub table: u64,
    pub table_bytes: u64,
}

/// A jump in the place of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Patch {
    pub at: u64,
    pub original: [u8; PATCH_BYTES],
    pub patched: [u8; PATCH_BYTES],
    /// Of the displaced instructions: where they are, and where they are now.
    pub moved: Vec<(u64, u64)>,
}

/// An area that stubs are written to.
#[derive(Debug, Clone)]
pub(super) struct Area {
    pub at: u64,
    head: Head,
}

/// Bytes before the first record.
fn first_record() -> u64 {
    runtime_offset() + (runtime::code().len() as u64).next_multiple_of(ALIGNMENT)
}

fn runtime_offset() -> u64 {
    (size_of::<Head>() as u64).next_multiple_of(ALIGNMENT)
}

/// Bytes of an area with room for `stubs` bytes of records and stubs.
pub(super) fn bytes_for(stubs: u64) -> u64 {
    (first_record() + stubs).next_multiple_of(PAGE)
}

/// Bytes that a stub takes with its record.
pub(super) fn stub_bytes(code: u64) -> u64 {
    RECORD_BYTES + code.next_multiple_of(ALIGNMENT)
}

impl Area {
    /// Makes new memory, of this size, an area.
    pub fn create(memory: &Memory, at: u64, bytes: u64, session: &Session) -> io::Result<Self> {
        let area = Self {
            at,
            head: Head {
                magic: MAGIC,
                version: VERSION,
                target: session.target,
                owner_pid: session.owner_pid,
                reserved: 0,
                owner_start: session.owner_start,
                table: session.table,
                table_bytes: session.table_bytes,
                used: first_record(),
                bytes,
            },
        };
        memory.write(at + runtime_offset(), runtime::code())?;
        memory.put(at, &area.head)?;
        Ok(area)
    }

    /// All areas in a process, of any convoy.
    pub fn find(pid: u32, memory: &Memory, regions: &[Region]) -> Vec<Self> {
        let pages = code_pages(pid, regions).into_iter();
        pages.filter_map(|at| Self::at(memory, at)).collect()
    }

    /// The area that begins at an address.
    pub fn at(memory: &Memory, at: u64) -> Option<Self> {
        let head: Head = memory.get(at).ok()?;
        let is_known = head.magic == MAGIC && head.version == VERSION;
        is_known.then_some(Self { at, head })
    }

    pub fn head(&self) -> &Head {
        &self.head
    }

    pub fn runtime(&self) -> u64 {
        self.at + runtime_offset()
    }

    /// Its addresses.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.at..self.at + self.head.bytes
    }

    /// Where the next stub goes, and the bytes that it may have.
    pub fn next_stub(&self) -> (u64, u64) {
        let room = self.head.bytes - self.head.used;
        (
            self.at + self.head.used + RECORD_BYTES,
            room.saturating_sub(RECORD_BYTES),
        )
    }

    /// Writes a stub at [`Self::next_stub`], with the record of its patch.
    pub fn add(&mut self, memory: &Memory, patch: &Patch, code: &[u8]) -> io::Result<()> {
        let bytes = code.len().next_multiple_of(ALIGNMENT as usize);
        let mut record = Record {
            at: patch.at,
            original: [0; 8],
            patched: [0; 8],
            bytes: bytes as u64,
        };
        record.original[..PATCH_BYTES].copy_from_slice(&patch.original);
        record.patched[..PATCH_BYTES].copy_from_slice(&patch.patched);
        let mut all = record.as_bytes().to_vec();
        all.extend(code);
        all.resize(RECORD_BYTES as usize + bytes, 0xcc);
        memory.write(self.at + self.head.used, &all)?;
        self.head.used += all.len() as u64;
        memory.put(self.at, &self.head)
    }

    /// Writes the old bytes wherever a patch of this area is in, and notes that nothing is patched
    /// any more. All threads must be stopped.
    pub fn take_out(&mut self, memory: &Memory) -> io::Result<()> {
        self.restore(memory)?;
        self.head.owner_pid = 0;
        memory.put(self.at, &self.head)
    }

    fn restore(&self, memory: &Memory) -> io::Result<()> {
        let mut at = first_record();
        while at + RECORD_BYTES <= self.head.used.min(self.head.bytes) {
            let record: Record = memory.get(self.at + at)?;
            let mut now = [0; PATCH_BYTES];
            // The library may be gone.
            let is_there = memory.read(record.at, &mut now).is_ok();
            if is_there && now == record.patched[..PATCH_BYTES] {
                memory.write(record.at, &record.original[..PATCH_BYTES])?;
            }
            at = at.saturating_add(RECORD_BYTES).saturating_add(record.bytes);
        }
        Ok(())
    }
}
