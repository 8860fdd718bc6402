//! The code that HotSpot, the virtual machine of OpenJDK, has generated: what it is called, and how large its frames are.
//!
//! Compiled methods have neither call frame information nor frame pointers. The machine keeps both next to the code, in a heap
//! of blobs, and says for debuggers where in its structures what is (`gHotSpotVMStructs`, as the serviceability agent uses it,
//! openjdk: src/hotspot/share/runtime/vmStructs.cpp). All of it is read from outside, while the machine goes on: what does
//! not look right is left out.

mod blob;
mod layout;
mod memory;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) use blob::{Blob, Kind};

use blob::Heaps;
use layout::{Layout, Table};
use memory::Memory;

use crate::reads::Reads;

/// Name of the library that the machine is.
const LIBRARY: &str = "libjvm.so";
/// A method may make room for another: what is known of a blob is read again after this long.
const FRESH: Duration = Duration::from_secs(2);
/// Bytes of what the machine knows of a method: more, in fact, but none is behind it sooner.
const METHOD: u64 = 8;
/// Time between two tries where nothing could be read.
const AGAIN: Duration = Duration::from_millis(100);
/// Blobs that are remembered.
const BLOBS: usize = 16_384;
/// Names that are kept. A machine compiles some ten thousand methods.
const NAMES: usize = 65_536;

/// Bytes of a map that the machine wrote.
const WRITTEN: u64 = 256 << 20;

/// A virtual machine in a process.
pub(crate) struct HotSpot {
    reads: Reads,
    table: Table,
    layout: Option<Layout>,
    heaps: Option<Heaps>,
    /// By first address.
    blobs: BTreeMap<u64, (Blob, Instant)>,
    /// Last name of the code at an address, and its length.
    names: BTreeMap<u64, (u64, String)>,
    /// Methods that the interpreter was met in, and whether they have a name.
    methods: HashMap<u64, bool>,
    /// Before this nothing is tried again.
    wait_until: Option<Instant>,
}

impl HotSpot {
    /// The machine in a mapped file, if it is one; `bias` as of [`crate::image::Image::bias`].
    pub(crate) fn of(path: &str, file: &File, bias: u64, reads: Reads) -> Option<Self> {
        let is_machine = path.rsplit('/').next() == Some(LIBRARY);
        let table = is_machine.then(|| Table::of(file, bias)).flatten()?;
        Some(Self {
            reads,
            table,
            layout: None,
            heaps: None,
            blobs: BTreeMap::new(),
            names: BTreeMap::new(),
            methods: HashMap::new(),
            wait_until: None,
        })
    }

    /// What is at an address. `dir`: the process's directory in `/proc`.
    pub(crate) fn at(&mut self, dir: &Path, pc: u64) -> Option<Blob> {
        let now = Instant::now();
        let known = self.blobs.range(..=pc).next_back();
        let known = known.map(|(_, known)| *known);
        let known = known.filter(|(blob, _)| blob.holds(pc));
        if let Some((blob, _)) = known.filter(|(_, read)| now.duration_since(*read) < FRESH) {
            return Some(blob);
        }
        let waits = self.wait_until.is_some_and(|until| now < until);
        let Some(blob) = (!waits)
            .then(|| self.reads.of(|| self.read(dir, pc)))
            .flatten()
        else {
            // Of a process that has ended, the last that was known of it.
            return known.map(|(blob, _)| blob);
        };
        if self.blobs.len() >= BLOBS {
            self.blobs.clear();
        }
        // What was in its place is gone.
        let over = self.blobs.range(blob.lo..blob.hi);
        let over: Vec<u64> = over.map(|(&lo, _)| lo).collect();
        for lo in over {
            self.blobs.remove(&lo);
        }
        self.blobs.insert(blob.lo, (blob, now));
        Some(blob)
    }

    /// An address that stands for a method which the interpreter is in, in place of one of the interpreter's own: that of what the
    /// machine knows of the method. `None` if it is none.
    pub(crate) fn interpreted(&mut self, dir: &Path, method: u64) -> Option<u64> {
        // A caller's address is looked up one before it.
        let stands = method.checked_add(1)?;
        if let Some(&known) = self.methods.get(&method) {
            return known.then_some(stands);
        }
        if self.methods.len() >= NAMES {
            return None;
        }
        let layout = self.layout.as_ref()?;
        let name = self.reads.of(|| {
            let memory = Memory::of(dir)?;
            blob::method(&memory, layout, method)
        });
        self.methods.insert(method, name.is_some());
        self.names.insert(method, (METHOD, name?));
        Some(stands)
    }

    fn read(&mut self, dir: &Path, pc: u64) -> Option<Blob> {
        let memory = Memory::of(dir)?;
        if self.layout.is_none() {
            self.layout = Layout::read(&memory, &self.table);
        }
        let Some(layout) = &self.layout else {
            self.wait_until = Some(Instant::now() + AGAIN);
            return None;
        };
        if self.heaps.is_none() {
            self.heaps = Heaps::read(&memory, layout);
        }
        let Some(heaps) = &self.heaps else {
            self.wait_until = Some(Instant::now() + AGAIN);
            return None;
        };
        let Some((blob, name)) = heaps.blob(&memory, layout, pc) else {
            self.heaps = None; // there may be more of them now
            return None;
        };
        if self.names.len() < NAMES {
            self.names.insert(blob.lo, (blob.hi - blob.lo, name));
        }
        Some(blob)
    }

    /// The names as a map of generated code that compilers write for profilers; `None` if there are none. `written`: the map that
    /// the machine wrote itself, which has more, but not the methods that were interpreted.
    pub(crate) fn map(&self, written: Option<&File>) -> Option<File> {
        if self.names.is_empty() {
            return None;
        }
        let mut file = tempfile::tempfile().ok()?;
        if let Some(written) = written {
            std::io::copy(&mut written.take(WRITTEN), &mut file).ok()?;
            file.write_all(b"\n").ok()?;
        }
        let mut text = String::new();
        for (lo, (length, name)) in &self.names {
            text.push_str(&format!("{lo:x} {length:x} {name}\n"));
        }
        file.write_all(text.as_bytes()).ok()?;
        Some(file)
    }
}
