//! What is mapped into a traced process: which file an instruction is of, and which functions hand out memory.

use std::fs::{self, File};

use convoy_profile::Module;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Object, ObjectSymbol, ReadCache};

/// Files that are larger are not read.
const LARGEST_BYTES: u64 = 1 << 30;
const PAGE: u64 = 4096;

/// The modules of a process that have code, as far as they were met.
#[derive(Debug, Default)]
pub(super) struct Modules {
    pub all: Vec<Module>,
    unread: u64,
}

/// A line of /proc/PID/maps.
struct Mapping {
    lo: u64,
    hi: u64,
    offset: u64,
    code: bool,
    path: String,
}

impl Modules {
    /// Whether an address is in one that is known.
    pub fn has(&self, address: u64) -> bool {
        self.of(address).is_some()
    }

    /// The one that holds an address.
    pub fn of(&self, address: u64) -> Option<&Module> {
        self.all.iter().find(|m| (m.lo..m.hi).contains(&address))
    }

    /// Files that could not be read.
    pub fn unread(&self) -> Option<u64> {
        (self.unread > 0).then_some(self.unread)
    }

    /// Looks at a running process; tells the functions that hand out memory of what is new.
    pub fn look(&mut self, pid: u32, mut allocator: impl FnMut(u64)) {
        let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else {
            return;
        };
        let maps: Vec<Mapping> = maps.lines().filter_map(mapping).collect();
        for code in maps.iter().filter(|m| m.code) {
            if self.has(code.lo) {
                continue;
            }
            // The file as the process sees it, in its container as well; it may end any moment.
            let file = format!("/proc/{pid}/root{}", code.path);
            let as_seen = read(&file, code, &maps);
            let Some((module, found)) = as_seen.or_else(|| read(&code.path, code, &maps)) else {
                self.unread += 1;
                // Not to be tried again.
                self.all.push(Module {
                    path: code.path.clone(),
                    lo: code.lo,
                    hi: code.hi,
                    bias: code.lo.wrapping_sub(code.offset),
                    ..Module::default()
                });
                continue;
            };
            self.all.push(module);
            found.into_iter().for_each(&mut allocator);
        }
    }
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (lo, hi) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let offset = words.next()?;
    let path = words.nth(2)?.trim_start();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    path.starts_with('/').then_some(Mapping {
        lo: hex(lo)?,
        hi: hex(hi)?,
        offset: hex(offset)?,
        code: rights.contains('x'),
        path: path.to_owned(),
    })
}

/// A module, and where its functions that hand out or take back memory begin.
fn read(file: &str, code: &Mapping, maps: &[Mapping]) -> Option<(Module, Vec<u64>)> {
    let file = File::open(file).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > LARGEST_BYTES {
        return None;
    }
    let cache = ReadCache::new(file);
    let elf = object::read::elf::ElfFile64::<object::Endianness, _>::parse(&cache).ok()?;
    let endian = elf.elf_header().endian().ok()?;
    let segments = elf.elf_header().program_headers(endian, &cache).ok()?;
    let loaded = || {
        let all = segments.iter();
        all.filter(move |s| s.p_type(endian) == object::elf::PT_LOAD)
    };
    let segment = loaded().find(|s| s.p_offset(endian) & !(PAGE - 1) == code.offset)?;
    let bias = code.lo.wrapping_sub(segment.p_vaddr(endian) & !(PAGE - 1));
    let lo = loaded().map(|s| s.p_vaddr(endian) & !(PAGE - 1)).min()?;
    let hi = loaded()
        .map(|s| s.p_vaddr(endian).saturating_add(s.p_memsz(endian)))
        .max()?;
    let module = Module {
        path: code.path.clone(),
        build_id: elf.build_id().ok().flatten().unwrap_or_default().to_vec(),
        bias,
        lo: bias.wrapping_add(lo),
        hi: bias.wrapping_add(hi).next_multiple_of(PAGE),
        symbols: String::new(),
    };
    // A file that was replaced since does not fit where the old one is mapped.
    let fits = maps
        .iter()
        .filter(|m| m.path == code.path)
        .any(|m| m.lo == module.lo);
    let symbols = elf.dynamic_symbols().chain(elf.symbols());
    let functions = symbols
        .filter(|s| s.is_definition() && s.name().is_ok_and(convoy_sections::is_allocator))
        .map(|s| s.address().wrapping_add(bias));
    let functions = functions.collect();
    fits.then_some((module, functions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_modules_are_found_with_the_functions_that_hand_out_memory() {
        let mut modules = Modules::default();
        let mut found = Vec::new();
        modules.look(std::process::id(), |ip| found.push(ip));
        let here = own_modules_are_found_with_the_functions_that_hand_out_memory as fn() as usize;
        let own = modules.of(here as u64).unwrap();
        assert!(own.path.contains("convoy_capture"), "{own:?}");
        let malloc = libc::malloc as unsafe extern "C" fn(usize) -> *mut libc::c_void as usize;
        let libc = modules.of(malloc as u64).unwrap();
        assert!(libc.path.contains("libc"), "{libc:?}");
        assert!(found.iter().any(|ip| libc.lo <= *ip && *ip < libc.hi));
        let before = modules.all.len();
        modules.look(std::process::id(), |_| panic!("told twice"));
        assert_eq!(modules.all.len(), before);
    }

    #[test]
    fn lines_of_maps() {
        let line = "7f00a000-7f00b000 r-xp 00002000 08:01 123     /usr/lib/a b.so";
        let m = mapping(line).unwrap();
        assert_eq!(
            (m.lo, m.hi, m.offset, m.code),
            (0x7f00_a000, 0x7f00_b000, 0x2000, true)
        );
        assert_eq!(m.path, "/usr/lib/a b.so");
        assert!(mapping("7f00a000-7f00b000 rw-p 00000000 00:00 0").is_none());
        assert!(mapping("7f00a000-7f00b000 r-xp 00000000 00:00 0   [vdso]").is_none());
    }
}
