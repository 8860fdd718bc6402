//! Locks and other objects that were waited for.

use std::collections::BTreeMap;

use convoy_analysis::counters::{EventClass, FamilyRow, WaitsFor};
use convoy_model::{GroupId, Model, ObjectId, ThreadId};
use convoy_report::{names, Report};
use serde::Serialize;

use super::strings::Strings;

/// Objects that get a part of the page of their own.
const OBJECTS: usize = 24;
/// Locks of a family that are drawn, the most used ones.
const LOCKS: usize = 400;
/// Threads up to which the matrix has a row for each; with more it has one for each group.
const THREADS: usize = 24;

/// For the scripts.
#[derive(Debug, Serialize)]
pub(crate) struct Lock {
    /// Number of the object, as in the intervals and in the page's anchors.
    object: u32,
    /// `hist[i]`: waits of [2^i, 2^(i+1)) ns.
    hist: Vec<u64>,
}

/// The locks of one site.
#[derive(Debug, Serialize)]
pub(crate) struct Family {
    site: u32,
    locks: usize,
    /// Most acquired first: name, acquisitions, contended, waits in nanoseconds.
    rows: Vec<(u32, u64, u64, u64)>,
}

/// An object with its waits, lock or not.
pub(crate) struct WaitedFor<'a> {
    /// Nobody could have shortened them.
    pub(crate) idle: bool,
    pub(crate) object: ObjectId,
    pub(crate) wait_ns: u64,
    pub(crate) hist: &'a [u64],
    pub(crate) waits_for: &'a [WaitsFor],
}

/// The objects most waited for; waits that nobody could shorten last, as they are part of the picture, too.
pub(crate) fn waited_for<'a>(report: &Report<'a>) -> Vec<WaitedFor<'a>> {
    let locks = report.analysis.locks.iter().map(|row| WaitedFor {
        idle: false,
        object: row.object,
        wait_ns: row.stats.wait_ns,
        hist: &row.stats.wait_hist,
        waits_for: &row.waits_for,
    });
    let events = report.analysis.events.iter().map(|row| WaitedFor {
        idle: row.class == EventClass::Idle,
        object: row.object,
        wait_ns: row.wait_ns,
        hist: &row.wait_hist,
        waits_for: &row.waits_for,
    });
    let mut all: Vec<_> = locks.chain(events).filter(|row| row.wait_ns > 0).collect();
    all.sort_by_key(|row| (row.idle, std::cmp::Reverse(row.wait_ns)));
    all.truncate(OBJECTS);
    all
}

pub(crate) fn locks(report: &Report<'_>) -> Vec<Lock> {
    let lock = |row: WaitedFor<'_>| Lock {
        object: row.object.0,
        hist: row.hist.to_vec(),
    };
    waited_for(report).into_iter().map(lock).collect()
}

pub(crate) fn families(report: &Report<'_>, strings: &mut Strings) -> Vec<Family> {
    let families = report.analysis.families.iter();
    families
        .filter(|family| family.locks.len() > 1)
        .take(8)
        .map(|family| family_of(report.model, family, strings))
        .collect()
}

fn family_of(model: &Model, family: &FamilyRow, strings: &mut Strings) -> Family {
    let mut sums: BTreeMap<ObjectId, (u64, u64, u64)> =
        family.locks.iter().map(|&id| (id, (0, 0, 0))).collect();
    for row in &model.uses {
        if !row.op.is_some_and(convoy_model::is_blocking_acquire) {
            continue;
        }
        if let Some((calls, waits, ns)) = sums.get_mut(&row.object) {
            *calls = calls.saturating_add(row.calls);
            *waits = waits.saturating_add(row.waits);
            *ns = ns.saturating_add(row.wait_ns);
        }
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|&(id, (calls, ..))| (std::cmp::Reverse(calls), id));
    Family {
        site: strings.id(names::site_of(model, family.site)),
        locks: rows.len(),
        rows: rows
            .into_iter()
            .take(LOCKS)
            .map(|(id, (calls, waits, ns))| {
                (strings.id(names::object_of(model, id)), calls, waits, ns)
            })
            .collect(),
    }
}

/// Who waited for whom on an object.
#[derive(Debug)]
pub(crate) struct Matrix {
    /// Names of those who waited, and of those for whom.
    pub(crate) labels: Vec<String>,
    /// Nanoseconds; the last column is waits for somebody unknown.
    pub(crate) cells: Vec<Vec<u64>>,
    /// Labels are groups, as there were too many threads.
    pub(crate) by_group: bool,
}

/// Who waited for whom on `object`; nothing if nobody is known.
pub(crate) fn matrix(model: &Model, object: ObjectId) -> Option<Matrix> {
    let pairs = || model.pairs.iter().filter(|pair| pair.object == object);
    let mut threads: Vec<ThreadId> = pairs()
        .flat_map(|pair| [Some(pair.thread), pair.peer])
        .flatten()
        .collect();
    threads.sort_unstable();
    threads.dedup();
    if threads.is_empty() || pairs().all(|pair| pair.peer.is_none()) {
        return None;
    }
    let by_group = threads.len() > THREADS;
    let group = |id: ThreadId| model.threads.get(id.0 as usize).map(|t| t.group);
    let mut groups: Vec<GroupId> = threads.iter().filter_map(|&id| group(id)).collect();
    groups.sort_unstable();
    groups.dedup();
    groups.truncate(THREADS);
    let labels: Vec<String> = if by_group {
        groups
            .iter()
            .filter_map(|id| model.groups.get(id.0 as usize).map(names::group))
            .collect()
    } else {
        threads
            .iter()
            .map(|id| names::thread_of(model, *id))
            .collect()
    };
    let place = |id: ThreadId| match by_group {
        true => groups.iter().position(|&g| Some(g) == group(id)),
        false => threads.binary_search(&id).ok(),
    };
    let mut cells = vec![vec![0u64; labels.len() + 1]; labels.len()];
    for pair in pairs() {
        let column = pair.peer.and_then(place).unwrap_or(labels.len());
        let row = place(pair.thread).and_then(|row| cells.get_mut(row));
        if let Some(cell) = row.and_then(|row| row.get_mut(column)) {
            *cell = cell.saturating_add(pair.wait_ns);
        }
    }
    Some(Matrix {
        labels,
        cells,
        by_group,
    })
}
