//! What was recorded and found, in the formats of other tools: pprof, the Firefox Profiler, Perfetto, folded
//! stacks, CSV and JSON lines. Pure: a report in, bytes out. docs/exports.md says what is in each.

#![forbid(unsafe_code)]

mod csv;
mod events;
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
pub use events::events;
pub use pprof::{Facts, Pprof, Rows};

/// A format of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// pprof, gzipped: CPU time at the stack of who ran (Go's CPU profile).
    PprofCpu,
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

    /// Adds those of a later profile.
    pub fn merge(&mut self, more: Self) {
        self.0.extend(more.0);
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
    /// The profile, or the process asked for, has no trace.
    #[error("the profile holds no trace")]
    NoTrace,
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
    let mut counted = Counted { out, bytes: 0 };
    let mut remarks = write_as(format, source, &mut counted)?;
    remarks.extend(too_large(format, counted.bytes));
    Ok(remarks)
}

fn write_as(
    format: Format,
    source: &Source<'_>,
    out: &mut dyn io::Write,
) -> Result<Vec<String>, Error> {
    match format {
        Format::PprofCpu => pprof::profile(Pprof::Cpu, source, out),
        Format::PprofMutex => pprof::profile(Pprof::Mutex, source, out),
        Format::PprofBlock => pprof::profile(Pprof::Block, source, out),
        Format::Firefox => firefox::profile(source, out),
        Format::Perfetto => perfetto::trace(source.report, out),
        Format::FoldedOffCpu => folded::off_cpu(source.report, out),
        Format::FoldedWaits => folded::waits(source.report, out),
        Format::FoldedCmetric => folded::cmetric(source.report, out),
        Format::JsonLines => jsonl::lines(source.report, out),
    }
}

/// What to say of a file that its viewer cannot take in a browser.
fn too_large(format: Format, bytes: u64) -> Option<String> {
    // Chromium reads a JSON document as one string, and V8's strings end there; Perfetto's page has 4 GiB for what
    // becomes at least twice as large in it.
    let (most, instead) = match format {
        Format::Firefox => (512 << 20, "use --format perfetto"),
        Format::Perfetto => (
            2 << 30,
            "serve it to the page with trace_processor --httpd OUT",
        ),
        _ => return None,
    };
    (bytes > most).then(|| {
        format!(
            "{} MiB are more than a browser reads of this format ({} MiB): {instead}, or record with fewer \
             --timeline-events",
            bytes >> 20,
            most >> 20,
        )
    })
}

/// Counts what it writes.
struct Counted<'a> {
    out: &'a mut dyn io::Write,
    bytes: u64,
}

impl io::Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_no_browser_reads_is_pointed_out() {
        assert_eq!(too_large(Format::Firefox, 512 << 20), None);
        let remark = too_large(Format::Firefox, 600 << 20).unwrap();
        assert!(remark.contains("600 MiB") && remark.contains("--timeline-events"));
        assert_eq!(too_large(Format::Perfetto, 600 << 20), None);
        assert!(too_large(Format::Perfetto, 3 << 30).is_some());
        assert_eq!(too_large(Format::JsonLines, u64::MAX), None);
    }
}
