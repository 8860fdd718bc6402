//! `convoy export`: a profile in the format of another tool.

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use convoy_export::{Error, Files, Source};
use convoy_profile::Profile;

use crate::analyze::Judged;
use crate::exit::Status;
use crate::message::Message;
use crate::show;
use crate::threshold_args::Limits;

/// `convoy export`.
#[derive(Debug, Args)]
pub struct Export {
    /// Profile to read; without one, the newest *.convoy file of this directory
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// What to write; docs/exports.md says what is in each [default: what OUT's suffix says]
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    format: Option<Format>,

    /// File to write, or with csv a directory [default: standard output]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,

    /// Of csv, only this table: locks, sites, threads, ...
    #[arg(long, value_name = "NAME")]
    table: Option<String>,

    /// Only this process of the recording, and only its locks
    #[arg(long, value_name = "PID")]
    process: Option<u32>,

    #[command(flatten)]
    limits: Limits,

    /// Say nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

/// Formats of other tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// pprof: CPU time, at the call stack of who ran (as Go's CPU profile)
    PprofCpu,
    /// pprof: waits for locks, at the call stack of who held them (as Go's mutex profile)
    PprofMutex,
    /// pprof: all waits for others, at the call stack of who waited (as Go's block profile)
    PprofBlock,
    /// The Firefox Profiler: what every thread did when, waits, wake-ups, findings
    Firefox,
    /// Perfetto: the same with context switches, for its critical path
    Perfetto,
    /// Folded stacks for flame graphs: off-CPU time if the scheduler was listened to, else waits
    Folded,
    /// Folded stacks: time off the CPUs, us
    FoldedOffCpu,
    /// Folded stacks: waits for locks, conditions, joins, ..., us
    FoldedWaits,
    /// Folded stacks: CMetric, us
    FoldedCmetric,
    /// Tables with names: a directory, or one table
    Csv,
    /// Coz's viewer: the experiments of `convoy causal -o`
    Coz,
    /// The JSON report, a row a line
    Jsonl,
    /// The trace of `--trace`, an event a line (CSV): thread, time, kind, object, call site
    Events,
}

/// Formats by the suffix of a file's name: those that tell one.
const SUFFIXES: [(&str, Format); 7] = [
    (".perfetto-trace", Format::Perfetto),
    (".pftrace", Format::Perfetto),
    (".folded", Format::Folded),
    (".coz", Format::Coz),
    (".jsonl", Format::Jsonl),
    (".json", Format::Firefox),
    (".csv", Format::Csv),
];

impl Export {
    /// The format that was asked for, or that of the output's suffix.
    fn format(&self) -> Result<Format, Message> {
        if let Some(format) = self.format {
            return Ok(format);
        }
        let Some(output) = &self.output else {
            return Err(Message::new(
                "neither a format nor a file was named",
                "nothing was written",
                "choose one with --format, or name a file with -o, as in -o trace.pftrace",
            ));
        };
        let name = output.to_string_lossy();
        let of_suffix = SUFFIXES
            .iter()
            .find(|(suffix, _)| name.ends_with(suffix))
            .map(|(_, format)| *format);
        of_suffix.ok_or_else(|| {
            let known: Vec<&str> = SUFFIXES.iter().map(|(suffix, _)| *suffix).collect();
            Message::new(
                format!("{name}: its suffix says no format"),
                "nothing was written",
                format!(
                    "choose one with --format (pprof has three), or a suffix of {}",
                    known.join(", ")
                ),
            )
        })
    }
}

/// Writes a profile in another format.
pub fn export(export: &Export) -> Status {
    match try_export(export) {
        Ok(()) => Status::Success,
        Err(message) => {
            message.print();
            Status::Failure
        }
    }
}

fn try_export(export: &Export) -> Result<(), Message> {
    let path = match &export.file {
        Some(path) => path.clone(),
        None => show::newest(Path::new("."))?,
    };
    let format = export.format()?;
    let profile = show::load(&path, export.quiet)?;
    if export.table.is_some() && format != Format::Csv {
        return Err(Message::new(
            "--table was given for a format without tables",
            "nothing was written",
            "leave it out, or choose --format csv",
        ));
    }
    if format == Format::Events {
        return with_output(export, format, &mut |out| {
            convoy_export::events(&profile, export.process, out)
        });
    }
    if format == Format::Coz {
        let text = coz(&profile)?;
        return with_output(export, format, &mut |out| {
            Ok(out.write_all(text.as_bytes())?)
        });
    }
    let files = Files::of(&profile);
    let listened = profile.sched.is_some();
    let judged = Judged::new(profile, export.process, &export.limits)?;
    let source = Source {
        report: &judged.report(),
        files: &files,
    };
    let written = match format {
        Format::PprofCpu => convoy_export::Format::PprofCpu,
        Format::PprofMutex => convoy_export::Format::PprofMutex,
        Format::PprofBlock => convoy_export::Format::PprofBlock,
        Format::Firefox => convoy_export::Format::Firefox,
        Format::Perfetto => convoy_export::Format::Perfetto,
        Format::Folded if listened => convoy_export::Format::FoldedOffCpu,
        Format::FoldedOffCpu => convoy_export::Format::FoldedOffCpu,
        Format::Folded | Format::FoldedWaits => convoy_export::Format::FoldedWaits,
        Format::FoldedCmetric => convoy_export::Format::FoldedCmetric,
        Format::Jsonl => convoy_export::Format::JsonLines,
        Format::Csv | Format::Events | Format::Coz => return csv(export, &source),
    };
    let remarks = with_output(export, format, &mut |out| {
        convoy_export::write(written, &source, out)
    })?;
    if !export.quiet {
        remarks
            .iter()
            .for_each(|remark| Message::new(remark, "", "").print());
    }
    Ok(())
}

/// The windows of a profile's experiments.
fn coz(profile: &Profile) -> Result<String, Message> {
    let nothing = |found: &str, fix: &str| Message::new(found, "nothing was written", fix);
    let Some(experiments) = &profile.experiments else {
        return Err(nothing(
            "the profile holds no experiments",
            "make some: convoy causal -o FILE -- COMMAND",
        ));
    };
    let report = convoy_causal::Report::kept(experiments, &profile.meta.command);
    match convoy_causal::coz(&report) {
        text if text.is_empty() => Err(nothing(
            "no target of the experiments has a number",
            "convoy report FILE says why",
        )),
        text => Ok(text),
    }
}

/// All tables into a directory, or one into a file.
fn csv(export: &Export, source: &Source<'_>) -> Result<(), Message> {
    let tables = convoy_export::csv_tables(source.report).map_err(|e| failed(export, &e))?;
    if let Some(name) = &export.table {
        let names: Vec<_> = tables.iter().map(|t| t.name.as_str()).collect();
        let table = tables.iter().find(|t| t.name == *name).ok_or_else(|| {
            Message::new(
                format!("the profile has no table {name}"),
                "nothing was written",
                format!("one of: {}", names.join(", ")),
            )
        })?;
        return with_output(export, Format::Csv, &mut |out| {
            Ok(out.write_all(&table.text)?)
        });
    }
    let Some(directory) = &export.output else {
        return Err(Message::new(
            "csv is many tables, and no directory was named",
            "nothing was written",
            "name one with -o DIRECTORY, or choose one table with --table locks",
        ));
    };
    let write = || {
        fs::create_dir_all(directory)?;
        tables.iter().try_for_each(|table| {
            fs::write(directory.join(format!("{}.csv", table.name)), &table.text)
        })
    };
    write().map_err(|e| failed(export, &Error::Io(e)))
}

/// Opens the output, writes, and leaves no file that is only half there.
fn with_output<T: Default>(
    export: &Export,
    format: Format,
    write: &mut dyn FnMut(&mut dyn Write) -> Result<T, Error>,
) -> Result<T, Message> {
    let Some(path) = &export.output else {
        let stdout = std::io::stdout();
        if stdout.is_terminal() && binary(format) {
            return Err(Message::new(
                "the format is binary and standard output is a terminal",
                "nothing was written",
                "name a file with -o FILE",
            ));
        }
        let mut out = BufWriter::new(stdout.lock());
        return match write(&mut out).and_then(|value| Ok(out.flush().map(|()| value)?)) {
            // Whoever read it has seen enough.
            Err(Error::Io(e)) if e.kind() == ErrorKind::BrokenPipe => Ok(T::default()),
            result => result.map_err(|e| failed(export, &e)),
        };
    };
    let file = File::create(path).map_err(|e| failed(export, &Error::Io(e)))?;
    let mut out = BufWriter::new(file);
    let written = write(&mut out).and_then(|value| Ok(out.flush().map(|()| value)?));
    written.map_err(|e| {
        if fs::metadata(path).is_ok_and(|m| m.is_file()) {
            // What cannot be removed is at least named in the message.
            let _ = fs::remove_file(path);
        }
        failed(export, &e)
    })
}

fn binary(format: Format) -> bool {
    matches!(
        format,
        Format::PprofCpu | Format::PprofMutex | Format::PprofBlock | Format::Perfetto
    )
}

fn failed(export: &Export, error: &Error) -> Message {
    match error {
        Error::Missing(what) => Message::new(
            *what,
            "nothing was written",
            "record as root, or with CAP_BPF and CAP_PERFMON; convoy doctor says what is missing",
        ),
        Error::NoTrace => Message::new(
            "the profile holds no trace",
            "nothing was written",
            "record one: convoy record --trace -o FILE -- COMMAND",
        ),
        Error::Io(e) => {
            let name = export.output.as_ref().map_or_else(
                || "standard output".to_owned(),
                |path| path.display().to_string(),
            );
            Message::new(
                format!("{name}: {e}"),
                "the export was not written",
                "choose another place with -o",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Export, Format};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        export: Export,
    }

    fn format(arguments: &[&str]) -> Result<Format, String> {
        let line = Line::try_parse_from([&["export"], arguments].concat());
        let export = line.map_err(|e| e.to_string())?.export;
        export.format().map_err(|message| message.line())
    }

    #[test]
    fn the_suffix_says_the_format_unless_one_is_named() {
        assert_eq!(format(&["-o", "a/run.pftrace"]), Ok(Format::Perfetto));
        assert_eq!(format(&["-o", "run.folded"]), Ok(Format::Folded));
        assert_eq!(format(&["-o", "x.json", "-f", "jsonl"]), Ok(Format::Jsonl));
    }

    #[test]
    fn a_suffix_that_says_none_is_named_with_those_that_do() {
        let why = format(&["-o", "run.pb.gz"]).unwrap_err();
        assert!(
            why.contains("run.pb.gz") && why.contains(".pftrace"),
            "{why}"
        );
        assert!(format(&[]).is_err());
    }
}
