//! Puts the agent's library where the program can load it: docs/design/0001-agent-as-a-cached-file.md.

use std::ffi::CStr;
use std::fs::{self, DirBuilder};
use std::hash::Hasher;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{statvfs, StatVfsMountFlags};

use crate::elf_check::COMPANION_MACHINE;
use crate::empty_library::empty_library;
use crate::error::{Error, ErrorKind, Trouble};
use crate::own_directory::own_directory;

static AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libconvoy.so"));
static TRACING_AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libconvoy-diagnose.so"));
static EVENT_AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libconvoy-events.so"));
static CAUSAL_AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libconvoy-causal.so"));

/// What glibc's loader makes of `$PLATFORM` in a program of this architecture: the kernel's word
/// (`AT_PLATFORM`), or one for newer processors (glibc, sysdeps/x86/cpu-features.c).
#[cfg(target_arch = "x86_64")]
const PLATFORMS: &[&str] = &["x86_64", "haswell", "xeon_phi"];
#[cfg(target_arch = "aarch64")]
const PLATFORMS: &[&str] = &["aarch64"];
/// The same in the 32-bit programs that the machine also runs.
#[cfg(target_arch = "x86_64")]
const COMPANION_PLATFORMS: &[&str] = &["i386", "i486", "i586", "i686"];
#[cfg(target_arch = "aarch64")]
const COMPANION_PLATFORMS: &[&str] = &["v6l", "v7l", "v8l"];
/// Directory of the empty 32-bit libraries.
const COMPANION_DIR: &str = "32-bit";

/// The agent's library on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFile {
    /// The library itself.
    pub file: PathBuf,
    /// What goes into `LD_PRELOAD`. Only glibc's loader makes a file of it, and a 32-bit one that of an
    /// empty library: other loaders find nothing and say nothing.
    pub preload: PathBuf,
    /// Whether programs that cannot load the agent may inherit `preload`: where the kernel does not name the
    /// platform it is the plain file.
    pub is_inheritable: bool,
}

/// A build of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// Counts.
    Normal,
    /// Looks into critical sections.
    Tracing,
    /// Records events in time order.
    Events,
    /// Makes causal experiments.
    Causal,
}

/// The library's bytes, for processes that run already.
pub(crate) fn bytes(build: Build) -> &'static [u8] {
    match build {
        Build::Normal => AGENT,
        Build::Tracing => TRACING_AGENT,
        Build::Events => EVENT_AGENT,
        Build::Causal => CAUSAL_AGENT,
    }
}

/// The library as a file that this user's programs can load, made if it is not there.
pub fn install(build: Build) -> Result<AgentFile, Error> {
    let agent = bytes(build);
    let mut reasons = Vec::new();
    for parent in parents() {
        match install_in(&parent, agent) {
            Ok(path) => return Ok(path),
            Err(reason) => reasons.push(format!("{}: {reason}", parent.display())),
        }
    }
    Err(Error::new(
        ErrorKind::Agent,
        Trouble::new(
            format!("no place for the agent's library ({})", reasons.join("; ")),
            "the program could not load it and was not started",
            "make one of them writable, on a file system mounted without noexec",
        ),
    ))
}

/// Where it may be, best first: the user's own places, then those that everybody has.
pub(crate) fn parents() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let mut all = Vec::new();
    // Root's programs may drop their uid, and others cannot enter root's home.
    if !rustix::process::geteuid().is_root() {
        all.extend(variable("XDG_CACHE_HOME"));
        all.extend(variable("HOME").map(|home| home.join(".cache")));
        all.extend(variable("XDG_RUNTIME_DIR"));
    }
    all.extend([PathBuf::from("/var/tmp"), PathBuf::from("/tmp")]);
    all.retain(|dir| dir.is_absolute());
    all
}

fn install_in(parent: &Path, agent: &[u8]) -> Result<AgentFile, String> {
    usable(parent)?;
    let uid = rustix::process::geteuid().as_raw();
    let dir = own_directory(parent, "convoy", 0o755)?;
    let name = format!("libconvoy-{:016x}.so", digest(agent));
    let file = dir.join(&name);
    put(&dir, &file, agent, uid)?;
    let Some(platform) = kernel_platform() else {
        return Ok(AgentFile {
            preload: file.clone(),
            file,
            is_inheritable: false,
        });
    };
    let companions = dir.join(COMPANION_DIR);
    match DirBuilder::new().mode(0o755).create(&companions) {
        Ok(()) => {
            fs::set_permissions(&companions, fs::Permissions::from_mode(0o755)).map_err(text)?;
        }
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(text(e)),
    }
    let empty = empty_library(COMPANION_MACHINE);
    put(&companions, &companions.join(&name), &empty, uid)?;
    for companion in COMPANION_PLATFORMS {
        link(&dir.join(companion), COMPANION_DIR)?;
    }
    for own in PLATFORMS.iter().copied().chain([platform.as_str()]) {
        link(&dir.join(own), ".")?;
    }
    Ok(AgentFile {
        preload: dir.join("$PLATFORM").join(name),
        file,
        is_inheritable: true,
    })
}

/// The file with this content, written if it is not there. The directory is ours alone.
fn put(dir: &Path, path: &Path, content: &[u8], uid: u32) -> Result<(), String> {
    if is_ours(path, content, uid) {
        return Ok(());
    }
    write_atomically(dir, path, content).map_err(text)?;
    match is_ours(path, content, uid) {
        true => Ok(()),
        false => Err(format!(
            "{} does not hold what was written to it",
            path.display()
        )),
    }
}

/// A symbolic link to a directory beside it.
fn link(path: &Path, target: &str) -> Result<(), String> {
    match std::os::unix::fs::symlink(target, path) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            match fs::read_link(path).is_ok_and(|found| found == Path::new(target)) {
                true => Ok(()),
                false => Err(format!("{} is no link to {target}", path.display())),
            }
        }
        made => made.map_err(text),
    }
}

/// What the kernel calls this machine. `None` where it does not say (gVisor): the loader then
/// has nothing for `$PLATFORM`, and drops the whole path.
fn kernel_platform() -> Option<String> {
    // SAFETY: the kernel's string, if there is one, lives as long as the process.
    let name = unsafe {
        match libc::getauxval(libc::AT_PLATFORM) {
            0 => return None,
            at => CStr::from_ptr(at as *const libc::c_char),
        }
    };
    let name = name.to_str().ok()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (!name.is_empty() && name.bytes().all(plain)).then(|| name.to_owned())
}

/// The loader splits LD_PRELOAD at blanks and colons, expands `$`, and maps the file executable.
fn usable(parent: &Path) -> Result<(), String> {
    if parent
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|b| b" :;$\t\n\r".contains(b))
    {
        return Err("the path has characters that LD_PRELOAD cannot hold".into());
    }
    let flags = statvfs(parent).map_err(|e| e.to_string())?.f_flag;
    if flags.contains(StatVfsMountFlags::NOEXEC) {
        return Err("mounted noexec".into());
    }
    if rustix::process::geteuid().is_root() {
        for ancestor in parent.ancestors() {
            let mode = fs::metadata(ancestor).map_err(text)?.mode();
            if mode & 0o001 == 0 {
                return Err(format!("other users cannot enter {}", ancestor.display()));
            }
        }
    }
    Ok(())
}

fn is_ours(path: &Path, agent: &[u8], uid: u32) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|m| m.is_file() && m.uid() == uid && m.mode() & 0o7777 == 0o755)
        && fs::read(path).is_ok_and(|bytes| bytes == agent)
}

/// Programs that start right now see the old file or the new one, never half of one; a program that
/// has the old one mapped keeps it.
fn write_atomically(dir: &Path, path: &Path, agent: &[u8]) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new()
        .prefix(".libconvoy-")
        .tempfile_in(dir)?;
    file.write_all(agent)?;
    file.as_file()
        .set_permissions(fs::Permissions::from_mode(0o755))?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// Names the content, so that versions of convoy do not take each other's agent away. No protection: the
/// content itself is compared on every use.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn text(e: std::io::Error) -> String {
    e.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        dir
    }

    #[test]
    fn file_is_made_once_and_used_again() {
        let parent = parent();
        let installed = install_in(parent.path(), b"agent").unwrap();
        let made = fs::metadata(&installed.file).unwrap();
        assert_eq!(made.mode() & 0o7777, 0o755);
        assert_eq!(install_in(parent.path(), b"agent").unwrap(), installed);
        assert_eq!(fs::metadata(&installed.file).unwrap().ino(), made.ino());
        assert_ne!(install_in(parent.path(), b"other").unwrap(), installed);
    }

    #[test]
    fn loaders_of_this_architecture_find_the_agent_and_others_an_empty_library() {
        let parent = parent();
        let installed = install_in(parent.path(), b"agent").unwrap();
        let preload = installed.preload.to_str().unwrap();
        let read = |platform: &str| fs::read(preload.replace("$PLATFORM", platform)).unwrap();
        for platform in PLATFORMS {
            assert_eq!(read(platform), b"agent", "{platform}");
        }
        for platform in COMPANION_PLATFORMS {
            assert_eq!(
                read(platform),
                empty_library(COMPANION_MACHINE),
                "{platform}"
            );
        }
        assert!(
            !installed.preload.exists(),
            "a loader that expands nothing must find nothing"
        );
    }

    #[test]
    fn planted_platform_is_refused() {
        let parent = parent();
        let dir = install_in(parent.path(), b"agent").unwrap().file;
        let link = dir.parent().unwrap().join(PLATFORMS[0]);
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("/", &link).unwrap();
        assert!(install_in(parent.path(), b"agent")
            .unwrap_err()
            .contains("is no link to"));
    }

    #[test]
    fn damaged_file_is_replaced() {
        let parent = parent();
        let path = install_in(parent.path(), b"agent").unwrap().file;
        fs::write(&path, "planted").unwrap();
        assert_eq!(install_in(parent.path(), b"agent").unwrap().file, path);
        assert_eq!(fs::read(&path).unwrap(), b"agent");
    }

    #[test]
    fn planted_directory_is_refused() {
        let parent = parent();
        let dir = parent
            .path()
            .join(format!("convoy-{}", rustix::process::geteuid().as_raw()));
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(install_in(parent.path(), b"agent")
            .unwrap_err()
            .contains("mode 777"));
        fs::remove_dir(&dir).unwrap();
        std::os::unix::fs::symlink("/", &dir).unwrap();
        assert!(install_in(parent.path(), b"agent").is_err());
    }

    #[test]
    fn paths_that_the_loader_would_split_are_refused() {
        for name in ["with space", "a:b", "$ORIGIN"] {
            let parent = parent().path().join(name);
            fs::create_dir_all(&parent).unwrap();
            assert!(install_in(&parent, b"agent").is_err(), "{name}");
            fs::remove_dir_all(parent.parent().unwrap()).unwrap();
        }
    }

    #[test]
    fn built_agents_are_libraries() {
        for agent in [AGENT, TRACING_AGENT, EVENT_AGENT, CAUSAL_AGENT] {
            assert_eq!(agent.get(..4), Some(b"\x7fELF".as_slice()));
        }
    }
}
