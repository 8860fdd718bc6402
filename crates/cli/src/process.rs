//! A running process as users name it: by number, or by what it is called.

use clap::Args;
use convoy_capture::processes_called;

/// Names that are listed in a message, at most.
const LISTED: usize = 8;

/// The process that a command looks at, unless it starts a COMMAND. That argument is in the group
/// `subject`, too, and so is whatever else can be looked at instead.
#[derive(Debug, Args)]
#[group(id = "subject", required = true, multiple = true)]
pub struct OneProcess {
    /// Process that runs already, by number or name
    #[arg(
        value_name = "PID",
        value_parser = process,
        conflicts_with = "command"
    )]
    pid: Option<u32>,

    /// The same
    #[arg(
        short = 'p',
        long = "pid",
        id = "running",
        value_name = "PID",
        value_parser = process,
        conflicts_with_all = ["command", "pid"]
    )]
    running: Option<u32>,
}

impl OneProcess {
    /// Its number; `None` = the command is to be started.
    pub fn pid(&self) -> Option<u32> {
        self.pid.or(self.running)
    }
}

/// Number of the process that is meant: a number, or the name of the only process that has it (as
/// `pgrep -x` finds it).
///
/// # Errors
///
/// No process or several have the name; what to write instead.
pub fn process(text: &str) -> Result<u32, String> {
    if let Ok(pid) = text.parse() {
        return Ok(pid);
    }
    if text.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c)) {
        return Err("give the number or the name of a process that runs".into());
    }
    let own = std::process::id();
    let mut called = processes_called(text);
    called.retain(|pid| *pid != own);
    match called.as_slice() {
        [] => Err("no running process is called that; `ps -e` lists their names".into()),
        [one] => Ok(*one),
        several => Err(format!(
            "{} processes are called that: name one of {}",
            several.len(),
            listed(several)
        )),
    }
}

fn listed(pids: &[u32]) -> String {
    let numbers: Vec<String> = pids.iter().take(LISTED).map(u32::to_string).collect();
    let more = if pids.len() > LISTED { ", ..." } else { "" };
    format!("{}{more}", numbers.join(", "))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// Ends with the test.
    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn running(directory: &tempfile::TempDir, name: &str) -> Running {
        let program = directory.path().join(name);
        if !program.exists() {
            std::fs::copy("/bin/sleep", &program).unwrap();
        }
        let running = Running(Command::new(program).arg("60").spawn().unwrap());
        // The kernel names a process a moment after it has told the parent that it runs.
        let pid = running.0.id();
        while !processes_called(name).contains(&pid) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        running
    }

    #[test]
    fn numbers_and_names_name_a_process() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["cv-short-name", "cv-name-of-more-than-fifteen-bytes"] {
            assert!(process(name).unwrap_err().contains("no running process"));
            let one = running(&directory, name);
            assert_eq!(process(name), Ok(one.0.id()));
            assert_eq!(process(&one.0.id().to_string()), Ok(one.0.id()));
            let other = running(&directory, name);
            let several = process(name).unwrap_err();
            assert!(several.contains("2 processes"), "{several}");
            assert!(several.contains(&other.0.id().to_string()), "{several}");
        }
        assert!(process("-1").is_err() && process("12x").is_err());
    }
}
