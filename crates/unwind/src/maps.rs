//! What a process has mapped executable: `/proc/PID/maps`.

use std::path::{Path, PathBuf};

/// Path that the kernel gives to its own code in every process.
pub(crate) const VDSO: &str = "[vdso]";

/// The file behind a mapping.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    /// As the kernel shows it, without its remark that the file was unlinked.
    pub(crate) path: String,
    /// Device, as [`std::os::unix::fs::MetadataExt::dev`] has it.
    pub(crate) dev: u64,
    /// Inode; 0 for the vdso.
    pub(crate) inode: u64,
}

impl Source {
    /// It has no place in a file system: compilers map generated code twice with its help. Programs may be
    /// run from there, too.
    pub(crate) fn is_memory(&self) -> bool {
        ["/memfd:", "/dev/zero", "/SYSV"]
            .iter()
            .any(|prefix| self.path.starts_with(prefix))
    }
}

/// One executable mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) lo: u64,
    pub(crate) hi: u64,
    /// Offset of `lo` in the file.
    pub(crate) offset: u64,
    /// `None`: generated code.
    pub(crate) source: Option<Source>,
}

impl Mapping {
    pub(crate) fn holds(&self, address: u64) -> bool {
        (self.lo..self.hi).contains(&address)
    }
}

/// The executable mappings of a process by address, and the directory in `/proc` that still answers for it.
///
/// A main thread that has ended takes its `/proc/PID/maps` with it while other threads live on; theirs
/// are asked then. `None`: the process is gone.
pub(crate) fn read(pid: u32) -> Option<(PathBuf, Vec<Mapping>)> {
    let own = PathBuf::from(format!("/proc/{pid}"));
    if let Some(mappings) = read_dir(&own) {
        return Some((own, mappings));
    }
    std::fs::read_dir(own.join("task"))
        .ok()?
        .flatten()
        .find_map(|task| Some((task.path(), read_dir(&task.path())?)))
}

fn read_dir(dir: &Path) -> Option<Vec<Mapping>> {
    // Paths may hold any bytes: one odd name must not hide all other mappings.
    let text = std::fs::read(dir.join("maps")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let mappings: Vec<Mapping> = text.lines().filter_map(executable).collect();
    (!mappings.is_empty()).then_some(mappings)
}

/// `lo-hi perms offset major:minor inode path`
fn executable(line: &str) -> Option<Mapping> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut rest = line;
    let mut field = || {
        let (head, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = tail.trim_start_matches(' ');
        head
    };
    let (lo, hi) = field().split_once('-')?;
    let (lo, hi) = (hex(lo)?, hex(hi)?);
    let perms = field();
    let offset = hex(field())?;
    let (major, minor) = field().split_once(':')?;
    let dev = device(hex(major)?, hex(minor)?);
    let inode = field().parse().ok()?;
    if perms.as_bytes().get(2) != Some(&b'x') || hi <= lo {
        return None;
    }
    let path = rest.strip_suffix(" (deleted)").unwrap_or(rest);
    let source = (path == VDSO || (path.starts_with('/') && inode != 0)).then(|| Source {
        path: path.replace("\\012", "\n"),
        dev,
        inode,
    });
    Some(Mapping {
        lo,
        hi,
        offset,
        source,
    })
}

/// Device numbers as the C library packs them.
fn device(major: u64, minor: u64) -> u64 {
    ((major & 0xffff_f000) << 32)
        | ((major & 0xfff) << 8)
        | ((minor & 0xffff_ff00) << 12)
        | (minor & 0xff)
}

#[cfg(test)]
mod tests {
    use super::{executable, read};

    #[test]
    fn lines_of_the_map_are_read() {
        let line = "55d0c0a00000-55d0c0a02000 r-xp 00001000 fe:01 1234 /a dir/my prog (deleted)";
        let mapping = executable(line).expect("a mapping");
        assert_eq!(
            (mapping.lo, mapping.hi, mapping.offset),
            (0x55d0_c0a0_0000, 0x55d0_c0a0_2000, 0x1000)
        );
        let source = mapping.source.expect("a file");
        assert_eq!(
            (source.path.as_str(), source.dev, source.inode),
            ("/a dir/my prog", 0xfe01, 1234)
        );

        let jit = executable("7f0000000000-7f0000001000 rwxp 00000000 00:00 0").expect("a mapping");
        assert_eq!(jit.source, None);
        let twice =
            "7f0000000000-7f0000001000 r-xp 00000000 00:01 77 /memfd:doublemapper (deleted)";
        let source = executable(twice).and_then(|m| m.source).expect("a file");
        assert!(source.is_memory());
        let vdso = "7ffd1000-7ffd3000 r-xp 00000000 00:00 0                          [vdso]";
        assert_eq!(
            executable(vdso).and_then(|m| m.source).expect("it").path,
            "[vdso]"
        );
        for not_code in [
            "55d0c0a00000-55d0c0a02000 r--p 00001000 fe:01 1234 /prog",
            "2-1 r-xp 0 0:0 0",
            "55d0c0a00000 r-xp",
            "x-y r-xp 0 0:0 0",
            "",
        ] {
            assert_eq!(executable(not_code), None, "{not_code}");
        }
    }

    #[test]
    fn devices_are_numbered_as_in_stat() {
        use std::os::unix::fs::MetadataExt;

        let (_, mappings) = read(std::process::id()).expect("this process");
        let exe = std::fs::metadata("/proc/self/exe").expect("this program");
        assert!(mappings
            .iter()
            .filter_map(|m| m.source.as_ref())
            .any(|s| (s.dev, s.inode) == (exe.dev(), exe.ino())));
        assert!(read(u32::MAX).is_none());
    }
}
