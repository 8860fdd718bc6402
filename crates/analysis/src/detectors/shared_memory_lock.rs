//! Locks in memory that several processes share. Each process has it as an object of its own, which says half of the
//! truth: who waits is seen, whom for is not. Judged once more, as if all of them were one process, it is a lock like any other.
//!
//! Nothing says that a mutex is shared (its attribute may have been set before the program was recorded), but this does: a thread
//! that is the only one of its process to use a lock has nobody to wait for in there. Nor has one that posts a semaphore as often
//! as it takes it: the locks of Python's multiprocessing are such.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::Finding;
use convoy_model::{GroupId, Model, ObjectId, Process, ProcessId, SiteFrame, ThreadId};

use convoy_profile::Op;

use crate::facts::operations::{is_semaphore, role, Locks, Role};
use crate::words::evidence;

/// Contended acquisitions of locks that processes share that are worth a look.
const CONTENDED: u64 = 30;
/// A semaphore is a lock if its thread posts it as often as it takes it, but for this share.
const BALANCED: f64 = 0.1;
/// A process that acquires them less than one time in so many of the busiest one's takes no part.
const TAKES_PART: u64 = 100;

/// What tells programs apart.
type Program<'a> = (&'a str, &'a str);

/// What the only thread of a process that uses a lock did with it.
#[derive(Debug, Clone, Copy)]
struct Used {
    object: ObjectId,
    process: ProcessId,
    calls: u64,
    contended: u64,
}

/// Processes that share locks.
#[derive(Debug, Default)]
struct Clan {
    processes: BTreeSet<ProcessId>,
    /// One for each lock: its objects.
    locks: Vec<Vec<Used>>,
}

/// Judges the locks that processes share, and puts what is said of them in the place of what was said of each process.
/// `judge` says what it finds in a process of a model.
pub(crate) fn findings(
    model: &Model,
    locks: &Locks,
    found: &mut Vec<Finding>,
    judge: impl Fn(&Model, ProcessId, &Locks) -> Vec<Finding>,
) {
    if model.processes.len() < 2 {
        return;
    }
    for clan in clans(shared(model, locks)) {
        let first_of = |lock: &Vec<Used>| lock.first().map(|used| used.object);
        let as_one: BTreeMap<ObjectId, ObjectId> = clan
            .locks
            .iter()
            .filter_map(|lock| Some((lock, first_of(lock)?)))
            .flat_map(|(lock, first)| lock.iter().map(move |used| (used.object, first)))
            .collect();
        let Some(process) = clan.processes.first().copied() else {
            continue;
        };
        let joined = as_one_process(model, &clan.processes, process, &as_one);
        let said = judge(&joined, process, &Locks::of(&joined));
        let is_shared = |finding: &Finding| {
            let objects = finding.subject.objects();
            objects.iter().any(|id| as_one.contains_key(id))
        };
        found.retain(|finding| !is_shared(finding));
        let n = clan.processes.len();
        found.extend(said.into_iter().filter(is_shared).map(|mut finding| {
            let text = format!("{n} processes share it: whom they waited for is not seen");
            let sharing = evidence("sharing_processes", n as f64, text);
            // Behind how much is waited.
            let at = finding.evidence.len().min(1);
            finding.evidence.insert(at, sharing);
            if finding
                .subject
                .objects()
                .iter()
                .any(|id| is_semaphore(model, *id))
            {
                // A queue between processes keeps it while it waits for data: these waits are for what
                // the queue brings. More tokens may buy nothing, and larger pieces more than all waits.
                finding.gain.low = 1.0;
                finding.gain.high = f64::INFINITY;
            }
            finding
        }));
    }
}

/// The objects of each lock that processes share. Memory that was mapped before a fork has one address in all that were
/// forked; a program that maps it for itself finds it anywhere, but takes the lock in the same place.
fn shared(model: &Model, locks: &Locks) -> Vec<Vec<Used>> {
    // By who forked, the program, the address.
    let mut inherited: BTreeMap<(u32, Program, u64), Vec<Used>> = BTreeMap::new();
    let used = by_one_thread(model, locks);
    for used in &used {
        let object = &model.objects[used.object.0 as usize];
        if let Some(process) = of(model, used.process).filter(|_| object.addr != 0) {
            let lock = (process.ppid, process.program(), object.addr);
            inherited.entry(lock).or_default().push(*used);
        }
    }
    let is_one = |lock: &Vec<Used>| lock.len() > 1 && lock.iter().any(|used| used.contended > 0);
    let mut all: Vec<Vec<Used>> = inherited.into_values().filter(is_one).collect();
    let known: BTreeSet<ObjectId> = all.iter().flatten().map(|used| used.object).collect();

    // By the program, and where it waits most.
    let mut mapped: BTreeMap<(Program, Vec<&SiteFrame>), Vec<Used>> = BTreeMap::new();
    let elsewhere = |used: &&Used| used.contended >= CONTENDED && !known.contains(&used.object);
    for used in used.iter().filter(elsewhere) {
        let most = model
            .uses_of(used.object)
            .iter()
            .max_by_key(|row| row.wait_ns);
        let site = most.and_then(|row| model.site(row.site));
        if let Some((process, site)) = of(model, used.process).zip(site) {
            let lock = (process.program(), site.frames.iter().collect());
            mapped.entry(lock).or_default().push(*used);
        }
    }
    // Several of one process are a table of locks: which is which in another process is not known.
    let is_one = |lock: &Vec<Used>| {
        let processes: BTreeSet<ProcessId> = lock.iter().map(|used| used.process).collect();
        lock.len() > 1 && processes.len() == lock.len()
    };
    all.extend(mapped.into_values().filter(is_one));
    all
}

/// Locks that one thread of their process uses, and semaphores that it uses as locks.
fn by_one_thread(model: &Model, locks: &Locks) -> Vec<Used> {
    /// What one thread did; `None` once another one has done something, too.
    struct Only {
        thread: ThreadId,
        used: Option<Used>,
        tried: u64,
        posted: u64,
    }
    let mut all: BTreeMap<ObjectId, Only> = BTreeMap::new();
    for row in &model.uses {
        let object = row.object;
        let semaphore = is_semaphore(model, object);
        if !semaphore && !locks.contains(object) {
            continue;
        }
        let role = row.op.map(|op| role(op, true));
        let none = Used {
            object,
            process: model.objects[object.0 as usize].process,
            calls: 0,
            contended: 0,
        };
        let only = all.entry(object).or_insert(Only {
            thread: row.thread,
            used: Some(none),
            tried: 0,
            posted: 0,
        });
        let (calls, contended) = match role {
            Some(Role::Acquire | Role::AcquireShared) => (row.calls.max(row.waits), row.waits),
            Some(Role::Wait) if semaphore => (row.calls.max(row.waits), row.waits),
            Some(Role::Try) if semaphore => {
                only.tried += row.calls.saturating_sub(row.failed);
                (0, 0)
            }
            Some(Role::Try) => (row.calls, 0),
            _ if row.op == Some(Op::SemPost) => {
                only.posted += row.calls;
                (0, 0)
            }
            _ => continue,
        };
        match &mut only.used {
            Some(used) if only.thread == row.thread => {
                used.calls += calls;
                used.contended += contended;
            }
            other => *other = None,
        }
    }
    // Who waits has often tried before: how often in vain is not always known.
    let is_lock = |used: &Used, only: &Only| {
        let (least, most) = (used.calls.max(only.tried), used.calls + only.tried);
        let posted = only.posted as f64;
        let enough = posted >= (1.0 - BALANCED) * least as f64;
        !is_semaphore(model, used.object) || (enough && posted <= (1.0 + BALANCED) * most as f64)
    };
    let found = all.into_values();
    found
        .filter_map(|only| {
            let used = only.used.filter(|used| is_lock(used, &only))?;
            let calls = used.calls.max(only.tried);
            Some(Used { calls, ..used })
        })
        .collect()
}

fn of(model: &Model, process: ProcessId) -> Option<&Process> {
    model.processes.get(process.0 as usize)
}

/// Locks that have a process in common are of one clan.
fn clans(locks: Vec<Vec<Used>>) -> Vec<Clan> {
    let mut clans: Vec<Clan> = Vec::new();
    for lock in locks {
        let processes: BTreeSet<ProcessId> = lock.iter().map(|used| used.process).collect();
        let (mut same, others): (Vec<Clan>, Vec<Clan>) = clans
            .into_iter()
            .partition(|other| !other.processes.is_disjoint(&processes));
        // Into one that is there: of many locks most are of the same clan.
        let mut clan = same.pop().unwrap_or_default();
        for other in same {
            clan.processes.extend(other.processes);
            clan.locks.extend(other.locks);
        }
        clan.processes.extend(processes);
        clan.locks.push(lock);
        clans = others;
        clans.push(clan);
    }
    for clan in &mut clans {
        let mut calls: BTreeMap<ProcessId, u64> = BTreeMap::new();
        for used in clan.locks.iter().flatten() {
            *calls.entry(used.process).or_default() += used.calls;
        }
        let most = calls.values().copied().max().unwrap_or(0);
        clan.processes
            .retain(|process| calls[process] * TAKES_PART >= most);
    }
    clans.retain(|clan| {
        let contended: u64 = clan.locks.iter().flatten().map(|used| used.contended).sum();
        clan.processes.len() > 1 && contended >= CONTENDED
    });
    clans
}

/// The model as it would be if all these processes were the `first`, and each of their shared locks one object.
fn as_one_process(
    model: &Model,
    processes: &BTreeSet<ProcessId>,
    first: ProcessId,
    as_one: &BTreeMap<ObjectId, ObjectId>,
) -> Model {
    // Without what the scheduler and traced sections tell, which is large: its threads are those of other processes.
    let mut joined = Model {
        meta: model.meta.clone(),
        processes: model.processes.clone(),
        objects: model.objects.clone(),
        sites: model.sites.clone(),
        threads: model.threads.clone(),
        groups: model.groups.clone(),
        uses: model.uses.clone(),
        pairs: model.pairs.clone(),
        sched: None,
        sections: None,
        live_curves: None,
        experiments: None,
    };
    for thread in joined
        .threads
        .iter_mut()
        .filter(|thread| processes.contains(&thread.process))
    {
        let group = joined.groups.get(thread.group.0 as usize);
        // What threads of their kind do in the first process, they do.
        let alike = |other: &convoy_model::Group| {
            other.process == first && group.is_some_and(|group| group.name == other.name)
        };
        if let Some(at) = joined.groups.iter().position(alike) {
            thread.group = GroupId(at as u32);
        }
        // Nobody waits for them to end as for a main thread.
        thread.main &= thread.process == first;
        thread.process = first;
    }
    for row in &mut joined.uses {
        row.object = as_one.get(&row.object).copied().unwrap_or(row.object);
    }
    joined
        .uses
        .sort_by_key(|row| (row.object, row.site, row.thread, row.op));
    for pair in &mut joined.pairs {
        pair.object = as_one.get(&pair.object).copied().unwrap_or(pair.object);
    }
    joined
}
