//! `convoy causal` and `convoy try`: experiments on the real program.

mod args;
mod conduct;
mod subjects;
mod trial;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use convoy_capture::{AgentInside, Interrupt, Options, Recorder, Scheduler, Targets};
use convoy_causal::{Estimator, Look, Report};

use crate::exit::Status;
use crate::message::{say, Message};
use crate::record::warn;
use crate::shape::Format;
use crate::show;

pub use args::Causal;
use args::Running;
use conduct::{Conductor, End, Question};
pub use trial::Try;

/// Experiments with a program that it starts, or with a process that runs; reports at its end.
pub fn causal(args: &Causal) -> Status {
    let failed = match args.pid {
        Some(_) => Status::Failure,
        // 2 could be the program's own status.
        None => Status::OwnFailure,
    };
    let done = args.targets().map_err(|invalid| {
        let effect = "no experiment is made";
        Message::new(invalid.found, effect, invalid.fix)
    });
    let done = done.and_then(|targets| {
        let course = Course {
            question: Question::Faster(targets),
            estimator: args.estimator.into(),
            budget: args.budget,
            precision: args.precision,
            coz: args.coz.clone(),
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
    let course = Course {
        question: Question::WaitingBy {
            mutex: args.lock.clone(),
            ways: trial::ways(&args.algorithms()),
        },
        estimator: Estimator::Exchange,
        budget: args.budget,
        precision: args.precision,
        coz: None,
    };
    let done = of_command(course, &args.running, convoy_causal::trial_text);
    done.unwrap_or_else(|message| {
        message.print();
        Status::OwnFailure
    })
}

/// What to find out, and how far to go.
struct Course {
    question: Question,
    estimator: Estimator,
    budget: Duration,
    precision: f64,
    /// For a profile that Coz's viewer reads.
    coz: Option<PathBuf>,
}

/// Writes a report for people.
type ToText = fn(&Report, Look) -> String;

fn of_command(course: Course, args: &Running, text: ToText) -> Result<Status, Message> {
    let options = Options {
        causal: true,
        // What the kernel reports would be measured, too.
        scheduler: Scheduler::Off,
        session_parent: args.session_dir.clone(),
        ..Options::default()
    };
    let started = Recorder::new(options).and_then(|recorder| recorder.launch(&args.command));
    let mut running = match started {
        Ok(running) => running,
        Err(error) => {
            Message::from(error.trouble()).print();
            return Ok(Status::of_launch(&error));
        }
    };
    warn(&running.take_warnings(), args.quiet);
    let coz = course.coz.clone();
    let has_ended = Arc::new(AtomicBool::new(false));
    let end = End::OfProgram(Arc::clone(&has_ended));
    let conductor = conductor(course, args, running.session_dir(), running.pid(), end);
    let experiments = std::thread::spawn(move || conductor.conduct());
    let recording = running.wait();
    has_ended.store(true, Ordering::Release);
    let Ok(mut report) = experiments.join() else {
        return Ok(Status::OwnFailure);
    };
    report.command.clone_from(&recording.profile.meta.command);
    write(args, &report, text)?;
    write_coz(coz.as_deref(), &report)?;
    Ok(Status::of_program(recording.exit))
}

/// The process goes on when the experiments are over, without hooks and at its own speed.
fn of_process(course: Course, args: &Running, pid: u32) -> Result<Status, Message> {
    Targets::check(pid).map_err(|trouble| Message::from(&trouble))?;
    let interrupt = Interrupt::watch();
    let options = Options {
        session_parent: args.session_dir.clone(),
        ..Options::default()
    };
    let own = ["/proc/self/exe", convoy_capture::INJECTOR_ARGUMENT];
    let agent = AgentInside::experiment(options, &own.map(Into::into), pid)
        .map_err(|error| Message::from(error.trouble()))?;
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let end = End::OnRequest(interrupt);
    let coz = course.coz.clone();
    let mut report = conductor(course, args, agent.session_dir(), pid, end).conduct();
    warn(&agent.leave(), args.quiet);
    let words = command.split(|byte| *byte == 0);
    let words = words.filter(|word| !word.is_empty());
    report.command = words
        .map(|word| String::from_utf8_lossy(word).into())
        .collect();
    write(args, &report, convoy_causal::text)?;
    write_coz(coz.as_deref(), &report)?;
    Ok(Status::Success)
}

fn write_coz(file: Option<&Path>, report: &Report) -> Result<(), Message> {
    let Some(file) = file else {
        return Ok(());
    };
    if report.coz_profile.is_empty() {
        return Err(Message::new(
            "no target has a number",
            format!("{} was not written", file.display()),
            "see the report for the reasons",
        ));
    }
    std::fs::write(file, &report.coz_profile).map_err(|e| {
        Message::new(
            format!("{}: {e}", file.display()),
            "the profile for Coz's viewer was not written",
            "choose another file with --coz",
        )
    })
}

fn conductor(course: Course, args: &Running, session: &Path, pid: u32, end: End) -> Conductor {
    Conductor {
        session: session.to_owned(),
        pid,
        question: course.question,
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
