//! A replay for a program: one JSON document, described in docs/json.md.
//!
//! `version` grows when a key changes its meaning or goes away; new keys do not change it.

use convoy_estimate::Method;
use convoy_replay::analysis::{
    Analysis, CurvePoint, LockRow, Place, PlanRow, Race, Recorded, Region, UlcpCounts, WhatIfRow,
};
use convoy_replay::predict::{Answer, Baseline, Saved};
use convoy_trace::Mode;
use serde::Serialize;

use super::{caveats, gain, messages, source};

/// Name of the document type.
pub const SCHEMA: &str = "convoy.replay";

/// Version of the document type.
pub const VERSION: u32 = 1;

/// All methods together.
const COMBINED: &str = "combined";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: u32,
    command: &'a [String],
    pid: u32,
    recorded: RecordedOut,
    verdict: String,
    fidelity: Vec<FidelityOut<'a>>,
    ulcp: UlcpOut,
    regions: Vec<RegionOut<'a>>,
    what_ifs: Vec<WhatIfOut<'a>>,
    ulcp_free: Vec<AnswerOut<'a>>,
    plan: Vec<PlanOut<'a>>,
    curve: Vec<CurveOut<'a>>,
    locks: Vec<ReplayedLock<'a>>,
    races: Vec<RaceOut<'a>>,
    caveats: Vec<String>,
}

#[derive(Serialize)]
struct RecordedOut {
    mode: &'static str,
    wall_ns: f64,
    replayed_ns: f64,
    windows: usize,
    windows_replayed: usize,
    events: usize,
    sections: usize,
    threads: usize,
    cpus: u32,
    opaque_ratio: f64,
}

#[derive(Serialize)]
struct FidelityOut<'a> {
    method: &'static str,
    recorded_ns: f64,
    replayed_ns: Option<f64>,
    runs_ns: &'a [f64],
    refused: Option<&'a str>,
}

#[derive(Serialize)]
struct UlcpOut {
    acquisitions: u64,
    null_lock: u64,
    read_read: u64,
    disjoint_write: u64,
    benign: u64,
    true_contention: u64,
    unknown: u64,
    inferred_ratio: f64,
    unobserved_ratio: f64,
    unknown_because: Option<String>,
}

#[derive(Serialize)]
struct SavedOut {
    low: f64,
    mid: f64,
    high: Option<f64>,
}

#[derive(Serialize)]
struct PlaceOut<'a> {
    function: &'a str,
    file: &'a str,
    line: u32,
}

#[derive(Serialize)]
struct RegionOut<'a> {
    lock: &'a str,
    sites: Vec<PlaceOut<'a>>,
    kind: &'static str,
    pairs: u64,
    p: f64,
    saved_share: Option<SavedOut>,
    query: &'a str,
    fix: &'a str,
    source: Vec<LineOut<'a>>,
}

#[derive(Serialize)]
struct LineOut<'a> {
    file: &'a str,
    line: u32,
    text: &'a str,
    share_ratio: f64,
    role: &'static str,
}

#[derive(Serialize)]
struct AnswerOut<'a> {
    method: &'static str,
    saved_share: Option<SavedOut>,
    refused: Option<&'a str>,
}

#[derive(Serialize)]
struct WhatIfOut<'a> {
    query: &'a str,
    title: &'a str,
    assumption: &'a str,
    method: &'static str,
    saved_share: Option<SavedOut>,
    refused: Option<&'a str>,
    pairs: Option<usize>,
}

#[derive(Serialize)]
struct PlanOut<'a> {
    queries: &'a [String],
    saved_share: Option<SavedOut>,
    alone_ratio: &'a [f64],
    limited_by: &'a str,
}

#[derive(Serialize)]
struct CurveOut<'a> {
    cpus: u32,
    threads: Option<u32>,
    low_ratio: f64,
    mid_ratio: f64,
    high_ratio: f64,
    limited_by: Option<&'a str>,
    busy_ratio: Option<f64>,
    extrapolated: bool,
}

#[derive(Serialize)]
struct ReplayedLock<'a> {
    name: &'a str,
    addr: String,
    acquisitions: u64,
    contended: u64,
    waited_ns: f64,
    held_ns: f64,
    threads: usize,
    ulcp: Option<PairsOut>,
}

#[derive(Serialize)]
struct PairsOut {
    acquisitions: u64,
    null_lock: u64,
    read_read: u64,
    disjoint_write: u64,
    benign: u64,
    true_contention: u64,
    unknown: u64,
}

#[derive(Serialize)]
struct RaceOut<'a> {
    data: &'a str,
    accesses: Vec<AccessOut<'a>>,
}

#[derive(Serialize)]
struct AccessOut<'a> {
    place: PlaceOut<'a>,
    is_write: bool,
}

/// Writes the document, with a line feed at its end.
pub fn render(analysis: &Analysis) -> String {
    // Only maps with keys that are no strings, and writers that fail, make serde_json fail.
    let mut text = serde_json::to_string_pretty(&document(analysis)).unwrap_or_default();
    text.push('\n');
    text
}

/// The document for a program that takes it apart again.
pub fn value(analysis: &Analysis) -> serde_json::Value {
    serde_json::to_value(document(analysis)).unwrap_or_default()
}

fn document(analysis: &Analysis) -> Document<'_> {
    let free = analysis.ulcp_free.as_ref();
    Document {
        schema: SCHEMA,
        version: VERSION,
        command: &analysis.command,
        pid: analysis.pid,
        recorded: recorded(&analysis.recorded),
        verdict: messages::verdict(analysis),
        fidelity: analysis.baselines.iter().map(fidelity).collect(),
        ulcp: ulcp(analysis),
        regions: analysis.regions.iter().map(region).collect(),
        what_ifs: analysis.what_ifs.iter().flat_map(what_if).collect(),
        ulcp_free: free.map(answers).unwrap_or_default(),
        plan: analysis.plan.iter().map(plan).collect(),
        curve: analysis.curve.iter().map(curve).collect(),
        locks: analysis.locks.iter().map(lock).collect(),
        races: analysis.ulcp.races.iter().map(race).collect(),
        caveats: caveats::texts(analysis),
    }
}

fn recorded(recorded: &Recorded) -> RecordedOut {
    RecordedOut {
        mode: match recorded.mode {
            Mode::Full => "full",
            Mode::Windows => "window",
            Mode::Last(_) => "last",
        },
        wall_ns: recorded.wall_ns,
        replayed_ns: recorded.replayed_ns,
        windows: recorded.windows.1,
        windows_replayed: recorded.windows.0,
        events: recorded.events,
        sections: recorded.sections,
        threads: recorded.threads,
        cpus: recorded.cpus,
        opaque_ratio: recorded.opaque_share,
    }
}

fn fidelity(baseline: &Baseline) -> FidelityOut<'_> {
    FidelityOut {
        method: baseline.method.id(),
        recorded_ns: baseline.recorded_ns,
        replayed_ns: baseline.median_ns(),
        runs_ns: &baseline.replayed_ns,
        refused: baseline.refused.as_deref(),
    }
}

fn ulcp(analysis: &Analysis) -> UlcpOut {
    let ulcp = &analysis.ulcp;
    let UlcpCounts {
        acquisitions,
        null_lock,
        read_read,
        disjoint_write,
        benign,
        true_contention,
        unknown,
    } = ulcp.counts;
    UlcpOut {
        // Pairs are not counted where nothing is known of what sections touch.
        acquisitions: match &ulcp.unknown_because {
            None => acquisitions,
            Some(_) => analysis.recorded.sections as u64,
        },
        null_lock,
        read_read,
        disjoint_write,
        benign,
        true_contention,
        unknown,
        inferred_ratio: ulcp.inferred_share,
        unobserved_ratio: ulcp.unobserved_share,
        unknown_because: ulcp.unknown_because.clone(),
    }
}

fn saved_share(saved: Saved) -> SavedOut {
    SavedOut {
        low: saved.low,
        mid: saved.mid,
        high: Some(saved.high).filter(|_| gain::is_bounded(&saved)),
    }
}

fn place(place: &Place) -> PlaceOut<'_> {
    PlaceOut {
        function: &place.function,
        file: &place.file,
        line: place.line,
    }
}

fn region(region: &Region) -> RegionOut<'_> {
    let lines = source::lines(region).map(|(role, line)| LineOut {
        file: &line.file,
        line: line.line,
        text: &line.text,
        share_ratio: line.share,
        role: role.id(),
    });
    RegionOut {
        lock: &region.lock,
        sites: region.sites.iter().map(place).collect(),
        kind: region.kind,
        pairs: region.pairs,
        p: region.p,
        saved_share: region.answer.saved().map(saved_share),
        query: &region.query,
        fix: messages::fix(region),
        source: lines.collect(),
    }
}

/// All methods together, then one row per method.
fn answers(answer: &Answer) -> Vec<AnswerOut<'_>> {
    let combined = AnswerOut {
        method: COMBINED,
        saved_share: answer.saved().map(saved_share),
        refused: None,
    };
    let said = answer.by_method.iter().map(|(method, saved)| AnswerOut {
        method: method.id(),
        saved_share: Some(saved_share(*saved)),
        refused: None,
    });
    let refused = answer.refused.iter().map(|(method, why)| AnswerOut {
        method: method.id(),
        saved_share: None,
        refused: Some(why),
    });
    std::iter::once(combined)
        .chain(said)
        .chain(refused)
        .collect()
}

fn what_if(row: &WhatIfRow) -> Vec<WhatIfOut<'_>> {
    let measured = row.verified.map(|verified| {
        let saved = Some(saved_share(verified.saved));
        (Method::Measured.id(), saved, None, Some(verified.pairs))
    });
    let predicted = answers(&row.answer).into_iter();
    let predicted = predicted.map(|a| (a.method, a.saved_share, a.refused, None));
    let rows = predicted.chain(measured);
    rows.map(|(method, saved_share, refused, pairs)| WhatIfOut {
        query: &row.query,
        title: &row.title,
        assumption: &row.assumption,
        method,
        saved_share,
        refused,
        pairs,
    })
    .collect()
}

fn plan(step: &PlanRow) -> PlanOut<'_> {
    PlanOut {
        queries: &step.queries,
        saved_share: step.answer.saved().map(saved_share),
        alone_ratio: &step.alone,
        limited_by: &step.limited_by,
    }
}

fn curve(point: &CurvePoint) -> CurveOut<'_> {
    let (low_ratio, mid_ratio, high_ratio) = point.speedup;
    let limit = point.limited_by.as_ref();
    CurveOut {
        cpus: point.cpus,
        threads: point.threads,
        low_ratio,
        mid_ratio,
        high_ratio,
        limited_by: limit.map(|(name, _)| name.as_str()),
        busy_ratio: limit.map(|(_, busy)| *busy),
        extrapolated: point.extrapolated,
    }
}

fn lock(row: &LockRow) -> ReplayedLock<'_> {
    ReplayedLock {
        name: &row.name,
        addr: format!("0x{:x}", row.addr),
        acquisitions: row.acquisitions,
        contended: row.contended,
        waited_ns: row.waited_ns,
        held_ns: row.held_ns,
        threads: row.threads,
        ulcp: row.ulcp.map(|counts| PairsOut {
            acquisitions: counts.acquisitions,
            null_lock: counts.null_lock,
            read_read: counts.read_read,
            disjoint_write: counts.disjoint_write,
            benign: counts.benign,
            true_contention: counts.true_contention,
            unknown: counts.unknown,
        }),
    }
}

fn race(race: &Race) -> RaceOut<'_> {
    let accesses = race.accesses.iter().map(|access| AccessOut {
        place: place(&access.place),
        is_write: access.is_write,
    });
    RaceOut {
        data: &race.data,
        accesses: accesses.collect(),
    }
}
