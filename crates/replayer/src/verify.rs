//! Measurement of a finished fix: the original and the fixed command in interleaved pairs.
//!
//! Pairs, since a machine changes from minute to minute: what both runs of a pair have in common
//! cancels out in their ratio. The order within pairs alternates, since the second of two runs may
//! profit from the first, or suffer.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{kill_process_group, Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::child::tail;
use crate::paired::Interval;
use crate::stats::Range;

/// How often to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifyOptions {
    /// Pairs at least.
    pub least: u32,
    /// Pairs at most.
    pub most: u32,
    /// No further pair once the ratio's interval is narrower than this, relative to its median.
    pub narrow_enough: f64,
    /// One run of each before the first pair, not counted: caches of the file system fill.
    pub warm_up: bool,
    /// A run that takes longer is ended, and that is an error.
    pub timeout: Option<Duration>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            least: 5,
            most: 10,
            narrow_enough: 0.04,
            warm_up: true,
            timeout: None,
        }
    }
}

/// An original and a fixed program, measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verified {
    /// Wall times of the original, nanoseconds.
    pub original_ns: Range,
    /// Of the fixed one.
    pub fixed_ns: Range,
    /// Wall time original / fixed, of pairs: 1.6 = the fixed one is 1.6 times as fast.
    pub speedup: Interval,
    /// Share of the original's wall time that the fix saves; negative if it costs time.
    pub saved: Interval,
    /// Pairs that were measured.
    pub pairs: u32,
}

impl Verified {
    /// The interval excludes that nothing changed.
    pub fn is_significant(&self) -> bool {
        self.speedup.level >= 0.9 && (self.speedup.low > 1.0 || self.speedup.high < 1.0)
    }
}

/// Why nothing was measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// A command is empty.
    #[error("no {0} command was given")]
    Empty(&'static str),
    /// A command cannot be started.
    #[error("the {which} command cannot be started: {reason}")]
    Start {
        /// Original or fixed.
        which: &'static str,
        /// The system's words.
        reason: String,
    },
    /// A run failed: its time would mean nothing.
    #[error("the {which} command failed in run {run}: {status}{}", if .stderr.is_empty() {
        String::new()
    } else {
        format!("; it said last:\n{}", .stderr)
    })]
    Failed {
        /// Original or fixed.
        which: &'static str,
        /// From 1; 0 is the warm-up.
        run: u32,
        /// How it ended.
        status: String,
        /// The end of what it wrote to standard error.
        stderr: String,
    },
}

/// Measures two commands, each with its arguments, in interleaved pairs.
///
/// They run with this process's environment and directory. Their standard input is empty, since
/// only the first run could read it; their standard output is discarded, and of standard error the
/// end is kept for the case that a run fails.
///
/// # Errors
///
/// A command that cannot be started, or a run that does not end with status 0.
pub fn verify(
    original: &[OsString],
    fixed: &[OsString],
    options: &VerifyOptions,
) -> Result<Verified, VerifyError> {
    let commands = [("original", original), ("fixed", fixed)];
    if options.warm_up {
        for (which, command) in commands {
            measure(which, command, 0, options.timeout)?;
        }
    }
    let mut walls: [Vec<f64>; 2] = Default::default();
    for pair in 1..=options.most.max(1) {
        let first = pair as usize % 2;
        for side in [first, 1 - first] {
            let (which, command) = commands[side];
            let wall = measure(which, command, pair, options.timeout)?;
            walls[side].push(wall.as_nanos() as f64);
        }
        let verified = summarize(&walls);
        if pair >= options.least && verified.speedup.relative_width() <= options.narrow_enough {
            break;
        }
    }
    Ok(summarize(&walls))
}

fn summarize([original, fixed]: &[Vec<f64>; 2]) -> Verified {
    let pairs = || original.iter().zip(fixed);
    Verified {
        original_ns: Range::of(original.iter().copied()),
        fixed_ns: Range::of(fixed.iter().copied()),
        speedup: Interval::of_median(pairs().map(|(original, fixed)| original / fixed)),
        saved: Interval::of_median(pairs().map(|(original, fixed)| 1.0 - fixed / original)),
        pairs: pairs().count() as u32,
    }
}

fn measure(
    which: &'static str,
    command: &[OsString],
    run: u32,
    timeout: Option<Duration>,
) -> Result<Duration, VerifyError> {
    use std::os::unix::process::CommandExt;
    let (program, arguments) = command.split_first().ok_or(VerifyError::Empty(which))?;
    let mut command = Command::new(program);
    command.args(arguments);
    command.stdin(Stdio::null());
    command.stdout(Stdio::null());
    command.stderr(Stdio::piped());
    if timeout.is_some() {
        // A timeout ends what it started, too; without one it stays in the terminal's group.
        command.process_group(0);
    }
    let start = Instant::now();
    let mut child = command.spawn().map_err(|error| VerifyError::Start {
        which,
        reason: format!("{}: {error}", program.to_string_lossy()),
    })?;
    let stderr = child.stderr.take();
    // Read at once, or a program that writes much would wait for it.
    let (said, last_words) = mpsc::channel();
    thread::spawn(move || said.send(stderr.map(tail).unwrap_or_default()));
    let status = wait(&mut child, start, timeout);
    let wall = start.elapsed();
    let failure = match status {
        Ok(status) if status.success() => return Ok(wall),
        Ok(status) => describe(status),
        Err(reason) => reason,
    };
    // Something that it started may keep the pipe open.
    let stderr = last_words.recv_timeout(Duration::from_secs(1));
    Err(VerifyError::Failed {
        which,
        run,
        status: failure,
        stderr: stderr.unwrap_or_default(),
    })
}

/// Waits for the end of a run, with a thread that ends it if it takes too long.
fn wait(
    child: &mut Child,
    start: Instant,
    timeout: Option<Duration>,
) -> Result<ExitStatus, String> {
    let Some(timeout) = timeout else {
        return child.wait().map_err(|error| error.to_string());
    };
    let group = Pid::from_child(child);
    let (ended, watch) = mpsc::channel::<()>();
    let watchdog = thread::spawn(move || {
        let left = timeout.saturating_sub(start.elapsed());
        let expired = watch.recv_timeout(left) == Err(mpsc::RecvTimeoutError::Timeout);
        if expired {
            // Not reaped yet, unless it ended just now: then the kernel knows no such group.
            let _ = kill_process_group(group, Signal::KILL);
        }
        expired
    });
    let status = child.wait().map_err(|error| error.to_string());
    drop(ended);
    if watchdog.join().unwrap_or(false) {
        return Err(format!(
            "it took longer than {} s and was ended",
            timeout.as_secs_f64()
        ));
    }
    status
}

fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("signal {signal}"),
        None => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Vec<OsString> {
        ["/bin/sh", "-c", script].map(OsString::from).to_vec()
    }

    fn quick() -> VerifyOptions {
        VerifyOptions {
            warm_up: false,
            ..VerifyOptions::default()
        }
    }

    #[test]
    fn the_ratio_is_that_of_the_pairs() {
        let walls = [vec![200.0, 300.0, 400.0], vec![100.0, 100.0, 400.0]];
        let verified = summarize(&walls);
        assert_eq!(verified.speedup.mid, 2.0);
        assert_eq!((verified.speedup.low, verified.speedup.high), (1.0, 3.0));
        assert_eq!(verified.saved.mid, 0.5);
        assert_eq!(verified.original_ns.median, 300.0);
        assert_eq!(verified.pairs, 3);
        assert!(!verified.is_significant());
    }

    #[test]
    fn a_program_that_sleeps_less_is_faster() {
        let options = VerifyOptions {
            least: 5,
            most: 5,
            ..VerifyOptions::default()
        };
        let verified = verify(&shell("sleep 0.2"), &shell("sleep 0.02"), &options).unwrap();
        assert_eq!(verified.pairs, 5);
        assert!(verified.speedup.low > 1.5, "{verified:?}");
        assert!(verified.is_significant(), "{verified:?}");
        assert!(
            verified.saved.mid > 0.3 && verified.saved.mid < 1.0,
            "{verified:?}"
        );
    }

    #[test]
    fn runs_alternate_in_order() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let note = |letter: &str| shell(&format!("printf {letter} >> {}", log.path().display()));
        let options = VerifyOptions {
            least: 3,
            most: 3,
            warm_up: true,
            ..VerifyOptions::default()
        };
        verify(&note("o"), &note("f"), &options).unwrap();
        let order = std::fs::read_to_string(log.path()).unwrap();
        assert_eq!(order, "offooffo");
    }

    #[test]
    fn a_failing_run_is_an_error_with_the_end_of_what_it_said() {
        let failing = shell("echo not this; echo cannot open database >&2; exit 3");
        let error = verify(&shell("true"), &failing, &quick()).unwrap_err();
        let VerifyError::Failed {
            which,
            run: 1,
            status,
            stderr,
        } = &error
        else {
            panic!("{error:?}");
        };
        assert_eq!((*which, stderr.as_str()), ("fixed", "cannot open database"));
        assert!(status.contains('3'), "{status}");
        assert!(error
            .to_string()
            .ends_with("it said last:\ncannot open database"));
        let killed = verify(&shell("kill -9 $$"), &shell("true"), &quick()).unwrap_err();
        assert!(killed.to_string().contains("signal 9"), "{killed}");
    }

    #[test]
    fn a_run_beyond_the_timeout_is_ended_with_all_that_it_started() {
        let options = VerifyOptions {
            timeout: Some(Duration::from_millis(100)),
            ..quick()
        };
        let start = Instant::now();
        let error = verify(&shell("sleep 60 & wait"), &shell("true"), &options).unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(30));
        assert!(error.to_string().contains("longer than 0.1 s"), "{error}");
    }

    #[test]
    fn commands_that_are_not_there_are_named() {
        let missing = [OsString::from("/nonexistent/server")];
        let error = verify(&missing, &shell("true"), &quick()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("original command cannot be started"),
            "{error}"
        );
        assert!(error.to_string().contains("/nonexistent/server"), "{error}");
        let error = verify(&shell("true"), &[], &quick()).unwrap_err();
        assert_eq!(error, VerifyError::Empty("fixed"));
    }
}
