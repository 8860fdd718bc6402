//! Dynamic symbols of an object that a process has loaded, looked up as the loader does: in the
//! process's memory, so that it does not matter what became of the file, or who may read it.

use crate::memory::{Memory, Region};

/// Sizes and fields of ELF64 (elf(5)).
const MAGIC: [u8; 4] = *b"\x7fELF";
const PROGRAM_HEADER_BYTES: u64 = 56;
const SYMBOL_BYTES: u64 = 24;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NULL: u64 = 0;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;

/// More entries than any file has: a damaged one must not keep us busy.
const MAX_HEADERS: u64 = 256;
const MAX_TAGS: u64 = 512;
const MAX_CHAIN: u64 = 1 << 20;

/// An object in the memory of a process.
#[derive(Debug)]
pub(crate) struct LoadedObject<'a> {
    memory: &'a Memory,
    /// What is added to addresses of the file.
    pub bias: u64,
    symbols: u64,
    strings: u64,
    table: Table,
}

/// The hash table that names are found by.
#[derive(Debug)]
enum Table {
    /// Of DT_GNU_HASH.
    Gnu(u64),
    /// Of DT_HASH.
    SystemV(u64),
}

impl<'a> LoadedObject<'a> {
    /// The object whose first bytes a region has; `None` if it is no ELF file for 64 bits, or has
    /// no dynamic symbols.
    pub fn at(memory: &'a Memory, region: &Region) -> Option<Self> {
        let base = region.lo;
        let magic: [u8; 4] = memory.get(base).ok()?;
        let class: u8 = memory.get(base + 4).ok()?;
        if region.offset != 0 || magic != MAGIC || class != 2 {
            return None;
        }
        let headers: u64 = memory.get(base + 32).ok()?;
        let count = u64::from(memory.get::<u16>(base + 56).ok()?).min(MAX_HEADERS);
        let mut first = None;
        let mut dynamic = None;
        for i in 0..count {
            let at = base
                .wrapping_add(headers)
                .wrapping_add(i * PROGRAM_HEADER_BYTES);
            let [kind, offset, address]: [u64; 3] = memory.get(at).ok()?;
            // Its upper half are the flags.
            match kind as u32 {
                PT_LOAD if offset == 0 => first = Some(address),
                PT_DYNAMIC => dynamic = Some(address),
                _ => {}
            }
        }
        let bias = base.wrapping_sub(first?);
        let dynamic = bias.wrapping_add(dynamic?);
        // The loader has made addresses of them, but for objects that it does not write to.
        let absolute = |value: u64| match value < base {
            true => bias.wrapping_add(value),
            false => value,
        };
        let (mut symbols, mut strings, mut gnu, mut system_v) = (None, None, None, None);
        for i in 0..MAX_TAGS {
            let [tag, value]: [u64; 2] = memory.get(dynamic.wrapping_add(i * 16)).ok()?;
            match tag {
                DT_NULL => break,
                DT_SYMTAB => symbols = Some(absolute(value)),
                DT_STRTAB => strings = Some(absolute(value)),
                DT_GNU_HASH => gnu = Some(absolute(value)),
                DT_HASH => system_v = Some(absolute(value)),
                _ => {}
            }
        }
        let table = gnu.map(Table::Gnu).or(system_v.map(Table::SystemV))?;
        Some(Self {
            memory,
            bias,
            symbols: symbols?,
            strings: strings?,
            table,
        })
    }

    /// The address of a symbol that this object defines, whatever its version.
    pub fn address(&self, name: &str) -> Option<u64> {
        match self.table {
            Table::Gnu(at) => self.by_gnu_hash(at, name),
            Table::SystemV(at) => self.by_system_v_hash(at, name),
        }
    }

    /// Header, Bloom filter, buckets, and chains whose last element has its lowest bit set.
    fn by_gnu_hash(&self, at: u64, name: &str) -> Option<u64> {
        let [buckets, first, filter_words, _]: [u32; 4] = self.memory.get(at).ok()?;
        let [buckets, first] = [buckets, first].map(u64::from);
        let hash = u64::from(gnu_hash(name));
        let buckets_at = at.wrapping_add(16 + u64::from(filter_words) * 8);
        let bucket = hash.checked_rem(buckets)?;
        let chains_at = buckets_at.wrapping_add(buckets * 4);
        let chain = self.number(buckets_at, bucket)?..;
        for index in chain.take(MAX_CHAIN as usize) {
            let of_this = self.number(chains_at, index.checked_sub(first)?)?;
            if of_this | 1 == hash | 1 {
                if let Some(address) = self.defined(index, name) {
                    return Some(address);
                }
            }
            if of_this & 1 != 0 {
                return None;
            }
        }
        None
    }

    /// Numbers of buckets and of chains, both as arrays of symbol numbers; 0 ends a chain.
    fn by_system_v_hash(&self, at: u64, name: &str) -> Option<u64> {
        let buckets = self.number(at, 0)?;
        let bucket = u64::from(system_v_hash(name)).checked_rem(buckets)?;
        let mut index = self.number(at, 2 + bucket)?;
        for _ in 0..MAX_CHAIN {
            if index == 0 {
                return None;
            }
            if let Some(address) = self.defined(index, name) {
                return Some(address);
            }
            index = self.number(at, 2 + buckets + index)?;
        }
        None
    }

    /// Element `index` of an array of 32-bit numbers.
    fn number(&self, array: u64, index: u64) -> Option<u64> {
        let at = array.wrapping_add(index * 4);
        self.memory.get::<u32>(at).ok().map(u64::from)
    }

    /// The address of symbol `index`, if it has this name and is defined here.
    fn defined(&self, index: u64, name: &str) -> Option<u64> {
        // Its name, kinds and section, then its value.
        let symbol = self.symbols.wrapping_add(index * SYMBOL_BYTES);
        let [head, value]: [u64; 2] = self.memory.get(symbol).ok()?;
        let (name_at, section) = (head & 0xffff_ffff, head >> 48);
        let name_at = self.strings.wrapping_add(name_at);
        let is_it = section != 0 && self.memory.text(name_at).ok()? == name;
        is_it.then(|| self.bias.wrapping_add(value))
    }
}

fn gnu_hash(name: &str) -> u32 {
    let step = |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte));
    name.bytes().fold(5381, step)
}

fn system_v_hash(name: &str) -> u32 {
    name.bytes().fold(0u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(u32::from(byte));
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::regions;

    #[test]
    fn finds_symbols_of_the_own_c_library() {
        let pid = std::process::id();
        let memory = Memory::open(pid).unwrap();
        let all = regions(pid).unwrap();
        let libc = all
            .iter()
            .find(|r| r.file_name().starts_with("libc.so") && r.offset == 0)
            .unwrap();
        let object = LoadedObject::at(&memory, libc).unwrap();
        let getpid = libc::getpid as *const () as u64;
        assert_eq!(object.address("getpid"), Some(getpid));
        assert_eq!(object.address("no_such_function"), None);
        assert!(object.address("malloc").is_some());
    }

    #[test]
    fn objects_define_what_they_import_not() {
        let pid = std::process::id();
        let memory = Memory::open(pid).unwrap();
        let all = regions(pid).unwrap();
        let exe = std::env::current_exe().unwrap();
        let exe = all
            .iter()
            .find(|r| r.offset == 0 && r.path == exe.to_str().unwrap())
            .unwrap();
        let object = LoadedObject::at(&memory, exe).unwrap();
        assert_eq!(object.address("getpid"), None);
    }

    #[test]
    fn memory_that_is_no_object_has_no_symbols() {
        let pid = std::process::id();
        let memory = Memory::open(pid).unwrap();
        let stack = regions(pid).unwrap();
        let stack = stack.iter().find(|r| r.path == "[stack]").unwrap();
        assert!(LoadedObject::at(&memory, stack).is_none());
    }

    #[test]
    fn hashes_are_those_of_the_specifications() {
        assert_eq!(gnu_hash("printf"), 0x156b_2bb8);
        assert_eq!(system_v_hash("printf"), 0x0779_05a6);
    }
}
