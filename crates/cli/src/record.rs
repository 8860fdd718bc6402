//! Runs a command under the recorder: `convoy -- COMMAND` and `convoy record`.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use convoy_capture::{Options, Recorder, Recording};
use convoy_profile::Profile;
use convoy_report::human;

use crate::args::{Record, Run};
use crate::exit::Status;
use crate::message::{say, Message};
use crate::{pattern, show};

/// Runs, then reports.
pub fn run(run: &Run) -> Status {
    let (recording, _) = match execute(&run.recording.options(), &run.command) {
        Ok(recorded) => recorded,
        Err(status) => return status,
    };
    warn(&recording, run.quiet);
    let shown = show::after_run(&recording.profile, run);
    match shown {
        Ok(()) => Status::of_program(recording.exit),
        Err(message) => {
            message.print();
            Status::OwnFailure
        }
    }
}

/// Runs, then writes a profile.
pub fn record(record: &Record) -> Status {
    // The name may hold the pid, which is not known yet; its directory hardly does.
    if let Err(error) = convoy_capture::can_write(Path::new(&output(record, 0))) {
        Message::from(error.trouble()).print();
        return Status::OwnFailure;
    }
    let (mut recording, pid) = match execute(&record.recording.options(), &record.command) {
        Ok(recorded) => recorded,
        Err(status) => return status,
    };
    warn(&recording, record.quiet);
    let path = output(record, pid);
    match recording.save(Path::new(&path)) {
        Ok(()) => {
            if !record.quiet {
                say_written(Path::new(&path));
            }
            Status::of_program(recording.exit)
        }
        Err(error) => {
            Message::from(error.trouble()).print();
            Status::OwnFailure
        }
    }
}

/// What there is now, and what to do with it.
pub fn say_written(path: &Path) {
    let name = path.display();
    let size = std::fs::metadata(path).map_or(0, |m| m.len());
    say(&format!(
        "convoy: wrote {name} ({}); now run: convoy report {name}\n",
        human::bytes(size)
    ));
}

/// Runs a command to its end and names what was recorded. The pid is the command's.
fn execute(options: &Options, command: &[OsString]) -> Result<(Recording, u32), Status> {
    let launched = Recorder::new(options.clone()).and_then(|recorder| recorder.launch(command));
    let running = launched.map_err(|error| {
        Message::from(error.trouble()).print();
        Status::of_launch(&error)
    })?;
    let pid = running.pid();
    let mut recording = running.wait();
    name(&mut recording.profile);
    Ok((recording, pid))
}

/// Resolves addresses while the files are still those that ran.
pub fn name(profile: &mut Profile) {
    let started = UNIX_EPOCH.checked_add(Duration::from_nanos(profile.meta.started_unix_ns));
    let options = convoy_symbols::Options {
        started,
        ..convoy_symbols::Options::from_env()
    };
    for process in &mut profile.processes {
        convoy_symbols::resolve(process, &options);
    }
}

fn warn(recording: &Recording, quiet: bool) {
    if !quiet {
        recording
            .warnings
            .iter()
            .for_each(|trouble| Message::from(trouble).print());
    }
}

/// Names that are no UTF-8 are taken as they are: there is nothing to fill in that is sure to be meant.
fn output(record: &Record, pid: u32) -> OsString {
    let exe = record
        .command
        .first()
        .map(|c| c.to_string_lossy().into_owned())
        .unwrap_or_default();
    match record.output.to_str() {
        Some(text) => pattern::fill(text, &pattern::exe_name(&exe), pid).into(),
        None => record.output.clone().into_os_string(),
    }
}
