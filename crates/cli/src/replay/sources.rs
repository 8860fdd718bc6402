//! Where a replay's data come from: a profile, or two runs of a command: one for the timing, and one,
//! slowed down by tracing, for what critical sections read and write.

use std::path::PathBuf;

use convoy_capture::{Diagnose, Options, Recording, Site};
use convoy_profile::{Profile, SectionEnd};

use super::Replay;
use crate::args::Running;
use crate::diagnose::lock_sites;
use crate::exit::Status;
use crate::message::Message;
use crate::{record, show};

/// What there is to replay.
#[derive(Debug)]
pub struct Recorded {
    /// With a trace.
    pub profile: Profile,
    /// What critical sections touch.
    pub touched: Touched,
    /// The profile's file, if it has one.
    pub file: Option<PathBuf>,
    /// Other recordings of the program, to compare with.
    pub others: Vec<(Profile, Touched)>,
    /// Of the command.
    pub status: Status,
}

/// What critical sections touch, from another run.
#[derive(Debug)]
pub struct Touched {
    /// `Err` = not known, and why.
    pub profile: Result<Profile, String>,
}

/// Reads a profile, or runs the command. `Err` in `Ok`: the command did not start, which was said.
pub fn recorded(args: &Replay) -> Result<Result<Recorded, Status>, Message> {
    match args.profiles.as_slice() {
        [] if args.command.is_empty() => {
            let newest = show::newest(std::path::Path::new("."))?;
            if !args.quiet {
                Message::new(format!("reading {}", newest.display()), "", "").print();
            }
            from_file(args, newest).map(Ok)
        }
        [] => from_command(args),
        [file, others @ ..] if args.command.is_empty() => {
            let mut recorded = from_file(args, file.clone())?;
            for other in others {
                let other = from_file(args, other.clone())?;
                recorded.others.push((other.profile, other.touched));
            }
            Ok(Ok(recorded))
        }
        _ => Err(Message::new(
            format!("{} profiles and a command were given", args.profiles.len()),
            "nothing was replayed",
            "name profiles, or a command behind --",
        )),
    }
}

fn from_file(args: &Replay, file: PathBuf) -> Result<Recorded, Message> {
    let mut profile = show::load(&file, args.quiet)?;
    let touched = match (&args.sections, profile.second_run.take()) {
        (Some(sections), _) => Ok(show::load(sections, args.quiet)?),
        (None, Some(second)) => Ok(*second),
        (None, None) if profile.sections.is_some() => Ok(profile.clone()),
        (None, None) => Err("only the order of events was recorded".to_owned()),
    };
    Ok(Recorded {
        profile,
        touched: Touched { profile: touched },
        file: Some(file),
        others: Vec::new(),
        status: Status::Success,
    })
}

fn from_command(args: &Replay) -> Result<Result<Recorded, Status>, Message> {
    record::are_two(args.output.as_deref(), args.report_to.as_deref())?;
    let mut options = args.recording.options();
    options.trace = Some(args.recording.trace_options());
    let (mut recording, _) = match execute(&options, args) {
        Ok(recorded) => recorded,
        Err(status) => return Ok(Err(status)),
    };
    record::warn(&recording.warnings, args.quiet);
    let kept = args.output.as_ref();
    let mut kept = kept.map(|path| record::save(&mut recording, path, args.quiet));
    let mut touched = match &args.sections {
        Some(sections) => Ok(show::load(sections, args.quiet)?),
        None if args.no_sections => Err("the second run was not wanted (--no-sections)".into()),
        None => second_run(args, &recording.profile),
    };
    if let (Some(path), Some(Ok(())), Ok(second)) = (&args.output, &kept, &mut touched) {
        // With both runs in it, the file answers all that the command can.
        recording.profile.second_run = Some(Box::new(std::mem::take(second)));
        kept = Some(record::save(&mut recording, path, true));
        *second = recording
            .profile
            .second_run
            .take()
            .map_or_else(Profile::default, |run| *run);
    }
    Ok(Ok(Recorded {
        profile: std::mem::take(&mut recording.profile),
        touched: Touched { profile: touched },
        file: args.output.clone(),
        others: Vec::new(),
        status: match kept {
            Some(Err(status)) => status,
            _ => Status::of_program(recording.exit),
        },
    }))
}

fn execute(options: &Options, args: &Replay) -> Result<(Recording, u32), Status> {
    record::execute(options, &args.command, &Running::default(), args.quiet)
}

/// Runs the command once more, and looks into the critical sections of the locks of the first run.
/// Where none of them fits into the log with the values that it reads, once more without those.
fn second_run(args: &Replay, first: &Profile) -> Result<Profile, String> {
    let sites = lock_sites(first);
    if sites.is_empty() {
        return Err("the program took no lock that could be looked into".to_owned());
    }
    if !args.quiet {
        let what = "running the command a second time, to see what its critical sections touch";
        Message::new(what, "", "").print();
    }
    let with_values = looked_into(args, &sites, true)?;
    if has_whole_section(&with_values) {
        return Ok(with_values);
    }
    if !args.quiet {
        let what = "its critical sections are too long to keep what they read: once more without";
        Message::new(what, "", "").print();
    }
    looked_into(args, &sites, false)
}

fn looked_into(args: &Replay, sites: &[Site], values: bool) -> Result<Profile, String> {
    let mut options = args.recording.options();
    options.scheduler = convoy_capture::Scheduler::InsteadOfAgent;
    options.diagnose = Some(Diagnose {
        sites: Some(sites.to_vec()),
        values,
        ..Diagnose::default()
    });
    let (recording, _) =
        execute(&options, args).map_err(|_| "the second run of the command failed".to_owned())?;
    record::warn(&recording.warnings, args.quiet);
    Ok(recording.profile)
}

/// Whether any section was looked into to its end, or there was none to look into.
fn has_whole_section(profile: &Profile) -> bool {
    let sites = || profile.sections.iter().flat_map(|of| &of.sites);
    let is_traced = sites().any(|site| site.ends.iter().any(|n| *n > 0));
    !is_traced || sites().any(|site| SectionEnd::count_whole(&site.ends) > 0)
}
