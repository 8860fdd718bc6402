//! `convoy diagnose`: runs a command and looks into the critical sections of the locks that need it.

mod keep;
mod wanted;

pub use wanted::lock_sites;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use convoy_capture::Scheduler;

use crate::analyze::Judged;
use crate::args::Running;
use crate::exit::Status;
use crate::message::Message;
use crate::output_args::Shape;
use crate::recording::Recording;
use crate::threshold_args::Limits;
use crate::{record, show};
use wanted::Wanted;

/// `convoy diagnose`.
#[derive(Debug, Args)]
#[command(override_usage = "convoy diagnose [OPTIONS] [PROFILE] -- COMMAND [ARGUMENT]...")]
pub struct Diagnose {
    /// Profile of an earlier run: look into the sections of the locks that it has findings about
    ///
    /// Those with several possible causes; if there are none, all locks with findings. Without a profile every lock is
    /// looked into.
    #[arg(value_name = "PROFILE")]
    pub profile: Option<PathBuf>,

    /// Look into the sections of these locks: name, address (0x...), a site that uses it, or a regular expression
    #[arg(long, value_name = "OBJECT")]
    pub lock: Vec<String>,

    /// Time that tracing may add, of the time that passes
    ///
    /// A share. Of each acquire site every thread's first sections are traced (64 of the first thread), then a random sample within this share, and within a fifth of it once 2,048 were traced.
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "50%")]
    pub overhead: u32,

    /// Trace every section: no sampling, no limit
    ///
    /// Cost: two to fifteen times the time of the sections.
    #[arg(long, conflicts_with = "overhead")]
    pub every: bool,

    /// Also keep the profile of this run in a file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write the report to this file instead of standard error
    #[arg(long, value_name = "FILE")]
    pub report_to: Option<PathBuf>,

    #[command(flatten)]
    pub shape: Shape,

    #[command(flatten)]
    pub recording: Recording,

    #[command(flatten)]
    pub limits: Limits,

    /// Command to run and its arguments
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub command: Vec<OsString>,

    /// Say nothing but the report and errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// Runs, looks, reports.
pub fn diagnose(args: &Diagnose) -> Status {
    match try_diagnose(args) {
        Ok(status) => status,
        Err(message) => {
            message.print();
            Status::OwnFailure
        }
    }
}

fn try_diagnose(args: &Diagnose) -> Result<Status, Message> {
    record::are_two(args.output.as_deref(), args.report_to.as_deref())?;
    if let Some(path) = &args.output {
        convoy_capture::can_write(path).map_err(|e| Message::from(e.trouble()))?;
    }
    let mut wanted = Wanted::of(args)?;
    if !args.quiet {
        wanted.remarks.iter().for_each(Message::print);
    }
    args.recording.without_trace(
        "diagnose looks into critical sections: the agent can do one of the two",
        "record the trace in a run of its own: convoy record --trace -o FILE -- COMMAND",
    )?;
    let mut options = args.recording.options();
    // Tracing makes sections longer and runs them from a cache that no stack of the kernel's can be unwound from: what
    // the scheduler shows is of an undisturbed run.
    if args.recording.scheduler.is_none() {
        options.scheduler = Scheduler::InsteadOfAgent;
    }
    options.diagnose = Some(convoy_capture::Diagnose {
        sites: wanted.sites.clone(),
        every: args.every,
        budget_ppm: args.overhead,
        ..convoy_capture::Diagnose::default()
    });
    let (mut recording, _) =
        match record::execute(&options, &args.command, &Running::default(), args.quiet) {
            Ok(recorded) => recorded,
            Err(status) => return Ok(status),
        };
    record::warn(&recording.warnings, args.quiet);
    if let Err(message) = keep::only(&mut recording.profile, &wanted, &args.limits) {
        message.print(); // the program has run all the same
    }
    // A report of what could not be kept is better than none.
    let kept = args.output.as_ref().map_or(Ok(()), |path| {
        record::save(&mut recording, path, args.quiet)
    });
    let profile = std::mem::take(&mut recording.profile); // it may be large: not twice
    let judged = Judged::new(profile, None, &args.limits)?;
    show::sections(&judged, wanted.earlier.take(), args)?;
    Ok(match kept {
        Ok(()) => Status::of_program(recording.exit),
        Err(status) => status,
    })
}

/// A share in percent, in millionths.
fn percent(text: &str) -> Result<u32, String> {
    let number = text.trim().strip_suffix('%').unwrap_or(text.trim());
    match number.trim().parse::<f64>() {
        Ok(n) if n > 0.0 && n <= 1000.0 => Ok((n * 10_000.0).round() as u32),
        _ => Err("give a share of the time in percent, from more than 0 to 1000: 50%".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::args::{Cli, Verb};
    use clap::Parser;

    fn parse(words: &[&str]) -> Diagnose {
        match Cli::try_parse_from(words).map(|cli| cli.verb) {
            Ok(Some(Verb::Diagnose(diagnose))) => *diagnose,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[test]
    fn the_command_stands_behind_two_dashes() {
        let args = parse(&[
            "convoy",
            "diagnose",
            "run.convoy",
            "--",
            "./a",
            "--lock",
            "x",
        ]);
        assert_eq!(args.profile.as_deref(), Some(Path::new("run.convoy")));
        assert_eq!(args.command, ["./a", "--lock", "x"]);
        assert!(args.lock.is_empty());
        let args = parse(&[
            "convoy", "diagnose", "--lock", "a", "--lock", "b", "--", "./a",
        ]);
        assert_eq!((args.profile, args.lock.len()), (None, 2));
        for words in [
            &["convoy", "diagnose", "./a"][..],
            &[
                "convoy",
                "diagnose",
                "--every",
                "--overhead",
                "10%",
                "--",
                "a",
            ],
        ] {
            assert!(Cli::try_parse_from(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn shares_are_percent() {
        assert_eq!(percent("50%"), Ok(500_000));
        assert_eq!(percent("2.5"), Ok(25_000));
        for text in ["", "0", "-1", "fifty", "2000"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
