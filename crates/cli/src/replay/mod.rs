//! `convoy replay`: what unnecessary lock contention costs, and what each fix would buy.

mod args;
mod code;
mod names;
mod native;
mod others;
mod refine;
mod source;
mod sources;

use std::ffi::OsString;
use std::time::Duration;

use convoy_model::Model;
use convoy_profile::{FrameIx, Process, Profile};
use convoy_replay::analysis::{Analysis, Verified, WhatIfRow};
use convoy_replay::caveat::Caveat;
use convoy_replay::compose::{analyze, Questions, Schedule, Sets};
use convoy_replay::machine::Machine;
use convoy_replay::predict::{Replayer, Saved};
use convoy_replay::sets::operations::DecodedOperations;
use convoy_replay::sets::{RunKeys, SectionSets};
use convoy_replay::study::Study;
use convoy_replay::ulcp::BothOrders;
use convoy_replayer::calibrate;
use convoy_replayer::verify::VerifyOptions;
use convoy_report::replay::text::{Options, View};
use convoy_report::replay::{json, text};
use convoy_report::text::Source;
use convoy_symbols::CodeFiles;
use convoy_trace::Recording;

use crate::exit::Status;
use crate::message::Message;
use crate::shape::Format;
use crate::show;
pub use args::Replay;
use native::Native;
pub use refine::Trace;
use sources::{Recorded, Touched};

/// Change of the machine's costs during a replay from which on the reader has to know: twice what
/// two calibrations of an idle machine differ by.
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
        show::write_file(file, &convoy_html::replay::page(&analysis))?;
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
    let recording = most_contended(profile)?;
    let process = &profile.processes[recording.process as usize];
    let model = Model::build(without_trace(profile));
    let names = names::names(&recording, process, &model);
    let (machine, caveat) = machine_of(profile);
    let empty = calibrate::empty_from_text(&profile.meta.costs);
    let known = switches(profile, &recording);
    let study = Study::new(&recording, &names, &machine, known, empty);
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
        all_schedules: args.figure == Some(13) || args.all,
        dials: args.html.is_some(),
    };
    let length = Duration::from_nanos(study.fingerprint.wall_ns as u64);
    // Natively an enforced order costs more than it tells where threads outnumber CPUs.
    let free = questions.schedule == Schedule::Orig;
    let native = native(args, profile, length)
        .filter(|_| free)
        .map(|native| Box::new(native) as Box<dyn Replayer>);
    let analysis = analyze(&study, &machine, sets, native, &questions);
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
        analysis.compared.push(of);
    }
    analysis.caveats.extend(caveat);
    if !args.command.is_empty() && !args.simulate_only {
        let now = calibrate::remeasure().machine;
        let changed = calibrate::drift(&machine, &now).map_or(0.0, |drift| drift.factor() - 1.0);
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
    Some(Native::new(exe, args.times, recorded))
}

/// The recording of the process whose threads waited most for locks.
fn most_contended(profile: &Profile) -> Result<Recording, Message> {
    let how = "record one: convoy record --trace -o FILE -- COMMAND, or do all at once: \
               convoy replay -- COMMAND";
    let processes = 0..profile.processes.len() as u32;
    let recordings = processes.map(|ix| convoy_trace::decode(profile, ix));
    let decoded: Vec<Recording> = recordings.filter_map(Result::ok).collect();
    let waited = |recording: &Recording| {
        let sections = convoy_replay::sections::Sections::of(recording);
        let waited: u64 = sections.all.iter().map(|s| s.wait_ns()).sum();
        (waited, sections.all.len())
    };
    decoded.into_iter().max_by_key(waited).ok_or_else(|| {
        Message::new(
            "the profile has no trace: it says how often, but not in which order",
            "nothing can be replayed",
            how,
        )
    })
}

/// What names are made from: a copy of the trace would only take memory.
fn without_trace(profile: &Profile) -> Profile {
    Profile {
        meta: profile.meta.clone(),
        processes: profile.processes.clone(),
        ..Profile::default()
    }
}

/// The machine of the recording; if it is not in the profile, this one, with what the reader has to know.
fn machine_of(profile: &Profile) -> (Machine, Option<Caveat>) {
    let caveat = (!is_this_machine(profile))
        .then(|| Caveat::OtherMachine(format!("recorded on {}", profile.meta.machine.cpu_model)));
    match calibrate::from_text(&profile.meta.costs) {
        Ok(machine) => (machine, caveat),
        Err(_) => (calibrate::calibrate().machine, caveat),
    }
}

/// Whether the profile is of a machine like this one, so that a native replay means something.
fn is_this_machine(profile: &Profile) -> bool {
    let here = convoy_capture::machine();
    let there = &profile.meta.machine;
    (&here.cpu_model, here.cpus_online) == (&there.cpu_model, there.cpus_online)
}

/// Context switches of the process's threads.
fn switches(profile: &Profile, recording: &Recording) -> Option<(f64, f64)> {
    let process = profile.processes.get(recording.process as usize)?;
    let sum = |of: fn(&convoy_profile::Thread) -> u64| {
        process.threads.iter().map(of).fold(0, u64::saturating_add) as f64
    };
    Some((
        sum(|t| t.voluntary_switches),
        sum(|t| t.involuntary_switches),
    ))
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

impl Touched {
    /// Read and write sets of a process's critical sections.
    fn sets(&self, recorded: &Process) -> Result<SectionSets, String> {
        let profile = self.profile.as_ref().map_err(Clone::clone)?;
        // The same program in the other run: its executable.
        let other = profile.processes.iter().position(|p| p.exe == recorded.exe);
        let other = other.ok_or("the other run has no process of this executable")? as u32;
        let model = Model::build(profile.clone());
        let process = &profile.processes[other as usize];
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
