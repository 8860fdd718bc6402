//! Functions by address, from the symbol tables. A table is read through and not kept: few addresses are asked for.

use std::ops::Range;

use object::elf::{
    FileHeader64, SHT_DYNSYM, SHT_SYMTAB, STB_GLOBAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC,
};
use object::read::elf::{SectionHeader, SectionTable};
use object::{LittleEndian, ReadRef};

use crate::image::Image;

/// Size of a symbol in the file.
const SYMBOL_BYTES: usize = 24;
/// Symbols that are read at once.
const CHUNK: usize = 4096;
/// Longest name that is kept.
const MAX_NAME: usize = 4096;

const LE: LittleEndian = LittleEndian;

/// A function of an image, in the file's own numbering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// As the linker has it.
    pub(crate) name: String,
    pub(crate) range: Range<u64>,
}

/// Where a table and its names are in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Table {
    offset: u64,
    symbols: u64,
    names: u64,
}

/// `.symtab`, then `.dynsym`.
#[derive(Debug, Default)]
pub(crate) struct Tables(Vec<Table>);

impl Tables {
    pub(crate) fn find<'a, R: ReadRef<'a>>(
        sections: &SectionTable<'a, FileHeader64<LittleEndian>, R>,
    ) -> Self {
        let table = |kind| {
            let section = sections.iter().find(|s| s.sh_type(LE) == kind)?;
            let names = sections
                .section(object::SectionIndex(section.sh_link(LE) as usize))
                .ok()?;
            Some(Table {
                offset: section.sh_offset(LE),
                symbols: section.sh_size(LE) / SYMBOL_BYTES as u64,
                names: names.sh_offset(LE),
            })
        };
        Self(
            [SHT_SYMTAB, SHT_DYNSYM]
                .into_iter()
                .filter_map(table)
                .collect(),
        )
    }
}

impl Image {
    /// The function that covers `address`, in the file's own numbering.
    pub(crate) fn function(&self, address: u64) -> Option<Found> {
        let mut known = self.functions.lock().ok()?;
        let near = known.range(..=address).next_back();
        if let Some((_, found)) = near.filter(|(_, found)| found.range.contains(&address)) {
            return Some(found.clone());
        }
        let found = self
            .tables
            .0
            .iter()
            .find_map(|table| self.search(table, address))?;
        known.insert(found.range.start, found.clone());
        Some(found)
    }

    /// Reads the table through: the function that begins nearest below; of several names a global one.
    fn search(&self, table: &Table, address: u64) -> Option<Found> {
        let mut best: Option<(Range<u64>, bool, u32)> = None;
        let mut buffer = vec![0; CHUNK * SYMBOL_BYTES];
        let mut at = 0;
        while at < table.symbols {
            let wanted = (table.symbols - at).min(CHUNK as u64) as usize * SYMBOL_BYTES;
            let offset = table.offset.checked_add(at * SYMBOL_BYTES as u64)?;
            let read = self.read_at(&mut buffer[..wanted], offset)?;
            for raw in buffer[..read].chunks_exact(SYMBOL_BYTES) {
                let Some((range, global, name)) = covering(raw, address) else {
                    continue;
                };
                let better = |(old, old_global, _): &(Range<u64>, bool, u32)| {
                    (range.start, global) > (old.start, *old_global)
                };
                if best.as_ref().is_none_or(better) {
                    best = Some((range, global, name));
                }
            }
            if read < wanted {
                break; // the file is shorter than it says
            }
            at += CHUNK as u64;
        }
        let (range, _, name) = best?;
        let name = self.name(table.names.checked_add(u64::from(name))?)?;
        Some(Found { name, range })
    }

    fn name(&self, offset: u64) -> Option<String> {
        let mut buffer = [0; MAX_NAME];
        let read = self.read_at(&mut buffer, offset)?;
        let name = buffer[..read].split(|b| *b == 0).next()?;
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    }
}

/// The extent of a function that covers `address`, whether it is visible outside of its file, and the place of its name.
fn covering(raw: &[u8], address: u64) -> Option<(Range<u64>, bool, u32)> {
    let name = u32::from_le_bytes(raw.get(0..4)?.try_into().ok()?);
    let info = *raw.get(4)?;
    let section = u16::from_le_bytes(raw.get(6..8)?.try_into().ok()?);
    let value = u64::from_le_bytes(raw.get(8..16)?.try_into().ok()?);
    let size = u64::from_le_bytes(raw.get(16..24)?.try_into().ok()?);
    let function = matches!(info & 0xf, STT_FUNC | STT_GNU_IFUNC) && section != 0;
    let range = value..value.checked_add(size)?;
    let global = matches!(info >> 4, STB_GLOBAL | STB_WEAK);
    (function && range.contains(&address)).then_some((range, global, name))
}
