//! What kind of program an ELF file is, and whether the agent can get into it.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, ReadCache, ReadRef};
use rustix::fs::StatVfsMountFlags;

use crate::error::{Error, ErrorKind, Refusal, Trouble};

/// What matters of an ELF file here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elf {
    /// 64-bit and for this processor.
    pub native: bool,
    /// 32-bit for this family of processors: its loader finds an empty library in the agent's place.
    pub companion: bool,
    /// e.g. "32-bit, machine 3".
    pub architecture: String,
    /// Path of the dynamic loader; `None` = static.
    pub loader: Option<String>,
    /// It is a dynamic loader itself (`ld.so PROGRAM`).
    pub is_loader: bool,
    /// Built by Go's own tool chain.
    pub go: bool,
    /// Libraries that it asks for.
    pub needed: Vec<String>,
    /// It uses symbols that only a program with threads uses.
    pub threads: bool,
    /// It has `.debug_info`.
    pub debug_info: bool,
    /// It has a symbol table besides the dynamic one.
    pub symbol_table: bool,
    /// GNU build-id.
    pub build_id: Vec<u8>,
}

impl Elf {
    /// Reads the headers; `None` if the file cannot be read or is damaged.
    pub fn read(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(File::open(path).ok()?);
        parse(&cache)
    }
}

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = elf::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = elf::EM_AARCH64;
/// Machine of the 32-bit programs that this processor also runs.
#[cfg(target_arch = "x86_64")]
pub(crate) const COMPANION_MACHINE: u16 = elf::EM_386;
#[cfg(target_arch = "aarch64")]
pub(crate) const COMPANION_MACHINE: u16 = elf::EM_ARM;

/// Symbols whose import says that a program may start threads.
const THREAD_SYMBOLS: [&[u8]; 4] = [
    b"pthread_create",
    b"thrd_create",
    b"GOMP_parallel",
    b"_ZNSt6thread",
];

fn parse<'data, R: ReadRef<'data>>(data: R) -> Option<Elf> {
    let ident = data.read_bytes_at(0, 20).ok()?;
    let (class, machine) = (
        *ident.get(4)?,
        u16::from_le_bytes([*ident.get(18)?, *ident.get(19)?]),
    );
    if class != elf::ELFCLASS64 || *ident.get(5)? != elf::ELFDATA2LSB || machine != MACHINE {
        let bits = if class == elf::ELFCLASS64 { 64 } else { 32 };
        let architecture = format!("{bits}-bit, ELF machine {machine}");
        return Some(Elf {
            architecture,
            companion: class == elf::ELFCLASS32 && machine == COMPANION_MACHINE,
            ..Elf::default()
        });
    }
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let mut found = Elf {
        native: true,
        architecture: "native".into(),
        ..Elf::default()
    };
    for segment in header.program_headers(endian, data).ok()? {
        if let Ok(Some(path)) = segment.interpreter(endian, data) {
            found.loader = Some(String::from_utf8_lossy(path).into_owned());
        }
    }
    // A file without sections (sstrip) is rare and still runs.
    let Ok(sections) = header.sections(endian, data) else {
        return Some(found);
    };
    for section in sections.iter() {
        match sections.section_name(endian, section).unwrap_or_default() {
            b".note.go.buildid" | b".go.buildinfo" => found.go = true,
            b".debug_info" | b".zdebug_info" => found.debug_info = true,
            b".symtab" => found.symbol_table = true,
            _ => {}
        }
        if let Ok(Some((entries, link))) = section.dynamic(endian, data) {
            let strings = sections.strings(endian, data, link).unwrap_or_default();
            for entry in entries {
                let text = |e: &elf::Dyn64<Endianness>| {
                    let offset = u32::try_from(e.d_val(endian)).ok()?;
                    strings
                        .get(offset)
                        .ok()
                        .map(|s| String::from_utf8_lossy(s).into_owned())
                };
                match entry.tag32(endian) {
                    Some(elf::DT_NEEDED) => found.needed.extend(text(entry)),
                    Some(elf::DT_SONAME) => {
                        found.is_loader |=
                            text(entry).is_some_and(|name| name.starts_with("ld-linux"));
                    }
                    _ => {}
                }
            }
        }
        if let Ok(Some(mut notes)) = section.notes(endian, data) {
            while let Ok(Some(note)) = notes.next() {
                if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                    found.build_id = note.desc().to_vec();
                }
            }
        }
    }
    if let Ok(symbols) = sections.symbols(endian, data, elf::SHT_DYNSYM) {
        found.threads = symbols.iter().any(|symbol| {
            symbols
                .symbol_name(endian, symbol)
                .is_ok_and(|name| THREAD_SYMBOLS.iter().any(|known| name.starts_with(known)))
        });
    }
    Some(found)
}

/// Loaders of C libraries that may refuse to start a program because of a preload.
const STRICT_LOADERS: [&str; 2] = ["uClibc", "/system/bin/linker"];

/// Whether the program starts as ever with the agent's path in `LD_PRELOAD`, loaded or not. glibc's loader loads
/// what the path names for it, musl's passes over a path that it cannot open, a static program has none.
pub fn tolerates_preload(elf: &Elf) -> bool {
    let strict = |loader: &String| STRICT_LOADERS.iter().any(|name| loader.contains(name));
    elf.companion || elf.native && !elf.loader.as_ref().is_some_and(strict)
}

/// Why the agent cannot get into this program; `None` if it can.
pub fn refusal(path: &Path, elf: &Elf) -> Option<Error> {
    let name = path.display();
    let refuse = |kind, found: String, effect: &str, fix: String| {
        Some(Error::new(
            ErrorKind::Refused(kind),
            Trouble::new(found, effect, fix),
        ))
    };
    if elf.companion {
        return refuse(
            Refusal::Architecture,
            format!("{name} is a 32-bit program"),
            "the agent is a 64-bit library and cannot be loaded into it",
            format!("record a 64-bit build; sudo convoy -- {name} shows what the scheduler sees"),
        );
    }
    if !elf.native {
        return refuse(
            Refusal::Architecture,
            format!(
                "{name} is built for another architecture ({})",
                elf.architecture
            ),
            "the agent cannot be loaded into it",
            "run a build for this machine's own 64-bit architecture".into(),
        );
    }
    if elf.go {
        return refuse(
            Refusal::Go,
            format!("{name} is a Go program"),
            "Go's runtime has its own threads and locks and calls no C library for them: the agent would see nothing",
            format!(
                "sudo convoy -- {name} shows what the scheduler sees; for locks there are go test -mutexprofile and \
                 -blockprofile, and net/http/pprof after runtime.SetMutexProfileFraction"
            ),
        );
    }
    let Some(loader) = &elf.loader else {
        if elf.is_loader {
            return None;
        }
        return refuse(
            Refusal::Static,
            format!("{name} is statically linked"),
            "there is no dynamic loader that would load the agent",
            format!("link it dynamically (without -static); sudo convoy -- {name} shows what the scheduler sees"),
        );
    };
    if loader.contains("ld-musl") || STRICT_LOADERS.iter().any(|name| loader.contains(name)) {
        return refuse(
            Refusal::CLibrary,
            format!("{name} uses another C library than glibc (loader {loader})"),
            "the agent is built for glibc and cannot be loaded into it",
            format!("build it on a distribution with glibc; sudo convoy -- {name} shows what the scheduler sees"),
        );
    }
    privileges(path).and_then(|found| {
        refuse(
            Refusal::Privileged,
            format!("{name} {found}"),
            "the dynamic loader ignores preloaded libraries in programs that gain rights",
            format!("record it as the user that it becomes; sudo convoy -- {name} shows what the scheduler sees"),
        )
    })
}

/// How executing this file would change our rights, if it would.
fn privileges(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    let nosuid =
        rustix::fs::statvfs(path).is_ok_and(|s| s.f_flag.contains(StatVfsMountFlags::NOSUID));
    if nosuid {
        return None;
    }
    let (uid, gid) = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if metadata.mode() & libc::S_ISUID != 0 && metadata.uid() != uid {
        return Some(format!("is setuid to uid {}", metadata.uid()));
    }
    // Without the group's x bit the set-group-ID bit means mandatory locking, not privilege.
    let setgid = libc::S_ISGID | libc::S_IXGRP;
    if metadata.mode() & setgid == setgid && metadata.gid() != gid {
        return Some(format!("is setgid to gid {}", metadata.gid()));
    }
    let mut value = [0u8; 64];
    let capabilities = rustix::fs::getxattr(path, "security.capability", &mut value).is_ok();
    (capabilities && uid != 0).then(|| "has file capabilities".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    fn kind(elf: &Elf) -> Option<ErrorKind> {
        refusal(Path::new("/nonexistent"), elf).map(|e| e.kind())
    }

    fn good() -> Elf {
        Elf {
            native: true,
            loader: Some("/lib64/ld-linux-x86-64.so.2".into()),
            ..Elf::default()
        }
    }

    #[test]
    fn each_obstacle_is_refused_for_its_own_reason() {
        assert_eq!(kind(&good()), None);
        assert_eq!(
            kind(&Elf {
                native: false,
                ..good()
            }),
            Some(ErrorKind::Refused(Refusal::Architecture))
        );
        assert_eq!(
            kind(&Elf {
                loader: None,
                ..good()
            }),
            Some(ErrorKind::Refused(Refusal::Static))
        );
        assert_eq!(
            kind(&Elf {
                loader: None,
                is_loader: true,
                ..good()
            }),
            None
        );
        assert_eq!(
            kind(&Elf { go: true, ..good() }),
            Some(ErrorKind::Refused(Refusal::Go))
        );
        assert_eq!(
            kind(&Elf {
                go: true,
                loader: None,
                ..good()
            }),
            Some(ErrorKind::Refused(Refusal::Go)),
            "a static Go program is a Go program first: relinking it would not help"
        );
        let musl = Some("/lib/ld-musl-x86_64.so.1".into());
        assert_eq!(
            kind(&Elf {
                loader: musl,
                ..good()
            }),
            Some(ErrorKind::Refused(Refusal::CLibrary))
        );
    }

    fn compile(dir: &Path, name: &str, arguments: &[&str]) -> PathBuf {
        let source = dir.join("t.c");
        std::fs::write(
            &source,
            "#include <pthread.h>\nint main(int c, char **v)\n\
             { pthread_t t; return c > 1 ? pthread_create(&t, 0, 0, v) : 0; }\n",
        )
        .unwrap();
        let path = dir.join(name);
        let status = std::process::Command::new("cc")
            .args(arguments)
            .arg("-o")
            .arg(&path)
            .arg(&source)
            .status()
            .unwrap();
        assert!(status.success());
        path
    }

    #[test]
    fn compiled_programs_are_recognised() {
        let dir = tempfile::tempdir().unwrap();
        let dynamic = Elf::read(&compile(
            dir.path(),
            "dynamic",
            &["-g", "-Wl,--build-id=sha1"],
        ))
        .unwrap();
        assert!(dynamic.native && dynamic.loader.is_some() && dynamic.threads);
        assert!(dynamic.debug_info && dynamic.symbol_table && !dynamic.go && !dynamic.is_loader);
        assert_eq!(dynamic.build_id.len(), 20);
        assert!(
            dynamic.needed.iter().any(|n| n == "libc.so.6"),
            "{:?}",
            dynamic.needed
        );
        let path = compile(dir.path(), "static", &["-static", "-s", "-w"]);
        let fixed = Elf::read(&path).unwrap();
        assert!(fixed.native && fixed.loader.is_none() && !fixed.symbol_table);
        assert_eq!(
            refusal(&path, &fixed).unwrap().kind(),
            ErrorKind::Refused(Refusal::Static)
        );
        let path = compile(dir.path(), "static-pie", &["-static-pie", "-w"]);
        let fixed = Elf::read(&path).unwrap();
        assert_eq!(
            refusal(&path, &fixed).unwrap().kind(),
            ErrorKind::Refused(Refusal::Static)
        );
    }

    #[test]
    fn loader_itself_is_accepted() {
        let sh = Elf::read(Path::new("/bin/sh")).unwrap();
        let loader = Elf::read(Path::new(&sh.loader.unwrap())).unwrap();
        assert!(loader.is_loader && loader.loader.is_none());
        assert!(kind(&loader).is_none());
    }

    #[test]
    fn setuid_counts_only_where_it_changes_something() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = compile(dir.path(), "own", &[]);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(
            privileges(&path),
            None,
            "setuid to ourselves changes nothing"
        );
    }

    #[test]
    fn damaged_files_are_no_panic() {
        let dir = tempfile::tempdir().unwrap();
        let good = std::fs::read(compile(dir.path(), "good", &[])).unwrap();
        let path = dir.path().join("damaged");
        for cut in [
            0,
            4,
            19,
            20,
            63,
            64,
            100,
            500,
            good.len() / 2,
            good.len() - 1,
        ] {
            std::fs::write(&path, &good[..cut]).unwrap();
            let _ = Elf::read(&path);
        }
        for at in (0..good.len()).step_by(37) {
            let mut bad = good.clone();
            bad[at] ^= 0xff;
            let _ = parse(bad.as_slice());
        }
    }
}
