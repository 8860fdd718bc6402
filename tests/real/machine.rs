//! What a case needs of the machine: programs, ports, directories, users.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use convoy_harness::needs::Missing;
use convoy_harness::Result;
use rustix::process::geteuid;
use tempfile::TempDir;

/// The first of these programs that is not installed.
pub fn lacks(programs: &[&str]) -> Option<Missing> {
    let absent = programs.iter().find(|program| find(program).is_none())?;
    Some(Missing(format!("needs {absent}: scripts/setup.sh test")))
}

/// Where a program is: the distribution's own first; servers are often in /usr/sbin, which is not in
/// everybody's PATH, and PostgreSQL's programs are in a directory of their version.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let postgres = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut versions: Vec<PathBuf> = postgres.map(|e| e.path().join("bin")).collect();
    versions.sort();
    let usual = ["/usr/bin", "/usr/sbin"].map(PathBuf::from);
    usual
        .into_iter()
        .chain(std::env::split_paths(&path))
        .chain(versions.into_iter().rev())
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

/// A command by the place of its program.
pub fn command(program: &str) -> Command {
    Command::new(find(program).unwrap_or_else(|| PathBuf::from(program)))
}

/// A port of the loopback device that nobody listened on a moment ago.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|e| format!("127.0.0.1: {e}"))?;
    listener
        .local_addr()
        .map(|a| a.port())
        .map_err(|e| e.to_string())
}

/// A directory that a server which drops its privileges can reach (a case's own is private), as that
/// user's. Gone when dropped.
pub fn data_dir(user: &str) -> Result<TempDir> {
    let dir = tempfile::Builder::new()
        .prefix("convoy-real-")
        .tempdir()
        .map_err(|e| e.to_string())?;
    let open = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), open)
        .map_err(|e| format!("{}: {e}", dir.path().display()))?;
    if is_root() {
        let mut chown = Command::new("chown");
        chown.arg(format!("{user}:")).arg(dir.path());
        succeed(&mut chown)?;
    }
    Ok(dir)
}

/// Whether a server must be told another user.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// The command as this user, if we may and must: some servers refuse to be root.
pub fn as_user(user: &str, command: &Command) -> Command {
    if !is_root() {
        return as_is(command);
    }
    let mut other = Command::new("setpriv");
    other
        .arg("--reuid")
        .arg(user)
        .arg("--regid")
        .arg(user)
        .args(["--clear-groups", "--"]);
    append(&mut other, command);
    other
}

/// Adds program, arguments and environment of `command` to the arguments of `to`.
pub fn append(to: &mut Command, command: &Command) {
    to.arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        if let Some(value) = value {
            to.env(key, value);
        }
    }
}

/// The command once more.
pub fn as_is(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args());
    for (key, value) in command.get_envs() {
        if let Some(value) = value {
            copy.env(key, value);
        }
    }
    copy
}

/// Runs a step that prepares a case and returns what it wrote.
pub fn succeed(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !output.status.success() {
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        return Err(format!("{command:?}: {}\n{out}{err}", output.status));
    }
    Ok(text(&output.stdout))
}

/// Files to compress: `bytes` of text that is neither random nor all the same.
pub fn write_text(file: &Path, bytes: usize) -> Result {
    let mut text = String::with_capacity(bytes + 64);
    let mut state = 1_u64;
    while text.len() < bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text.push_str(WORDS[(state >> 60) as usize]);
        text.push(if (state >> 40) % 11 == 0 { '\n' } else { ' ' });
    }
    std::fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}

const WORDS: [&str; 16] = [
    "a", "wait", "is", "shorter", "than", "its", "lock", "thread", "the", "barrier", "holder",
    "of", "queue", "empty", "and", "busy",
];
