//! `convoy investigate`: all methods, one run after the other, until the answer is sure or the time
//! is used.

mod answers;
mod course;
mod leads;
mod runs;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use convoy_capture::Interrupt;
use convoy_investigate::{Look, Report};

use crate::exit::Status;
use crate::message::{say, Message};
use crate::output_args::{Format, Shape};
use crate::record::are_two;
use crate::recording::time;
use crate::show;
use crate::threshold_args::Limits;
use course::Course;

const ABOUT: &str = "\
Runs a program several times, each time under the method that narrows the answer most: counts and
scheduler, replay of the recorded order, a look into critical sections, experiments, other ways to
wait. Ends with one report, in which each gain names the methods behind it.

Examples:
  convoy investigate -- ./bench --threads 16
  convoy investigate --budget 2m -o run.convoy -- ./bench";

/// `convoy investigate`.
#[derive(Debug, Args)]
#[command(
    about = ABOUT,
    long_about = ABOUT,
    override_usage = "convoy investigate [OPTIONS] -- COMMAND [ARGUMENT]..."
)]
pub struct Investigate {
    /// Most time for all runs; the first run is never cut short
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5m")]
    pub budget: Duration,

    /// Also keep the profile of the first run in a file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write the report to this file instead of standard error
    #[arg(long, value_name = "FILE")]
    pub report_to: Option<PathBuf>,

    #[command(flatten)]
    pub shape: Shape,

    #[command(flatten)]
    pub limits: Limits,

    /// Say nothing but the report and errors
    #[arg(short, long)]
    pub quiet: bool,

    /// Command to run and its arguments. It must end by itself; later runs read no standard input,
    /// and their output is dropped
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub command: Vec<OsString>,
}

/// Runs the program as often as it takes, and reports.
pub fn investigate(args: &Investigate) -> Status {
    match try_investigate(args) {
        Ok(status) => status,
        Err(message) => {
            message.print();
            Status::OwnFailure
        }
    }
}

fn try_investigate(args: &Investigate) -> Result<Status, Message> {
    let began = Instant::now();
    are_two(args.output.as_deref(), args.report_to.as_deref())?;
    let mut course = Course::new(args)?;
    let interrupt = Interrupt::watch();
    loop {
        let left = args.budget.saturating_sub(began.elapsed());
        let Some((step, why)) = course.investigation.next(left) else {
            break;
        };
        course.take(step, why, left);
        // Without a recorded run there is nothing to go on with; its own words were printed.
        if interrupt.asked() || !course.has_recorded() {
            break;
        }
    }
    let status = course.status();
    if !course.has_recorded() {
        return match (course.first_failure(), status) {
            // The program could not be started: convoy record has said so.
            (_, Status::Program(126 | 127)) => Ok(status),
            (why, _) => Err(Message::new(why, "there is no report", "")),
        };
    }
    let kept = course.keep()?;
    let mut report = course.into_report();
    report.command = args.command.iter().map(lossy).collect();
    report.seconds = began.elapsed().as_secs_f64();
    report.budget_seconds = args.budget.as_secs_f64();
    report.profile = kept.map(|path| path.display().to_string());
    write(args, &report)?;
    Ok(status)
}

fn write(args: &Investigate, report: &Report) -> Result<(), Message> {
    let stderr = std::io::stderr();
    let look = match args.report_to {
        Some(_) => args.shape.look(None),
        None => args.shape.look(Some(&stderr)),
    };
    let text = match args.shape.format {
        Format::Json => report.json(),
        Format::Text => convoy_investigate::text(
            report,
            Look {
                unicode: look.unicode,
            },
        ),
    };
    match &args.report_to {
        Some(file) => show::write_file(file, &text),
        None => {
            say(&text);
            Ok(())
        }
    }
}

fn lossy(text: &OsString) -> String {
    text.to_string_lossy().into_owned()
}
