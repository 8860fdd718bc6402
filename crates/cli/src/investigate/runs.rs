//! One step: a process of convoy's own verb, as a user could start it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use convoy_investigate::{Step, REPLAY_SHARE};

use crate::message::Message;

/// Between two looks whether a replay has ended.
const PATIENCE: Duration = Duration::from_millis(20);

/// Of what did not run: convoy's own failure.
const NO_STATUS: u8 = 125;

/// The steps' processes and the files that they leave.
#[derive(Debug)]
pub struct Runs {
    exe: PathBuf,
    files: tempfile::TempDir,
    command: Vec<OsString>,
    profile: PathBuf,
    output: Option<PathBuf>,
}

/// How a step's process ended.
#[derive(Debug)]
pub struct Ended {
    /// As a command line.
    pub command: String,
    /// Exit status; 128 + n if signal n ended it.
    pub status: u8,
    /// Time that it took, seconds.
    pub seconds: f64,
    /// The last line that it wrote to standard error.
    pub last_words: String,
    /// Why it did not end by itself, or could not be started.
    pub trouble: Option<String>,
}

impl Runs {
    /// Of a command; `output`: where the profile of the recorded run is kept.
    pub fn new(command: &[OsString], output: Option<&Path>) -> Result<Self, Message> {
        let cannot = |found: String| Message::new(found, "nothing was started", "");
        let exe = std::env::current_exe().map_err(|e| cannot(format!("convoy's own file: {e}")))?;
        let files = tempfile::Builder::new()
            .prefix("convoy-investigate-")
            .tempdir()
            .map_err(|e| cannot(format!("a directory for profiles: {e}")))?;
        // A pattern (%e, %p) is known when the program runs.
        if let Some(path) = output.filter(|path| !path.to_string_lossy().contains('%')) {
            convoy_capture::can_write(path).map_err(|e| Message::from(e.trouble()))?;
        }
        Ok(Self {
            exe,
            // What is in the user's file already is not this run's.
            profile: files.path().join("run.convoy"),
            files,
            command: command.to_vec(),
            output: output.map(Path::to_owned),
        })
    }

    /// The profile of the recorded run.
    pub fn profile(&self) -> &Path {
        &self.profile
    }

    /// Puts the recorded profile where the user wants it; its name. `pid`: of the recorded process.
    pub fn keep(&self, pid: u32) -> Result<Option<PathBuf>, Message> {
        let Some(pattern) = &self.output else {
            return Ok(None);
        };
        let to = crate::record::file(pattern, &self.command, pid, None);
        std::fs::copy(&self.profile, &to).map_err(|e| {
            Message::new(
                format!("{}: {e}", to.display()),
                "the profile of the first run was not kept",
                "name a file that can be written",
            )
        })?;
        Ok(Some(to))
    }

    /// The file that a step leaves.
    pub fn result(&self, step: &Step) -> PathBuf {
        match step {
            Step::Record => self.profile.clone(),
            Step::Replay(_) => self.file("replay.json"),
            Step::Diagnose(_) => self.file("sections.convoy"),
            Step::Experiment(_) => self.file("experiment.json"),
            Step::Try(_) => self.file("try.json"),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Runs a step's process to its end. `budget_s`: time for experiments, seconds. `left`: time for
    /// all further steps. A replay that takes too much of it is ended; a run of the program is not.
    pub fn run(&self, step: &Step, budget_s: f64, left: Duration) -> Ended {
        let result = self.result(step);
        // What an earlier step left would be taken for this one's.
        let _ = std::fs::remove_file(&result);
        let (shown, hidden) = self.arguments(step, &result, budget_s);
        let is_run = !matches!(step, Step::Replay(_));
        let command = if is_run { self.command.as_slice() } else { &[] };
        let mut process = Command::new(&self.exe);
        process.args(&shown).args(hidden);
        if is_run {
            process.arg("--").args(command);
        }
        let words = self.file("words");
        let start = Instant::now();
        let ended = self
            .start(process, step, &words)
            .and_then(|child| match is_run {
                true => wait(child),
                false => wait_until(child, start + left.mul_f64(REPLAY_SHARE)),
            });
        Ended {
            command: line(&shown, command),
            status: ended.as_ref().map_or(NO_STATUS, |status| number(*status)),
            seconds: start.elapsed().as_secs_f64(),
            last_words: last_line(&words),
            trouble: ended.err(),
        }
    }

    /// The first run is the user's: it reads, prints and fails as it would without convoy.
    fn start(&self, mut process: Command, step: &Step, words: &Path) -> Result<Child, String> {
        if *step != Step::Record {
            let to = File::create(words).map_err(|e| format!("{}: {e}", words.display()))?;
            process
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(to);
        }
        process
            .spawn()
            .map_err(|e| format!("{}: {e}", self.exe.display()))
    }

    /// The verb with what tells it apart, and what only says where results go.
    fn arguments(
        &self,
        step: &Step,
        result: &Path,
        budget_s: f64,
    ) -> (Vec<OsString>, Vec<OsString>) {
        let text = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let mut hidden = text(&["--quiet"]);
        let json = [
            OsStr::new("--format"),
            "json".as_ref(),
            "--report-to".as_ref(),
        ];
        let mut shown = match step {
            Step::Record => {
                hidden.extend(["-o".into(), result.into()]);
                return (text(&["record", "--trace"]), hidden);
            }
            Step::Diagnose(_) => {
                hidden.extend(["-o".into(), result.into()]);
                hidden.extend(text(&["--report-to", "/dev/null"]));
                text(&["diagnose"])
            }
            Step::Replay(_) => {
                hidden = vec![self.profile.clone().into()];
                text(&["replay"])
            }
            Step::Experiment(_) | Step::Try(_) => {
                hidden.extend(["--budget".into(), format!("{budget_s:.0}s").into()]);
                text(&[if matches!(step, Step::Try(_)) {
                    "try"
                } else {
                    "causal"
                }])
            }
        };
        if !matches!(step, Step::Diagnose(_)) {
            hidden.extend(json.map(OsStr::to_owned));
            hidden.push(result.into());
        }
        match step {
            Step::Record => {}
            Step::Replay(lock) => {
                for change in super::answers::changes(lock) {
                    shown.extend(["--what-if".into(), change.into()]);
                }
            }
            Step::Diagnose(locks) => {
                for lock in locks {
                    shown.extend(["--lock".into(), lock.into()]);
                }
            }
            Step::Experiment(locks) => {
                for lock in locks {
                    shown.extend(["--target".into(), format!("lock:{lock}").into()]);
                }
            }
            Step::Try(lock) => shown.extend(["--lock".into(), lock.into()]),
        }
        (shown, hidden)
    }
}

fn wait(mut child: Child) -> Result<ExitStatus, String> {
    child.wait().map_err(|e| format!("waiting for a step: {e}"))
}

fn wait_until(mut child: Child, end: Instant) -> Result<ExitStatus, String> {
    while let Ok(None) = child.try_wait() {
        if Instant::now() > end {
            // It may just have ended.
            let _ = child.kill();
            let _ = child.wait();
            return Err("it took longer than half of the time that was left".into());
        }
        std::thread::sleep(PATIENCE);
    }
    wait(child)
}

/// For people: what is not a plain word is quoted.
fn line(arguments: &[OsString], command: &[OsString]) -> String {
    let mut line = "convoy".to_owned();
    for argument in arguments {
        line += &format!(" {}", quoted(argument));
    }
    if !command.is_empty() {
        line += " --";
        for argument in command {
            line += &format!(" {}", quoted(argument));
        }
    }
    line
}

fn quoted(argument: &OsStr) -> String {
    let text = argument.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.into_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

fn number(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let signal = status.signal().map(|signal| 128 + signal);
    status
        .code()
        .or(signal)
        .map_or(NO_STATUS, |code| code as u8)
}

/// The end of a file is enough: programs may have written much.
fn last_line(file: &Path) -> String {
    use std::io::{Read, Seek, SeekFrom};
    const MOST: u64 = 4096;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(file)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MOST)))?;
        let mut end = Vec::new();
        file.take(MOST).read_to_end(&mut end)?;
        Ok(end)
    };
    let end = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&end);
    let mut lines = text.lines().rev().map(str::trim);
    let found = lines.find(|line| !line.is_empty());
    found.unwrap_or_default().to_owned()
}
