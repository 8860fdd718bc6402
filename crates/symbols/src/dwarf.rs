//! DWARF: functions, lines and inlined frames of code addresses, split and shared debug files included.

use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::{Context, LookupContinuation, LookupResult, SplitDwarfLoad};
use convoy_profile::Location;
use gimli::{
    AbbreviationsCacheStrategy, DwarfPackage, EndianSlice, LittleEndian, SectionId, UnitOffset,
};

use crate::demangle::{clean, is_mangled, Names};
use crate::elf::{Image, Store};
use crate::locate::{alt_file, Found};
use crate::scope::{Scopes, UNNAMED_TYPE};
use crate::table::Hit;
use crate::Options;

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// The DWARF of one module, parsed unit by unit as addresses ask for it.
pub(crate) struct Dwarf<'a> {
    context: Context<Reader<'a>>,
    store: &'a Store,
    package: Option<DwarfPackage<Reader<'a>>>,
    bytes: Cell<u64>,
    note: RefCell<Option<String>>,
    scopes: Scopes,
    names: Names,
}

impl<'a> Dwarf<'a> {
    /// Reads the sections of `found`. `own` is the module itself, beside which a DWARF package may be.
    pub(crate) fn open(
        store: &'a Store,
        found: &Found<'a>,
        own: Option<&Found<'a>>,
        options: &Options,
    ) -> Result<Self, String> {
        let bytes: u64 = SECTIONS
            .iter()
            .map(|id| found.image.section_size(id.name()))
            .sum();
        if bytes > options.max_debug_bytes {
            return Err(format!(
                "{} MB of debug information were not read: the limit is {} MB",
                bytes >> 20,
                options.max_debug_bytes >> 20
            ));
        }
        let why = |e: gimli::Error| format!("debug information is broken: {e}");
        let mut dwarf = gimli::Dwarf::load(|id| load(&found.image, id.name())).map_err(why)?;
        let mut note = None;
        if found.image.debug_alt_link().is_some() {
            match alt_file(store, found, options) {
                Some(alt) => dwarf.load_sup(|id| load(&alt, id.name())).map_err(why)?,
                None => {
                    note = Some(
                        "the file that it shares with others, .gnu_debugaltlink, was not found"
                            .to_owned(),
                    )
                }
            }
        }
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        let package = own
            .into_iter()
            .chain([found])
            .find_map(|f| package(store, &f.path));
        Ok(Self {
            context: Context::from_dwarf(dwarf).map_err(why)?,
            store,
            package,
            bytes: Cell::new(bytes),
            note: RefCell::new(note),
            scopes: Scopes::default(),
            names: Names::default(),
        })
    }

    /// Bytes of debug information, decompressed.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// What is missing from it.
    pub(crate) fn note(&self) -> Option<String> {
        self.note.borrow().clone()
    }

    /// The functions at `address`, innermost inlined one first; empty where DWARF knows none and `symbol`
    /// does not name one either. `symbol` names the real function where DWARF does so only in part.
    pub(crate) fn find(&self, address: u64, symbol: Option<Hit<'_>>) -> Vec<Location> {
        let mut frames = self.frames(address).unwrap_or_default();
        if let Some(real) = frames.last_mut() {
            // Local functions and instances of templates over lambdas have a bare name in DWARF; their
            // symbol has the full one.
            let better = symbol.filter(|hit| {
                real.name.is_empty() || is_mangled(hit.name) && !is_mangled(real.name)
            });
            match better {
                Some(hit) => real.name = hit.name,
                None if real.name.is_empty() => return Vec::new(),
                None => {}
            }
        }
        self.qualify(address, &mut frames);
        frames
            .into_iter()
            .map(|frame| self.location(frame))
            .collect()
    }

    /// Finds the scopes of functions with bare names.
    fn qualify(&self, address: u64, frames: &mut [Raw<'_>]) {
        if !frames.iter().any(Raw::is_bare) {
            return;
        }
        let Some(unit) = self.finish(self.context.find_dwarf_and_unit(address)) else {
            return;
        };
        for frame in frames.iter_mut().filter(|frame| frame.is_bare()) {
            frame.scope = frame.die.and_then(|die| self.scopes.of(unit, die));
        }
    }

    fn location(&self, raw: Raw<'_>) -> Location {
        let name = self.names.demangle(raw.name);
        let function = match raw.scope.as_deref() {
            _ if name.is_empty() => "<unnamed>".to_owned(),
            None | Some("") => name,
            Some(scope) => match scope.strip_suffix(UNNAMED_TYPE) {
                // The one member of unnamed types that programs are full of.
                Some(outer) if name.starts_with("operator()") => {
                    format!("{outer}{{lambda}}::{name}")
                }
                _ => format!("{scope}::{name}"),
            },
        };
        Location {
            function,
            file: raw
                .file
                .filter(|f| !f.is_empty())
                .map(|f| clean(f.as_bytes())),
            line: raw.line.filter(|&l| l > 0),
        }
    }

    /// Runs a lookup to its end, opening split files as it asks for them.
    fn finish<L: LookupContinuation<Buf = Reader<'a>>>(
        &self,
        mut lookup: LookupResult<L>,
    ) -> L::Output {
        loop {
            match lookup {
                LookupResult::Output(output) => return output,
                LookupResult::Load { load, continuation } => {
                    lookup = continuation.resume(self.split(&load))
                }
            }
        }
    }

    fn frames<'s>(&'s self, address: u64) -> Result<Vec<Raw<'s>>, gimli::Error>
    where
        'a: 's,
    {
        let frames = self.finish(self.context.find_frames(address));
        // A broken function table leaves the line table, and the reverse.
        let Ok(mut frames) = frames else {
            let line = self.context.find_location(address)?;
            return Ok(line.map(|at| Raw::new(b"", Some(at))).into_iter().collect());
        };
        let mut out = Vec::new();
        while let Some(frame) = frames.next()? {
            let mut raw = Raw::new(b"", frame.location);
            if let Some(function) = &frame.function {
                raw.name = function.name.slice();
                raw.die = frame
                    .dw_die_offset
                    .filter(|_| function.language.is_some_and(has_scopes));
            }
            out.push(raw);
        }
        Ok(out)
    }

    /// Opens the `.dwo` or `.dwp` that holds a unit's functions.
    fn split(&self, load: &SplitDwarfLoad<Reader<'a>>) -> Option<Arc<gimli::Dwarf<Reader<'a>>>> {
        if let Some(package) = &self.package {
            if let Ok(Some(unit)) = package.find_cu(load.dwo_id, &load.parent) {
                return Some(Arc::new(unit));
            }
        }
        let name = Path::new(OsStr::from_bytes(load.path.as_ref()?.slice()));
        let dir = load.comp_dir.as_ref().map_or(Path::new(""), |dir| {
            Path::new(OsStr::from_bytes(dir.slice()))
        });
        let path = dir.join(name);
        let unit = self.dwo(&path, load);
        if unit.is_none() {
            let missing = || format!("split debug information is missing: {}", path.display());
            self.note.borrow_mut().get_or_insert_with(missing);
        }
        unit
    }

    fn dwo(
        &self,
        path: &Path,
        load: &SplitDwarfLoad<Reader<'a>>,
    ) -> Option<Arc<gimli::Dwarf<Reader<'a>>>> {
        let image = self.store.open(path).ok()?;
        let size: u64 = SECTIONS
            .iter()
            .filter_map(|id| Some(image.section_size(id.dwo_name()?)))
            .sum();
        self.bytes.set(self.bytes.get() + size);
        let mut dwarf = gimli::Dwarf::load(|id| load_dwo(&image, id)).ok()?;
        let header = dwarf.units().next().ok()??;
        if dwarf.unit(header).ok()?.dwo_id != Some(load.dwo_id) {
            return None;
        }
        dwarf.make_dwo(&load.parent);
        Some(Arc::new(dwarf))
    }
}

/// What lookups read.
const SECTIONS: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// A section that lookups read; any other one stays on the disk.
pub(crate) fn load<'a>(image: &Image<'a>, name: &str) -> Result<Reader<'a>, gimli::Error> {
    let data = if SECTIONS
        .iter()
        .any(|id| id.name() == name || id.dwo_name() == Some(name))
    {
        // A section that cannot be decompressed is a missing one: the others may be enough.
        image.section(name).unwrap_or(&[])
    } else {
        &[]
    };
    Ok(EndianSlice::new(data, LittleEndian))
}

fn load_dwo<'a>(image: &Image<'a>, id: SectionId) -> Result<Reader<'a>, gimli::Error> {
    match id.dwo_name() {
        Some(name) => load(image, name),
        None => Ok(EndianSlice::new(&[], LittleEndian)),
    }
}

/// `<file>.dwp`. All its sections are read: its index cuts a unit's part out of each.
fn package<'a>(store: &'a Store, file: &Path) -> Option<DwarfPackage<Reader<'a>>> {
    let mut path = OsString::from(file);
    path.push(".dwp");
    let image = store.open(&PathBuf::from(path)).ok()?;
    let section = |id: SectionId| -> Result<Reader<'a>, gimli::Error> {
        let data = id.dwo_name().and_then(|name| image.section(name).ok());
        Ok(EndianSlice::new(data.unwrap_or(&[]), LittleEndian))
    };
    DwarfPackage::load(section, EndianSlice::new(&[], LittleEndian)).ok()
}

/// Languages whose functions have scopes.
fn has_scopes(language: gimli::DwLang) -> bool {
    !matches!(
        language,
        gimli::DW_LANG_C
            | gimli::DW_LANG_C89
            | gimli::DW_LANG_C99
            | gimli::DW_LANG_C11
            | gimli::DW_LANG_Mips_Assembler
    )
}

/// One level of inlining as DWARF has it.
struct Raw<'a> {
    name: &'a [u8],
    /// The entry, if scopes can be found for it.
    die: Option<UnitOffset>,
    scope: Option<String>,
    file: Option<&'a str>,
    line: Option<u32>,
}

impl<'a> Raw<'a> {
    fn new(name: &'a [u8], at: Option<addr2line::Location<'a>>) -> Self {
        let (file, line) = at.map_or((None, None), |at| (at.file, at.line));
        Self {
            name,
            die: None,
            scope: None,
            file,
            line,
        }
    }

    fn is_bare(&self) -> bool {
        self.die.is_some() && !self.name.is_empty() && !is_mangled(self.name)
    }
}
