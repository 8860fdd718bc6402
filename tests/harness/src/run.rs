//! Runs a command to its end, or to the end of patience.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{kill_process_group, Pid, Signal};

use crate::Result;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// It was killed because it took too long.
    Timeout,
}

impl End {
    /// What a shell would put into `$?`: convoy cannot die of a signal in the program's stead
    /// without leaving a core of its own, so it ends with 128 + signal, as shells do.
    pub fn as_shell(self) -> Option<i32> {
        match self {
            Self::Status(status) => Some(status),
            Self::Signal(signal) => Some(128 + signal),
            Self::Timeout => None,
        }
    }
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Status(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Timeout,
        }
    }
}

/// What a command left.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error output.
    pub stderr: String,
    /// From start to end.
    pub elapsed: Duration,
}

/// Runs `command` with its output in `<dir>/<tag>.out` and `.err`: files, because a daemon that the
/// program leaves behind would keep a pipe open.
pub fn run(command: &mut Command, dir: &Path, tag: &str, timeout: Duration) -> Result<Outcome> {
    start(command, dir, tag)?.finish(timeout)
}

/// A command under way, in a process group of its own.
#[derive(Debug)]
pub struct Running<'a> {
    child: Child,
    dir: &'a Path,
    tag: &'a str,
    started: Instant,
}

/// Like [`run`], but returns at once.
pub fn start<'a>(command: &mut Command, dir: &'a Path, tag: &'a str) -> Result<Running<'a>> {
    let create = |suffix: &str| {
        let path = dir.join(format!("{tag}.{suffix}"));
        File::create(&path).map_err(|e| format!("{}: {e}", path.display()))
    };
    command
        .current_dir(dir)
        .process_group(0)
        .stdin(Stdio::null());
    command.stdout(create("out")?).stderr(create("err")?);
    let started = Instant::now();
    let child = command.spawn().map_err(|e| format!("{command:?}: {e}"))?;
    Ok(Running {
        child,
        dir,
        tag,
        started,
    })
}

impl Running<'_> {
    /// Sends a signal to the whole group, as a terminal does.
    pub fn signal(&self, signal: Signal) -> Result {
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .ok_or("no process id")?;
        kill_process_group(pid, signal).map_err(|e| format!("{signal:?} to {pid:?}: {e}"))
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it is still there.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|end| end.is_none())
    }

    /// Waits until the standard output has this text.
    pub fn wait_for(&mut self, text: &str, timeout: Duration) -> Result {
        while !self.read("out").contains(text) {
            if self.started.elapsed() > timeout
                || self.child.try_wait().is_ok_and(|end| end.is_some())
            {
                return Err(format!("never said {text:?}: stderr: {}", self.read("err")));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Waits for the end.
    pub fn finish(mut self, timeout: Duration) -> Result<Outcome> {
        let end = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break End::from(status),
                Ok(None) if self.started.elapsed() > timeout => {
                    self.signal(Signal::KILL)?;
                    self.child.wait().map_err(|e| e.to_string())?;
                    break End::Timeout;
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Err(e) => return Err(e.to_string()),
            }
        };
        let elapsed = self.started.elapsed();
        Ok(Outcome {
            end,
            stdout: self.read("out"),
            stderr: self.read("err"),
            elapsed,
        })
    }

    fn read(&self, suffix: &str) -> String {
        let bytes =
            std::fs::read(self.dir.join(format!("{}.{suffix}", self.tag))).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
