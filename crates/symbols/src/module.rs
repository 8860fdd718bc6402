//! One module: opens its files once and names all its addresses.

use std::path::Path;

use convoy_profile::{Frame, Location, Module, Object, ObjectKind, Reason, Symbol};

use crate::demangle::Names;
use crate::dwarf::Dwarf;
use crate::elf::Store;
use crate::functions;
use crate::gopclntab::GoTable;
use crate::locate::{self, Files, Found};
use crate::low_level_locks;
use crate::table::{cover, Hit, Want};
use crate::threads::Threads;
use crate::Options;

/// What to look up: an address in the module's own numbering, and whose it is.
#[derive(Debug)]
pub(crate) struct Query {
    /// Index into the process's frames or objects.
    pub(crate) ix: usize,
    address: u64,
    want: Want,
}

/// All addresses of one module.
#[derive(Debug)]
pub(crate) struct Job {
    /// Index into the process's modules.
    pub(crate) ix: usize,
    module: Module,
    file_bytes: u64,
    /// Frames, in the order of [`Named::frames`].
    pub(crate) frames: Vec<Query>,
    /// Objects, in the order of [`Named::objects`].
    pub(crate) objects: Vec<Query>,
}

/// What came out of a job.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) frames: Vec<Symbol>,
    /// Where the functions of frames begin that no name tells from others.
    pub(crate) starts: Vec<Option<u64>>,
    pub(crate) objects: Vec<Option<String>>,
    /// For [`Module::symbols`].
    pub(crate) source: String,
    pub(crate) debug_bytes: u64,
    /// What the file asks for, if it is no part of a language.
    pub(crate) threads: Threads,
}

impl Job {
    pub(crate) fn new(ix: usize, module: &Module, options: &Options) -> Self {
        Self {
            ix,
            module: module.clone(),
            file_bytes: locate::file_bytes(module, options),
            frames: Vec::new(),
            objects: Vec::new(),
        }
    }

    /// Size of the module's file, 0 where there is none.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Adds a frame. The instruction before a return address is the call: its line and its
    /// inlined functions are the ones meant, and after a call that never returns comes another function.
    pub(crate) fn add_frame(&mut self, ix: usize, frame: &Frame) {
        let address = frame.offset.wrapping_sub(u64::from(!frame.exact));
        self.frames.push(Query {
            ix,
            address,
            want: Want::Code,
        });
    }

    /// Adds an object in the module's data (or, for an OpenMP region, its code).
    pub(crate) fn add_object(&mut self, ix: usize, object: &Object) {
        let want = if object.kind == ObjectKind::OmpRegion {
            Want::Code
        } else {
            Want::Data
        };
        let address = object.addr.wrapping_sub(self.module.bias);
        self.objects.push(Query { ix, address, want });
    }

    /// The outcome where nothing could be named.
    pub(crate) fn unnamed(&self, reason: Reason, why: &str) -> Named {
        Named {
            frames: vec![Symbol::Unknown(reason); self.frames.len()],
            starts: vec![None; self.frames.len()],
            objects: vec![None; self.objects.len()],
            source: format!("none: {why}"),
            debug_bytes: 0,
            threads: Threads::default(),
        }
    }

    /// Names everything.
    pub(crate) fn run(&self, options: &Options) -> Named {
        let store = Store::default();
        let files = locate::files(&store, &self.module, options);
        if let (Err((reason, why)), None) = (&files.own, &files.debug) {
            return self.unnamed(*reason, why);
        }

        let code = Addresses::new(self.frames.iter().chain(&self.objects), Want::Code);
        let data = Addresses::new(self.objects.iter(), Want::Data);
        let tables = Tables::read(&files, &code, &data);
        let dwarf = self.dwarf(&store, &files, options);

        let names = Names::default();
        let mut frames: Vec<Vec<Location>> = match &dwarf {
            Lines::Read(dwarf) => self
                .frames
                .iter()
                .map(|query| dwarf.find(query.address, code.of(query.address, &tables.code)))
                .collect(),
            _ => vec![Vec::new(); self.frames.len()],
        };
        let used = frames.iter().any(|locations| !locations.is_empty());
        let go = self.add_go(&files, &mut frames);
        let source = match (used, go) {
            (false, true) => "gopclntab".to_owned(),
            _ => source(&files, &tables, &dwarf, used),
        };
        let mut frames: Vec<Symbol> = frames
            .into_iter()
            .zip(&self.frames)
            .map(
                |(locations, query)| match code.of(query.address, &tables.code) {
                    _ if !locations.is_empty() => Symbol::Known(locations),
                    Some(hit) => only_name(names.demangle(hit.name)),
                    None => Symbol::Unknown(tables.reason),
                },
            )
            .collect();
        let mut starts = self.add_functions(&files, &mut frames);
        for ((symbol, query), start) in frames.iter().zip(&self.frames).zip(&mut starts) {
            if has_closure(symbol) {
                *start = code.of(query.address, &tables.code).map(|hit| hit.value);
            }
        }
        let objects = self
            .objects
            .iter()
            .map(|query| {
                let hit = match query.want {
                    Want::Code => code.of(query.address, &tables.code),
                    Want::Data => data.of(query.address, &tables.data),
                }?;
                let name = names.demangle(hit.name);
                Some(match query.address - hit.value {
                    0 => name,
                    offset => format!("{name}+{offset:#x}"),
                })
            })
            .collect();
        let threads = match &files.own {
            Ok(own) if !is_of_a_language(locate::plain_path(&self.module)) => {
                Threads::of(&own.image)
            }
            _ => Threads::default(),
        };
        let debug_bytes = match &dwarf {
            Lines::Read(dwarf) => dwarf.bytes(),
            _ => 0,
        };
        Named {
            frames,
            starts,
            objects,
            source,
            debug_bytes,
            threads,
        }
    }

    /// Finds the functions of frames that nothing names. Those of glibc's own locks are known by what they do, in the C
    /// library as well as in programs that it was linked into.
    fn add_functions(&self, files: &Files<'_>, frames: &mut [Symbol]) -> Vec<Option<u64>> {
        let mut starts = vec![None; frames.len()];
        let Ok(own) = &files.own else {
            return starts;
        };
        let is_open = |symbol: &Symbol| matches!(symbol, Symbol::Unknown(_));
        let open = frames.iter().zip(&self.frames);
        let open = Addresses::new(
            open.filter(|(symbol, _)| is_open(symbol))
                .map(|(_, query)| query),
            Want::Code,
        );
        if open.0.is_empty() {
            return starts;
        }
        let functions = functions::at(&own.image, &open.0);
        let locks: Vec<_> = functions
            .iter()
            .map(|of| low_level_locks::name(&own.image, (*of)?))
            .collect();
        let all = frames.iter_mut().zip(&self.frames).zip(&mut starts);
        for ((symbol, query), start) in all.filter(|((symbol, _), _)| is_open(symbol)) {
            let Ok(at) = open.0.binary_search(&query.address) else {
                continue;
            };
            match locks.get(at).copied().flatten() {
                Some(name) => *symbol = only_name(name.to_owned()),
                None => *start = functions.get(at).copied().flatten().map(|of| of.start),
            }
        }
        starts
    }

    /// Asks Go's own table about frames that DWARF says nothing about; whether it knew one.
    fn add_go(&self, files: &Files<'_>, frames: &mut [Vec<Location>]) -> bool {
        let mut open = frames.iter_mut().zip(&self.frames);
        let Some(first) = open.find(|(known, _)| known.is_empty()) else {
            return false;
        };
        let own = files.own.as_ref().ok();
        let Some(table) = own.and_then(|own| GoTable::open(&own.image)) else {
            return false;
        };
        let mut used = false;
        for (known, query) in std::iter::once(first).chain(open) {
            if known.is_empty() {
                known.extend(table.find(query.address));
                used |= !known.is_empty();
            }
        }
        used
    }

    /// Opens the DWARF of the module or of its debug file.
    fn dwarf<'a>(&self, store: &'a Store, files: &Files<'a>, options: &Options) -> Lines<'a> {
        let own = files.own.as_ref().ok();
        let Some(found) = own
            .into_iter()
            .chain(&files.debug)
            .find(|f| f.image.has_dwarf())
        else {
            return Lines::Missing;
        };
        if self.frames.is_empty() {
            return Lines::Skipped("no code address in it was recorded".into());
        }
        if !options.c_library_lines && is_c_library(locate::plain_path(&self.module)) {
            return Lines::Skipped("lines inside the C library are not looked up".into());
        }
        match Dwarf::open(store, found, own, options) {
            Ok(dwarf) => Lines::Read(Box::new(dwarf)),
            Err(why) => Lines::Skipped(why),
        }
    }
}

/// A function of which nothing but the name is known.
pub(crate) fn only_name(function: String) -> Symbol {
    Symbol::Known(vec![Location {
        function,
        ..Location::default()
    }])
}

/// Whether a closure or lambda is there. All of one function have one name in DWARF, and so has what calls them.
pub(crate) fn has_closure(symbol: &Symbol) -> bool {
    let Symbol::Known(locations) = symbol else {
        return false;
    };
    let is = |name: &str| {
        ["{closure", "{lambda", "<lambda"]
            .iter()
            .any(|mark| name.contains(mark))
    };
    locations.iter().any(|location| is(&location.function))
}

/// The module's DWARF, or why it is not used.
enum Lines<'a> {
    Missing,
    Skipped(String),
    Read(Box<Dwarf<'a>>),
}

/// Distinct addresses, ascending.
struct Addresses(Vec<u64>);

impl Addresses {
    fn new<'q>(queries: impl Iterator<Item = &'q Query>, want: Want) -> Self {
        let mut addresses: Vec<u64> = queries
            .filter(|q| q.want == want)
            .map(|q| q.address)
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        Self(addresses)
    }

    fn of<'a>(&self, address: u64, hits: &[Option<Hit<'a>>]) -> Option<Hit<'a>> {
        *hits.get(self.0.binary_search(&address).ok()?)?
    }
}

/// What the symbol tables know about the addresses.
struct Tables<'a> {
    code: Vec<Option<Hit<'a>>>,
    data: Vec<Option<Hit<'a>>>,
    /// The best table that was there.
    best: Option<String>,
    /// Why an address without a hit has none.
    reason: Reason,
    /// What was there but could not be read.
    trouble: Option<String>,
}

impl<'a> Tables<'a> {
    /// Asks the full table first: the module's, its debug file's, or what `.gnu_debugdata` kept of it; then `.dynsym`.
    fn read(files: &Files<'a>, code: &Addresses, data: &Addresses) -> Self {
        let mut tables = Self {
            code: vec![None; code.0.len()],
            data: vec![None; data.0.len()],
            best: None,
            reason: Reason::NoSymbol,
            trouble: None,
        };
        let own = files.own.as_ref().ok();
        if let Some(table) = own.and_then(|own| own.image.symtab()) {
            tables.add(table, "symtab", code, data);
        } else if let Some((debug, table)) = files
            .debug
            .as_ref()
            .and_then(|d| Some((d, d.image.symtab()?)))
        {
            tables.add(
                table,
                &format!("symtab: {}", debug.path.display()),
                code,
                data,
            );
        } else {
            match own.and_then(|own| own.image.mini_debug_info()) {
                Some(Ok(mini)) => {
                    if let Some(table) = mini.symtab() {
                        tables.add(table, "symtab: .gnu_debugdata", code, data);
                    }
                }
                Some(Err(why)) => tables.trouble = Some(format!(".gnu_debugdata: {why}")),
                None => {}
            }
        }
        if let Some(table) = own.and_then(|own| own.image.dynsym()) {
            tables.add(table, "dynsym", code, data);
        }
        if tables.best.is_none() && tables.trouble.is_some() {
            tables.reason = Reason::BadSymbols;
        }
        tables
    }

    fn add(
        &mut self,
        table: &crate::elf::Symbols<'a>,
        source: &str,
        code: &Addresses,
        data: &Addresses,
    ) {
        cover(table, Want::Code, &code.0, &mut self.code);
        cover(table, Want::Data, &data.0, &mut self.data);
        self.best.get_or_insert_with(|| source.to_owned());
    }
}

/// The text for [`Module::symbols`].
fn source(files: &Files<'_>, tables: &Tables<'_>, dwarf: &Lines<'_>, used: bool) -> String {
    let functions = || match (&tables.best, &tables.trouble) {
        (Some(best), None) => best.clone(),
        (Some(best), Some(why)) => format!("{best} ({why})"),
        (None, Some(why)) => format!("none: {why}"),
        (None, None) => "none: stripped, and no separate debug file was found".to_owned(),
    };
    match dwarf {
        Lines::Read(_) if !used => {
            format!(
                "{} (debug information covers none of the addresses)",
                functions()
            )
        }
        Lines::Read(dwarf) => match (&files.debug, dwarf.note()) {
            (Some(Found { path, .. }), None) => format!("dwarf: {}", path.display()),
            (Some(Found { path, .. }), Some(note)) => format!("dwarf: {} ({note})", path.display()),
            (None, None) => "dwarf".to_owned(),
            (None, Some(note)) => format!("dwarf ({note})"),
        },
        Lines::Skipped(why) => format!("{} ({why})", functions()),
        Lines::Missing => functions(),
    }
}

/// Whether a file is part of every program of its language, whatever that does.
fn is_of_a_language(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_prefix("memfd:").unwrap_or(&name);
    let library = ["libstdc++", "libc++", "libconvoy"];
    is_c_library(path) || library.iter().any(|part| name.starts_with(part))
}

/// libc, the loader, and what were parts of libc before glibc 2.34.
fn is_c_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [
        "libc.so",
        "libc-2",
        "libpthread",
        "ld-linux",
        "ld-2",
        "libm.so",
        "libm-2",
        "ld-musl",
        "libc.musl",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}
