//! What a file says of a program of Go: where its runtime keeps its goroutines.

use std::collections::HashMap;
use std::fs::{self, File};
use std::sync::Arc;

use convoy_unwind::FileState;
use object::{Object, ObjectSymbol, ReadCache};

use super::dwarf;
use super::layout::Layout;
use super::memory::Memory;

/// The runtime's own table of functions: no program of Go is without it.
const FUNCTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Of the auxiliary vector: where the program begins.
const AT_ENTRY: u64 = 9;
/// More reasons to wait than any version has.
const REASONS: u64 = 128;
/// Longest text of one, and of a version with the experiments that it was built with. Bytes.
const REASON_BYTES: u64 = 64;
const VERSION_BYTES: u64 = 256;

/// Addresses of variables, in the file's own numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Variables {
    entry: u64,
    goroutines: u64,
    count: u64,
    procs: u64,
    version: u64,
    reasons: (u64, u64),
}

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Not a program of Go.
    Other,
    /// One of Go whose variables have no names.
    Stripped,
    Go(Variables),
}

/// What was found out about files.
#[derive(Debug, Default)]
pub(super) struct Programs(HashMap<FileState, (Kind, Option<Arc<File>>)>);

/// Where a running program has what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    pub version: String,
    pub layout: Layout,
    /// The array of pointers to them, how many, and GOMAXPROCS: addresses of these variables.
    pub goroutines: u64,
    pub count: u64,
    pub procs: u64,
    /// By number.
    pub reasons: Vec<String>,
}

impl Programs {
    /// What a process runs; an error says why nothing can be known of a program of Go. `Ok(None)`: another program.
    pub fn of_process(&mut self, pid: u32) -> Result<Option<Program>, String> {
        let Ok(file) = File::open(format!("/proc/{pid}/exe")) else {
            return Ok(None);
        };
        let Ok(meta) = file.metadata() else {
            return Ok(None);
        };
        let state = FileState::of(&meta);
        let (kind, file) = self.0.entry(state).or_insert_with(|| {
            let kind = Kind::of(&file);
            let is_go = matches!(kind, Kind::Go(_));
            (kind, is_go.then(|| Arc::new(file)))
        });
        match kind {
            Kind::Other => Ok(None),
            Kind::Stripped => Err(
                "it was linked without a symbol table (-s): nothing says where its goroutines are"
                    .into(),
            ),
            Kind::Go(at) => Program::new(pid, at, file.as_deref()).map(Some),
        }
    }
}

impl Kind {
    fn of(file: &File) -> Self {
        let data = ReadCache::new(file);
        let Ok(object) = object::File::parse(&data) else {
            return Self::Other;
        };
        if !object.is_64()
            || FUNCTIONS
                .iter()
                .all(|name| object.section_by_name(name).is_none())
        {
            return Self::Other;
        }
        let mut found: HashMap<&str, (u64, u64)> = HashMap::new();
        for symbol in object.symbols() {
            match symbol.name() {
                Ok(
                    name @ ("runtime.allgptr"
                    | "runtime.allglen"
                    | "runtime.gomaxprocs"
                    | "runtime.buildVersion"
                    | "runtime.waitReasonStrings"),
                ) => found.insert(name, (symbol.address(), symbol.size())),
                _ => continue,
            };
        }
        let at = |name: &str| found.get(name).map(|(address, _)| *address);
        let variables = || {
            let (reasons, bytes) = *found.get("runtime.waitReasonStrings")?;
            Some(Variables {
                entry: object.entry(),
                goroutines: at("runtime.allgptr")?,
                count: at("runtime.allglen")?,
                procs: at("runtime.gomaxprocs")?,
                version: at("runtime.buildVersion")?,
                reasons: (reasons, (bytes / 16).min(REASONS)),
            })
        };
        variables().map_or(Self::Stripped, Self::Go)
    }
}

impl Program {
    fn new(pid: u32, at: &Variables, file: Option<&File>) -> Result<Self, String> {
        let gone = || "it could not be read".to_owned();
        let memory = Memory(pid);
        let bias = entry(pid).ok_or_else(gone)?.wrapping_sub(at.entry);
        let here = |address: u64| address.wrapping_add(bias);
        let version = memory
            .text(here(at.version), VERSION_BYTES)
            .ok_or_else(gone)?;
        let layout = Layout::of_version(&version).or_else(|| dwarf::layout(file?));
        let layout = layout
            .filter(Layout::is_sound)
            .ok_or_else(|| format!("the structures of {version} are not known, and its debug information does not tell"))?;
        let (reasons, n) = at.reasons;
        let text = |ix| memory.text(here(reasons).wrapping_add(16 * ix), REASON_BYTES);
        let reasons = (0..n).map(|ix| text(ix).unwrap_or_default());
        Ok(Self {
            layout,
            goroutines: here(at.goroutines),
            count: here(at.count),
            procs: here(at.procs),
            reasons: reasons.collect(),
            version,
        })
    }
}

/// Where the program begins in this process: tells how far from its file's numbering it was loaded.
fn entry(pid: u32) -> Option<u64> {
    let vector = fs::read(format!("/proc/{pid}/auxv")).ok()?;
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).ok();
    let mut pairs = vector.chunks_exact(16).map(|pair| pair.split_at(8));
    pairs.find_map(|(key, value)| (word(key)? == AT_ENTRY).then(|| word(value))?)
}
