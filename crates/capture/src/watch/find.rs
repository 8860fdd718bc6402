//! Which recording a running process belongs to.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind as Io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Trouble};
use crate::procfs;
use crate::session::{self, is_session_name, variable};

/// Time between exec and the agent's first table, on a machine that is busy.
const BEGINNING: Duration = Duration::from_secs(1);

/// A session directory.
pub(super) struct Found {
    pub dir: PathBuf,
    /// The pid is that of the convoy that records, and not that of a program.
    pub recorder: bool,
}

/// The session that a process writes to, or that it made.
pub(super) fn session_of(pid: u32) -> Result<Found, Error> {
    if procfs::start_ticks(pid).is_none() {
        return Err(nothing_to_show(
            format!("there is no process {pid}"),
            "",
            "name one that runs, or the file of one that has ended: convoy top FILE",
        ));
    }
    let own = fs::read_link("/proc/self/ns/pid").ok();
    let its = fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    if let (Some(own), Some(its)) = (own, its) {
        if own != its {
            return Err(nothing_to_show(
                format!("process {pid} is in another pid namespace (a container)"),
                "its tables are known there by another number",
                "run convoy top inside of it: nsenter -t PID -p -m convoy top, docker exec, kubectl exec",
            ));
        }
    }
    let asked = Instant::now();
    let denied = loop {
        let environment = fs::read(format!("/proc/{pid}/environ"));
        let denied = matches!(&environment, Err(e) if e.kind() == Io::PermissionDenied);
        let environment = environment.unwrap_or_default();
        let told = session_named_in(&environment);
        // A program has an environment a moment after it has begun, and tables a moment later.
        let begins = told.is_some() || (environment.is_empty() && !denied);
        for dir in told.into_iter().chain(sessions()) {
            let program = session::arenas(&dir).iter().any(|arena| arena.pid == pid);
            let recorder = session::read_owner(&dir).is_some_and(|o| o.pid == pid && o.is_alive());
            if program || recorder {
                return Ok(Found { dir, recorder });
            }
        }
        if !begins || asked.elapsed() >= BEGINNING || procfs::start_ticks(pid).is_none() {
            break denied;
        }
        thread::sleep(Duration::from_millis(10));
    };
    let name = procfs::name(pid).unwrap_or_default();
    Err(match denied {
        true => nothing_to_show(
            format!("process {pid} ({name}) belongs to another user"),
            "where its tables are cannot be seen",
            "run convoy top as that user, or with sudo",
        ),
        false => nothing_to_show(
            format!("process {pid} ({name}) carries no agent"),
            "only programs that convoy has started keep tables that can be read",
            "start it with convoy record -- COMMAND, or look at it from outside: convoy -p PID --for 10s",
        ),
    })
}

/// The directory that a process got in its environment. The process can have written anything there.
fn session_named_in(environment: &[u8]) -> Option<PathBuf> {
    let (name, _) = variable(Path::new(""));
    let value = environment
        .split(|b| *b == 0)
        .filter_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
        .next_back()?;
    let dir = PathBuf::from(OsString::from_vec(value.to_vec()));
    is_session(&dir).then_some(dir)
}

/// All sessions where they usually are, for programs that have cleared their environment.
fn sessions() -> impl Iterator<Item = PathBuf> {
    let parents = session::parents().into_iter();
    let entries = parents.flat_map(|parent| fs::read_dir(parent).into_iter().flatten().flatten());
    let dirs = entries.map(|entry| entry.path());
    // A program that has cleared its environment wrote to a session whose convoy is there: a left over one may have
    // had another process with this pid.
    dirs.filter(|dir| is_session(dir))
        .filter(|dir| session::read_owner(dir).is_some_and(|owner| owner.is_alive()))
}

fn is_session(dir: &Path) -> bool {
    dir.is_absolute()
        && dir.file_name().is_some_and(is_session_name)
        && fs::symlink_metadata(dir).is_ok_and(|m| m.is_dir())
}

fn nothing_to_show(found: String, why: &str, fix: &str) -> Error {
    let effect = match why {
        "" => "nothing to show".to_owned(),
        why => format!("{why}: nothing to show"),
    };
    Error::new(ErrorKind::Watch, Trouble::new(found, effect, fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_a_session_only_where_there_is_one() {
        let parent = tempfile::tempdir().unwrap();
        let (session, _) = session::Session::create(Some(parent.path())).unwrap();
        let told = |value: &str| {
            let text = format!("A=1\0_CONVOY_SESSION={value}\0B=2\0");
            session_named_in(text.as_bytes())
        };
        let dir = session.dir().to_str().unwrap();
        assert_eq!(told(dir).as_deref(), Some(session.dir()));
        assert_eq!(told("/etc"), None);
        assert_eq!(told("convoy-session-relative"), None);
        assert_eq!(told(&format!("{dir}x")), None);
        assert_eq!(session_named_in(b"PATH=/bin\0"), None);
    }

    #[test]
    fn a_program_that_has_just_begun_is_waited_for() {
        let parent = tempfile::tempdir().unwrap();
        let (session, _) = session::Session::create(Some(parent.path())).unwrap();
        let (name, _) = variable(Path::new(""));
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .env(name.to_str().unwrap(), session.dir())
            .spawn()
            .unwrap();
        let asked = Instant::now();
        let bare = session_of(child.id()).err();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(bare.is_some_and(|e| e.to_string().contains("carries no agent")));
        assert!(asked.elapsed() >= BEGINNING);
    }

    #[test]
    fn a_process_that_nobody_records_is_told_apart_from_one_that_is_not_there() {
        let missing = session_of(u32::MAX).err().unwrap().to_string();
        assert!(missing.contains("there is no process"), "{missing}");
        // Not this one: other tests are recorders here.
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let bare = session_of(child.id()).err().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(bare.kind(), ErrorKind::Watch);
        let text = bare.to_string();
        for part in ["carries no agent", "nothing to show", "convoy record --"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_recording_is_found_by_its_recorder() {
        // Where others look for it, as every session is.
        let (session, _) = session::Session::create(None).unwrap();
        session
            .write_owner(&convoy_profile::Meta::default())
            .unwrap();
        let found = session_of(std::process::id()).unwrap();
        assert!(found.recorder);
        assert_eq!(found.dir, session.dir());
    }
}
