//! `convoy causal` and `convoy try`: experiments on the real program.

mod args;
mod beside;
mod calls;
mod compared;
mod conduct;
mod look;
mod progress;
mod reached;
mod repeat;
mod subjects;
mod trial;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoy_capture::{
    AgentInside, Interrupt, Options, Recorder, Recording, Scheduler, Streams, Targets,
};
use convoy_causal::{coz, note, Estimator, Look, Rate, Report};
use convoy_profile::Profile;

use crate::exit::Status;
use crate::message::{say, Message};
use crate::output_args::Format;
use crate::record::{self, warn};
use crate::show;

pub use args::Causal;
use args::Running;
pub use beside::{note_experiments, shorter};
use conduct::{Conductor, End, Question};
use progress::Wanted;
pub use trial::Try;

/// Experiments with a program that it starts, or with a process that runs; reports at its end.
pub fn causal(args: &Causal) -> Status {
    let failed = match args.pid {
        Some(_) => Status::Failure,
        // 2 could be the program's own status.
        None => Status::OwnFailure,
    };
    let named = args
        .targets()
        .and_then(|targets| Ok((targets, args.progress()?)));
    let done = named.map_err(|invalid| {
        let effect = "no experiment is made";
        Message::new(invalid.found, effect, invalid.fix)
    });
    let done = done.and_then(|(targets, progress)| {
        let course = Course {
            question: Question::Faster(targets),
            progress,
            rate: None,
            ran: None,
            estimator: args.estimator.into(),
            budget: args.budget,
            precision: args.precision,
            repeat: args.repeat,
            coz: args.coz.clone(),
            output: args.output.clone(),
        };
        match args.pid {
            Some(pid) => of_process(course, &args.running, pid),
            None => of_command(course, &args.running, convoy_causal::text),
        }
    });
    done.unwrap_or_else(|message| {
        message.print();
        failed
    })
}

/// The same for ways to wait for a mutex.
pub fn attempt(args: &Try) -> Status {
    if let Err(message) = args.check() {
        message.print();
        return Status::OwnFailure;
    }
    let course = Course {
        question: Question::WaitingBy {
            mutex: args.lock.clone(),
            ways: trial::ways(&args.algorithms()),
            readers: args.reads.clone(),
        },
        progress: Wanted::Any,
        rate: None,
        ran: None,
        estimator: Estimator::Exchange,
        budget: args.budget,
        precision: args.precision,
        repeat: false,
        coz: None,
        output: None,
    };
    let compares = args.algorithms().iter().any(|way| way.may_corrupt());
    let done = match compares {
        true => compared::of_command(&course, &args.running),
        false => of_command(course, &args.running, convoy_causal::trial_text),
    };
    done.unwrap_or_else(|message| {
        message.print();
        Status::OwnFailure
    })
}

/// What to find out, and how far to go.
#[derive(Debug, Clone)]
struct Course {
    question: Question,
    progress: Wanted,
    /// What an earlier run of the command was measured by.
    rate: Option<Rate>,
    /// How long that run took.
    ran: Option<Duration>,
    estimator: Estimator,
    budget: Duration,
    precision: f64,
    /// A command that ends before enough is known runs again.
    repeat: bool,
    /// For a profile that Coz's viewer reads.
    coz: Option<PathBuf>,
    /// For a profile of the run, with the experiments.
    output: Option<PathBuf>,
}

/// Writes a report for people.
type ToText = fn(&Report, Look) -> String;

fn of_command(course: Course, args: &Running, text: ToText) -> Result<Status, Message> {
    if let Some(Err(status)) = course.check_output(args) {
        return Ok(status);
    }
    let run = match repeat::runs(&course, args) {
        Ok(run) => run,
        Err(status) => return Ok(status),
    };
    let Run {
        mut report,
        mut recording,
        pid,
        ..
    } = run;
    report.command.clone_from(&recording.profile.meta.command);
    write(args, &report, text)?;
    write_coz(course.coz.as_deref(), &report)?;
    if let Some(output) = &course.output {
        add(&mut recording.profile, &report);
        record::name_recording(&mut recording);
        let kept = record::keep(&mut recording, output, &args.command, pid, args.quiet);
        if let Err(status) = kept {
            return Ok(status);
        }
    }
    Ok(Status::of_program(recording.exit))
}

/// A run of the command, or several that count as one: the recording is of the last.
struct Run {
    report: Report,
    recording: Recording,
    pid: u32,
    /// How long it took.
    ran: Duration,
    /// It took too long, and was ended.
    was_ended: bool,
}

/// Runs the command once, and ends it after `most`. `Err`: it could not be started, and that was
/// said.
fn one_run(
    course: &Course,
    args: &Running,
    streams: &Streams,
    most: Option<Duration>,
) -> Result<Run, Status> {
    let options = Options {
        causal: true,
        // What the kernel reports would be measured, too.
        scheduler: Scheduler::Off,
        session_parent: args.session_dir.clone(),
        streams: streams.clone(),
        ..Options::default()
    };
    let began = Instant::now();
    let started = Recorder::new(options).and_then(|recorder| recorder.launch(&args.command));
    let mut running = started.map_err(|error| {
        Message::from(error.trouble()).print();
        Status::of_launch(&error)
    })?;
    warn(&running.take_warnings(), args.quiet);
    let pid = running.pid();
    let has_ended = Arc::new(AtomicBool::new(false));
    let end = End::OfProgram(Arc::clone(&has_ended));
    let conductor = conductor(course, args, running.session_dir(), pid, end);
    let experiments = std::thread::spawn(move || conductor.conduct());
    let limit = most.map(|most| compared::limit(pid, most, Arc::clone(&has_ended)));
    let recording = running.wait();
    let ran = began.elapsed();
    has_ended.store(true, Ordering::Release);
    let report = experiments.join().map_err(|_| Status::OwnFailure)?;
    Ok(Run {
        was_ended: limit.is_some_and(|limit| limit.join().unwrap_or_default()),
        report,
        recording,
        pid,
        ran,
    })
}

/// The process goes on when the experiments are over, without hooks and at its own speed.
fn of_process(course: Course, args: &Running, pid: u32) -> Result<Status, Message> {
    Targets::check(pid).map_err(|trouble| Message::from(&trouble))?;
    if let Some(Err(_)) = course.check_output(args) {
        return Ok(Status::Failure);
    }
    let interrupt = Interrupt::watch();
    let options = Options {
        session_parent: args.session_dir.clone(),
        ..Options::default()
    };
    let own = ["/proc/self/exe", convoy_capture::INJECTOR_ARGUMENT];
    let agent = AgentInside::experiment(options, &own.map(Into::into), pid)
        .map_err(|error| Message::from(error.trouble()))?;
    let command = convoy_capture::command_line(pid);
    let end = End::OnRequest(interrupt);
    let mut report = conductor(&course, args, agent.session_dir(), pid, end).conduct();
    let profile = course.output.as_ref().map(|_| agent.watch().read().profile);
    warn(&agent.leave(), args.quiet);
    report.command = command;
    write(args, &report, convoy_causal::text)?;
    write_coz(course.coz.as_deref(), &report)?;
    if let (Some(output), Some(mut profile)) = (&course.output, profile) {
        profile.meta.command.clone_from(&report.command);
        add(&mut profile, &report);
        record::name(&mut profile);
        let file = record::file(output, &[], pid, report.command.first());
        convoy_capture::write_profile(&file, &profile)
            .map_err(|error| Message::from(error.trouble()))?;
        if !args.quiet {
            record::say_written(&file);
        }
    }
    Ok(Status::Success)
}

/// What a profile is to keep of experiments.
fn add(profile: &mut Profile, report: &Report) {
    if report.seconds > 0.0 {
        profile.meta.notes.push(note::slowed(report.seconds));
    }
    profile.experiments = Some(report.keep());
}

impl Course {
    /// Whether a profile can be written, before anything is started; `None` = none is wanted.
    fn check_output(&self, args: &Running) -> Option<Result<(), Status>> {
        let output = self.output.as_deref()?;
        let are_two = record::are_two(Some(output), args.report_to.as_deref());
        let are_two = are_two.map_err(|message| {
            message.print();
            Status::OwnFailure
        });
        Some(are_two.and_then(|()| record::check(output, &args.command)))
    }
}

fn write_coz(file: Option<&Path>, report: &Report) -> Result<(), Message> {
    let Some(file) = file else {
        return Ok(());
    };
    let profile = coz(report);
    if profile.is_empty() {
        return Err(Message::new(
            "no target has a number",
            format!("{} was not written", file.display()),
            "see the report for the reasons",
        ));
    }
    std::fs::write(file, profile).map_err(|e| {
        Message::new(
            format!("{}: {e}", file.display()),
            "the profile for Coz's viewer was not written",
            "choose another file with --coz",
        )
    })
}

fn conductor(course: &Course, args: &Running, session: &Path, pid: u32, end: End) -> Conductor {
    Conductor {
        session: session.to_owned(),
        pid,
        question: course.question.clone(),
        progress: course.progress.clone(),
        rate: course.rate.clone(),
        ran: course.ran,
        estimator: course.estimator,
        budget: course.budget,
        precision: course.precision,
        end,
        is_quiet: args.quiet,
    }
}

fn write(
    args: &Running,
    report: &Report,
    text: fn(&Report, Look) -> String,
) -> Result<(), Message> {
    let text = match args.shape.format {
        Format::Json => report.json(),
        Format::Text => {
            let stderr = std::io::stderr();
            let look = match args.report_to {
                Some(_) => args.shape.look(None),
                None => args.shape.look(Some(&stderr)),
            };
            let look = Look {
                width: look.width,
                unicode: look.unicode,
            };
            text(report, look)
        }
    };
    match &args.report_to {
        Some(file) => show::write_file(file, &text),
        None => {
            say(&text);
            Ok(())
        }
    }
}
