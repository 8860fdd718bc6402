//! The Firefox Profiler's processed format: the time of every thread as samples that weigh what they lasted, waits
//! and wake-ups as markers that are joined by flows, findings and parallelism as markers of the main thread.
//!
//! Version 61 of the format is written; later versions of the profiler convert it when they load it.

mod tables;
mod threads;

use std::collections::BTreeMap;
use std::io::Write;

use convoy_model::{Model, ThreadId};
use convoy_report::Report;
use serde::Serialize;
use serde_json::{json, Value};

use crate::moments::{self, moments, timeline, State};
use crate::{Error, Source};
use tables::{Lib, Shared, Tables};
use threads::{Clock, Thread};

const VERSION: u32 = 61;

/// Indices into the categories.
const CATEGORY_OTHER: usize = 0;
const CATEGORY_RUNNING: usize = 1;
const CATEGORY_SPINNING: usize = 2;
const CATEGORY_READY: usize = 3;
const CATEGORY_WAITING: usize = 4;
const CATEGORY_BLOCKED: usize = 5;
const CATEGORY_FINDING: usize = 6;

/// Threads, at most: with thousands the profiler takes minutes to load.
const THREADS: usize = 1_000;

/// Markers for waits, at most: more make the profiler slow.
const MARKERS: usize = 200_000;

#[derive(Serialize)]
struct Document {
    meta: Value,
    libs: Vec<Lib>,
    shared: Shared,
    threads: Vec<Thread>,
    counters: [(); 0],
    pages: [(); 0],
}

/// Writes the profile as JSON.
pub fn profile(source: &Source<'_>, out: &mut dyn Write) -> Result<Vec<String>, Error> {
    let model = source.report.model;
    let clock = Clock {
        start_ns: model.meta.start_ns,
    };
    let mut remarks = moments::remarks(model);
    let mut tables = Tables::new(model, source.files);
    let mut threads = threads::all(model, clock);
    match timeline(model) {
        Some((sched, timeline)) => {
            let (longest, left_out) = longest_waits(model);
            if left_out > 0 {
                remarks.push(format!(
                    "{left_out} waits shorter than {} have no marker; they are in the samples",
                    convoy_report::human::duration(longest as f64)
                ));
            }
            let mut flows = 0;
            for lane in &timeline.lanes {
                let row = (sched, lane);
                threads::lane(
                    &mut threads,
                    &mut tables,
                    model,
                    row,
                    clock,
                    longest,
                    &mut flows,
                );
            }
        }
        None => {
            for (ix, thread) in threads.iter_mut().enumerate() {
                let pieces = threads::pieces(model, ThreadId(ix as u32));
                let start_ns = model.threads.get(ix).map_or(0, |t| t.start_ns);
                thread.sums(&mut tables, &pieces, clock, start_ns);
            }
        }
    }
    whole_run(source.report, &mut threads, &mut tables, clock);
    let all = threads.len();
    threads::keep_busiest(&mut threads, THREADS);
    if threads.len() < all {
        remarks.push(format!(
            "{} of {all} threads, those that were on a CPU for the shortest time, are left out: the profiler does not \
             load as many; convoy export --format perfetto has all",
            all - threads.len()
        ));
    }
    threads::drop_loose_flows(&mut threads);
    if threads.is_empty() {
        remarks.push("no thread was recorded: the profile has an empty one, since the profiler opens none without".into());
        threads.push(threads::nobody(clock.ms(model.meta.end_ns).max(1.0)));
    }
    let (shared, libs) = tables.finish();
    let document = Document {
        meta: meta(model),
        libs,
        shared,
        threads,
        counters: [],
        pages: [],
    };
    serde_json::to_writer(&mut *out, &document).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(remarks)
}

fn category(state: State) -> usize {
    match state {
        State::Running => CATEGORY_RUNNING,
        State::Spinning => CATEGORY_SPINNING,
        State::Ready => CATEGORY_READY,
        State::Waiting => CATEGORY_WAITING,
        State::Blocked => CATEGORY_BLOCKED,
    }
}

/// Waits of at least this length get a marker, so that there are not too many; and how many do not.
fn longest_waits(model: &Model) -> (u64, usize) {
    let Some((sched, timeline)) = timeline(model) else {
        return (0, 0);
    };
    let all = timeline.lanes.iter().flat_map(|lane| moments(sched, lane));
    let waits = all.filter(|m| matches!(m.state, State::Waiting | State::Blocked));
    let mut lengths: Vec<u64> = waits.map(|m| m.ns()).collect();
    if lengths.len() <= MARKERS {
        return (0, 0);
    }
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    // One more than the longest that is left out: of equal ones none is taken.
    let longest = lengths.get(MARKERS).map_or(0, |ns| ns + 1);
    let left_out = lengths.iter().filter(|ns| **ns < longest).count();
    (longest, left_out)
}

/// What is about the whole run stands on the main thread of the process that it is about.
fn whole_run(report: &Report<'_>, threads: &mut [Thread], tables: &mut Tables<'_>, clock: Clock) {
    let model = report.model;
    let mut mains = BTreeMap::new();
    for (ix, thread) in model.threads.iter().enumerate() {
        if thread.main {
            mains.entry(thread.process).or_insert(ix);
        }
    }
    let first = mains.values().copied().next().unwrap_or(0);
    let end = clock.ms(model.meta.end_ns);
    for (ix, finding) in report.analysis.findings.iter().enumerate() {
        let process = convoy_report::subject::process(model, finding);
        let at = process
            .and_then(|p| mains.get(&p).copied())
            .unwrap_or(first);
        let name = tables.text(&format!("Finding {}", ix + 1));
        let evidence: Vec<_> = finding.evidence.iter().map(|e| e.text.as_str()).collect();
        let fixes: Vec<_> = finding.causes.iter().map(|c| c.fix.as_str()).collect();
        let data = json!({
            "type": "Finding",
            "id": finding.id,
            "title": finding.title,
            "gain": convoy_report::human::factor(finding.gain.mid),
            "evidence": evidence.join("\n"),
            "fix": fixes.join("\n"),
        });
        if let Some(thread) = threads.get_mut(at) {
            thread.markers.finding(name, data, end);
        }
    }
    let Some(sched) = &model.sched else { return };
    let name = tables.text("Parallelism");
    let mut at_ns = sched.start_ns;
    for bin in &sched.bins {
        let end_ns = at_ns.saturating_add(sched.bin_width_ns).min(sched.end_ns);
        let width = end_ns.saturating_sub(at_ns).max(1) as f64;
        let data = json!({
            "type": "Parallelism",
            "active": bin.active_ns as f64 / width,
            "working": bin.working_ns as f64 / width,
            "running": bin.running_ns as f64 / width,
        });
        if let Some(thread) = threads.get_mut(first) {
            let (from, to) = (clock.ms(at_ns), clock.ms(end_ns));
            thread.markers.parallelism(name, data, from, to);
        }
        at_ns = end_ns;
    }
}

fn meta(model: &Model) -> Value {
    let meta = &model.meta;
    let machine = &meta.machine;
    let other =
        |name: &str, color: &str| json!({"name": name, "color": color, "subcategories": ["Other"]});
    json!({
        "interval": 1,
        "startTime": meta.started_unix_ns as f64 / 1e6,
        "startTimeAsClockMonotonicNanosecondsSinceBoot": meta.start_ns,
        "endTime": meta.end_ns.saturating_sub(meta.start_ns) as f64 / 1e6,
        "processType": 0,
        "product": model.processes.first().map_or("convoy", |p| p.name.as_str()),
        "importedFrom": format!("convoy {}", meta.convoy_version),
        "arguments": meta.command.join(" "),
        "oscpu": format!("Linux {} {}", machine.kernel, machine.arch),
        "CPUName": machine.cpu_model,
        "logicalCPUs": machine.cpus_online,
        "mainMemory": machine.memory_bytes,
        "stackwalk": 1,
        "version": 24,
        "preprocessedProfileVersion": VERSION,
        "symbolicated": true,
        "symbolicationNotSupported": true,
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs"},
        // The order is that of the constants above.
        "categories": [
            other("Other", "grey"),
            other("Running", "green"),
            other("Spinning", "orange"),
            other("Waiting for a CPU", "yellow"),
            other("Waiting for a thread", "red"),
            other("Blocked: I/O, sleep", "blue"),
            other("Finding", "magenta"),
        ],
        "markerSchema": schemas(),
    })
}

fn schemas() -> Value {
    let field = |key: &str, label: &str, format: &str| json!({"key": key, "label": label, "format": format});
    let graph = |key: &str, color: &str| json!({"key": key, "type": "line", "color": color});
    json!([
        {
            "name": "Wait",
            "display": ["marker-chart", "marker-table", "timeline-overview"],
            "chartLabel": "{marker.data.object}",
            "tooltipLabel": "waits for {marker.data.object}",
            "tableLabel": "{marker.data.object}, woken by {marker.data.wokenBy}",
            "fields": [
                field("object", "Waits for", "unique-string"),
                field("reason", "Reason", "string"),
                field("wokenBy", "Woken by", "unique-string"),
                field("flow", "Wake-up", "terminating-flow-id"),
            ],
        },
        {
            "name": "Wake",
            "display": ["marker-chart", "marker-table"],
            "tooltipLabel": "wakes {marker.data.thread}",
            "tableLabel": "wakes {marker.data.thread}, which waits for {marker.data.object}",
            "fields": [
                field("thread", "Wakes", "unique-string"),
                field("object", "Which waits for", "unique-string"),
                field("flow", "Wake-up", "flow-id"),
            ],
        },
        {
            "name": "Finding",
            "display": ["marker-chart", "marker-table", "timeline-overview"],
            "chartLabel": "{marker.data.title}",
            "tooltipLabel": "{marker.data.title}",
            "tableLabel": "{marker.data.title}",
            "fields": [
                field("id", "Kind", "string"),
                field("title", "Title", "string"),
                field("gain", "Predicted gain", "string"),
                field("evidence", "Evidence", "string"),
                field("fix", "Fix", "string"),
            ],
        },
        {
            "name": "Parallelism",
            "display": ["marker-table"],
            "tableLabel": "{marker.data.working} threads working",
            "fields": [
                field("active", "Threads active", "decimal"),
                field("working", "Threads working", "decimal"),
                field("running", "Threads on a CPU", "decimal"),
            ],
            "graphs": [graph("active", "grey"), graph("working", "blue"), graph("running", "green")],
        },
    ])
}
