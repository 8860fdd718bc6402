//! ELF files, read section by section: a 100 MB binary costs what its symbols cost.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::path::Path;

use object::elf::{FileHeader64, PT_LOAD, SHT_NOBITS};
use object::read::elf::{ElfFile, ProgramHeader, SectionHeader, Sym, SymbolTable};
use object::read::{ReadCache, ReadRef};
use object::{CompressionFormat, LittleEndian, Object, ObjectSection};
use typed_arena::Arena;

/// Where the bytes of an image come from: a file, or memory.
pub(crate) trait Bytes: Read + Seek {}
impl<T: Read + Seek> Bytes for T {}

/// Bytes that were read once, kept for as long as the module is being worked on.
pub(crate) type Cache = ReadCache<Box<dyn Bytes>>;
type Elf<'a> = ElfFile<'a, FileHeader64<LittleEndian>, &'a Cache>;
/// A symbol table of an image.
pub(crate) type Symbols<'a> = SymbolTable<'a, FileHeader64<LittleEndian>, &'a Cache>;

/// Owns everything that images and debug information borrow.
#[derive(Default)]
pub(crate) struct Store {
    caches: Arena<Cache>,
    sections: Arena<Vec<u8>>,
}

/// Why a file is of no use.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// It could not be read.
    Io(io::Error),
    /// It is no ELF file for this kind of machine, or a broken one.
    Elf(object::Error),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(e) => write!(f, "{e}"),
            Self::Elf(e) => write!(f, "not a usable ELF file: {e}"),
        }
    }
}

impl Store {
    /// Opens a regular file as an image.
    pub(crate) fn open(&self, path: &Path) -> Result<Image<'_>, OpenError> {
        // Anything but a regular file could block for ever: a module's path may name a pipe by now.
        let kind = std::fs::metadata(path).map_err(OpenError::Io)?;
        if !kind.is_file() {
            return Err(OpenError::Io(io::Error::other("not a regular file")));
        }
        self.image(Box::new(File::open(path).map_err(OpenError::Io)?))
    }

    /// Takes bytes as an image.
    pub(crate) fn parse(&self, bytes: Vec<u8>) -> Result<Image<'_>, OpenError> {
        self.image(Box::new(Cursor::new(bytes)))
    }

    fn image(&self, bytes: Box<dyn Bytes>) -> Result<Image<'_>, OpenError> {
        let cache: &Cache = self.caches.alloc(ReadCache::new(bytes));
        let elf = Elf::parse(cache).map_err(OpenError::Elf)?;
        Ok(Image { elf, store: self })
    }
}

/// One ELF file.
pub(crate) struct Image<'a> {
    elf: Elf<'a>,
    store: &'a Store,
}

impl<'a> Image<'a> {
    /// The GNU build-id.
    pub(crate) fn build_id(&self) -> Option<&'a [u8]> {
        self.elf.build_id().ok().flatten()
    }

    /// Name and CRC of the separate debug file.
    pub(crate) fn debug_link(&self) -> Option<(&'a [u8], u32)> {
        self.elf.gnu_debuglink().ok().flatten()
    }

    /// Path and build-id of the file with what several debug files share (`dwz -m`).
    pub(crate) fn debug_alt_link(&self) -> Option<(&'a [u8], &'a [u8])> {
        self.elf.gnu_debugaltlink().ok().flatten()
    }

    /// `.symtab`, if there is one.
    pub(crate) fn symtab(&self) -> Option<&Symbols<'a>> {
        Some(self.elf.elf_symbol_table()).filter(|t| !t.is_empty())
    }

    /// `.dynsym`, if there is one.
    pub(crate) fn dynsym(&self) -> Option<&Symbols<'a>> {
        Some(self.elf.elf_dynamic_symbol_table()).filter(|t| !t.is_empty())
    }

    /// Whether it asks other files for a function with such a name.
    pub(crate) fn imports(&self, is_one: impl Fn(&str) -> bool) -> bool {
        let Some(table) = self.dynsym() else {
            return false;
        };
        let asked = table
            .iter()
            .filter(|symbol| symbol.is_undefined(LittleEndian));
        let mut asked = asked.filter_map(|symbol| table.symbol_name(LittleEndian, symbol).ok());
        asked.any(|name| std::str::from_utf8(name).is_ok_and(&is_one))
    }

    /// Whether DWARF is in this very file.
    pub(crate) fn has_dwarf(&self) -> bool {
        self.section_size(".debug_info") > 0
    }

    /// Size of a section after decompression; 0 where it is missing or has no contents in this file.
    pub(crate) fn section_size(&self, name: &str) -> u64 {
        let Some(section) = self.elf.section_by_name(name) else {
            return 0;
        };
        if section.elf_section_header().sh_type(LittleEndian) == SHT_NOBITS {
            return 0;
        }
        section
            .compressed_file_range()
            .map_or(0, |range| range.uncompressed_size)
    }

    /// Address of a section.
    pub(crate) fn section_address(&self, name: &str) -> Option<u64> {
        Some(self.elf.section_by_name(name)?.address())
    }

    /// Contents of a section, decompressed; empty where it is missing.
    pub(crate) fn section(&self, name: &str) -> Result<&'a [u8], object::Error> {
        let Some(section) = self.elf.section_by_name(name) else {
            return Ok(&[]);
        };
        if section.elf_section_header().sh_type(LittleEndian) == SHT_NOBITS {
            return Ok(&[]);
        }
        let data = section.compressed_data()?;
        if data.format == CompressionFormat::None {
            return Ok(data.data);
        }
        Ok(self.store.sections.alloc(data.decompress()?.into_owned()))
    }

    /// `size` bytes that are loaded at `address`; `None` where the file has none for it. No more is read than that.
    pub(crate) fn bytes_at(&self, address: u64, size: u64) -> Option<&'a [u8]> {
        let endian = LittleEndian;
        self.elf.elf_program_headers().iter().find_map(|segment| {
            let at = address.checked_sub(segment.p_vaddr(endian))?;
            let (offset, in_file) = segment.file_range(endian);
            let fits = segment.p_type(endian) == PT_LOAD && at.checked_add(size)? <= in_file;
            fits.then(|| self.elf.data().read_bytes_at(offset + at, size).ok())?
        })
    }

    /// The small symbol table that some distributions leave in stripped files, compressed with xz.
    pub(crate) fn mini_debug_info(&self) -> Option<Result<Self, String>> {
        /// Such a table is a few percent of its module: more is no table.
        const MAX_BYTES: u64 = 256 << 20;

        let data = self
            .section(".gnu_debugdata")
            .ok()
            .filter(|d| !d.is_empty())?;
        let mut bytes = Vec::new();
        let read = lzma_rust2::XzReader::new(data, true)
            .take(MAX_BYTES)
            .read_to_end(&mut bytes);
        Some(match read {
            Ok(_) => self.store.parse(bytes).map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        })
    }
}
