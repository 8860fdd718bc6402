//! Starts the program so that it gets what it would have got without convoy, and two variables more.
//!
//! `std::process::Command` is not used because it changes what the program inherits: it sorts the
//! environment, empties the signal mask and resets SIGPIPE.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::agent_file::AgentFile;
use crate::command::Command;
use crate::error::{os_text, Error, ErrorKind, Trouble};
use crate::inherited;
use crate::recorder::Streams;
use crate::session;
use crate::signals::{restore_in_child, Forwarding, Inherited};

/// The program's environment: ours, the agent before all other preloads, and the session. Of a program that would
/// not start with the agent's path it is ours alone.
pub(crate) fn environment(
    ours: impl Iterator<Item = (OsString, OsString)>,
    command: &Command,
    agent: &AgentFile,
    session_dir: &Path,
) -> Vec<CString> {
    let (session_name, session_value) = session::variable(session_dir);
    if !command.tolerates(agent) {
        let outer = |name: &OsString| name.as_bytes() == session_name.as_bytes();
        return ours
            .filter(|(name, _)| !outer(name))
            .filter_map(|(name, value)| assignment(&name, &value))
            .collect();
    }
    let mut all: Vec<CString> = Vec::new();
    let mut preload = agent.preload.as_os_str().to_owned();
    let mut sanitizer_options = OsString::new();
    for (name, value) in ours {
        match name.as_bytes() {
            b"LD_PRELOAD" if value.is_empty() => {}
            b"LD_PRELOAD" => {
                preload.push(":");
                preload.push(value);
            }
            b"ASAN_OPTIONS" => {
                sanitizer_options = value;
                sanitizer_options.push(":");
            }
            name if name == session_name.as_bytes() => {}
            _ => all.extend(assignment(&name, &value)),
        }
    }
    // ThreadSanitizer must see every lock before the agent passes it on, or it reports races that
    // are none.
    if let Some(sanitizer) = command.needs("libtsan.so") {
        let mut first = OsString::from(sanitizer);
        first.push(":");
        first.push(&preload);
        preload = first;
    }
    // A program built with a shared AddressSanitizer runtime refuses to start when another library is
    // preloaded before it; its children may be such programs even where it is not.
    sanitizer_options.push("verify_asan_link_order=0");
    all.extend(assignment(OsStr::new("LD_PRELOAD"), &preload));
    all.extend(assignment(OsStr::new("ASAN_OPTIONS"), &sanitizer_options));
    all.extend(assignment(
        OsStr::from_bytes(session_name.as_bytes()),
        OsStr::from_bytes(session_value.as_bytes()),
    ));
    all
}

fn assignment(name: &OsStr, value: &OsStr) -> Option<CString> {
    let mut text = name.to_owned();
    text.push("=");
    text.push(value);
    CString::new(text.into_vec()).ok()
}

/// Everything that the child needs, made before the fork: after it nothing may be allocated.
struct Image {
    path: CString,
    arguments: Vec<CString>,
    /// For a text file that the kernel does not take (no `#!`): what a shell would run.
    shell_arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Image {
    fn new(command: &Command, environment: Vec<CString>) -> Option<Self> {
        let c = |s: &OsStr| CString::new(s.as_bytes()).ok();
        let path = c(command.path.as_os_str())?;
        let arguments = command
            .arguments
            .iter()
            .map(|a| c(a))
            .collect::<Option<Vec<_>>>()?;
        let mut shell_arguments = vec![c"/bin/sh".to_owned(), path.clone()];
        shell_arguments.extend(arguments.iter().skip(1).cloned());
        Some(Self {
            path,
            arguments,
            shell_arguments,
            environment,
        })
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|s| s.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

/// Starts the command; its pid. The caller must have called [`Forwarding::start`] and must tell it the
/// pid.
pub(crate) fn spawn(
    command: &Command,
    environment: Vec<CString>,
    signals: &Forwarding,
    streams: &Streams,
) -> Result<i32, Error> {
    let files = open(streams).map_err(|found| {
        failed(
            command,
            format!("was not started: {found}"),
            ErrorKind::Launch,
        )
    })?;
    let descriptors = [0, 1, 2].map(|n: usize| files[n].as_ref().map_or(-1, AsRawFd::as_raw_fd));
    let image = Image::new(command, environment).ok_or_else(|| {
        failed(
            command,
            "has an argument with a NUL byte in it".into(),
            ErrorKind::NotFound,
        )
    })?;
    let arguments = pointers(&image.arguments);
    let shell_arguments = pointers(&image.shell_arguments);
    let environment = pointers(&image.environment);
    let inherited = signals.inherited();
    let (reader, writer) = error_pipe().map_err(|e| {
        failed(
            command,
            format!("could not be started: {}", os_text(&e)),
            ErrorKind::Launch,
        )
    })?;

    // SAFETY: the child calls only async-signal-safe functions before exec or _exit.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        let e = std::io::Error::last_os_error();
        let found = format!("could not be started: fork: {}", os_text(&e));
        return Err(failed(command, found, ErrorKind::Launch));
    }
    if pid == 0 {
        child(
            &image.path,
            &arguments,
            &shell_arguments,
            &environment,
            &inherited,
            &descriptors,
            writer.as_raw_fd(),
        );
    }
    drop(writer);
    match exec_error(&reader) {
        None => Ok(pid),
        Some(e) => {
            // SAFETY: a null status is allowed; the pid is our child, which has called _exit.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            let kind = if e.raw_os_error() == Some(libc::ENOENT) {
                ErrorKind::NotFound // a script or program whose interpreter is missing
            } else {
                ErrorKind::NotExecutable
            };
            Err(failed(
                command,
                format!("could not be executed: {}", os_text(&e)),
                kind,
            ))
        }
    }
}

/// The files in place of standard streams, in the order of their descriptors.
fn open(streams: &Streams) -> Result<[Option<File>; 3], String> {
    let one = |path: &Option<PathBuf>, how: &OpenOptions| match path {
        None => Ok(None),
        Some(path) => match how.open(path) {
            Ok(file) => Ok(Some(file)),
            Err(e) => Err(format!("{}: {}", path.display(), os_text(&e))),
        },
    };
    let mut write = OpenOptions::new();
    write.write(true).create(true).truncate(true);
    Ok([
        one(&streams.input, OpenOptions::new().read(true))?,
        one(&streams.output, &write)?,
        one(&streams.errors, &write)?,
    ])
}

/// The child's side, up to exec. Does not return.
fn child(
    path: &CStr,
    arguments: &[*const libc::c_char],
    shell_arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
    inherited: &Inherited,
    streams: &[i32; 3],
    error_fd: i32,
) -> ! {
    restore_in_child(inherited);
    // SAFETY: all pointers are to NUL-terminated strings and NULL-terminated arrays that live until
    // exec; every function called is async-signal-safe.
    unsafe {
        for fd in 0..3 {
            if inherited::was_closed(fd) {
                libc::close(fd as i32);
            }
        }
        for (fd, from) in (0..).zip(streams) {
            if *from >= 0 {
                libc::dup2(*from, fd);
            }
        }
        libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr());
        if *libc::__errno_location() == libc::ENOEXEC {
            libc::execve(
                c"/bin/sh".as_ptr(),
                shell_arguments.as_ptr(),
                environment.as_ptr(),
            );
        }
        let errno = (*libc::__errno_location()).to_ne_bytes();
        libc::write(error_fd, errno.as_ptr().cast(), errno.len());
        libc::_exit(127);
    }
}

/// A pipe that exec closes: no bytes = exec succeeded. Its ends are above the descriptors that the child may
/// have to close.
fn error_pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for the two descriptors, which nobody else owns yet.
    let (reader, writer) = unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) < 0 {
            return Err(std::io::Error::last_os_error());
        }
        (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1]))
    };
    Ok((reader, writer))
}

fn exec_error(reader: &OwnedFd) -> Option<std::io::Error> {
    let mut errno = [0u8; 4];
    let n = rustix::io::retry_on_intr(|| rustix::io::read(reader, &mut errno)).unwrap_or(0);
    (n == errno.len()).then(|| std::io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
}

fn failed(command: &Command, found: String, kind: ErrorKind) -> Error {
    let found = format!("{} {found}", command.path.display());
    Error::new(kind, Trouble::new(found, "nothing was started", ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Program;
    use crate::elf_check::Elf;

    fn texts(ours: &[(&str, &str)], needed: &[&str]) -> Vec<String> {
        let elf = Elf {
            native: true,
            needed: needed.iter().map(|n| (*n).to_owned()).collect(),
            ..Elf::default()
        };
        texts_of(ours, elf)
    }

    fn texts_of(ours: &[(&str, &str)], elf: Elf) -> Vec<String> {
        let program = Some(Program {
            path: "/bin/x".into(),
            elf,
        });
        let command = Command {
            path: "/bin/x".into(),
            arguments: vec!["x".into()],
            program,
        };
        let ours = ours.iter().map(|(name, value)| (name.into(), value.into()));
        environment(
            ours,
            &command,
            &AgentFile {
                file: "/a/libconvoy.so".into(),
                preload: "/a/$PLATFORM/libconvoy.so".into(),
                is_inheritable: true,
            },
            Path::new("/dev/shm/s"),
        )
        .into_iter()
        .map(|s| s.into_string().unwrap())
        .collect()
    }

    const ASAN: &str = "ASAN_OPTIONS=verify_asan_link_order=0";
    const SESSION: &str = "_CONVOY_SESSION=/dev/shm/s";

    #[test]
    fn order_of_the_environment_stays() {
        let all = texts(
            &[
                ("Z", "1"),
                ("A", "2=3"),
                ("_CONVOY_SESSION", "/old"),
                ("M", ""),
            ],
            &[],
        );
        assert_eq!(
            all,
            [
                "Z=1",
                "A=2=3",
                "M=",
                "LD_PRELOAD=/a/$PLATFORM/libconvoy.so",
                ASAN,
                SESSION
            ]
        );
    }

    #[test]
    fn agent_comes_before_other_preloads() {
        let all = texts(
            &[
                ("LD_PRELOAD", "libjemalloc.so.2 /x.so"),
                ("ASAN_OPTIONS", "a=1"),
            ],
            &["libc.so.6"],
        );
        let preload = "LD_PRELOAD=/a/$PLATFORM/libconvoy.so:libjemalloc.so.2 /x.so";
        assert_eq!(
            all,
            [
                preload,
                "ASAN_OPTIONS=a=1:verify_asan_link_order=0",
                SESSION
            ]
        );
        assert_eq!(
            texts(&[("LD_PRELOAD", "")], &[])[0],
            "LD_PRELOAD=/a/$PLATFORM/libconvoy.so"
        );
    }

    #[test]
    fn thread_sanitizer_comes_before_the_agent() {
        let all = texts(&[], &["libtsan.so.2", "libc.so.6"]);
        assert_eq!(all[0], "LD_PRELOAD=libtsan.so.2:/a/$PLATFORM/libconvoy.so");
    }

    #[test]
    fn program_that_would_not_start_with_the_agent_gets_our_environment() {
        let foreign = Elf::default();
        let ours = [("LD_PRELOAD", "/x.so"), ("_CONVOY_SESSION", "/old")];
        assert_eq!(texts_of(&ours, foreign), ["LD_PRELOAD=/x.so"]);
    }
}
