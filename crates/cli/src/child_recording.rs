//! Recordings of running processes for profiles, each in a process of its own: its memory, its eBPF
//! programs and its signals end with it.

use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use convoy_profile::Profile;

use crate::show;

/// Most recordings at a time.
const MOST_RECORDINGS: usize = 4;

/// A recording has ended within this after its time: its symbols are read then.
const FINISHING: Duration = Duration::from_secs(120);

/// Most bytes of what a recording says of a failure.
const MOST_WORDS: u64 = 16 << 10;

/// From one look at a recording to the next.
const LOOK: Duration = Duration::from_millis(20);

/// What is said to nobody.
pub const GONE: &str = "nobody waits for it any more";

/// Why there is no recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Others are being made, or convoy ends.
    Busy(&'static str),
    /// In a sentence.
    Refused(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(why) => f.write_str(why),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

/// Records processes whenever a profile is asked for.
#[derive(Debug)]
pub struct Recordings {
    /// Arguments of `convoy record` that name them.
    subject: Vec<OsString>,
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    /// By number.
    children: Vec<(u64, Child)>,
    next: u64,
    is_over: bool,
}

impl Recordings {
    /// Of a process.
    pub fn of(pid: u32) -> Self {
        Self::named(vec!["-p".into(), pid.to_string().into()])
    }

    /// Of all processes of control groups; of the machine if there are none.
    pub fn of_groups(cgroups: &[PathBuf]) -> Self {
        let all = [PathBuf::from("/")];
        let groups = if cgroups.is_empty() { &all } else { cgroups };
        let named = groups.iter();
        let named = named.flat_map(|group| ["--cgroup".into(), group.clone().into_os_string()]);
        Self::named(named.collect())
    }

    fn named(subject: Vec<OsString>) -> Self {
        Self {
            subject,
            running: Mutex::default(),
        }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records for a while; ends when nobody waits for it any more.
    pub fn record(&self, time: Duration, is_gone: &dyn Fn() -> bool) -> Result<Profile, Failure> {
        let dir = tempfile::tempdir().map_err(|e| {
            Failure::Refused(format!(
                "the recording has no place: {e}; free space in TMPDIR"
            ))
        })?;
        let path = dir.path().join("serve.convoy");
        let number = self.start(time, &path)?;
        let outcome = self.wait(number, time + FINISHING, is_gone);
        match outcome {
            _ if is_gone() => return Err(Failure::Busy(GONE)),
            Some((true, _)) => {}
            Some((false, words)) => return Err(Failure::Refused(sentence(&words))),
            None => return Err(Failure::Busy("the recording took too long")),
        }
        show::load(&path, true).map_err(|message| Failure::Refused(message.line()))
    }

    fn start(&self, time: Duration, path: &Path) -> Result<u64, Failure> {
        let mut running = self.running();
        if running.is_over {
            return Err(Failure::Busy("convoy ends"));
        }
        if running.children.len() >= MOST_RECORDINGS {
            let why = "other recordings are being made: try again when they end";
            return Err(Failure::Busy(why));
        }
        let child = Command::new("/proc/self/exe")
            .args(["record", "-q", "--agent=off", "--timeline-events", "0"])
            .arg("--for")
            .arg(format!("{}ms", time.as_millis()))
            .args(&self.subject)
            .arg("-o")
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| Failure::Refused(format!("the recording cannot be started: {e}")))?;
        running.next += 1;
        let number = running.next;
        running.children.push((number, child));
        Ok(number)
    }

    /// Waits for the end of a recording: whether it succeeded, and what it said. `None` = it took
    /// too long.
    fn wait(
        &self,
        number: u64,
        most: Duration,
        is_gone: &dyn Fn() -> bool,
    ) -> Option<(bool, String)> {
        let began = Instant::now();
        loop {
            let is_late = began.elapsed() > most || is_gone();
            let mut running = self.running();
            let position = running.children.iter().position(|(n, _)| *n == number)?;
            let child = &mut running.children[position].1;
            let ended = child.try_wait();
            if is_late {
                // It may have ended just now.
                let _ = child.kill();
            }
            if is_late || !matches!(ended, Ok(None)) {
                let (_, mut child) = running.children.swap_remove(position);
                drop(running);
                let mut words = String::new();
                if let Some(stderr) = child.stderr.take() {
                    let _ = stderr.take(MOST_WORDS).read_to_string(&mut words);
                }
                let status = child.wait();
                return (!is_late).then(|| (status.is_ok_and(|s| s.success()), words));
            }
            drop(running);
            thread::sleep(LOOK);
        }
    }

    /// Ends all recordings; returns when they are gone, and their files.
    pub fn end(&self) {
        let mut running = self.running();
        running.is_over = true;
        for (_, child) in &mut running.children {
            // One that has ended already is what is wanted.
            let _ = child.kill();
        }
        drop(running);
        let began = Instant::now();
        while !self.running().children.is_empty() && began.elapsed() < Duration::from_secs(2) {
            thread::sleep(LOOK);
        }
    }
}

/// What convoy said on standard error, in one line.
fn sentence(words: &str) -> String {
    let lines = words.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.map(|l| l.trim_start_matches("convoy: ")).collect();
    match lines.is_empty() {
        true => "the recording was ended".into(),
        false => lines.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_one_sentence() {
        let words = "convoy: process 4 is gone: nothing is recorded\n  fix: name another one\n";
        assert_eq!(
            sentence(words),
            "process 4 is gone: nothing is recorded; fix: name another one"
        );
        assert_eq!(sentence("\n"), "the recording was ended");
    }

    #[test]
    fn after_the_end_nothing_is_recorded() {
        let recordings = Recordings::of(1);
        recordings.end();
        let failure = recordings
            .record(Duration::from_secs(1), &|| false)
            .unwrap_err();
        assert_eq!(failure, Failure::Busy("convoy ends"));
    }
}
