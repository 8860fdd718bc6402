//! Which acquire sites are looked into: from what a person asks for, and what an earlier run showed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use convoy_capture::{Elf, Site};
use convoy_model::ObjectId;
use convoy_profile::{Frame, Op, Process, Profile, Symbol};

use super::Diagnose;
use crate::analyze::Judged;
use crate::message::Message;
use crate::show;

/// What is asked for.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Acquire sites; `None` = all, of which [`super::keep`] leaves those that are meant.
    pub sites: Option<Vec<Site>>,
    /// Locks of this run that are meant, by pattern; empty = not to be chosen by it.
    pub patterns: Vec<String>,
    /// Acquires that are meant, by name, where their addresses are of another build.
    pub places: BTreeSet<Place>,
    /// What the user should know before.
    pub remarks: Vec<Message>,
    /// The earlier run.
    pub earlier: Option<Judged>,
}

/// A place in the source, or as near as one can get to it without debug information.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    function: String,
    file: String,
    line: u32,
}

impl Place {
    /// Of a frame; `None` if it has no name.
    pub fn of(frame: &Frame) -> Option<Self> {
        let Symbol::Known(locations) = &frame.symbol else {
            return None;
        };
        let inner = locations.first()?;
        let file = inner.file.as_deref().unwrap_or_default();
        Some(Self {
            function: inner.function.clone(),
            file: file.rsplit('/').next().unwrap_or_default().to_owned(),
            line: inner.line.unwrap_or(0),
        })
    }

    /// Without its line, which moves when code before it changes.
    pub fn function(&self) -> (&str, &str) {
        (&self.function, &self.file)
    }
}

impl Wanted {
    /// From the arguments.
    pub fn of(args: &Diagnose) -> Result<Self, Message> {
        let Some(path) = &args.profile else {
            return Ok(Self {
                patterns: args.lock.clone(),
                ..Self::default()
            });
        };
        let profile = show::load(path, args.quiet)?;
        let name = path.display().to_string();
        let judged = Judged::new(profile.clone(), None, &args.limits)?;
        let objects = if args.lock.is_empty() {
            of_findings(&judged)
        } else {
            matching(&judged, &args.lock)?
        };
        if objects.is_empty() {
            return Ok(Self {
                earlier: Some(judged),
                ..Self::nothing_in(&name, args)
            });
        }
        let mut wanted = Self::default();
        let mut sites = Vec::new();
        let mut changed = BTreeSet::new();
        for (process, frame) in acquires(&profile, &judged, &objects) {
            let site = site(process, frame);
            if is_of_this_build(&site, &args.command) {
                sites.push(site);
                continue;
            }
            changed.insert(site.path);
            wanted.places.extend(Place::of(frame));
        }
        sites.sort();
        sites.dedup();
        if let Some(module) = changed.iter().next() {
            wanted.remarks.push(Message::new(
                format!("{name} is of another build of {module}"),
                "its locks are found by function and line, and everything is traced meanwhile: fewer sections of each",
                "record again for exact places: convoy record -- COMMAND",
            ));
            // Where addresses of one module and names of another are asked for, names serve for both.
            let all = acquires(&profile, &judged, &objects);
            wanted
                .places
                .extend(all.iter().filter_map(|(_, frame)| Place::of(frame)));
        } else {
            wanted.sites = Some(sites);
        }
        wanted.earlier = Some(judged);
        Ok(wanted)
    }

    fn nothing_in(name: &str, args: &Diagnose) -> Self {
        let (found, effect) = if args.lock.is_empty() {
            (
                format!("{name} has no finding about a lock"),
                "every lock is looked into",
            )
        } else {
            (
                format!("{name} has no lock that matches {}", args.lock.join(", ")),
                "it is looked for in this run",
            )
        };
        Self {
            patterns: args.lock.clone(),
            remarks: vec![Message::new(found, effect, "")],
            ..Self::default()
        }
    }
}

/// Locks with findings: those whose cause is open, or else all.
fn of_findings(judged: &Judged) -> BTreeSet<ObjectId> {
    let report = judged.report();
    let findings = || report.analysis.findings.iter();
    let objects = |open: bool| {
        findings()
            .filter(|f| !open || f.causes.len() > 1)
            .flat_map(|f| f.subject.objects().iter().copied())
            .collect::<BTreeSet<_>>()
    };
    let open = objects(true);
    if open.is_empty() {
        objects(false)
    } else {
        open
    }
}

/// Locks that the patterns mean.
pub fn matching(judged: &Judged, patterns: &[String]) -> Result<BTreeSet<ObjectId>, Message> {
    let report = judged.report();
    let mut all = BTreeSet::new();
    for pattern in patterns {
        let found = convoy_report::find::objects(report.model, report.analysis, pattern);
        all.extend(found.map_err(|why| {
            Message::new(
                format!("--lock {pattern} is no regular expression: {why}"),
                "no lock can be chosen by it",
                "write \\ before characters such as ( and [",
            )
        })?);
    }
    Ok(all)
}

/// Where these objects are acquired.
fn acquires<'p>(
    profile: &'p Profile,
    judged: &Judged,
    objects: &BTreeSet<ObjectId>,
) -> Vec<(&'p Process, &'p Frame)> {
    let model = judged.report().model;
    let wanted: BTreeSet<(u32, u64)> = objects
        .iter()
        .filter_map(|id| model.objects.get(id.0 as usize))
        .map(|object| (object.process.0, object.addr))
        .collect();
    let mut found = Vec::new();
    for (ix, process) in profile.processes.iter().enumerate() {
        let is_wanted = |object: u32| {
            let object = process.objects.get(object as usize);
            object.is_some_and(|o| wanted.contains(&(ix as u32, o.addr)))
        };
        let counted = process.counts.iter().filter(|c| is_wanted(c.object));
        let counted = counted.filter(|c| takes(c.op)).map(|c| c.frame);
        let detailed = process.details.iter().filter(|d| is_wanted(d.object));
        let detailed = detailed
            .filter(|d| d.op.is_some_and(takes))
            .filter_map(|d| process.stacks.get(d.stack as usize)?.first().copied());
        let frames: BTreeSet<u32> = counted.chain(detailed).collect();
        let frames = frames
            .iter()
            .filter_map(|f| process.frames.get(*f as usize));
        found.extend(frames.map(|frame| (process, frame)));
    }
    found
}

/// Every place of a profile where a lock is taken, of the modules that ran.
pub fn lock_sites(profile: &Profile) -> Vec<Site> {
    let mut sites = Vec::new();
    for process in &profile.processes {
        let counted = process.counts.iter().filter(|c| takes(c.op));
        let unattributed = process.unattributed.iter().filter(|u| takes(u.op));
        let frames = counted
            .map(|c| c.frame)
            .chain(unattributed.map(|u| u.frame));
        let frames: BTreeSet<u32> = frames.collect();
        let frames = frames
            .iter()
            .filter_map(|ix| process.frames.get(*ix as usize));
        sites.extend(frames.map(|frame| site(process, frame)));
    }
    sites.sort();
    sites.dedup();
    sites
}

/// Whether a section begins with it.
fn takes(op: Op) -> bool {
    matches!(
        op,
        Op::MutexLock
            | Op::MutexTimedlock
            | Op::MutexTrylock
            | Op::RwlockRd
            | Op::RwlockWr
            | Op::RwlockTimedrd
            | Op::RwlockTimedwr
            | Op::RwlockTryrd
            | Op::RwlockTrywr
            | Op::SpinLock
            | Op::SpinTrylock
            | Op::OmpLock
            | Op::OmpTrylock
            | Op::OmpCritical
    )
}

fn site(process: &Process, frame: &Frame) -> Site {
    let module = frame.module.and_then(|m| process.modules.get(m as usize));
    Site {
        build_id: module.map(|m| m.build_id.clone()).unwrap_or_default(),
        path: module.map(|m| m.path.clone()).unwrap_or_default(),
        offset: frame.offset,
    }
}

/// Whether the file of the site, or the command if it is called the same, is the one that was recorded. Generated code has
/// no file, and its addresses mean nothing in another run.
fn is_of_this_build(site: &Site, command: &[OsString]) -> bool {
    let name = |path: &Path| path.file_name().map(std::ffi::OsStr::to_owned);
    let path = Path::new(&site.path);
    let same = |elf: Option<Elf>| elf.is_some_and(|elf| elf.build_id == site.build_id);
    if site.path.is_empty() {
        return false;
    }
    let resolved = convoy_capture::Command::resolve(command).ok();
    let started = resolved.filter(|c| name(&c.path) == name(path));
    match started {
        Some(started) => same(Elf::read(&started.path)),
        // e.g. [vdso]
        None => !site.path.starts_with('/') || same(Elf::read(path)),
    }
}
