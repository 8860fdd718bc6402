//! The comparison for a program: one document, described in docs/diff.md.

use serde::Serialize;

use crate::change::Change;
use crate::compare::{Comparison, FindingChange, LockChange, RunFacts, SiteChange};
use crate::gate::{Breach, Gate, NotJudged};
use crate::key::Place;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: u32,
    sentence: &'a str,
    before: Vec<RunOut<'a>>,
    after: Vec<RunOut<'a>>,
    wall_ns: ChangeOut<'a>,
    wall_is_speed: bool,
    same_program: bool,
    speed_ratio: Option<f64>,
    speed_interval_ratio: Option<[f64; 2]>,
    cpu_ns: ChangeOut<'a>,
    lock_wait_ratio: ChangeOut<'a>,
    breaches: Vec<BreachOut<'a>>,
    not_judged: Vec<NotJudgedOut<'a>>,
    findings: Vec<FindingOut<'a>>,
    locks: Vec<LockOut<'a>>,
    remarks: &'a [String],
}

#[derive(Serialize)]
struct RunOut<'a> {
    name: &'a str,
    wall_ns: u64,
    lost: &'a [String],
}

/// Values by run, their means, and the 95 % interval of the difference of the means where it is known.
#[derive(Serialize)]
struct ChangeOut<'a> {
    before: &'a [f64],
    after: &'a [f64],
    before_mean: f64,
    after_mean: f64,
    difference: f64,
    difference_interval: Option<[f64; 2]>,
}

#[derive(Serialize)]
struct BreachOut<'a> {
    limit: &'a str,
    found: &'a str,
}

#[derive(Serialize)]
struct NotJudgedOut<'a> {
    limit: &'a str,
    why: &'a str,
    fix: &'a str,
}

#[derive(Serialize)]
struct FindingOut<'a> {
    id: &'static str,
    status: &'static str,
    title: &'a str,
    fix: &'a str,
    place: Option<PlaceOut<'a>>,
    runs_before_count: usize,
    runs_after_count: usize,
    gain_before_ratio: Option<f64>,
    gain_after_ratio: Option<f64>,
    share_before_ratio: Option<f64>,
    share_after_ratio: Option<f64>,
}

#[derive(Serialize)]
struct PlaceOut<'a> {
    function: &'a str,
    file: &'a str,
    line: Option<u32>,
}

#[derive(Serialize)]
struct LockOut<'a> {
    name: &'a str,
    kind: &'static str,
    is_lock: bool,
    status: &'static str,
    idle: bool,
    objects_count: ChangeOut<'a>,
    acquisitions_count: ChangeOut<'a>,
    contended_count: ChangeOut<'a>,
    wait_ns: ChangeOut<'a>,
    wait_ratio: ChangeOut<'a>,
    sites: Vec<SiteOut<'a>>,
}

#[derive(Serialize)]
struct SiteOut<'a> {
    before: Option<PlaceOut<'a>>,
    after: Option<PlaceOut<'a>>,
    acquisitions_before_mean: f64,
    acquisitions_after_mean: f64,
    contended_before_mean: f64,
    contended_after_mean: f64,
    wait_before_mean_ns: f64,
    wait_after_mean_ns: f64,
}

/// Writes the document, with a line feed at its end.
pub fn render(c: &Comparison, gate: &Gate) -> String {
    let document = Document {
        schema: "convoy.diff",
        version: 1,
        sentence: &c.sentence,
        before: c.before.iter().map(run).collect(),
        after: c.after.iter().map(run).collect(),
        wall_ns: change(&c.wall_ns),
        wall_is_speed: c.wall_is_speed,
        same_program: c.different.is_none(),
        speed_ratio: c.wall_ns.speed(),
        speed_interval_ratio: c.wall_ns.speed_interval().map(<[f64; 2]>::from),
        cpu_ns: change(&c.cpu_ns),
        lock_wait_ratio: change(&c.lock_wait_share),
        breaches: gate.breaches.iter().map(breach).collect(),
        not_judged: gate.not_judged.iter().map(not_judged).collect(),
        findings: c.findings.iter().map(finding).collect(),
        locks: c.locks.iter().map(lock).collect(),
        remarks: &c.remarks,
    };
    // Only maps with keys that are no strings, and writers that fail, make serde_json fail.
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn run(run: &RunFacts) -> RunOut<'_> {
    RunOut {
        name: &run.name,
        wall_ns: run.wall_ns,
        lost: &run.lost,
    }
}

fn breach(breach: &Breach) -> BreachOut<'_> {
    BreachOut {
        limit: &breach.limit,
        found: &breach.found,
    }
}

fn not_judged(open: &NotJudged) -> NotJudgedOut<'_> {
    NotJudgedOut {
        limit: &open.limit,
        why: &open.doubt.why,
        fix: &open.doubt.fix,
    }
}

fn change(change: &Change) -> ChangeOut<'_> {
    ChangeOut {
        before: &change.before,
        after: &change.after,
        before_mean: change.mean_before(),
        after_mean: change.mean_after(),
        difference: change.difference(),
        difference_interval: change.interval(|a, b| b - a).map(<[f64; 2]>::from),
    }
}

fn place(place: &Place) -> PlaceOut<'_> {
    PlaceOut {
        function: &place.function,
        file: if place.path.is_empty() {
            &place.file
        } else {
            &place.path
        },
        line: (place.line > 0).then_some(place.line),
    }
}

fn finding(f: &FindingChange) -> FindingOut<'_> {
    FindingOut {
        id: f.id,
        status: f.status.word(),
        title: &f.title,
        fix: &f.fix,
        place: f.place.as_ref().map(place),
        runs_before_count: f.runs[0].0,
        runs_after_count: f.runs[1].0,
        gain_before_ratio: f.gain[0],
        gain_after_ratio: f.gain[1],
        share_before_ratio: f.share[0],
        share_after_ratio: f.share[1],
    }
}

fn lock(l: &LockChange) -> LockOut<'_> {
    LockOut {
        name: &l.name,
        kind: l.kind,
        is_lock: l.is_lock,
        status: l.status.word(),
        idle: l.idle,
        objects_count: change(&l.objects),
        acquisitions_count: change(&l.acquisitions),
        contended_count: change(&l.contended),
        wait_ns: change(&l.wait_ns),
        wait_ratio: change(&l.wait_share),
        sites: l.sites.iter().map(site).collect(),
    }
}

fn site(s: &SiteChange) -> SiteOut<'_> {
    SiteOut {
        before: s.before.as_ref().map(place),
        after: s.after.as_ref().map(place),
        acquisitions_before_mean: s.acquisitions[0],
        acquisitions_after_mean: s.acquisitions[1],
        contended_before_mean: s.contended[0],
        contended_after_mean: s.contended[1],
        wait_before_mean_ns: s.wait_ns[0],
        wait_after_mean_ns: s.wait_ns[1],
    }
}
