//! What is mapped into a traced process: which file an instruction is of, and which functions hand out memory.
//!
//! The agent tells the modules of all code that it has traced in its arena, also of a process that has ended since.
//! Where code is of no module that it knows, the mappings of the running process may tell.

use std::fs::{self, File};
use std::path::Path;

use convoy_profile::Module;
use convoy_sections::Allocator;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Object, ObjectSymbol, ReadCache};

use crate::{arena, procfs, session};

/// Files that are larger are not read.
const LARGEST_BYTES: u64 = 1 << 30;
const PAGE: u64 = 4096;

/// The modules of a process that have code, as far as they were met.
#[derive(Debug, Default)]
pub(super) struct Modules {
    pub all: Vec<Module>,
    /// Where the agent tells them; `None` = not looked for yet, or not there.
    arena: Option<arena::Modules>,
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

/// What a file says of itself.
struct Elf {
    build_id: Vec<u8>,
    segments: Vec<Segment>,
    /// Where functions that hand out or take back memory begin, in the file's own numbering.
    allocators: Vec<(u64, Allocator)>,
}

struct Segment {
    offset: u64,
    address: u64,
    bytes: u64,
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

    /// Looks at what the agent of a process image has told; tells the functions that hand out memory of what is new.
    /// `gone`: the process has ended.
    pub fn look_at_arena(
        &mut self,
        dir: &Path,
        pid: u32,
        start_ns: u64,
        gone: bool,
        mut allocator: impl FnMut(u64, Allocator),
    ) {
        if self.arena.is_none() {
            self.arena = arena_of(dir, pid, start_ns);
        }
        let Some(arena) = &mut self.arena else { return };
        for module in arena.all(gone) {
            if self.all.iter().any(|m| m.lo == module.lo) {
                continue;
            }
            if module.path.starts_with('/') {
                let elf = read(pid, &module.path, |elf| {
                    elf.build_id.starts_with(&module.build_id)
                        && elf.bytes() <= module.hi - module.lo
                });
                self.unread += u64::from(elf.is_none());
                let found = elf.into_iter().flat_map(|elf| elf.allocators);
                found.for_each(|(at, does)| allocator(at.wrapping_add(module.bias), does));
            }
            self.all.push(module);
        }
    }

    /// Looks at a running process; tells the functions that hand out memory of what is new.
    pub fn look_at_mappings(&mut self, pid: u32, mut allocator: impl FnMut(u64, Allocator)) {
        let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else {
            return;
        };
        let maps: Vec<Mapping> = maps.lines().filter_map(mapping).collect();
        for code in maps.iter().filter(|m| m.code) {
            if self.has(code.lo) {
                continue;
            }
            // A file that was replaced since does not fit where the old one is mapped.
            let fits = |elf: &Elf| {
                elf.mapped_as(code).is_some_and(|module| {
                    let mut of_file = maps.iter().filter(|m| m.path == code.path);
                    of_file.any(|m| m.lo == module.lo)
                })
            };
            let elf = read(pid, &code.path, fits);
            let Some((elf, module)) = elf.and_then(|elf| elf.mapped_as(code).map(|m| (elf, m)))
            else {
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
            let found = elf.allocators.iter();
            found.for_each(|(at, does)| allocator(at.wrapping_add(module.bias), *does));
            self.all.push(module);
        }
    }
}

/// The arena of a process image.
fn arena_of(dir: &Path, pid: u32, start_ns: u64) -> Option<arena::Modules> {
    let of_pid = session::arenas(dir).into_iter().filter(|a| a.pid == pid);
    of_pid
        .filter_map(|found| arena::open(&found.path).ok())
        .find(|file| {
            let head = arena::head(file).unwrap_or_default();
            arena::life(&head).is_ok_and(|life| life.start_ns == start_ns)
        })
        .map(arena::Modules::new)
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

/// The file of that path as the process sees it, in its container as well; or, as it may have ended, as we do. `fits`: whether
/// it is the one that is meant.
fn read(pid: u32, path: &str, fits: impl Fn(&Elf) -> bool) -> Option<Elf> {
    let as_seen = || procfs::is_running(pid).then(|| format!("/proc/{pid}/root{path}"));
    let fitting = |path: &str| Elf::read(path).filter(&fits);
    as_seen()
        .and_then(|seen| fitting(&seen))
        .or_else(|| fitting(path))
}

impl Elf {
    fn read(path: &str) -> Option<Self> {
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() > LARGEST_BYTES {
            return None;
        }
        let cache = ReadCache::new(file);
        let elf = object::read::elf::ElfFile64::<object::Endianness, _>::parse(&cache).ok()?;
        let endian = elf.elf_header().endian().ok()?;
        let headers = elf.elf_header().program_headers(endian, &cache).ok()?;
        let loaded = headers.iter();
        let loaded = loaded.filter(|s| s.p_type(endian) == object::elf::PT_LOAD);
        let segments = loaded.map(|s| Segment {
            offset: s.p_offset(endian) & !(PAGE - 1),
            address: s.p_vaddr(endian) & !(PAGE - 1),
            bytes: s
                .p_memsz(endian)
                .saturating_add(s.p_vaddr(endian) & (PAGE - 1)),
        });
        let symbols = elf.dynamic_symbols().chain(elf.symbols());
        let functions = symbols.filter(|s| s.is_definition()).filter_map(|s| {
            let does = convoy_sections::allocator(s.name().ok()?)?;
            Some((s.address(), does))
        });
        Some(Self {
            build_id: elf.build_id().ok().flatten().unwrap_or_default().to_vec(),
            segments: segments.collect(),
            allocators: functions.collect(),
        })
    }

    fn first(&self) -> Option<u64> {
        self.segments.iter().map(|s| s.address).min()
    }

    fn end(&self) -> Option<u64> {
        let ends = self.segments.iter();
        ends.map(|s| s.address.saturating_add(s.bytes)).max()
    }

    /// Of address space, when it is loaded.
    fn bytes(&self) -> u64 {
        let (first, end) = (self.first().unwrap_or(0), self.end().unwrap_or(0));
        end.saturating_sub(first)
    }

    /// The module, if one of its segments is mapped there.
    fn mapped_as(&self, code: &Mapping) -> Option<Module> {
        let segment = self.segments.iter().find(|s| s.offset == code.offset)?;
        let bias = code.lo.wrapping_sub(segment.address);
        Some(Module {
            path: code.path.clone(),
            build_id: self.build_id.clone(),
            bias,
            lo: bias.wrapping_add(self.first()?),
            hi: bias.wrapping_add(self.end()?).next_multiple_of(PAGE),
            symbols: String::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_modules_are_found_with_the_functions_that_hand_out_memory() {
        let mut modules = Modules::default();
        let mut found = Vec::new();
        modules.look_at_mappings(std::process::id(), |ip, does| found.push((ip, does)));
        let here = own_modules_are_found_with_the_functions_that_hand_out_memory as fn() as usize;
        let own = modules.of(here as u64).unwrap();
        assert!(own.path.contains("convoy_capture"), "{own:?}");
        let malloc = libc::malloc as unsafe extern "C" fn(usize) -> *mut libc::c_void as usize;
        let libc = modules.of(malloc as u64).unwrap();
        assert!(libc.path.contains("libc"), "{libc:?}");
        assert!(found.contains(&(malloc as u64, Allocator::HandsOut)));
        let before = modules.all.len();
        modules.look_at_mappings(std::process::id(), |_, _| panic!("told twice"));
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
