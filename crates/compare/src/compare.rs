//! The comparison itself.

use std::collections::{BTreeMap, BTreeSet};

use convoy_profile::Exit;

use crate::change::{mean, Change};
use crate::headline;
use crate::identity;
use crate::key::Place;
use crate::notes;
use crate::pairing::{places, renamed, Renamed};
use crate::summary::{Found, LockKey, LockNumbers, Part, SiteNumbers, Summary};

/// Why two sides cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A profile with nothing in it: its name, and why.
    #[error("{name}: {why}")]
    Nothing {
        /// The profile.
        name: String,
        /// Why it is empty.
        why: String,
    },
    /// A side without a profile.
    #[error("no profile was given for the runs {0}")]
    NoRuns(&'static str),
}

/// Whether something was there before and is there after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Only after.
    Came,
    /// Only before.
    Went,
    /// Both, but not alike.
    Changed,
    /// Both, about alike.
    Same,
}

impl Status {
    /// `came`, `went`, `changed` or `same`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Came => "came",
            Self::Went => "went",
            Self::Changed => "changed",
            Self::Same => "same",
        }
    }
}

/// What changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// One plain sentence.
    pub sentence: String,
    /// Profiles before.
    pub before: Vec<RunFacts>,
    /// Profiles after.
    pub after: Vec<RunFacts>,
    /// Run time, nanoseconds.
    pub wall_ns: Change,
    /// The run times are those of whole runs, so that they say how fast the program is.
    pub wall_is_speed: bool,
    /// What each side is called, if they are different programs: then what differs has no cause.
    pub different: Option<[String; 2]>,
    /// Locks were recorded in all runs, so that their waits can be compared.
    pub locks_seen: bool,
    /// CPU time, nanoseconds.
    pub cpu_ns: Change,
    /// Waits for locks over the life spans of all threads, 0..1.
    pub lock_wait_share: Change,
    /// Findings: came, went, changed, same; of each kind most gain first.
    pub findings: Vec<FindingChange>,
    /// Locks and other objects that are waited at, the largest change of the waited share first.
    pub locks: Vec<LockChange>,
    /// What limits the comparison.
    pub remarks: Vec<String>,
}

impl Comparison {
    /// All runs, those before first.
    pub fn runs(&self) -> impl Iterator<Item = &RunFacts> {
        self.before.iter().chain(&self.after)
    }
}

/// A profile that was compared.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFacts {
    /// Its name.
    pub name: String,
    /// Run time, nanoseconds.
    pub wall_ns: u64,
    /// How it ended.
    pub exit: Exit,
    /// Scheduler events were recorded.
    pub listened: bool,
    /// Locks were recorded.
    pub locks_seen: bool,
    /// What its file has lost; empty = nothing. Then all but the run time is of a part of the run.
    pub lost: Vec<String>,
    /// CPU time is the sum of that of its threads.
    pub cpu_summed: bool,
}

impl RunFacts {
    /// Its times and sums are those of the whole run.
    pub fn is_whole(&self) -> bool {
        !matches!(self.exit, Exit::Running | Exit::Unknown) && self.wall_ns > 0
    }
}

/// A finding before and after.
#[derive(Debug, Clone, PartialEq)]
pub struct FindingChange {
    /// Stable id, see docs/findings.md.
    pub id: &'static str,
    /// What became of it.
    pub status: Status,
    /// Its title, after if it is there.
    pub title: String,
    /// What to do about it, if it is there.
    pub fix: String,
    /// Where to look.
    pub place: Option<Place>,
    /// Runs in which it was ranked, of all runs: before, after.
    pub runs: [(usize, usize); 2],
    /// Mean predicted gain before and after, as a factor; `None` = not found at all, also not dismissed.
    pub gain: [Option<f64>; 2],
    /// Mean share of thread time lost to it, 0..1.
    pub share: [Option<f64>; 2],
}

/// A lock, or another object, before and after.
#[derive(Debug, Clone, PartialEq)]
pub struct LockChange {
    /// It is acquired and released; else it is waited at for an event.
    pub is_lock: bool,
    /// What kind of object.
    pub kind: &'static str,
    /// Its name, after if it is there.
    pub name: String,
    /// All that it is called in the runs.
    pub names: BTreeSet<String>,
    /// What became of it.
    pub status: Status,
    /// Nobody could have shortened its waits.
    pub idle: bool,
    /// Objects of this name before and after, the mean of the runs.
    pub objects: Change,
    /// Acquisitions (events: calls).
    pub acquisitions: Change,
    /// Contended acquisitions (events: calls that waited).
    pub contended: Change,
    /// Sum of waits, nanoseconds.
    pub wait_ns: Change,
    /// Waits over the life spans of its users, 0..1.
    pub wait_share: Change,
    /// Places that use it, the largest change of waits first.
    pub sites: Vec<SiteChange>,
}

/// A place that uses a lock, before and after: means of the runs.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteChange {
    /// Where it was; `None` = it is new.
    pub before: Option<Place>,
    /// Where it is; `None` = it is gone.
    pub after: Option<Place>,
    /// Acquisitions.
    pub acquisitions: [f64; 2],
    /// Contended ones.
    pub contended: [f64; 2],
    /// Waits, nanoseconds.
    pub wait_ns: [f64; 2],
}

/// Compares runs before with runs after a change.
///
/// # Errors
/// A side has no runs, or one of them nothing in it.
pub fn compare(before: &[Summary], after: &[Summary]) -> Result<Comparison, Error> {
    for (runs, side) in [(before, "before"), (after, "after")] {
        if runs.is_empty() {
            return Err(Error::NoRuns(side));
        }
        if let Some(run) = runs.iter().find(|run| !run.nothing.is_empty()) {
            return Err(Error::Nothing {
                name: run.name.clone(),
                why: run.nothing.clone(),
            });
        }
    }
    let renamed = renamed(before, after);
    let change = |of: &dyn Fn(&Summary) -> f64| Change {
        before: before.iter().map(of).collect(),
        after: after.iter().map(of).collect(),
    };
    let facts = [before, after].map(|runs| runs.iter().map(facts).collect::<Vec<_>>());
    let all = |is: fn(&RunFacts) -> bool| facts.iter().flatten().all(is);
    let (wall_is_speed, locks_seen) = (all(RunFacts::is_whole), all(|run| run.locks_seen));
    let [facts_before, facts_after] = facts;
    let mut comparison = Comparison {
        sentence: String::new(),
        before: facts_before,
        after: facts_after,
        wall_ns: change(&|run| run.wall_ns as f64),
        wall_is_speed,
        different: identity::different(before, after),
        locks_seen,
        cpu_ns: change(&|run| run.cpu_ns as f64),
        lock_wait_share: change(&|run| run.lock_wait_share),
        findings: findings(before, after, &renamed),
        locks: locks(before, after, &renamed),
        remarks: Vec::new(),
    };
    comparison.remarks = notes::remarks(&comparison, before, after);
    comparison.sentence = headline::sentence(&comparison);
    Ok(comparison)
}

fn facts(run: &Summary) -> RunFacts {
    RunFacts {
        name: run.name.clone(),
        wall_ns: run.wall_ns,
        exit: run.exit,
        listened: run.listened,
        locks_seen: run.locks_seen,
        lost: run.lost.clone(),
        cpu_summed: run.cpu_summed,
    }
}

type FindingKey = (&'static str, Vec<Part>);

fn findings(before: &[Summary], after: &[Summary], renamed: &Renamed) -> Vec<FindingChange> {
    let mut all: BTreeMap<FindingKey, [Vec<&Found>; 2]> = BTreeMap::new();
    for (side, runs) in [before, after].into_iter().enumerate() {
        for found in runs.iter().flat_map(|run| &run.findings) {
            let subject = found.subject.iter().map(|part| match part {
                Part::Lock(key) if side == 0 => Part::Lock(renamed.get(key).unwrap_or(key).clone()),
                part => part.clone(),
            });
            let key = (found.id, subject.collect());
            all.entry(key).or_default()[side].push(found);
        }
    }
    let sides = [before.len(), after.len()];
    let mut changes: Vec<_> = all
        .into_iter()
        .filter_map(|((id, _), found)| finding(id, &found, sides))
        .collect();
    let weight = |f: &FindingChange| f.gain.into_iter().flatten().fold(1.0, f64::max);
    changes.sort_by(|a, b| {
        (a.status.cmp(&b.status))
            .then_with(|| weight(b).total_cmp(&weight(a)))
            .then_with(|| a.title.cmp(&b.title))
    });
    changes
}

/// `None` if it was never worth a person's time.
fn finding(id: &'static str, found: &[Vec<&Found>; 2], sides: [usize; 2]) -> Option<FindingChange> {
    // What differs less is within the error of a prediction.
    const GAIN: f64 = 0.10;
    const SHARE: f64 = 0.05;
    // A lock that is found at several of its sites counts once a run.
    let ranked = [0, 1].map(|side| {
        found[side]
            .iter()
            .filter(|f| f.ranked)
            .count()
            .min(sides[side])
    });
    let there = [0, 1].map(|side| 2 * ranked[side] >= sides[side] && ranked[side] > 0);
    let of = |side: usize, value: fn(&Found) -> f64| {
        let values: Vec<f64> = found[side].iter().map(|f| value(f)).collect();
        (!values.is_empty()).then(|| mean(&values))
    };
    let gain = [of(0, |f| f.gain), of(1, |f| f.gain)];
    let share = [of(0, |f| f.share), of(1, |f| f.share)];
    let differs = |pair: [Option<f64>; 2], by: f64| match pair {
        [Some(a), Some(b)] => (a - b).abs() > by,
        _ => false,
    };
    let status = match there {
        [false, false] => return None,
        [false, true] => Status::Came,
        [true, false] => Status::Went,
        [true, true] if differs(gain, GAIN) || differs(share, SHARE) => Status::Changed,
        [true, true] => Status::Same,
    };
    let shown = if there[1] { &found[1] } else { &found[0] };
    let best = shown.iter().find(|f| f.ranked).or(shown.first())?;
    Some(FindingChange {
        id,
        status,
        title: best.title.clone(),
        fix: best.fix.clone(),
        place: best.place.clone(),
        runs: [(ranked[0], sides[0]), (ranked[1], sides[1])],
        gain,
        share,
    })
}

fn locks(before: &[Summary], after: &[Summary], renamed: &Renamed) -> Vec<LockChange> {
    // By the name after; of each run that has it, its numbers.
    let mut all: BTreeMap<&LockKey, [Vec<Option<&LockNumbers>>; 2]> = BTreeMap::new();
    for (side, runs) in [before, after].into_iter().enumerate() {
        for (ix, run) in runs.iter().enumerate() {
            for (key, numbers) in &run.locks {
                let key = if side == 0 {
                    renamed.get(key).unwrap_or(key)
                } else {
                    key
                };
                let [of_before, of_after] = all
                    .entry(key)
                    .or_insert_with(|| [vec![None; before.len()], vec![None; after.len()]]);
                let of_side = if side == 0 { of_before } else { of_after };
                if let Some(slot) = of_side.get_mut(ix) {
                    *slot = Some(numbers);
                }
            }
        }
    }
    let mut changes: Vec<_> = all.into_iter().map(|(key, n)| lock(key, &n)).collect();
    changes.sort_by(|a, b| {
        let by = |l: &LockChange| {
            (
                l.wait_share.difference().abs(),
                l.wait_ns.difference().abs(),
            )
        };
        let ((a_share, a_ns), (b_share, b_ns)) = (by(a), by(b));
        b_share
            .total_cmp(&a_share)
            .then_with(|| b_ns.total_cmp(&a_ns))
            .then_with(|| a.name.cmp(&b.name))
    });
    changes
}

fn lock(key: &LockKey, numbers: &[Vec<Option<&LockNumbers>>; 2]) -> LockChange {
    // A run without the lock has nothing of it.
    let change = |of: fn(&LockNumbers) -> f64| {
        let [before, after] = [0, 1].map(|side| {
            let values = numbers[side].iter().map(|n| n.map_or(0.0, of));
            values.collect::<Vec<_>>()
        });
        Change { before, after }
    };
    let there = [0, 1].map(|side| numbers[side].iter().any(Option::is_some));
    let wait_share = change(|n| n.wait_share);
    let shown = numbers[1].iter().chain(&numbers[0]).flatten().next();
    LockChange {
        is_lock: key.lock,
        kind: key.kind,
        name: shown.map_or_else(|| key.name.clone(), |n| n.name.clone()),
        names: {
            let seen = numbers.iter().flatten().flatten();
            seen.map(|n| n.name.clone()).collect()
        },
        status: match there {
            [false, _] => Status::Came,
            [_, false] => Status::Went,
            _ if wait_share.difference().abs() > 0.02 => Status::Changed,
            _ => Status::Same,
        },
        idle: numbers.iter().flatten().flatten().all(|n| n.idle),
        objects: change(|n| n.objects as f64),
        acquisitions: change(|n| n.acquisitions),
        contended: change(|n| n.contended),
        wait_ns: change(|n| n.wait_ns),
        wait_share,
        sites: sites(numbers),
    }
}

fn sites(numbers: &[Vec<Option<&LockNumbers>>; 2]) -> Vec<SiteChange> {
    let seen = |side: usize| -> BTreeSet<&Place> {
        let runs = numbers[side].iter().flatten();
        runs.flat_map(|n| n.sites.keys()).collect()
    };
    let sum = |side: usize, place: Option<&Place>, of: fn(&SiteNumbers) -> f64| {
        let values = numbers[side].iter().map(|n| {
            let at = n.zip(place).and_then(|(n, place)| n.sites.get(place));
            at.map_or(0.0, of)
        });
        mean(&values.collect::<Vec<_>>())
    };
    let mut all: Vec<_> = places(&seen(0), &seen(1))
        .into_iter()
        .map(|(before, after)| {
            let both = |of: fn(&SiteNumbers) -> f64| [sum(0, before, of), sum(1, after, of)];
            SiteChange {
                before: before.cloned(),
                after: after.cloned(),
                acquisitions: both(|s| s.acquisitions),
                contended: both(|s| s.contended),
                wait_ns: both(|s| s.wait_ns),
            }
        })
        .collect();
    let by = |s: &SiteChange| (s.wait_ns[1] - s.wait_ns[0]).abs();
    all.sort_by(|a, b| by(b).total_cmp(&by(a)));
    all
}
