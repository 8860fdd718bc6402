//! What this machine, this user and, if one is named, this program allow. Plain facts; who asks decides
//! what they mean.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use convoy_profile::Machine;
use rustix::fs::{statvfs, StatVfsMountFlags};

use crate::command::Command;
use crate::error::{Error, Trouble};
pub use crate::kernel::Sources;
use crate::{agent_file, clock, machine, session};

/// Facts about the machine, the user and optionally a program.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Processors, memory, kernel, C library.
    pub machine: Machine,
    /// The cycle counter is good enough to be the clock of a recording.
    pub cycle_counter: bool,
    /// Effective user id.
    pub uid: u32,
    /// Places for the session directory, best first.
    pub places: Vec<Place>,
    /// Where the agent's library is, or why it can be nowhere.
    pub agent: Result<PathBuf, Trouble>,
    /// Where scheduler events can come from.
    pub sources: Sources,
    /// A filter of system calls (seccomp) is on us.
    pub seccomp: bool,
    /// Signs of a container, empty if there are none.
    pub container: Vec<String>,
    /// Sessions of dead convoys.
    pub leftovers: Vec<session::Leftover>,
    /// The program, if one was named.
    pub program: Option<ProgramFacts>,
}

/// A directory that may hold sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Where.
    pub dir: PathBuf,
    /// It is there and can be written.
    pub writable: bool,
    /// It is a tmpfs.
    pub in_memory: bool,
    /// Free, bytes.
    pub free_bytes: u64,
    /// Mounted noexec (no obstacle for a session).
    pub noexec: bool,
}

/// A program that could be recorded.
#[derive(Debug, Clone)]
pub struct ProgramFacts {
    /// The file that the command names.
    pub path: PathBuf,
    /// The ELF file that really runs (the interpreter of a script), if it could be read.
    pub elf_path: Option<PathBuf>,
    /// Why it cannot be recorded.
    pub refusal: Option<Error>,
    /// It imports symbols that only a program with threads needs. A library of it may do so too.
    pub uses_threads: bool,
    /// It has debug information of its own.
    pub debug_info: bool,
    /// It has a symbol table of its own, so that functions have names.
    pub symbol_table: bool,
    /// GNU build-id, hexadecimal, may be empty.
    pub build_id: String,
    /// The separate file with its debug information, if it is installed.
    pub debug_file: Option<PathBuf>,
}

/// Looks at everything.
pub fn facts(command: Option<&[OsString]>) -> Result<Facts, Error> {
    Ok(Facts {
        machine: machine::machine(),
        cycle_counter: clock::Clock::calibrate().uses_counter(),
        uid: rustix::process::geteuid().as_raw(),
        places: session::parents().into_iter().map(place).collect(),
        agent: agent_file::install(agent_file::Build::Normal)
            .map(|agent| agent.file)
            .map_err(|e| e.trouble().clone()),
        sources: Sources::try_all(),
        seccomp: seccomp(),
        container: container(),
        leftovers: session::leftovers(),
        program: command.map(program).transpose()?,
    })
}

fn place(dir: PathBuf) -> Place {
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    Place {
        writable: dir.is_dir() && rustix::fs::access(&dir, access).is_ok(),
        in_memory: session::is_tmpfs(&dir),
        free_bytes: session::free_bytes(&dir).unwrap_or(0),
        noexec: statvfs(&dir).is_ok_and(|s| s.f_flag.contains(StatVfsMountFlags::NOEXEC)),
        dir,
    }
}

fn seccomp() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status_field(&status, "Seccomp:").is_some_and(|mode| mode != "0")
}

fn status_field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

fn container() -> Vec<String> {
    let mut signs = Vec::new();
    for file in ["/.dockerenv", "/run/.containerenv"] {
        if Path::new(file).exists() {
            signs.push(format!("{file} is there"));
        }
    }
    if let Some(name) = std::env::var_os("container") {
        signs.push(format!(
            "the variable container is \"{}\"",
            name.to_string_lossy()
        ));
    }
    // Docker's default, and too little for a program with many locks.
    let shm_bytes = statvfs("/dev/shm").map_or(0, |s| s.f_blocks.saturating_mul(s.f_frsize));
    if shm_bytes == 64 << 20 {
        signs.push(
            "/dev/shm has 64 MB (the default of containers: --shm-size=1g gives more)".into(),
        );
    }
    signs
}

fn program(command: &[OsString]) -> Result<ProgramFacts, Error> {
    let command = Command::resolve(command)?;
    let elf = command
        .program
        .as_ref()
        .map(|p| p.elf.clone())
        .unwrap_or_default();
    let elf_path = command.program.as_ref().map(|p| p.path.clone());
    Ok(ProgramFacts {
        refusal: command.refusal(),
        uses_threads: elf.threads,
        debug_info: elf.debug_info,
        symbol_table: elf.symbol_table,
        debug_file: debug_file(&elf.build_id, Path::new("/usr/lib/debug/.build-id")),
        build_id: hex(&elf.build_id),
        path: command.path,
        elf_path,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn debug_file(build_id: &[u8], root: &Path) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let path = root
        .join(hex(&[*first]))
        .join(format!("{}.debug", hex(rest)));
    path.exists().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_this_machine_are_there() {
        let facts = facts(Some(&["sh".into()])).unwrap();
        assert!(facts.places.iter().any(|p| p.writable && p.free_bytes > 0));
        assert!(
            facts.agent.as_ref().is_ok_and(|path| path.is_file()),
            "{:?}",
            facts.agent
        );
        // Without rights there are perf events at least, unless this is a container; with them there is a reason.
        for refused in [&facts.sources.bpf, &facts.sources.perf] {
            if let Err(trouble) = refused {
                assert!(!trouble.found.is_empty() && !trouble.fix.is_empty());
            }
        }
        let program = facts.program.unwrap();
        assert!(program.refusal.is_none() && program.elf_path.is_some());
    }

    #[test]
    fn missing_command_is_the_same_error_as_when_recording() {
        let error = facts(Some(&["no-such-command-anywhere".into()])).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::NotFound);
    }

    #[test]
    fn debug_files_are_found_by_build_id() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(debug_file(&[0xab, 0xcd, 0xef], root.path()), None);
        let path = root.path().join("ab/cdef.debug");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        assert_eq!(debug_file(&[0xab, 0xcd, 0xef], root.path()), Some(path));
        assert_eq!(debug_file(&[], root.path()), None);
    }
}
