//! Runs a command under the recorder: `convoy -- COMMAND` and `convoy record`.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use convoy_capture::{Error, Options, Recorder, Recording, Trouble};
use convoy_profile::Profile;
use convoy_replayer::calibrate;
use convoy_report::human;

use crate::args::{Record, Run, Running};
use crate::exit::Status;
use crate::message::{say, Message};
use crate::recording::Recording as HowToRecord;
use crate::show::Kept;
use crate::{last, pattern, recorder_cost, show};

/// Runs, then reports.
pub fn run(run: &Run) -> Status {
    let output = run.output.as_deref();
    if let Err(message) = are_two(output, run.report_to.as_deref()) {
        message.print();
        return Status::OwnFailure;
    }
    if let Err(status) = output.map_or(Ok(()), |to| check(to, &run.command)) {
        return status;
    }
    if let Err(status) = can_trace(&run.recording, &run.running) {
        return status;
    }
    let (mut recording, pid) = match execute(
        &run.recording.options(),
        &run.command,
        &run.running,
        run.quiet,
    ) {
        Ok(recorded) => recorded,
        Err(status) => return status,
    };
    warn(&recording.warnings, run.quiet);
    // A report of what could not be kept is better than none.
    let kept = output.map(|to| keep(&mut recording, to, &run.command, pid, run.quiet));
    let place = match &kept {
        Some(Ok(file)) => Kept::In(file),
        // A trace is too large to be kept unasked.
        None if run.recording.trace.is_none()
            && show::is_brief(run)
            && last::keep(&recording.profile).is_ok() =>
        {
            Kept::AsLast
        }
        _ => Kept::No,
    };
    let shown = show::after_run(recording.profile, run, place);
    match shown {
        Ok(()) => match kept {
            Some(Err(status)) => status,
            _ => Status::of_program(recording.exit),
        },
        Err(message) => {
            message.print();
            Status::OwnFailure
        }
    }
}

/// Runs, then writes a profile.
pub fn record(record: &Record) -> Status {
    if let Err(status) = check(&record.output, &record.command) {
        return status;
    }
    if let Err(status) = can_trace(&record.recording, &record.running) {
        return status;
    }
    let options = record.recording.options();
    let (mut recording, pid) =
        match execute(&options, &record.command, &record.running, record.quiet) {
            Ok(recorded) => recorded,
            Err(status) => return status,
        };
    warn(&recording.warnings, record.quiet);
    let (to, command) = (&record.output, &record.command);
    match keep(&mut recording, to, command, pid, record.quiet) {
        Ok(_) => Status::of_program(recording.exit),
        Err(status) => status,
    }
}

/// Refuses to trace what runs already.
fn can_trace(how: &HowToRecord, running: &Running) -> Result<(), Status> {
    let Some(_) = running.targets() else {
        return Ok(());
    };
    let refused = how.without_trace(
        "the program runs already: events are recorded from within, from its start on",
        "start it under convoy: convoy record --trace -o FILE -- COMMAND",
    );
    refused.map_err(|message| {
        message.print();
        Status::OwnFailure
    })
}

/// Refuses to write the report where the profile was written.
pub fn are_two(output: Option<&Path>, report_to: Option<&Path>) -> Result<(), Message> {
    if output.is_some() && output == report_to {
        return Err(Message::new(
            "-o and --report-to name the same file",
            "nothing was started: the report would overwrite the profile",
            "name another one for the report",
        ));
    }
    Ok(())
}

/// Whether a profile can be written there, before anything is started.
pub fn check(to: &Path, command: &[OsString]) -> Result<(), Status> {
    // The name may hold the pid, which is not known yet; its directory hardly does.
    convoy_capture::can_write(&file(to, command, 0, None)).map_err(own_failure)
}

/// Writes a profile, and says where.
pub fn keep(
    recording: &mut Recording,
    to: &Path,
    command: &[OsString],
    pid: u32,
    quiet: bool,
) -> Result<PathBuf, Status> {
    let path = file(to, command, pid, recording.profile.meta.command.first());
    save(recording, &path, quiet)?;
    Ok(path)
}

/// The same under a name that is known.
pub fn save(recording: &mut Recording, path: &Path, quiet: bool) -> Result<(), Status> {
    recording.save(path).map_err(own_failure)?;
    if !quiet {
        say_written(path);
    }
    Ok(())
}

fn own_failure(error: Error) -> Status {
    Message::from(error.trouble()).print();
    Status::OwnFailure
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

/// Runs a command to its end, or looks at running processes for a while, and names what was recorded. The pid
/// is the command's, or that of the first process.
pub fn execute(
    options: &Options,
    command: &[OsString],
    running: &Running,
    quiet: bool,
) -> Result<(Recording, u32), Status> {
    let failed = |error: Error| {
        Message::from(error.trouble()).print();
        Status::of_launch(&error)
    };
    let (mut recording, pid) = match running.targets() {
        Some(targets) => {
            let options = Options {
                injector: running.injector(),
                ..options.clone()
            };
            let mut attached = convoy_capture::attach(&options, targets).map_err(failed)?;
            warn(&attached.take_warnings(), quiet);
            let pid = attached.pid();
            (attached.wait(running.limit), pid)
        }
        None => {
            let recorder = Recorder::new(options.clone()).map_err(failed)?;
            let mut started = recorder.launch(command).map_err(failed)?;
            // Before the program has ended: it may run for hours, and nothing of it be recorded.
            warn(&started.take_warnings(), quiet);
            let pid = started.pid();
            (started.wait(), pid)
        }
    };
    if options.trace.is_some() {
        // What a replay adds to each operation are the costs of this machine, as it is now.
        let costs = calibrate::calibrate().machine;
        let mut text = calibrate::to_text(&costs);
        if let Some(empty) = recorder_cost::measure(options) {
            text += &calibrate::empty_to_text(&empty);
        }
        recording.profile.meta.costs = text;
    }
    name_recording(&mut recording);
    Ok((recording, pid))
}

/// Resolves addresses while the files are still those that ran.
pub fn name(profile: &mut Profile) {
    name_with(profile, Vec::new());
}

/// Files of a process that are still open, by the path that it saw, and its map of generated code.
type Opened = (HashMap<String, PathBuf>, Option<PathBuf>);

/// The same with files that are still open from the recording.
pub fn name_recording(recording: &mut Recording) {
    let processes = 0..recording.profile.processes.len();
    let opened = processes
        .map(|ix| (recording.open_files(ix), recording.open_jit_map(ix)))
        .collect();
    name_with(&mut recording.profile, opened);
}

/// `opened`: of each process, in order; of those that are missing, nothing is.
fn name_with(profile: &mut Profile, opened: Vec<Opened>) {
    let mut options = convoy_symbols::Options {
        started: UNIX_EPOCH.checked_add(Duration::from_nanos(profile.meta.started_unix_ns)),
        ..convoy_symbols::Options::from_env()
    };
    let mut opened = opened.into_iter();
    for process in &mut profile.processes {
        (options.files, options.jit_map) = opened.next().unwrap_or_default();
        convoy_symbols::resolve(process, &options);
    }
    if let Some(sched) = &mut profile.sched {
        convoy_symbols::resolve_kernel(sched);
        if let Some(lines) = &mut sched.lines {
            convoy_symbols::resolve_lines(&profile.processes, lines, &options);
        }
    }
    if let Some(sections) = &mut profile.sections {
        convoy_symbols::resolve_words(&profile.processes, sections, &options);
    }
}

/// Prints them, unless the user wants none.
pub fn warn(warnings: &[Trouble], quiet: bool) {
    if !quiet {
        warnings
            .iter()
            .for_each(|trouble| Message::from(trouble).print());
    }
}

/// Names that are no UTF-8 are taken as they are: there is nothing to fill in that is sure to be meant.
pub fn file(to: &Path, command: &[OsString], pid: u32, running: Option<&String>) -> PathBuf {
    let started = command.first().map(|c| c.to_string_lossy());
    let exe = started
        .or_else(|| running.map(|name| name.as_str().into()))
        .unwrap_or_default();
    match to.to_str() {
        Some(text) => pattern::fill(text, &pattern::exe_name(&exe), pid).into(),
        None => to.to_owned(),
    }
}
