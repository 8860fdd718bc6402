//! Finds the file that a command runs, the way a shell does, and follows scripts to their interpreter.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::agent_file::AgentFile;
use crate::elf_check::{self, Elf};
use crate::error::{Error, ErrorKind, Trouble};

/// The kernel follows this many `#!` lines.
const DEEPEST_SCRIPT: usize = 5;

/// A command that can be started.
#[derive(Debug, Clone)]
pub struct Command {
    /// The file to execute.
    pub path: PathBuf,
    /// Its arguments, the name as given first.
    pub arguments: Vec<OsString>,
    /// The ELF file that will really run: `path`, or the interpreter of that script. `None` if it cannot be
    /// read.
    pub program: Option<Program>,
}

/// The ELF file that a command runs.
#[derive(Debug, Clone)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// What is in it, as far as it matters here.
    pub elf: Elf,
}

impl Command {
    /// Finds the file. `Err` if there is none or it cannot be executed.
    pub fn resolve(arguments: &[OsString]) -> Result<Self, Error> {
        let Some(name) = arguments.first() else {
            return Err(not_found(
                "no command was given".into(),
                "name one: convoy -- COMMAND",
            ));
        };
        let path = find(name)?;
        let program = program_of(&path);
        Ok(Self {
            path,
            arguments: arguments.to_vec(),
            program,
        })
    }

    /// The library that the program asks for whose name begins so, e.g. "libtsan.so".
    pub(crate) fn needs(&self, name: &str) -> Option<&str> {
        let needed = &self.program.as_ref()?.elf.needed;
        needed
            .iter()
            .find(|library| library.starts_with(name))
            .map(String::as_str)
    }

    /// Whether it starts as ever with the agent's path in `LD_PRELOAD`. Of a file that cannot be read
    /// nothing else is known: most can.
    pub(crate) fn tolerates(&self, agent: &AgentFile) -> bool {
        self.program.as_ref().is_none_or(|program| {
            let loads = self.refusal().is_none();
            loads || agent.is_inheritable && elf_check::tolerates_preload(&program.elf)
        })
    }

    /// Why this command cannot be recorded by the agent, although it can run.
    pub fn refusal(&self) -> Option<Error> {
        let program = self.program.as_ref()?;
        elf_check::refusal(&program.path, &program.elf)
    }
}

fn not_found(found: String, fix: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        Trouble::new(found, "nothing was started", fix),
    )
}

fn not_executable(path: &Path, why: &str, fix: &str) -> Error {
    let found = format!("{} {why}", path.display());
    Error::new(
        ErrorKind::NotExecutable,
        Trouble::new(found, "nothing was started", fix),
    )
}

fn find(name: &OsStr) -> Result<PathBuf, Error> {
    if name.is_empty() {
        return Err(not_found(
            "the command is an empty word".into(),
            "name a program",
        ));
    }
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return executable(&path).map(|()| path);
    }
    search(
        name,
        &std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into()),
    )
}

/// Like execvp: a file without permission is remembered, but a later one that can run is taken.
fn search(name: &OsStr, path_variable: &OsStr) -> Result<PathBuf, Error> {
    let mut denied = None;
    for dir in std::env::split_paths(path_variable) {
        // An empty element is the current directory.
        let dir = if dir.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            dir
        };
        let path = dir.join(name);
        match executable(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == ErrorKind::NotExecutable && !path.is_dir() => {
                denied.get_or_insert(e);
            }
            Err(_) => {}
        }
    }
    Err(denied.unwrap_or_else(|| {
        let found = format!("{} is not in PATH", name.to_string_lossy());
        not_found(found, "check the spelling, or give its path")
    }))
}

fn executable(path: &Path) -> Result<(), Error> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(not_executable(
                path,
                "cannot be reached: permission denied",
                "",
            ));
        }
        Err(e) => {
            let found = format!("{}: {}", path.display(), crate::error::os_text(&e));
            return Err(not_found(found, "check the path"));
        }
    };
    if metadata.is_dir() {
        return Err(not_executable(
            path,
            "is a directory",
            "name the program in it",
        ));
    }
    if !metadata.is_file() {
        return Err(not_executable(
            path,
            "is not a regular file",
            "name a program",
        ));
    }
    // Root may "execute" any file with one x bit; access() knows that.
    if rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_err()
        || metadata.mode() & 0o111 == 0
    {
        let found = format!("may not be executed (mode {:o})", metadata.mode() & 0o7777);
        return Err(not_executable(
            path,
            &found,
            "chmod +x, or a file system without noexec",
        ));
    }
    Ok(())
}

/// The ELF file behind `path`; `None` if something on the way cannot be read or is no ELF file: then
/// the kernel decides.
fn program_of(path: &Path) -> Option<Program> {
    let mut path = path.to_owned();
    for _ in 0..=DEEPEST_SCRIPT {
        let mut head = Vec::new();
        fs::File::open(&path)
            .ok()?
            .take(256)
            .read_to_end(&mut head)
            .ok()?;
        if head.starts_with(b"\x7fELF") {
            let elf = Elf::read(&path)?;
            return Some(Program { path, elf });
        }
        path = match interpreter(&head) {
            Some(next) => next,
            // A text file without a first line for the kernel: the shell takes it.
            None if head.first().is_some_and(u8::is_ascii) => PathBuf::from("/bin/sh"),
            None => return None,
        };
    }
    None
}

/// The interpreter that a `#!` line names. `env` is looked through: what it starts is what is recorded.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let mut words = line
        .split(|b| b" \t\r".contains(b))
        .filter(|word| !word.is_empty());
    let interpreter = PathBuf::from(OsStr::from_bytes(words.next()?));
    if interpreter.file_name() != Some(OsStr::new("env")) {
        return Some(interpreter);
    }
    let named = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    match named {
        Some(name) => find(OsStr::from_bytes(name)).ok(),
        None => Some(interpreter),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(dir: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn kind_of(name: impl AsRef<OsStr>) -> ErrorKind {
        Command::resolve(&[name.as_ref().to_owned()])
            .unwrap_err()
            .kind()
    }

    #[test]
    fn missing_and_unusable_commands_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(kind_of("no-such-command-anywhere"), ErrorKind::NotFound);
        assert_eq!(kind_of("/no/such/file"), ErrorKind::NotFound);
        assert_eq!(kind_of(""), ErrorKind::NotFound);
        assert_eq!(kind_of(dir.path()), ErrorKind::NotExecutable);
        assert_eq!(
            kind_of(file(dir.path(), "data", "x", 0o644)),
            ErrorKind::NotExecutable
        );
        assert_eq!(kind_of("/dev/null"), ErrorKind::NotExecutable);
    }

    #[test]
    fn path_search_prefers_what_can_run() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        file(a.path(), "tool", "x", 0o644);
        let path = std::env::join_paths([a.path(), b.path()]).unwrap();
        let denied = search(OsStr::new("tool"), &path).unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::NotExecutable);
        let good = file(b.path(), "tool", "x", 0o755);
        assert_eq!(search(OsStr::new("tool"), &path).unwrap(), good);
        fs::create_dir(a.path().join("dir")).unwrap();
        let error = search(OsStr::new("dir"), &path).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::NotFound,
            "a directory in PATH is no command"
        );
    }

    #[test]
    fn scripts_lead_to_their_interpreter() {
        let dir = tempfile::tempdir().unwrap();
        let sh = fs::canonicalize("/bin/sh").unwrap();
        for (name, text) in [
            ("plain", "#!/bin/sh\n"),
            ("blanks", "#! \t/bin/sh -e\n"),
            ("env", "#!/usr/bin/env sh\n"),
            ("env-s", "#!/usr/bin/env -S A=1 sh -e\n"),
            ("none", "echo hello\n"),
        ] {
            let path = file(dir.path(), name, text, 0o755);
            let program = program_of(&path).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(fs::canonicalize(program.path).unwrap(), sh, "{name}");
        }
        let outer = dir.path().join("plain");
        let nested = file(
            dir.path(),
            "nested",
            &format!("#!{}\n", outer.display()),
            0o755,
        );
        assert_eq!(
            fs::canonicalize(program_of(&nested).unwrap().path).unwrap(),
            sh
        );
    }

    #[test]
    fn scripts_that_name_themselves_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("loop");
        file(
            dir.path(),
            "loop",
            &format!("#!{}\n", path.display()),
            0o755,
        );
        assert!(program_of(&path).is_none());
    }
}
