//! `convoy replay`: what unnecessary lock contention costs, and what each fix would buy.

mod args;
mod code;
mod names;
mod native;
mod order;
mod others;
mod refine;
mod source;
mod sources;
mod traced;

use std::ffi::OsString;
use std::time::Duration;

use convoy_model::Model;
use convoy_profile::{FrameIx, Process, Profile};
use convoy_replay::analysis::{Analysis, Verified, WhatIfRow};
use convoy_replay::caveat::Caveat;
use convoy_replay::compose::{analyze, Questions, Schedule, Sets};
use convoy_replay::predict::{Replayer, Saved};
use convoy_replay::sets::operations::DecodedOperations;
use convoy_replay::sets::{RunKeys, SectionSets};
use convoy_replay::ulcp::BothOrders;
use convoy_replayer::calibrate;
use convoy_replayer::verify::VerifyOptions;
use convoy_report::replay::text::{Options, View};
use convoy_report::replay::{json, text};
use convoy_report::text::Source;
use convoy_symbols::CodeFiles;

use crate::exit::Status;
use crate::message::Message;
use crate::output_args::Format;
use crate::show;
pub use args::Replay;
use native::Native;
pub use refine::Trace;
use sources::{Recorded, Touched};
use traced::{busy, is_this_machine, other_machine, Traced};

/// Change of the machine's speed during a replay from which on the reader has to know.
const DRIFT: f64 = 0.3;

/// Records if asked to, replays, reports.
pub fn replay(args: &Replay) -> Status {
    match try_replay(args) {
        Ok(status) => status,
        Err(message) => {
            message.print();
            if args.command.is_empty() {
                Status::Failure
            } else {
                Status::OwnFailure
            }
        }
    }
}

fn try_replay(args: &Replay) -> Result<Status, Message> {
    let recorded = match sources::recorded(args)? {
        Ok(recorded) => recorded,
        Err(status) => return Ok(status),
    };
    let analysis = study(&recorded, args)?;
    let text = render(&analysis, &recorded, args)?;
    match (&args.report_to, args.command.is_empty()) {
        (Some(file), _) => show::write_file(file, &text)?,
        (None, true) => show::print(&text)?,
        (None, false) => crate::message::say(&text),
    }
    if let Some(file) = &args.html {
        crate::html::write_page(file, &convoy_html::replay::page(&analysis), args.quiet)?;
    }
    Ok(recorded.status)
}

fn render(analysis: &Analysis, recorded: &Recorded, args: &Replay) -> Result<String, Message> {
    if args.shape.format == Format::Json {
        return Ok(json::render(analysis));
    }
    let stdout = std::io::stdout();
    let stderr = std::io::stderr();
    let look = match (&args.report_to, args.command.is_empty()) {
        (Some(_), _) => args.shape.look(None),
        (None, true) => args.shape.look(Some(&stdout)),
        (None, false) => args.shape.look(Some(&stderr)),
    };
    let view = match (args.table, args.figure) {
        (Some(table), _) => View::Table(u32::from(table)),
        (_, Some(figure)) => View::Figure(u32::from(figure)),
        _ if args.source => View::Source,
        _ if args.all => View::All,
        _ => View::Summary,
    };
    let from = recorded.file.as_ref().map_or(Source::Live, |file| {
        Source::File(file.to_string_lossy().into_owned())
    });
    let options = Options {
        width: look.width,
        color: look.color,
        unicode: look.unicode,
        view,
        from,
    };
    text::render(analysis, &options).map_err(|why| Message::new(why, "", ""))
}

/// Replays the process of most lock waits.
fn study(recorded: &Recorded, args: &Replay) -> Result<Analysis, Message> {
    let Recorded { profile, .. } = recorded;
    let traced = Traced::of(profile)?;
    let process = traced.process(profile);
    let names = names::names(&traced.recording, profile);
    let study = traced.study(&names);
    let keys = RunKeys::of(process);
    let sets = recorded.touched.sets(process);
    let files = CodeFiles::default();
    let code = |address| recorded.touched.code(process, &files, address);
    let none = SectionSets::default();
    let oracle = BothOrders::new(sets.as_ref().unwrap_or(&none), &code);
    let sets = match &sets {
        Ok(sets) => Ok(Sets {
            sets,
            keys: &keys,
            oracle: &oracle,
        }),
        Err(why) => Err(why.clone()),
    };
    let questions = Questions {
        what_ifs: args.what_if.clone(),
        cpus: args.cpus.map(args::Range::numbers).unwrap_or_default(),
        threads: args
            .threads
            .clone()
            .map(|(group, range)| (group, range.numbers())),
        times: 1,
        schedule: schedule(args.schedule)?,
        repeats: (args.figure == Some(13) || args.all).then_some(args.times),
        dials: args.html.is_some(),
    };
    let length = Duration::from_nanos(study.fingerprint.wall_ns as u64);
    let native = native(args, profile, length).map(|native| Box::new(native) as Box<dyn Replayer>);
    let analysis = analyze(&study, &traced.machine, sets, native, &questions);
    let mut analysis = analysis.map_err(|error| {
        Message::new(
            error.to_string(),
            "nothing was replayed",
            "docs/replay.md has all what-ifs; convoy replay without --what-if names the locks",
        )
    })?;
    analysis.command.clone_from(&profile.meta.command);
    analysis.pid = process.pid;
    source::fill(&mut analysis);
    if let Some(first) = analysis.compared.first_mut() {
        others::label(first, profile);
    }
    for (other, touched) in &recorded.others {
        let of = others::analyzed(other, [touched, &recorded.touched])?;
        let first = analysis.compared.first().map(|first| first.program.clone());
        if let Some(first) = first.filter(|first| *first != of.program) {
            let found = format!(
                "a recording is of another program ({}, not {first}): compare recordings of one",
                of.program
            );
            analysis.caveats.push(Caveat::Other(found));
        }
        analysis.compared.push(of);
    }
    analysis.caveats.extend(other_machine(profile));
    analysis
        .caveats
        .extend(busy(profile, traced.recording.cpus));
    if native::ran_out_of_time(&analysis) {
        let limit = args.native_limit.into();
        analysis.caveats.push(Caveat::OutOfTime(limit));
    }
    if !args.command.is_empty() && !args.simulate_only {
        let now = calibrate::remeasure().machine;
        let changed = calibrate::drift(&traced.machine, &now) - 1.0;
        if changed >= DRIFT {
            analysis.caveats.push(Caveat::Drift(changed));
        }
    }
    if !args.verify.is_empty() {
        verify(&mut analysis, profile, args)?;
    }
    Ok(analysis)
}

fn schedule(asked: args::Schedule) -> Result<Schedule, Message> {
    match asked {
        args::Schedule::Orig => Ok(Schedule::Orig),
        args::Schedule::Elsc => Ok(Schedule::Elsc),
        args::Schedule::Sync => Ok(Schedule::Sync),
        args::Schedule::Mem => Err(Message::new(
            "--schedule mem needs the order of all accesses to shared memory, which is not recorded",
            "nothing was replayed",
            "choose orig, elsc or sync",
        )),
    }
}

/// Measures the fixed program against the recorded one, beside the first prediction.
fn verify(analysis: &mut Analysis, profile: &Profile, args: &Replay) -> Result<(), Message> {
    let original: Vec<OsString> = profile.meta.command.iter().map(OsString::from).collect();
    let measured =
        convoy_replayer::verify::verify(&original, &args.verify, &VerifyOptions::default());
    let measured = measured.map_err(|error| {
        Message::new(
            error.to_string(),
            "the fix was not measured",
            "both commands must run here, in this directory, and end with status 0",
        )
    })?;
    let verified = Verified {
        saved: Saved {
            low: measured.saved.low,
            mid: measured.saved.mid,
            high: measured.saved.high,
        },
        pairs: measured.pairs as usize,
    };
    if analysis.what_ifs.is_empty() {
        analysis.what_ifs.push(WhatIfRow::default());
    }
    analysis.what_ifs[0].verified = Some(verified);
    Ok(())
}

/// `None` = it was not wanted, means nothing here, or convoy's own file is not known.
fn native(args: &Replay, profile: &Profile, recorded: Duration) -> Option<Native> {
    let wanted = !args.simulate_only && is_this_machine(profile);
    let exe = std::env::current_exe().ok().filter(|_| wanted)?;
    let limit = Duration::from_secs(args.native_limit.into());
    Some(Native::new(exe, args.times, recorded, limit))
}

/// Code from a frame's instruction on, and its address.
fn code_at(process: &Process, files: &CodeFiles, frame: FrameIx) -> Option<(Vec<u8>, u64)> {
    /// An instruction that changes a word, and those that may use its flags.
    const BYTES: usize = 64;
    let frame = process.frames.get(frame as usize)?;
    let module = process.modules.get(frame.module? as usize)?;
    let code = files.read(&module.path, frame.offset, BYTES)?;
    Some((code, frame.offset))
}

/// The process of another run that runs the same program: its executable.
fn same_program<'a>(profile: &'a Profile, recorded: &Process) -> Option<(u32, &'a Process)> {
    let mut processes = (0..).zip(&profile.processes);
    processes.find(|(_, process)| process.exe == recorded.exe)
}

impl Touched {
    /// Read and write sets of a process's critical sections.
    fn sets(&self, recorded: &Process) -> Result<SectionSets, String> {
        let profile = self.profile.as_ref().map_err(Clone::clone)?;
        let other = same_program(profile, recorded);
        let (other, process) = other.ok_or("the other run has no process of this executable")?;
        let model = Model::build(profile.clone());
        let sets = {
            let code = CodeFiles::default();
            let operations = DecodedOperations(|frame| code_at(process, &code, frame));
            SectionSets::of(profile, &model, other, &operations)
        };
        if sets.samples.is_empty() {
            return Err("no critical section of its locks was looked into".into());
        }
        Ok(sets)
    }
}
