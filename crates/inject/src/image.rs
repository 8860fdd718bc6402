//! Symbols of an ELF file that a process has mapped.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use object::Endianness;

use crate::memory::Region;

/// A function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// Address in the file.
    pub address: u64,
    /// Bytes; 0 = not known.
    pub size: u64,
}

/// The dynamic symbols of a file.
#[derive(Debug, Default)]
pub(crate) struct Image {
    /// By name, in the version that a reference without one is bound to.
    pub symbols: HashMap<String, Symbol>,
    /// Address of the file's first byte.
    pub first: u64,
    /// Code as (address, bytes).
    pub code: Vec<(u64, Vec<u8>)>,
}

impl Image {
    /// `None` if it is no ELF file for this processor, or damaged.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let header = FileHeader64::<Endianness>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        if header.e_machine.get(endian) != elf::EM_X86_64 {
            return None;
        }
        let mut image = Self::default();
        for segment in header.program_headers(endian, data).ok()? {
            if segment.p_type(endian) != elf::PT_LOAD {
                continue;
            }
            if segment.p_offset(endian) == 0 {
                image.first = segment.p_vaddr(endian);
            }
            if segment.p_flags(endian) & elf::PF_X != 0 {
                let bytes = segment.data(endian, data).ok()?;
                image.code.push((segment.p_vaddr(endian), bytes.to_vec()));
            }
        }
        let sections = header.sections(endian, data).ok()?;
        let symbols = sections.symbols(endian, data, elf::SHT_DYNSYM).ok()?;
        let versions = sections.versions(endian, data).ok()?;
        for (index, symbol) in symbols.enumerate() {
            let is_hidden = versions
                .as_ref()
                .is_some_and(|v| v.version_index(endian, index).is_hidden());
            let name = symbols.symbol_name(endian, symbol).unwrap_or_default();
            if symbol.is_undefined(endian) || is_hidden {
                continue;
            }
            let found = Symbol {
                address: symbol.st_value(endian),
                size: symbol.st_size(endian),
            };
            image
                .symbols
                .insert(String::from_utf8_lossy(name).into_owned(), found);
        }
        Some(image)
    }

    /// Address of a file's first byte, by its program headers.
    pub fn first_address(data: &[u8]) -> Option<u64> {
        let header = FileHeader64::<Endianness>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let headers = header.program_headers(endian, data).ok()?;
        let is_first = |h: &&elf::ProgramHeader64<Endianness>| {
            h.p_type(endian) == elf::PT_LOAD && h.p_offset(endian) == 0
        };
        headers.iter().find(is_first).map(|h| h.p_vaddr(endian))
    }

    /// The function that begins at this address.
    pub fn size_at(&self, address: u64) -> Option<u64> {
        let all = self.symbols.values().filter(|s| s.address == address);
        all.map(|s| s.size).max().filter(|size| *size > 0)
    }

    /// Code from an address on.
    pub fn code_at(&self, address: u64) -> Option<&[u8]> {
        self.code.iter().find_map(|(lo, bytes)| {
            let skip = usize::try_from(address.checked_sub(*lo)?).ok()?;
            bytes.get(skip..).filter(|rest| !rest.is_empty())
        })
    }

    /// Addresses at which these bytes are in the code.
    pub fn find_code(&self, wanted: &[u8]) -> Vec<u64> {
        let mut found = Vec::new();
        for (lo, bytes) in &self.code {
            let all = bytes.windows(wanted.len()).enumerate();
            found.extend(
                all.filter(|(_, w)| *w == wanted)
                    .map(|(i, _)| lo + i as u64),
            );
        }
        found
    }
}

/// The bytes of a mapped file: in the process's own view of the file system, or by the mapping
/// itself (deleted files; needs privilege).
pub(crate) fn mapped_file(pid: u32, region: &Region) -> Option<Vec<u8>> {
    let by_path = format!("/proc/{pid}/root{}", region.path);
    let is_same = fs::metadata(&by_path).is_ok_and(|m| m.is_file() && m.ino() == region.inode);
    if is_same {
        if let Ok(bytes) = fs::read(&by_path) {
            return Some(bytes);
        }
    }
    fs::read(by_mapping(pid, region)).ok()
}

/// The file of a mapping, whatever became of its name; reading it needs privilege.
pub(crate) fn by_mapping(pid: u32, region: &Region) -> String {
    format!("/proc/{pid}/map_files/{:x}-{:x}", region.lo, region.hi)
}

/// Class and machine of a program: `None` if its file cannot be read.
pub(crate) fn is_native(pid: u32) -> Option<bool> {
    let mut head = [0; 20];
    let file = fs::File::open(format!("/proc/{pid}/exe")).ok()?;
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut head, 0).ok()?;
    let machine = u16::from_le_bytes([head[18], head[19]]);
    Some(head[4] == elf::ELFCLASS64 && machine == elf::EM_X86_64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::regions;

    #[test]
    fn own_libc_has_its_functions() {
        let pid = std::process::id();
        let all = regions(pid).unwrap();
        let libc = all
            .iter()
            .find(|r| r.file_name().starts_with("libc.so") && r.offset == 0);
        let image = Image::parse(&mapped_file(pid, libc.unwrap()).unwrap()).unwrap();
        let lock = image.symbols["pthread_mutex_lock"];
        assert!(lock.size > 5 && image.size_at(lock.address) >= Some(lock.size));
        assert!(image.code_at(lock.address).unwrap().len() as u64 > lock.size);
        assert!(image.code_at(u64::MAX).is_none());
        assert_eq!(is_native(pid), Some(true));
        assert!(Image::parse(b"\x7fELF").is_none());
    }
}
