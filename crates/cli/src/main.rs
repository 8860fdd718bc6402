//! `convoy`: runs a program, finds what keeps it from running in parallel, and says what to do.
//!
//! This crate parses arguments, wires the others together, prints, and exits. Standard output
//! belongs to the program while one runs; Convoy's own words go to standard error.

#![forbid(unsafe_code)]

mod analyze;
mod args;
mod browser;
mod causal;
mod child_recording;
mod diagnose;
mod diff;
mod doctor;
mod exit;
mod export;
mod findings;
mod generate;
mod html;
mod investigate;
mod last;
mod live;
mod message;
mod output_args;
mod pattern;
mod process;
mod record;
mod recorder_cost;
mod recording;
mod recover;
mod replay;
mod replay_native;
mod serve;
mod show;
mod terminal;
mod threshold_args;
mod top;

use std::panic::catch_unwind;
use std::process::ExitCode;

use args::{Cli, Verb};
use clap::Parser;
use exit::Status;
use message::Message;

fn main() -> ExitCode {
    convoy_capture::keep_little_memory();
    let arguments: Vec<_> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, exit::after_bad_usage(&arguments)).into(),
    };
    // A bug in the analysis must not look like an exit status of the program that was run.
    catch_unwind(|| run(cli))
        .unwrap_or(Status::OwnFailure)
        .into()
}

fn run(cli: Cli) -> Status {
    match cli.verb {
        Some(Verb::Record(record)) => record::record(&record),
        Some(Verb::Report(report)) => show::report(&report),
        Some(Verb::Diagnose(args)) => diagnose::diagnose(&args),
        Some(Verb::Replay(args)) => replay::replay(&args),
        Some(Verb::Diff(diff)) => diff::diff(&diff),
        Some(Verb::Export(export)) => export::export(&export),
        Some(Verb::Top(top)) => top::top(&top),
        Some(Verb::Live(live)) => live::live(&live),
        Some(Verb::Serve(serve)) => serve::serve(&serve),
        Some(Verb::Causal(args)) => causal::causal(&args),
        Some(Verb::Investigate(args)) => investigate::investigate(&args),
        Some(Verb::Try(args)) => causal::attempt(&args),
        Some(Verb::Doctor(doctor)) => doctor::doctor(&doctor),
        Some(Verb::Findings(args)) => findings::findings(&args),
        Some(Verb::Recover(recover)) => recover::recover(&recover),
        Some(Verb::Generate(args)) => generate::generate(&args),
        Some(Verb::ReplayNative) => replay_native::serve(),
        Some(Verb::Inject(inject)) => {
            let (session, pids) = (&inject.session, &inject.pids);
            match convoy_capture::serve_injection(session, pids, inject.experiments) {
                Ok(()) => Status::Success,
                Err(_) => Status::OwnFailure,
            }
        }
        Some(Verb::HoldProbes(hold)) => match convoy_capture::probes::serve(hold.pid) {
            Ok(()) => Status::Success,
            Err(_) => Status::OwnFailure,
        },
        Some(Verb::ProbedLoop) => {
            live::run_loop();
            Status::Success
        }
        Some(Verb::EmptySections) => recorder_cost::run_empty_sections(),
        None if cli.run.command.is_empty() && cli.run.running.targets().is_none() => {
            Message::new(
                "no command was given",
                "nothing was started",
                "name one: convoy -- COMMAND, or a running process: convoy -p PID; see convoy --help",
            )
            .print();
            Status::OwnFailure
        }
        None => record::run(&cli.run),
    }
}

/// Help and version go to standard output and are a success; anything else is an error.
fn usage(error: &clap::Error, failure: Status) -> Status {
    // Nobody to tell if this fails.
    let _ = error.print();
    if error.use_stderr() {
        failure
    } else {
        Status::Success
    }
}
