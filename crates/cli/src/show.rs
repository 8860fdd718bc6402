//! From a profile to a report on a stream or in a file.

use std::fs;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use convoy_profile::{Profile, ReadWarning};
use convoy_report::text::{Options, Source, View as Page};
use convoy_report::{json, markdown, text};

use crate::analyze::Judged;
use crate::args::{Report, Run, View};
use crate::diagnose::Diagnose;
use crate::exit::Status;
use crate::last;
use crate::message::Message;
use crate::output_args::{Format, ReportFormat, Shape};
use crate::terminal::Look;
use crate::threshold_args::Limits;

/// `convoy report`.
pub fn report(report: &Report) -> Status {
    match try_report(report) {
        Ok(()) => Status::Success,
        Err(message) => {
            message.print();
            Status::Failure
        }
    }
}

fn try_report(report: &Report) -> Result<(), Message> {
    let path = match &report.file {
        Some(path) => path.clone(),
        None if report.last => {
            let kept = last::kept()?;
            if !report.quiet {
                Message::new(last::age(&kept), "", "").print();
            }
            kept
        }
        None => {
            let newest = newest(Path::new("."))?;
            if !report.quiet {
                Message::new(format!("reading {}", newest.display()), "", "").print();
            }
            newest
        }
    };
    let (profile, damage) = read(&path, report.quiet)?;
    if report.html.is_some() || report.open {
        return crate::html::write(profile, &damage, report);
    }
    let source = match report.last {
        true => Source::Last(last::command()),
        false => Source::File(path.to_string_lossy().into_owned()),
    };
    let stdout = std::io::stdout();
    let look = match report.report_to {
        Some(_) => report.view.shape.look(None),
        None => report.view.shape.look(Some(&stdout)),
    };
    let pages = (&report.view, page(&report.view));
    let text = render(profile, pages, &report.limits, source, look)?;
    match &report.report_to {
        Some(file) => write_file(file, &text),
        None => print(&text),
    }
}

/// Writes a report to standard output.
pub fn print(text: &str) -> Result<(), Message> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Whoever read it has seen enough.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(Message::new(
            format!("standard output: {e}"),
            "the report was not written in full",
            "write it to a file with --report-to",
        )),
        Ok(()) => Ok(()),
    }
}

/// Place of a run's profile while its report is written.
pub enum Kept<'a> {
    /// Nowhere.
    No,
    /// In the file that the user named.
    In(&'a Path),
    /// In the file of `convoy report --last`.
    AsLast,
}

/// Whether a person waits for the report at a terminal, and did not say which page or format: a
/// short one answers, if the rest can be had afterwards.
pub fn is_brief(run: &Run) -> bool {
    let is_told = run.report_to.is_some() || run.view.shape.format != ReportFormat::Text;
    !is_told && page(&run.view) == Page::Summary && std::io::stderr().is_terminal()
}

/// The report at the end of a run, on standard error or in the file that was asked for.
pub fn after_run(profile: Profile, run: &Run, kept: Kept<'_>) -> Result<(), Message> {
    let look = look_after_run(&run.report_to, &run.view.shape);
    let source = match kept {
        Kept::No => Source::Live,
        Kept::In(file) => Source::File(file.to_string_lossy().into_owned()),
        Kept::AsLast => Source::Last(last::command()),
    };
    let wanted = match kept {
        Kept::No => page(&run.view),
        _ if is_brief(run) => Page::Brief,
        _ => page(&run.view),
    };
    let pages = (&run.view, wanted);
    let text = render(profile, pages, &run.limits, source, look)?;
    write_after_run(&run.report_to, &text)
}

/// The report of `convoy diagnose`: the findings, with what the sections decide of them, and then the sections. The
/// findings of an earlier run come before those of this one, which tracing has disturbed.
pub fn sections(judged: &Judged, earlier: Option<Judged>, args: &Diagnose) -> Result<(), Message> {
    let report = judged.report();
    if args.shape.format == Format::Json {
        return write_after_run(&args.report_to, &json::render(&report));
    }
    let look = look_after_run(&args.report_to, &args.shape);
    let page = |report: &convoy_report::Report<'_>, view, source| {
        let options = Options {
            width: look.width,
            color: look.color,
            unicode: look.unicode,
            view,
            source,
            ..Options::default()
        };
        text::render(report, &options).map_err(|why| Message::new(why, "", ""))
    };
    let file = args.profile.as_ref();
    let findings = match (earlier, file) {
        (Some(mut earlier), Some(file)) => {
            earlier.decide_by(judged);
            let source = Source::File(file.to_string_lossy().into_owned());
            page(&earlier.report(), Page::Summary, source)?
        }
        _ => page(&report, Page::Summary, Source::Live)?,
    };
    let sections = page(&report, Page::Sections, Source::Live)?;
    write_after_run(&args.report_to, &format!("{findings}\n{sections}"))
}

fn look_after_run<F>(file: &Option<PathBuf>, shape: &Shape<F>) -> Look
where
    F: ValueEnum + Send + Sync + 'static,
{
    let stderr = std::io::stderr();
    match file {
        Some(_) => shape.look(None),
        None => shape.look(Some(&stderr)),
    }
}

fn write_after_run(file: &Option<PathBuf>, text: &str) -> Result<(), Message> {
    match file {
        Some(file) => write_file(file, text),
        None => {
            crate::message::say(text);
            Ok(())
        }
    }
}

/// Analyses a profile and writes the page that was asked for.
fn render(
    profile: Profile,
    (view, page): (&View, Page),
    limits: &Limits,
    source: Source,
    look: Look,
) -> Result<String, Message> {
    let judged = Judged::new(profile, view.process, limits)?;
    let report = judged.report();
    if view.shape.format == ReportFormat::Json {
        return Ok(json::render(&report));
    }
    let options = Options {
        width: look.width,
        color: look.color && view.shape.format == ReportFormat::Text,
        unicode: look.unicode,
        view: page,
        source,
        ..Options::default()
    };
    let render = match view.shape.format {
        ReportFormat::Markdown => markdown::render,
        ReportFormat::Text | ReportFormat::Json => text::render,
    };
    render(&report, &options).map_err(|why| Message::new(why, "", ""))
}

fn page(view: &View) -> Page {
    match &view.lock {
        Some(pattern) => Page::Lock(pattern.clone()),
        None if view.all => Page::All,
        None if view.thread_groups => Page::ThreadGroups,
        None if view.critical => Page::Critical,
        None if view.sections => Page::Sections,
        None => Page::Summary,
    }
}

/// Reads a profile and tells what of it is missing.
pub fn load(path: &Path, quiet: bool) -> Result<Profile, Message> {
    read(path, quiet).map(|(profile, _)| profile)
}

/// The same; what is missing, to tell it elsewhere, too.
pub fn read(path: &Path, quiet: bool) -> Result<(Profile, Vec<ReadWarning>), Message> {
    let name = path.display();
    let bytes = fs::read(path).map_err(|e| {
        let why = match e.kind() {
            ErrorKind::NotFound => "no such file".into(),
            ErrorKind::PermissionDenied => "permission denied".into(),
            ErrorKind::IsADirectory => "is a directory".into(),
            _ => e.to_string(),
        };
        Message::new(
            format!("{name}: {why}"),
            "nothing to report",
            "name a file that convoy record wrote",
        )
    })?;
    let (mut profile, warnings) =
        Profile::read(&bytes).map_err(|e| Message::new(format!("{name}: {e}"), "", ""))?;
    let losses = warnings.iter().filter(|warning| warning.is_a_loss());
    profile.meta.damage = losses.map(ReadWarning::found).collect();
    if !quiet {
        warnings
            .iter()
            .for_each(|warning| Message::from(warning).print());
    }
    Ok((profile, warnings))
}

pub fn newest(dir: &Path) -> Result<PathBuf, Message> {
    let files = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            let is_profile = path
                .extension()
                .is_some_and(|extension| extension == "convoy");
            let modified = entry
                .metadata()
                .ok()
                .filter(fs::Metadata::is_file)?
                .modified()
                .ok()?;
            is_profile.then_some((modified, path))
        });
    files
        .max()
        .map(|(_, path)| path.strip_prefix(".").map(Path::to_owned).unwrap_or(path))
        .ok_or_else(|| {
            Message::new(
                "there is no *.convoy file in this directory",
                "nothing to report",
                "name one: convoy report FILE, or make one: convoy record -- COMMAND",
            )
        })
}

pub fn write_file(path: &Path, text: &str) -> Result<(), Message> {
    fs::write(path, text).map_err(|e| {
        Message::new(
            format!("{}: {e}", path.display()),
            "the report was not written",
            "choose another file with --report-to",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_profile_of_a_directory_is_found() {
        let dir = tempfile::tempdir().unwrap();
        assert!(newest(dir.path()).is_err());
        fs::write(dir.path().join("notes.txt"), "x").unwrap();
        fs::create_dir(dir.path().join("dir.convoy")).unwrap();
        assert!(newest(dir.path()).is_err());
        let (old, new) = (dir.path().join("a.convoy"), dir.path().join("b.convoy"));
        fs::write(&new, "x").unwrap();
        let file = fs::File::create(&old).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        assert_eq!(newest(dir.path()).unwrap(), new);
    }
}
