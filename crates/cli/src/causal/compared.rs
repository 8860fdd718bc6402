//! A change that may corrupt the program: a run as it is is the user's, and one with the change is
//! compared with it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use convoy_capture::{asks_for_an_end, Options, Recorder, Scheduler, Streams};
use convoy_causal::{Algorithm, Comparison, Output, Report};
use convoy_profile::Exit;

use super::{one_run, write, Course, Running};
use crate::exit::Status;
use crate::message::Message;

/// Between two looks at a file that grows, or at a program that may have ended.
const PATIENCE: Duration = Duration::from_millis(20);
/// A run with the change may take so many times as long as one without, and so much longer.
const SLOWER_MOST: u32 = 5;
const LONGER_MOST: Duration = Duration::from_secs(10);

/// Runs the command as it is, then under experiments; once more as it is if the output differs, which
/// it may do by itself. The status is that of the first run.
pub fn of_command(course: &Course, args: &Running) -> Result<Status, Message> {
    let files = tempfile::Builder::new()
        .prefix("convoy-try-")
        .tempdir()
        .map_err(|e| {
            let found = format!("a directory for the program's output: {e}");
            Message::new(
                found,
                "nothing was started",
                "set TMPDIR to one that can be written",
            )
        })?;
    let file = |name: &str| files.path().join(name);
    let (first, changed, again) = (file("first"), file("changed"), file("again"));
    let began = Instant::now();
    let as_is = match run_as_is(args, &first, true) {
        Ok(exit) => exit,
        Err(status) => return Ok(status),
    };
    if matches!(as_is, Exit::Signal(signal) if asks_for_an_end(signal)) {
        let found = "the run as it is was ended by a signal";
        Message::new(found, "nothing was tried", "let it end by itself").print();
        return Ok(Status::of_program(as_is));
    }
    let most = SLOWER_MOST * began.elapsed() + LONGER_MOST;
    let run = match one_run(course, args, &hidden(&changed), Some(most)) {
        Ok(run) => run,
        Err(status) => return Ok(status),
    };
    let mut report = run.report;
    report
        .command
        .clone_from(&run.recording.profile.meta.command);
    let end_changed = match run.was_ended {
        true => format!("no end within {} s", most.as_secs()),
        false => end(run.recording.exit),
    };
    let first_line = difference(&first, &changed)?;
    let (mut output, mut end_varies) = (Output::Same, false);
    if first_line.is_some() || end_changed != end(as_is) {
        // What differs may do so by itself, or for want of the first run's input.
        let exit = match run_as_is(args, &again, false) {
            Ok(exit) => exit,
            Err(status) => return Ok(status),
        };
        let varies = difference(&first, &again)?.is_some();
        end_varies = end(exit) != end(as_is);
        output = match (first_line, varies) {
            (None, _) => Output::Same,
            (Some(_), true) => Output::Varies,
            (Some(_), false) => Output::Differs,
        };
    }
    let comparison = Comparison {
        output,
        first_line,
        end: end(as_is),
        end_changed,
        end_varies,
    };
    // Of a change that no thread has met nothing follows, unless the program broke before that was
    // known.
    if has_entered(&report) || comparison.has_another_end() {
        report.comparison = Some(comparison);
    }
    write(args, &report, convoy_causal::trial_text)?;
    Ok(Status::of_program(as_is))
}

/// Whether threads were in a section in a way that may corrupt the program.
fn has_entered(report: &Report) -> bool {
    let rows = report.targets.iter().filter(|row| row.reason.is_none());
    let mut ways = rows.filter_map(|row| row.algorithm);
    ways.any(Algorithm::may_corrupt)
}

/// Ends a process after `most`; whether that was needed.
pub fn limit(pid: u32, most: Duration, has_ended: Arc<AtomicBool>) -> JoinHandle<bool> {
    std::thread::spawn(move || {
        let end = Instant::now() + most;
        while !has_ended.load(Ordering::Acquire) {
            if Instant::now() >= end {
                return convoy_capture::end_process(pid);
            }
            std::thread::sleep(PATIENCE);
        }
        false
    })
}

/// A run whose output the user does not see.
fn hidden(output: &Path) -> Streams {
    // Another opening of the same file: it begins where the first one began.
    let own = Path::new("/proc/self/fd/0");
    let is_file = own.metadata().is_ok_and(|found| found.is_file());
    let nowhere = || Some(PathBuf::from("/dev/null"));
    Streams {
        input: is_file.then(|| own.to_owned()).or_else(nowhere),
        output: Some(output.to_owned()),
        errors: nowhere(),
    }
}

/// Runs the command with the agent that only records. `Err`: it could not be started, and that was
/// said.
fn run_as_is(args: &Running, output: &Path, is_users: bool) -> Result<Exit, Status> {
    let streams = match is_users {
        true => Streams {
            output: Some(output.to_owned()),
            ..Streams::default()
        },
        false => hidden(output),
    };
    let options = Options {
        scheduler: Scheduler::Off,
        session_parent: args.session_dir.clone(),
        streams,
        ..Options::default()
    };
    let started = Recorder::new(options).and_then(|recorder| recorder.launch(&args.command));
    let running = started.map_err(|error| {
        Message::from(error.trouble()).print();
        Status::of_launch(&error)
    })?;
    let has_ended = Arc::new(AtomicBool::new(false));
    let shown = is_users.then(|| show(output.to_owned(), Arc::clone(&has_ended)));
    let exit = running.wait().exit;
    has_ended.store(true, Ordering::Release);
    if let Some(shown) = shown {
        // A closed standard output is the reader's wish.
        let _ = shown.join();
    }
    Ok(exit)
}

/// Copies what comes into a file to standard output, until the program has ended.
fn show(file: PathBuf, has_ended: Arc<AtomicBool>) -> JoinHandle<std::io::Result<()>> {
    std::thread::spawn(move || {
        let mut file = File::open(file)?;
        loop {
            let is_last = has_ended.load(Ordering::Acquire);
            let mut out = std::io::stdout().lock();
            std::io::copy(&mut file, &mut out)?;
            out.flush()?;
            drop(out);
            if is_last {
                return Ok(());
            }
            std::thread::sleep(PATIENCE);
        }
    })
}

/// The first line in which two files differ, from 1.
fn difference(one: &Path, other: &Path) -> Result<Option<u64>, Message> {
    let read = |file: &Path| {
        File::open(file).map(BufReader::new).map_err(|e| {
            let found = format!("{}: {e}", file.display());
            Message::new(found, "the runs were not compared", "")
        })
    };
    Ok(first_difference(read(one)?, read(other)?))
}

fn first_difference(mut one: impl BufRead, mut other: impl BufRead) -> Option<u64> {
    let mut line = 1;
    loop {
        let (a, b) = (one.fill_buf().ok()?, other.fill_buf().ok()?);
        let n = a.len().min(b.len());
        if n == 0 {
            return (a.len() != b.len()).then_some(line);
        }
        for (a, b) in a.iter().zip(b) {
            if a != b {
                return Some(line);
            }
            line += u64::from(*a == b'\n');
        }
        one.consume(n);
        other.consume(n);
    }
}

fn end(exit: Exit) -> String {
    match exit {
        Exit::Status(status) => format!("status {status}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::Unknown | Exit::Running => "an unknown status".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        let found = |one: &str, other: &str| first_difference(one.as_bytes(), other.as_bytes());
        assert_eq!(found("a\nb\n", "a\nb\n"), None);
        assert_eq!(found("a\nb\n", "a\nc\n"), Some(2));
        assert_eq!(found("a\nb\n", "a\n"), Some(2));
        assert_eq!(found("", "x"), Some(1));
    }
}
