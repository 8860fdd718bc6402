//! What a file calls in others: it jumps through words that the dynamic linker fills, and its relocations name them.
//! x86-64.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use object::elf::{FileHeader64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, SHT_DYNSYM, SHT_RELA};
use object::read::elf::{SectionHeader, SectionTable};
use object::{LittleEndian, ReadRef};

use crate::functions::{Table, SYMBOL_BYTES};
use crate::image::Image;
use crate::unwinder::Unwinder;

/// Size of a relocation in the file: where, what, and an addend.
const RELOCATION_BYTES: usize = 24;
/// Longest stub of a procedure linkage table.
const STUB_BYTES: usize = 16;

const LE: LittleEndian = LittleEndian;

/// Where the relocations are in the file, and the symbols that they refer to.
#[derive(Debug, Default)]
pub(crate) struct Relocations {
    /// Offset and how many there are.
    parts: Vec<(u64, u64)>,
    symbols: Option<Table>,
}

impl Relocations {
    pub(crate) fn find<'a, R: ReadRef<'a>>(
        sections: &SectionTable<'a, FileHeader64<LittleEndian>, R>,
    ) -> Self {
        let of_kind = sections.iter().filter(|s| s.sh_type(LE) == SHT_RELA);
        let parts = of_kind.map(|s| (s.sh_offset(LE), s.sh_size(LE) / RELOCATION_BYTES as u64));
        Self {
            parts: parts.collect(),
            symbols: Table::find(sections, SHT_DYNSYM),
        }
    }
}

/// The dynamic symbols behind words that the linker fills, by the address of the word. Read when first asked for.
#[derive(Debug, Default)]
pub(crate) struct Imports(OnceLock<BTreeMap<u64, u32>>);

impl Image {
    /// The function whose address the linker puts at `word`, in the file's own numbering.
    fn import(&self, word: u64) -> Option<Arc<str>> {
        let table = self.relocations.symbols?;
        let slots = self.imports.0.get_or_init(|| self.slots());
        let symbol = u64::from(*slots.get(&word)?);
        let mut name = [0; 4]; // the first field of a symbol
        let at = table.offset.checked_add(symbol * SYMBOL_BYTES as u64)?;
        (self.read_at(&mut name, at)? == name.len()).then_some(())?;
        let name = u64::from(u32::from_le_bytes(name));
        self.name(table.names.checked_add(name)?)
    }

    /// Reads the relocations through, as far as the file goes.
    fn slots(&self) -> BTreeMap<u64, u32> {
        let mut slots = BTreeMap::new();
        for (offset, n) in &self.relocations.parts {
            self.entries(*offset, *n, RELOCATION_BYTES, |raw| slots.extend(slot(raw)));
        }
        slots
    }
}

/// The word that a relocation fills with the address of a function, and its symbol.
fn slot(raw: &[u8]) -> Option<(u64, u32)> {
    let word = u64::from_le_bytes(raw.get(..8)?.try_into().ok()?);
    let kind = u32::from_le_bytes(raw.get(8..12)?.try_into().ok()?);
    let symbol = u32::from_le_bytes(raw.get(12..16)?.try_into().ok()?);
    matches!(kind, R_X86_64_JUMP_SLOT | R_X86_64_GLOB_DAT).then_some((word, symbol))
}

/// The word through which the code at `at` jumps, if that is all it does: `jmp [rip+x]`, behind a mark for indirect branches or
/// not.
fn jumps_through(code: &[u8], at: u64) -> Option<u64> {
    let prefixes = [&[0xf3, 0x0f, 0x1e, 0xfa][..], &[0xf2]];
    let jump = prefixes.iter().fold(code, |code, prefix| {
        code.strip_prefix(*prefix).unwrap_or(code)
    });
    let distance = jump.strip_prefix(&[0xff, 0x25])?.get(..4)?;
    let distance = i32::from_le_bytes(distance.try_into().ok()?);
    let next = at.checked_add((code.len() - jump.len()) as u64 + 6)?;
    next.checked_add_signed(i64::from(distance))
}

impl Unwinder {
    /// The name of the function that code at `pc` calls by `target`: it is there, or a stub that leads to it, or the
    /// word with its address.
    pub fn callee(&mut self, pc: u64, target: u64) -> Option<Arc<str>> {
        if let Some(found) = self.function(target) {
            return Some(found.name.into());
        }
        let stub = self.code(target, 0, STUB_BYTES);
        let word = stub.and_then(|code| jumps_through(code.bytes, target));
        let (image, bias) = self.image(pc)?;
        image.import(word.unwrap_or(target).wrapping_sub(bias))
    }
}
