//! What a file says of a program of Go: where its runtime keeps its goroutines.

use std::collections::HashMap;
use std::fs::{self, File};

use convoy_unwind::FileState;
use object::elf::Sym64;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ReadCache, U64};

use super::dwarf;
use super::layout::Layout;
use super::memory::Memory;

/// The runtime's own table of functions: no program of Go is without it.
const FUNCTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// The variables of the runtime that are read.
const VARIABLES: [&[u8]; 5] = [
    b"runtime.allgptr",
    b"runtime.allglen",
    b"runtime.gomaxprocs",
    b"runtime.buildVersion",
    b"runtime.waitReasonStrings",
];
/// Larger files, and names of more symbols, are of no program that anybody runs: bytes.
const FILE_BYTES: u64 = 2 << 30;
const NAMES_BYTES: u64 = 128 << 20;
/// Of the auxiliary vector: where the program begins.
const AT_ENTRY: u64 = 9;
/// More reasons to wait than any version has.
const REASONS: u64 = 128;
/// Longest text of one, and of a version with the experiments that it was built with. Bytes.
const REASON_BYTES: u64 = 64;
const VERSION_BYTES: u64 = 256;

type Elf<'a> = ElfFile64<'a, LittleEndian, &'a ReadCache<&'a File>>;

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
pub(super) struct Programs(HashMap<FileState, Found>);

/// About one of them.
#[derive(Debug)]
struct Found {
    kind: Kind,
    /// What its debug information says, once that has been asked.
    told: Option<Option<Layout>>,
}

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
        let found = self.0.entry(FileState::of(&meta)).or_insert_with(|| Found {
            kind: Kind::of(&file),
            told: None,
        });
        let told = || *found.told.get_or_insert_with(|| dwarf::layout(&file));
        match &found.kind {
            Kind::Other => Ok(None),
            Kind::Stripped => Err(
                "it was linked without a symbol table (-s): nothing says where its goroutines are"
                    .into(),
            ),
            Kind::Go(at) => Program::new(pid, at, told).map(Some),
        }
    }
}

impl Kind {
    fn of(file: &File) -> Self {
        let small = |meta: fs::Metadata| meta.len() <= FILE_BYTES;
        if !file.metadata().is_ok_and(small) {
            return Self::Other;
        }
        let data = ReadCache::new(file);
        let Ok(object) = Elf::parse(&data) else {
            return Self::Other;
        };
        if FUNCTIONS
            .iter()
            .all(|name| object.section_by_name(name).is_none())
        {
            return Self::Other;
        }
        let found = symbols(&object).unwrap_or_default();
        let at = |name: &str| found.get(name.as_bytes()).map(|(address, _)| *address);
        let variables = || {
            let (reasons, bytes) = *found.get(&b"runtime.waitReasonStrings"[..])?;
            Some(Variables {
                entry: object.elf_header().e_entry.get(LittleEndian),
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

/// Addresses and sizes of the variables that are wanted. All names are read at once: there are some ten thousand.
fn symbols<'a>(object: &Elf<'a>) -> Option<HashMap<&'a [u8], (u64, u64)>> {
    let names = object.section_by_name(".strtab")?;
    let names = Some(names).filter(|names| names.size() <= NAMES_BYTES)?;
    let names = names.data().ok()?;
    let named = |symbol: &Sym64<LittleEndian>| {
        let name = names.get(symbol.st_name.get(LittleEndian) as usize..)?;
        let wanted = VARIABLES.iter().find(|wanted| {
            let rest = name.strip_prefix(**wanted);
            rest.is_some_and(|rest| rest.first() == Some(&0))
        })?;
        let place = |word: U64<LittleEndian>| word.get(LittleEndian);
        Some((*wanted, (place(symbol.st_value), place(symbol.st_size))))
    };
    let table = object.elf_symbol_table().symbols();
    Some(table.iter().filter_map(named).collect())
}

impl Program {
    /// `told`: the layout as its own debug information has it.
    fn new(
        pid: u32,
        at: &Variables,
        told: impl FnOnce() -> Option<Layout>,
    ) -> Result<Self, String> {
        let gone = || "it could not be read".to_owned();
        let memory = Memory(pid);
        let bias = entry(pid).ok_or_else(gone)?.wrapping_sub(at.entry);
        let here = |address: u64| address.wrapping_add(bias);
        let version = memory
            .text(here(at.version), VERSION_BYTES)
            .ok_or_else(gone)?;
        let layout = Layout::of_version(&version).or_else(told);
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
