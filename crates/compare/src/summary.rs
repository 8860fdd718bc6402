//! What of one run is compared: small enough to keep for many runs.

use std::collections::{BTreeMap, BTreeSet};

use convoy_analysis::counters::{EventClass, SiteShare};
use convoy_model::finding::{Finding, Subject};
use convoy_model::{Model, ObjectId, SiteFrame, SiteId};
use convoy_profile::{Exit, Profile, ReadWarning};
use convoy_report::{names, Report};

use crate::identity::{self, Code};
use crate::key::{self, Place};

/// One run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// What the profile is called.
    pub name: String,
    /// Command and arguments.
    pub command: Vec<String>,
    /// From start to end, nanoseconds.
    pub wall_ns: u64,
    /// CPU time of all its threads, nanoseconds.
    pub cpu_ns: u64,
    /// How it ended.
    pub exit: Exit,
    /// Kernel, processor and how many of them: what two runs must have in common.
    pub machine: String,
    /// Scheduler events were recorded.
    pub listened: bool,
    /// Locks were recorded: at least one process carried the agent.
    pub locks_seen: bool,
    /// Waits for locks over the life spans of all threads.
    pub lock_wait_share: f64,
    /// CPU time is the sum of that of its threads: the file has no other.
    pub(crate) cpu_summed: bool,
    /// What its file has lost; empty = nothing.
    pub(crate) lost: Vec<String>,
    /// Build-ids of its executables.
    pub(crate) builds: BTreeSet<Vec<u8>>,
    /// Functions that tell which program it is.
    pub(crate) code: Code,
    /// Why nothing can be compared; empty = something can.
    pub nothing: String,
    /// Ranked first, then dismissed.
    pub(crate) findings: Vec<Found>,
    pub(crate) locks: BTreeMap<LockKey, LockNumbers>,
}

/// A lock or another object that is waited at; all that are of one kind and name are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LockKey {
    /// It is acquired and released; else it is waited at for an event.
    pub lock: bool,
    pub kind: &'static str,
    /// Without what a rebuild changes.
    pub name: String,
}

/// Numbers of one lock, or of all locks of one name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LockNumbers {
    /// What it is called in this run.
    pub name: String,
    /// How many locks.
    pub objects: usize,
    /// Acquisitions by blocking calls; of events, calls.
    pub acquisitions: f64,
    /// Of these, contended; of events, calls that waited.
    pub contended: f64,
    /// Sum of the waits, nanoseconds.
    pub wait_ns: f64,
    /// Waits over the life spans of the threads that used it, 0..1.
    pub wait_share: f64,
    /// Nobody could have shortened the waits.
    pub idle: bool,
    pub(crate) sites: BTreeMap<Place, SiteNumbers>,
}

/// Numbers of one place that uses a lock.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct SiteNumbers {
    pub acquisitions: f64,
    pub contended: f64,
    pub wait_ns: f64,
}

/// A finding.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub id: &'static str,
    pub subject: Vec<Part>,
    pub title: String,
    pub fix: String,
    pub ranked: bool,
    pub gain: f64,
    pub share: f64,
    pub place: Option<Place>,
}

/// What a finding is about, piece by piece.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Lock(LockKey),
    Code(String, String),
    Name(String),
}

impl Summary {
    /// Of a report; `name`: what its file is called.
    pub fn of(name: &str, report: &Report<'_>) -> Self {
        let model = report.model;
        let meta = &model.meta;
        let parallelism = &report.analysis.parallelism;
        let thread_time: u64 = parallelism.iter().map(|p| p.thread_time_ns).sum();
        let lock_wait: u64 = parallelism.iter().map(|p| p.lock_wait_ns).sum();
        let threads_cpu: u64 = model.threads.iter().map(|t| t.cpu_ns).sum();
        let keys = keys(report);
        let mut summary = Self {
            name: name.to_owned(),
            command: meta.command.clone(),
            wall_ns: meta.end_ns.saturating_sub(meta.start_ns),
            cpu_ns: match meta.cpu_user_ns.saturating_add(meta.cpu_sys_ns) {
                0 => threads_cpu,
                known => known,
            },
            exit: meta.exit,
            machine: format!(
                "{}, {} CPUs, kernel {}",
                meta.machine.cpu_model, meta.machine.cpus_allowed, meta.machine.kernel
            ),
            listened: model.sched.is_some(),
            locks_seen: model.processes.iter().any(|p| !p.without_agent),
            lock_wait_share: share(lock_wait as f64, thread_time as f64),
            cpu_summed: meta.cpu_user_ns.saturating_add(meta.cpu_sys_ns) == 0,
            lost: Vec::new(),
            builds: BTreeSet::new(),
            code: identity::code(report),
            nothing: nothing(model),
            findings: Vec::new(),
            locks: locks(report, &keys),
        };
        let ranked = report.analysis.findings.iter().map(|f| (f, true));
        let dismissed = report.analysis.dismissed.iter().map(|f| (f, false));
        summary.findings = ranked
            .chain(dismissed)
            .map(|(finding, ranked)| found(model, &keys, finding, ranked))
            .collect();
        summary
    }

    /// Also what only its file says: which builds of the executables ran, and what is lost.
    #[must_use]
    pub fn with_file(mut self, file: &File) -> Self {
        self.builds.clone_from(&file.builds);
        self.lost.clone_from(&file.lost);
        self
    }
}

/// What a file says beyond the report that is made of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct File {
    builds: BTreeSet<Vec<u8>>,
    lost: Vec<String>,
}

impl File {
    /// Of a profile, and of what was missing when it was read.
    pub fn of(profile: &Profile, damage: &[ReadWarning]) -> Self {
        let lost = damage.iter().filter(|warning| warning.is_a_loss());
        Self {
            builds: identity::builds(profile),
            lost: lost.map(ReadWarning::found).collect(),
        }
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        part / whole
    } else {
        0.0
    }
}

fn nothing(model: &Model) -> String {
    if model.processes.is_empty() {
        let lost = model.meta.collectors.iter().find(|c| !c.active);
        return match lost {
            Some(c) if !c.lost.is_empty() => {
                format!(
                    "no process was recorded, and {} was not active: {}",
                    c.name, c.lost
                )
            }
            _ => "no process was recorded".into(),
        };
    }
    if model.threads.is_empty() {
        return "no thread of the recorded processes ran".into();
    }
    String::new()
}

/// Keys of all objects that have a row.
fn keys(report: &Report<'_>) -> BTreeMap<ObjectId, LockKey> {
    let locks = report.analysis.locks.iter().map(|r| (r.object, true));
    let events = report.analysis.events.iter().map(|r| (r.object, false));
    let key = |(id, lock): (ObjectId, bool)| {
        let object = report.model.objects.get(id.0 as usize)?;
        let key = LockKey {
            lock,
            kind: names::kind(object.kind),
            name: key::name(&names::object(object)),
        };
        Some((id, key))
    };
    events.chain(locks).filter_map(key).collect()
}

fn locks(
    report: &Report<'_>,
    keys: &BTreeMap<ObjectId, LockKey>,
) -> BTreeMap<LockKey, LockNumbers> {
    let mut all: BTreeMap<LockKey, LockNumbers> = BTreeMap::new();
    for row in &report.analysis.locks {
        let (n, contended) = (row.stats.acquisitions as f64, row.stats.contended as f64);
        let own = (
            n,
            contended,
            row.stats.wait_ns as f64,
            row.stats.waited_ratio,
        );
        add(&mut all, report.model, keys, row.object, own, &row.sites);
    }
    for row in &report.analysis.events {
        let own = (
            row.calls as f64,
            row.waits as f64,
            row.wait_ns as f64,
            row.waited_ratio,
        );
        if let Some(numbers) = add(&mut all, report.model, keys, row.object, own, &row.sites) {
            numbers.idle |= row.class == EventClass::Idle;
        }
    }
    let several = all.iter_mut().filter(|(_, numbers)| numbers.objects > 1);
    for (key, numbers) in several {
        numbers.wait_share = share(numbers.wait_ns, users_life(report, keys, key)).min(1.0);
    }
    all
}

fn add<'a>(
    all: &'a mut BTreeMap<LockKey, LockNumbers>,
    model: &Model,
    keys: &BTreeMap<ObjectId, LockKey>,
    object: ObjectId,
    (acquisitions, contended, wait_ns, wait_share): (f64, f64, f64, f64),
    sites: &[SiteShare],
) -> Option<&'a mut LockNumbers> {
    let numbers = all.entry(keys.get(&object)?.clone()).or_default();
    if numbers.objects == 0 {
        numbers.name = key::shown(&names::object_of(model, object));
        numbers.wait_share = wait_share;
    }
    numbers.objects += 1;
    numbers.acquisitions += acquisitions;
    numbers.contended += contended;
    numbers.wait_ns += wait_ns;
    for site in sites {
        let place = place(model, site.site).unwrap_or_default();
        let at = numbers.sites.entry(place).or_default();
        at.acquisitions += site.acquisitions as f64;
        at.contended += site.contended as f64;
        at.wait_ns += site.wait_ns as f64;
    }
    Some(numbers)
}

/// Sum of the life spans of the threads that use locks of one name: those with at least a hundredth of the
/// operations of the busiest, as for a single lock.
fn users_life(report: &Report<'_>, keys: &BTreeMap<ObjectId, LockKey>, key: &LockKey) -> f64 {
    let mut calls = BTreeMap::new();
    let model = report.model;
    for u in model
        .uses
        .iter()
        .filter(|u| keys.get(&u.object) == Some(key))
    {
        *calls.entry(u.thread).or_insert(0) += u.calls.max(u.waits);
    }
    let most: u64 = calls.values().copied().max().unwrap_or(0);
    let users = calls.iter().filter(|(_, n)| **n * 100 >= most);
    users
        .filter_map(|(id, _)| model.threads.get(id.0 as usize))
        .map(|thread| thread.wall_ns() as f64)
        .sum()
}

fn place(model: &Model, site: SiteId) -> Option<Place> {
    model.sites.get(site.0 as usize).and_then(Place::of_site)
}

fn found(
    model: &Model,
    keys: &BTreeMap<ObjectId, LockKey>,
    finding: &Finding,
    ranked: bool,
) -> Found {
    Found {
        id: finding.id.as_str(),
        subject: parts(model, keys, &finding.subject),
        title: finding.title.clone(),
        fix: finding
            .causes
            .first()
            .map_or_else(String::new, |c| c.fix.clone()),
        ranked,
        gain: finding.gain.mid,
        share: finding.share_of_thread_time,
        place: where_is(model, &finding.subject),
    }
}

fn parts(model: &Model, keys: &BTreeMap<ObjectId, LockKey>, subject: &Subject) -> Vec<Part> {
    let lock = |id: &ObjectId| match keys.get(id) {
        Some(key) => Part::Lock(key.clone()),
        None => Part::Name(key::name(&names::object_of(model, *id))),
    };
    let code = |frame: &SiteFrame| {
        let (function, file) = Place::of(frame).code();
        Part::Code(function, file)
    };
    let site = |id: &SiteId| {
        let shown = model.sites.get(id.0 as usize).and_then(names::shown);
        shown.map_or_else(|| Part::Name(String::new()), code)
    };
    let group = |id: &convoy_model::GroupId| {
        let name = model.groups.get(id.0 as usize).map(names::group);
        Part::Name(key::name(&name.unwrap_or_default()))
    };
    let parts: BTreeSet<Part> = match subject {
        Subject::Object(id) => [lock(id)].into(),
        Subject::Objects(ids) => ids.iter().map(lock).collect(),
        Subject::Site(object, at) => [lock(object), site(at)].into(),
        Subject::Group(id) => [group(id)].into(),
        Subject::Groups(ids) => ids.iter().map(group).collect(),
        Subject::Thread(id) => {
            let thread = model.threads.get(id.0 as usize);
            [Part::Name(
                thread.map_or_else(String::new, |t| t.name.clone()),
            )]
            .into()
        }
        Subject::Code(at) => [site(at)].into(),
        Subject::Loop(id) => {
            let row = convoy_report::subject::spin_loop(model, *id);
            let frame = row.and_then(|l| l.frames.get(l.shown).or_else(|| l.frames.first()));
            frame.map(code).into_iter().collect()
        }
        Subject::Processes(ids) => {
            let names = ids
                .iter()
                .filter_map(|id| model.processes.get(id.0 as usize));
            names.map(|p| Part::Name(p.name.clone())).collect()
        }
        Subject::File(id, at) => {
            let name = model.sched.as_ref().and_then(|s| s.name(*id));
            [
                Part::Name(key::base(name.unwrap_or_default()).to_owned()),
                site(at),
            ]
            .into()
        }
        Subject::Run => BTreeSet::new(),
    };
    parts.into_iter().collect()
}

/// The place to look at: of a lock the one that waits most for it.
fn where_is(model: &Model, subject: &Subject) -> Option<Place> {
    let of_lock = |id: ObjectId| {
        let uses = model.uses_of(id).iter();
        let most = uses.max_by_key(|u| (u.wait_ns, u.calls))?;
        place(model, most.site)
    };
    match subject {
        Subject::Object(id) => of_lock(*id),
        Subject::Objects(ids) => ids.first().and_then(|id| of_lock(*id)),
        Subject::Site(_, site) | Subject::Code(site) | Subject::File(_, site) => {
            place(model, *site)
        }
        Subject::Group(id) => group_place(model, *id),
        Subject::Groups(ids) => ids.first().and_then(|id| group_place(model, *id)),
        Subject::Loop(id) => {
            let row = convoy_report::subject::spin_loop(model, *id)?;
            row.frames
                .get(row.shown)
                .or_else(|| row.frames.first())
                .map(Place::of)
        }
        Subject::Thread(_) | Subject::Processes(_) | Subject::Run => None,
    }
}

fn group_place(model: &Model, id: convoy_model::GroupId) -> Option<Place> {
    let group = model.groups.get(id.0 as usize)?;
    group.start.as_ref().map(Place::of)
}
