//! The session directory: where agents put their arenas, and what is left if convoy dies.

use std::ffi::CString;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use convoy_abi as abi;
use convoy_profile::Meta;
use rustix::fs::{statfs, statvfs};
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, IntoBytes};

use crate::error::{Error, ErrorKind, Trouble};
use crate::procfs;
use crate::side_file::{self, SideFile};

/// Names of our directories start with this.
const PREFIX: &str = "convoy-session-";
const OWNER: &str = "owner";
const SESSION: &str = "session";
/// Which critical sections agents are to trace.
pub(crate) const TARGETS: &str = "targets";
/// The agent keeps the path in a buffer of 256 bytes and adds "/p<pid>.<n>".
const LONGEST_PATH: usize = 200;
/// With less room than this, another place is tried first: a program with many locks needs tens of MB.
const ENOUGH_BYTES: u64 = 64 << 20;
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// A session directory. Dropping it removes the directory, unless it was told to stay.
#[derive(Debug)]
pub struct Session {
    dir: PathBuf,
    keep: bool,
}

/// Who made a session, and for what: written into it, so that it can be recovered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub pid: u32,
    /// Start of that process in clock ticks since boot: with the pid, names one process.
    pub start_ticks: u64,
    pub boot_id: String,
    /// The pid is a number of this pid namespace.
    pub pid_namespace: String,
    pub meta: Meta,
}

impl Owner {
    /// Whether that convoy still runs, or may run where we cannot look (containers that share /dev/shm).
    pub(crate) fn is_alive(&self) -> bool {
        self.boot_id == boot_id()
            && (self.pid_namespace != pid_namespace()
                || procfs::start_ticks(self.pid).is_some_and(|ticks| ticks == self.start_ticks))
    }
}

/// A session whose convoy is gone: its data are still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The directory: give it to [`crate::recover`], or remove it.
    pub dir: PathBuf,
    /// What was recorded.
    pub command: Vec<String>,
    /// When, nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// Memory that it uses.
    pub bytes: u64,
}

/// A place where a session could be.
struct Place {
    dir: PathBuf,
    free_bytes: u64,
    in_memory: bool,
}

impl Session {
    /// Makes the directory in `parent` or, if `None`, in the best place of this machine.
    pub fn create(parent: Option<&Path>) -> Result<(Self, Vec<Trouble>), Error> {
        let mut warnings = Vec::new();
        let place = match parent {
            Some(dir) => look(dir.to_owned()).ok_or_else(|| {
                failed(
                    dir,
                    "is not a directory that can be written",
                    "name another one",
                )
            })?,
            None => best_place()?,
        };
        if !place.in_memory {
            warnings.push(Trouble::new(
                format!(
                    "{} is on a disk, and no tmpfs is writable",
                    place.dir.display()
                ),
                "the first write to each page of the tables costs the program more",
                "mount a tmpfs on /dev/shm",
            ));
        }
        if place.free_bytes < ENOUGH_BYTES {
            warnings.push(Trouble::new(
                format!(
                    "{} has {} MB free",
                    place.dir.display(),
                    place.free_bytes >> 20
                ),
                "a program with many threads or locks may not be recorded to its end",
                "give it more room (containers: --shm-size=1g)",
            ));
        }
        // Root's programs may drop their uid and must still be able to add arenas: anybody may, who
        // knows the name; nobody else can list it or remove what is not theirs.
        let mode = if rustix::process::geteuid().is_root() {
            0o1733
        } else {
            0o700
        };
        let dir = tempfile::Builder::new()
            .prefix(PREFIX)
            .rand_bytes(22)
            .tempdir_in(&place.dir)
            .map_err(|e| {
                failed(
                    &place.dir,
                    &format!("cannot hold a directory: {e}"),
                    "check its mode",
                )
            })?
            .keep();
        let session = Self { dir, keep: false };
        fs::set_permissions(&session.dir, fs::Permissions::from_mode(mode))
            .map_err(|e| failed(&session.dir, &format!("cannot be given its mode: {e}"), ""))?;
        if session.dir.as_os_str().len() > LONGEST_PATH {
            let fix = "set TMPDIR to a shorter path";
            return Err(failed(
                &session.dir,
                "is too long a path for the agent",
                fix,
            ));
        }
        Ok((session, warnings))
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Do not remove the directory when this is dropped.
    pub fn keep(&mut self) -> &Path {
        self.keep = true;
        &self.dir
    }

    /// Write what the agents read.
    pub(crate) fn write_session(&self, session: &abi::Session) -> Result<(), Error> {
        self.write(SESSION, session.as_bytes(), 0o644)
    }

    /// Write which critical sections the agents look into.
    pub(crate) fn write_targets(&self, targets: &[u8]) -> Result<(), Error> {
        self.write(TARGETS, targets, 0o644)
    }

    /// Write what recovery reads.
    pub(crate) fn write_owner(&self, meta: &Meta) -> Result<(), Error> {
        let pid = std::process::id();
        let owner = Owner {
            pid,
            start_ticks: procfs::start_ticks(pid).unwrap_or(0),
            boot_id: boot_id(),
            pid_namespace: pid_namespace(),
            meta: meta.clone(),
        };
        let json = serde_json::to_vec(&owner)
            .map_err(|e| failed(&self.dir, &format!("cannot be described: {e}"), ""))?;
        self.write(OWNER, &json, 0o600)
    }

    fn write(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), Error> {
        let path = self.dir.join(name);
        fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .and_then(|mut file| {
                file.set_permissions(fs::Permissions::from_mode(mode))?; // whatever the umask
                file.write_all(bytes)
            })
            .map_err(|e| {
                failed(
                    &path,
                    &format!("cannot be written: {e}"),
                    "free some memory",
                )
            })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A panic is our bug: the user's data must survive it.
        if !self.keep && !std::thread::panicking() {
            // Best effort: what stays is listed by `leftovers`.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// An arena in a session directory.
pub(crate) type ArenaFile = SideFile;

pub(crate) fn arenas(dir: &Path) -> Vec<ArenaFile> {
    side_file::all_in(dir, 'p')
}

/// Whether a directory is named as ours are.
pub(crate) fn is_session_name(name: &std::ffi::OsStr) -> bool {
    name.as_bytes().starts_with(PREFIX.as_bytes())
}

pub(crate) fn read_owner(dir: &Path) -> Option<Owner> {
    serde_json::from_slice(&read_small(&dir.join(OWNER))?).ok()
}

/// What the agents of a session were told.
pub(crate) fn read_facts(dir: &Path) -> Option<abi::Session> {
    let bytes = read_small(&dir.join(SESSION))?;
    let (facts, _) = abi::Session::read_from_prefix(&bytes).ok()?;
    let known = facts.magic == abi::CV_SESSION_MAGIC && facts.version == abi::CV_ABI_VERSION;
    known.then_some(facts)
}

/// A file of a session, which may be another user's: no link is followed, no FIFO waited for, and no memory filled.
fn read_small(path: &Path) -> Option<Vec<u8>> {
    const MOST_BYTES: u64 = 16 << 20; // the arguments of a command are in there
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .ok()?;
    let mut bytes = Vec::new();
    let is_file = file.metadata().ok()?.is_file();
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    is_file.then_some(bytes)
}

/// Sessions of this user whose convoy has died.
pub fn leftovers() -> Vec<Leftover> {
    let uid = rustix::process::geteuid().as_raw();
    let mut found = Vec::new();
    for parent in parents() {
        for entry in fs::read_dir(&parent).into_iter().flatten().flatten() {
            let dir = entry.path();
            let ours = is_session_name(&entry.file_name())
                && fs::symlink_metadata(&dir).is_ok_and(|m| m.is_dir() && m.uid() == uid);
            if !ours {
                continue;
            }
            // Without an owner file convoy died while making it, or makes it right now: nothing to recover.
            let Some(owner) = read_owner(&dir) else {
                continue;
            };
            if !owner.is_alive() {
                found.push(Leftover {
                    bytes: arenas(&dir)
                        .iter()
                        .filter_map(|a| fs::symlink_metadata(&a.path).ok())
                        .map(|m| m.blocks() * 512)
                        .sum(),
                    dir,
                    command: owner.meta.command,
                    started_unix_ns: owner.meta.started_unix_ns,
                });
            }
        }
    }
    found.sort_by(|a, b| a.dir.cmp(&b.dir));
    found.dedup();
    found
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn pid_namespace() -> String {
    fs::read_link("/proc/self/ns/pid")
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Directories that may hold sessions, best first.
pub(crate) fn parents() -> Vec<PathBuf> {
    let mut all = vec![PathBuf::from("/dev/shm")];
    all.extend(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
    all.extend(std::env::var_os("TMPDIR").map(PathBuf::from));
    all.push(PathBuf::from("/tmp"));
    all.retain(|dir| dir.is_absolute());
    all
}

fn best_place() -> Result<Place, Error> {
    let mut places: Vec<Place> = parents().into_iter().filter_map(look).collect();
    if let Some(at) = places
        .iter()
        .position(|p| p.in_memory && p.free_bytes >= ENOUGH_BYTES)
    {
        return Ok(places.swap_remove(at));
    }
    places
        .into_iter()
        .max_by_key(|p| (p.in_memory, p.free_bytes))
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Session,
                Trouble::new(
                    "neither /dev/shm, $XDG_RUNTIME_DIR, $TMPDIR nor /tmp can be written",
                    "there is no place for the tables that the program and convoy share",
                    "set TMPDIR to a directory that you can write, best on a tmpfs",
                ),
            )
        })
}

fn look(dir: PathBuf) -> Option<Place> {
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    if !dir.is_dir() || rustix::fs::access(&dir, access).is_err() {
        return None;
    }
    Some(Place {
        free_bytes: free_bytes(&dir)?,
        in_memory: is_tmpfs(&dir),
        dir,
    })
}

pub(crate) fn free_bytes(dir: &Path) -> Option<u64> {
    let space = statvfs(dir).ok()?;
    // A tmpfs without a size limit says 0 blocks in all.
    if space.f_blocks == 0 {
        return Some(u64::MAX);
    }
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

pub(crate) fn is_tmpfs(dir: &Path) -> bool {
    statfs(dir).is_ok_and(|s| s.f_type == TMPFS_MAGIC)
}

fn failed(path: &Path, found: &str, fix: &str) -> Error {
    Error::new(
        ErrorKind::Session,
        Trouble::new(
            format!("{} {found}", path.display()),
            "the program was not started",
            fix,
        ),
    )
}

/// The variable that tells an agent its session.
pub(crate) fn variable(dir: &Path) -> (CString, CString) {
    let value = dir.as_os_str().to_owned().into_vec();
    // A path that the kernel has accepted holds no NUL.
    (
        c"_CONVOY_SESSION".to_owned(),
        CString::new(value).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_is_private_and_goes_away() {
        let parent = tempfile::tempdir().unwrap();
        let (session, _) = Session::create(Some(parent.path())).unwrap();
        let dir = session.dir().to_owned();
        let mode = fs::metadata(&dir).unwrap().mode() & 0o7777;
        assert!(mode == 0o700 || mode == 0o1733, "{mode:o}");
        session.write_session(&abi::Session::default()).unwrap();
        assert_eq!(fs::metadata(dir.join(SESSION)).unwrap().len(), 128);
        drop(session);
        assert!(!dir.exists());
    }

    #[test]
    fn directory_stays_when_told() {
        let parent = tempfile::tempdir().unwrap();
        let (mut session, _) = Session::create(Some(parent.path())).unwrap();
        let dir = session.keep().to_owned();
        drop(session);
        assert!(dir.exists());
    }

    #[test]
    fn owner_is_alive_while_it_runs() {
        let owner = |pid: u32, start_ticks| Owner {
            pid,
            start_ticks,
            boot_id: boot_id(),
            pid_namespace: pid_namespace(),
            meta: Meta::default(),
        };
        let pid = std::process::id();
        let ticks = procfs::start_ticks(pid).unwrap();
        assert!(owner(pid, ticks).is_alive());
        assert!(
            !owner(pid, ticks + 1).is_alive(),
            "another process got its pid"
        );
        assert!(!owner(u32::MAX, ticks).is_alive());
        assert!(!Owner {
            boot_id: "before".into(),
            ..owner(pid, ticks)
        }
        .is_alive());
        let elsewhere = Owner {
            pid_namespace: "pid:[1]".into(),
            ..owner(u32::MAX, 1)
        };
        assert!(
            elsewhere.is_alive(),
            "in another container: not ours to judge"
        );
    }

    #[test]
    fn arenas_are_told_from_other_files() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "p12.0", "p12.1", "p7.0", "session", "owner", "p.1", "p1.x", "q1.1",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let found: Vec<_> = arenas(dir.path()).iter().map(|a| (a.pid, a.n)).collect();
        assert_eq!(found, [(7, 0), (12, 0), (12, 1)]);
    }

    #[test]
    fn missing_parent_is_an_error() {
        let error = Session::create(Some(Path::new("/nonexistent"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Session);
    }
}
