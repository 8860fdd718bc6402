//! `convoy diff`: what changed between runs.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use convoy_compare::{Comparison, File, Gate, Limit, Summary};

use crate::analyze::Judged;
use crate::exit::Status;
use crate::message::Message;
use crate::show;
use crate::threshold_args::Limits;

/// `convoy diff`.
#[derive(Debug, Args)]
#[command(
    override_usage = "convoy diff [OPTIONS] BEFORE AFTER\n       convoy diff [OPTIONS] BEFORE... -- AFTER...",
    after_help = "Exit status: 0, 1 if a limit of --fail-on does not hold, else 2 if one cannot be judged or on failure"
)]
pub struct Diff {
    /// Profile before the change, and the one after it; of several runs, those before it
    #[arg(value_name = "BEFORE", required = true, num_args = 1..)]
    before: Vec<PathBuf>,

    /// Profiles after the change: three or more on each side give intervals
    #[arg(value_name = "AFTER", last = true)]
    after: Vec<PathBuf>,

    /// Limit that must hold: 'lock.wait_share>+5pp', 'wall>+3%', 'findings.new>0'; may be given several times
    ///
    /// METRIC>BOUND or METRIC<BOUND fails. METRIC: wall, cpu, locks.wait_share (all locks together),
    /// lock.wait_share, lock.wait, lock.contended, lock.acquisitions (any lock, or lock[NAME].wait), findings,
    /// findings.new, gain, gain.new (predicted, of the largest or of any new finding). BOUND: with a sign a change
    /// (+5pp points, +10% of the value before, +20ms), without one the value after (10%, 2s, 100, 1.2x). With
    /// three or more runs a side, the whole 95 % interval must be beyond it. What the runs cannot tell is not judged: the
    /// reason is said, and the exit status is 2, or 1 if another limit does not hold.
    #[arg(long, value_name = "LIMIT")]
    fail_on: Vec<Limit>,

    /// Format of the comparison
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    format: Format,

    /// Also what did not change
    #[arg(long)]
    all: bool,

    /// Write the comparison to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    limits: Limits,

    /// Say nothing but the comparison and errors
    #[arg(short, long)]
    quiet: bool,
}

/// Formats of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For a person
    Text,
    /// For a program, see docs/diff.md
    Json,
    /// For a comment on a change
    Markdown,
    /// For code hosts, SARIF 2.1.0
    Sarif,
}

/// Compares, prints, and says whether the limits hold.
pub fn diff(diff: &Diff) -> Status {
    match try_diff(diff) {
        // What is known to be worse must not hide behind what is not known.
        Ok(gate) if !gate.breaches.is_empty() => Status::BeyondLimit,
        Ok(gate) if !gate.not_judged.is_empty() => Status::Failure,
        Ok(_) => Status::Success,
        Err(message) => {
            message.print();
            Status::Failure
        }
    }
}

fn try_diff(diff: &Diff) -> Result<Gate, Message> {
    let (before, after) = sides(diff)?;
    let summaries = |paths: &[PathBuf]| {
        let runs = paths.iter().map(|path| summary(path, diff));
        runs.collect::<Result<Vec<_>, _>>()
    };
    let (before, after) = (summaries(before)?, summaries(after)?);
    let comparison = convoy_compare::compare(&before, &after).map_err(|e| {
        Message::new(
            e.to_string(),
            "there is nothing to compare",
            "record again; convoy report FILE says what a profile has",
        )
    })?;
    let gate = Gate::of(&diff.fail_on, &comparison);
    write(diff, &render(diff, &comparison, &gate))?;
    // Somebody who only looks at the exit status should find the reason in the log.
    if diff.output.is_some() || diff.format != Format::Text {
        for breach in &gate.breaches {
            Message::new(format!("limit {}", breach.limit), &breach.found, "").print();
        }
    }
    // A gate that is neither open nor shut is a fault of how it is used: told wherever the comparison goes.
    for open in &gate.not_judged {
        let (why, fix) = (&open.doubt.why, &open.doubt.fix);
        Message::new(why, format!("limit {} is not judged", open.limit), fix).print();
    }
    Ok(gate)
}

/// Two files, or two groups of them with `--` between.
fn sides(diff: &Diff) -> Result<(&[PathBuf], &[PathBuf]), Message> {
    match (diff.before.as_slice(), diff.after.as_slice()) {
        ([before, after], []) => Ok((std::slice::from_ref(before), std::slice::from_ref(after))),
        (_, []) => Err(Message::new(
            match diff.before.len() {
                1 => "one profile, and nothing to compare it with".into(),
                n => format!("{n} profiles, and no -- between them"),
            },
            "which are before the change and which after it is not known",
            "convoy diff BEFORE AFTER, or convoy diff BEFORE... -- AFTER...",
        )),
        sides => Ok(sides),
    }
}

fn summary(path: &Path, diff: &Diff) -> Result<Summary, Message> {
    let (profile, damage) = show::read(path, diff.quiet)?;
    let file = File::of(&profile, &damage);
    let judged = Judged::new(profile, None, &diff.limits)?;
    Ok(Summary::of(&path.to_string_lossy(), &judged.report()).with_file(&file))
}

fn render(diff: &Diff, comparison: &Comparison, gate: &Gate) -> String {
    match diff.format {
        Format::Text => convoy_compare::text(comparison, gate, diff.all),
        Format::Json => convoy_compare::json(comparison, gate),
        Format::Markdown => convoy_compare::markdown(comparison, gate),
        Format::Sarif => convoy_compare::sarif(comparison, gate, env!("CARGO_PKG_VERSION")),
    }
}

fn write(diff: &Diff, text: &str) -> Result<(), Message> {
    if let Some(path) = &diff.output {
        return std::fs::write(path, text).map_err(|e| {
            Message::new(
                format!("{}: {e}", path.display()),
                "the comparison was not written",
                "choose another file with -o",
            )
        });
    }
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Whoever read it has seen enough.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(Message::new(
            format!("standard output: {e}"),
            "the comparison was not written in full",
            "write it to a file with -o",
        )),
        Ok(()) => Ok(()),
    }
}
