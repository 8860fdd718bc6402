//! `convoy causal` and `convoy try`: experiments on the real program.

mod args;
mod conduct;
mod subjects;
mod trial;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use convoy_capture::{Options, Recorder, Scheduler};
use convoy_causal::{Estimator, Look, Report};

use crate::exit::Status;
use crate::message::{say, Message};
use crate::record::warn;
use crate::shape::Format;
use crate::show;

pub use args::Causal;
use args::Running;
use conduct::{Conductor, Question};
pub use trial::Try;

/// Runs the program, experiments while it runs, reports at its end.
pub fn causal(args: &Causal) -> Status {
    let targets = match args.targets() {
        Ok(targets) => targets,
        Err(invalid) => {
            Message::new(invalid.found, "nothing was started", invalid.fix).print();
            return Status::OwnFailure;
        }
    };
    let course = Course {
        question: Question::Faster(targets),
        estimator: args.estimator.into(),
        budget: args.budget,
        precision: args.precision,
    };
    run(course, &args.running, convoy_causal::text)
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
    };
    run(course, &args.running, convoy_causal::trial_text)
}

/// What to find out, and how far to go.
struct Course {
    question: Question,
    estimator: Estimator,
    budget: Duration,
    precision: f64,
}

fn run(course: Course, args: &Running, text: fn(&Report, Look) -> String) -> Status {
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
            return Status::of_launch(&error);
        }
    };
    warn(&running.take_warnings(), args.quiet);
    let has_ended = Arc::new(AtomicBool::new(false));
    let conductor = Conductor {
        session: running.session_dir().to_owned(),
        pid: running.pid(),
        question: course.question,
        estimator: course.estimator,
        budget: course.budget,
        precision: course.precision,
        has_ended: Arc::clone(&has_ended),
        is_quiet: args.quiet,
    };
    let experiments = std::thread::spawn(move || conductor.conduct());
    let recording = running.wait();
    has_ended.store(true, Ordering::Release);
    let Ok(mut report) = experiments.join() else {
        return Status::OwnFailure;
    };
    report.command.clone_from(&recording.profile.meta.command);
    match write(args, &report, text) {
        Ok(()) => Status::of_program(recording.exit),
        Err(message) => {
            message.print();
            Status::OwnFailure
        }
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
