//! What was recorded and found, in the formats of other tools: pprof, the Firefox Profiler, Perfetto, folded
//! stacks, CSV and JSON lines. Pure: a report in, bytes out. docs/exports.md says what is in each.

#![forbid(unsafe_code)]

mod csv;
mod firefox;
mod folded;
mod jsonl;
mod moments;
mod perfetto;
mod pprof;
mod stacks;
mod waits;

use std::collections::BTreeMap;
use std::io;

use convoy_profile::Profile;
use convoy_report::Report;

pub use csv::tables as csv_tables;

/// A format of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// pprof, gzipped: waits for locks at the stack of who held them (Go's mutex profile).
    PprofMutex,
    /// pprof, gzipped: waits at the stack of who waited (Go's block profile).
    PprofBlock,
    /// The Firefox Profiler's processed format, JSON.
    Firefox,
    /// Perfetto's trace format.
    Perfetto,
    /// Folded stacks: time off the processors, microseconds.
    FoldedOffCpu,
    /// Folded stacks: waits that the agent saw, microseconds.
    FoldedWaits,
    /// Folded stacks: CMetric (GAPP, ICPE'20, section 3.1), microseconds.
    FoldedCmetric,
    /// The JSON report, one row a line.
    JsonLines,
}

/// A report, and what of the profile itself the formats need.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// What was recorded and found.
    pub report: &'a Report<'a>,
    /// The files whose code is in it.
    pub files: &'a Files,
}

/// Mapped files by their file names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files(BTreeMap<String, File>);

/// A mapped file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct File {
    path: String,
    build_id: String,
}

impl Files {
    /// Those of a profile.
    pub fn of(profile: &Profile) -> Self {
        let modules = profile.processes.iter().flat_map(|p| &p.modules);
        let files = modules.map(|module| {
            let name = module.path.rsplit('/').next().unwrap_or_default();
            let build_id = module.build_id.iter().map(|b| format!("{b:02x}"));
            let file = File {
                path: module.path.clone(),
                build_id: build_id.collect(),
            };
            (name.to_owned(), file)
        });
        Self(files.collect())
    }

    fn get(&self, name: &str) -> Option<&File> {
        self.0.get(name)
    }
}

/// Why there is nothing to write.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The profile lacks what the format shows.
    #[error("{0}")]
    Missing(&'static str),
    /// The output could not be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes `source` in a format. Returns remarks for whoever asked: what the profile could not give.
///
/// # Errors
/// The profile has nothing that the format could show, or `out` fails.
pub fn write(
    format: Format,
    source: &Source<'_>,
    out: &mut dyn io::Write,
) -> Result<Vec<String>, Error> {
    match format {
        Format::PprofMutex => pprof::mutex(source, out),
        Format::PprofBlock => pprof::block(source, out),
        Format::Firefox => firefox::profile(source, out),
        Format::Perfetto => perfetto::trace(source.report, out),
        Format::FoldedOffCpu => folded::off_cpu(source.report, out),
        Format::FoldedWaits => folded::waits(source.report, out),
        Format::FoldedCmetric => folded::cmetric(source.report, out),
        Format::JsonLines => jsonl::lines(source.report, out),
    }
}
