//! pprof's format, in the shape of Go's and Abseil's profiles, so that whatever reads those reads
//! these: two values a sample, `contentions/count` and `delay/nanoseconds`, or of CPU time
//! `samples/count` and `cpu/nanoseconds`.

mod block;
mod cpu;
mod mutex;
mod proto;
mod rows;
mod writer;

use std::io::Write;

use convoy_model::{Model, ObjectId, SiteFrame, ThreadId};
use convoy_report::{names, Report};
use flate2::write::GzEncoder;
use flate2::Compression;
use prost::Message;

use crate::stacks::{process_name, thread, thread_name};
use crate::waits::object_name;
use crate::{Error, Files, Source};
use rows::{text, Label, Labels};
use writer::Writer;

pub use rows::Rows;

/// What a pprof profile shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pprof {
    /// CPU time at the stack of who ran.
    Cpu,
    /// Waits for locks at the stack of who held them.
    Mutex,
    /// Waits at the stack of who waited.
    Block,
}

impl Pprof {
    /// The samples of a report, and remarks for people.
    ///
    /// # Errors
    /// The profile lacks scheduler events, which CPU time is known from.
    pub fn rows(self, report: &Report<'_>) -> Result<(Rows, Vec<String>), Error> {
        match self {
            Self::Cpu => Ok((cpu::rows(report.model)?, Vec::new())),
            Self::Mutex => Ok(mutex::rows(report)),
            Self::Block => Ok(block::rows(report)),
        }
    }

    /// Writes samples as a gzipped profile.
    ///
    /// # Errors
    /// `out` fails.
    pub fn write(
        self,
        rows: &Rows,
        facts: &Facts,
        files: &Files,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let mut w = Writer::new(self, facts.sample_period_ns, files);
        // The first file is the program, for those who show one.
        w.mapping(&facts.program);
        w.time(facts.started_unix_ns, facts.wall_ns);
        facts.comments.iter().for_each(|text| w.comment(text));
        for (frames, labels, sum) in rows.iter() {
            let labels = labels.iter().map(|(key, label)| match label {
                Label::Text(value) => w.label(key, value),
                Label::Number(value) => w.number(key, *value),
            });
            let labels = labels.collect();
            w.sample(frames, sum.count, sum.ns, labels);
        }
        let mut gz = GzEncoder::new(out, Compression::default());
        gz.write_all(&w.finish().encode_to_vec())?;
        gz.finish()?;
        Ok(())
    }
}

/// When and how a profile was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its begin, nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
    /// Its length, nanoseconds.
    pub wall_ns: u64,
    /// CPU time between two samples, nanoseconds.
    pub sample_period_ns: u64,
    /// File name of the executable; may be empty.
    pub program: String,
    /// Remarks for people.
    pub comments: Vec<String>,
}

impl Facts {
    /// Of a recording.
    pub fn of(model: &Model) -> Self {
        let meta = &model.meta;
        let sched = model.sched.as_ref();
        let program = model.processes.first().map(|process| process.name.clone());
        Self {
            program: program.unwrap_or_default(),
            started_unix_ns: meta.started_unix_ns,
            wall_ns: meta.end_ns.saturating_sub(meta.start_ns),
            sample_period_ns: sched.map_or(0, |sched| sched.sample_period_ns),
            comments: vec![
                format!("convoy {}", meta.convoy_version),
                meta.command.join(" "),
            ],
        }
    }
}

/// A report as a profile; returns remarks for people.
pub fn profile(
    kind: Pprof,
    source: &Source<'_>,
    out: &mut dyn Write,
) -> Result<Vec<String>, Error> {
    let (rows, remarks) = kind.rows(source.report)?;
    let facts = Facts::of(source.report.model);
    kind.write(&rows, &facts, source.files, out)?;
    Ok(remarks)
}

fn lock_labels(model: &Model, id: ObjectId) -> Labels {
    let mut labels = vec![text("lock", object_name(model, id))];
    if let Some(object) = model.objects.get(id.0 as usize) {
        labels.push(text("kind", names::kind(object.kind)));
        if let Some(site) = object.init_site {
            labels.push(text("lock_site", names::site_of(model, site)));
        }
    }
    labels
}

fn thread_labels(model: &Model, id: ThreadId) -> Labels {
    let mut labels = vec![
        text("process", process_name(model, id)),
        text("thread", thread_name(model, id)),
    ];
    if let Some(thread) = thread(model, id) {
        labels.push(("tid", Label::Number(u64::from(thread.tid))));
    }
    labels
}

/// A frame that is a remark.
fn pseudo(text: &str) -> SiteFrame {
    SiteFrame {
        function: text.to_owned(),
        ..SiteFrame::default()
    }
}
