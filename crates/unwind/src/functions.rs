//! Functions by address, from the symbol tables. They are read through once, when the first address is asked for, and
//! kept in 16 bytes a function; names are read when they are wanted, each once. (To read a table through for each address took more
//! time than all else that listens, beside a database server with 60,000 functions.)

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use object::elf::{
    FileHeader64, SHT_DYNSYM, SHT_SYMTAB, STB_GLOBAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC,
};
use object::read::elf::{SectionHeader, SectionTable};
use object::{LittleEndian, ReadRef};

use crate::image::Image;

/// Size of a symbol in the file.
pub(crate) const SYMBOL_BYTES: usize = 24;
/// Longest name that is kept.
const MAX_NAME: usize = 4096;
/// Functions that are looked at below an address: those that begin nearest may end before it.
const NEAR: usize = 64;

const LE: LittleEndian = LittleEndian;

/// A function of an image, in the file's own numbering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// As the linker has it.
    pub(crate) name: Arc<str>,
    pub(crate) range: Range<u64>,
}

/// Where a table and its names are in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) offset: u64,
    symbols: u64,
    pub(crate) names: u64,
}

impl Table {
    pub(crate) fn find<'a, R: ReadRef<'a>>(
        sections: &SectionTable<'a, FileHeader64<LittleEndian>, R>,
        kind: u32,
    ) -> Option<Self> {
        let section = sections.iter().find(|s| s.sh_type(LE) == kind)?;
        let names = sections
            .section(object::SectionIndex(section.sh_link(LE) as usize))
            .ok()?;
        Some(Self {
            offset: section.sh_offset(LE),
            symbols: section.sh_size(LE) / SYMBOL_BYTES as u64,
            names: names.sh_offset(LE),
        })
    }
}

/// `.symtab`, then `.dynsym`.
#[derive(Debug, Default)]
pub(crate) struct Tables(Vec<Table>);

impl Tables {
    pub(crate) fn find<'a, R: ReadRef<'a>>(
        sections: &SectionTable<'a, FileHeader64<LittleEndian>, R>,
    ) -> Self {
        Self(
            [SHT_SYMTAB, SHT_DYNSYM]
                .into_iter()
                .filter_map(|kind| Table::find(sections, kind))
                .collect(),
        )
    }
}

/// Where a function is, and where its name.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: u64,
    bytes: u32,
    name: u32,
}

/// The functions of a table in order of address; of several at one address a global one last.
#[derive(Debug)]
struct Index {
    places: Vec<Place>,
    names: u64,
}

impl Index {
    /// The function that covers `address` and begins nearest below.
    fn covering(&self, address: u64) -> Option<&Place> {
        let below = self.places.partition_point(|place| place.start <= address);
        let near = self.places.get(below.saturating_sub(NEAR)..below)?;
        near.iter()
            .rev()
            .find(|place| address - place.start < u64::from(place.bytes))
    }
}

/// All tables of a file, in the order in which they are asked.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    indexes: OnceLock<Vec<Index>>,
    /// Names that were wanted, by where they are in the file.
    names: Mutex<HashMap<u64, Arc<str>>>,
}

impl Image {
    /// The function that covers `address`, in the file's own numbering.
    pub(crate) fn function(&self, address: u64) -> Option<Found> {
        let tables = || {
            self.tables
                .0
                .iter()
                .map(|table| self.index(table))
                .collect()
        };
        let indexes = self.functions.indexes.get_or_init(tables);
        indexes.iter().find_map(|index| {
            let place = index.covering(address)?;
            Some(Found {
                name: self.name(index.names.checked_add(u64::from(place.name))?)?,
                range: place.start..place.start + u64::from(place.bytes),
            })
        })
    }

    /// Reads a table through, as far as the file goes.
    fn index(&self, table: &Table) -> Index {
        let mut places: Vec<(Place, bool)> = Vec::new();
        self.entries(table.offset, table.symbols, SYMBOL_BYTES, |raw| {
            places.extend(function(raw));
        });
        places.sort_by_key(|(place, global)| (place.start, *global));
        Index {
            places: places.into_iter().map(|(place, _)| place).collect(),
            names: table.names,
        }
    }

    /// The name at an offset of the file.
    pub(crate) fn name(&self, offset: u64) -> Option<Arc<str>> {
        let names = &self.functions.names;
        let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names.get(&offset) {
            return Some(Arc::clone(known));
        }
        let mut buffer = [0; MAX_NAME];
        let read = self.read_at(&mut buffer, offset)?;
        let name = buffer[..read].split(|b| *b == 0).next()?;
        let name: Arc<str> = String::from_utf8_lossy(name).into();
        (!name.is_empty()).then(|| Arc::clone(names.entry(offset).or_insert(name)))
    }
}

/// A symbol, if it is a function of this file, and whether it is visible outside of it.
fn function(raw: &[u8]) -> Option<(Place, bool)> {
    let name = u32::from_le_bytes(raw.get(0..4)?.try_into().ok()?);
    let info = *raw.get(4)?;
    let section = u16::from_le_bytes(raw.get(6..8)?.try_into().ok()?);
    let start = u64::from_le_bytes(raw.get(8..16)?.try_into().ok()?);
    let size = u64::from_le_bytes(raw.get(16..24)?.try_into().ok()?);
    let is_function = matches!(info & 0xf, STT_FUNC | STT_GNU_IFUNC) && section != 0;
    start.checked_add(size)?;
    let bytes = u32::try_from(size).ok().filter(|&n| n > 0)?;
    let global = matches!(info >> 4, STB_GLOBAL | STB_WEAK);
    is_function.then_some((Place { start, bytes, name }, global))
}
