//! Queries: what they may name, and those that are asked when nobody asked for any.

use std::collections::BTreeMap;

use convoy_trace::ObjectIx;

use crate::analysis::LockRow;
use crate::extract::Extraction;
use crate::study::Study;
use crate::ulcp::Class;
use crate::waits::{waits, Meeting};
use crate::whatif::{quoted, Names};

/// Things that are asked about without having been named, at most.
const MOST_ASKED: usize = 3;
/// ... if the waits for them are at least this share of the threads' time.
const MIN_WAIT_SHARE: f64 = 0.01;
/// Parts into which a lock is divided where nobody asked for a number: more than most machines'
/// threads need to seldom meet.
const SHARDS: u32 = 8;
/// A lock is worth a reader-writer lock if this share of its pairs only read.
const READ_SHARE: f64 = 0.3;

/// What queries may name in one window's program.
pub(super) fn query_names(study: &Study<'_>, extraction: &Extraction) -> Names {
    let by_name = |recorded: &mut dyn Iterator<Item = ObjectIx>| {
        let mut of: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (ix, object) in (0..).zip(recorded) {
            of.entry(study.object_name(object)).or_default().push(ix);
        }
        of.into_iter().collect()
    };
    let program = &extraction.program;
    let mut groups: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (thread, of) in program.threads.iter().enumerate() {
        if let Some(group) = study.names.groups.get(of.recorded as usize) {
            groups.entry(group.clone()).or_default().push(thread as u32);
        }
    }
    Names {
        locks: by_name(&mut program.locks.iter().map(|of| of.recorded)),
        barriers: by_name(&mut program.barriers.iter().map(|of| of.recorded)),
        semaphores: by_name(&mut program.semaphores.iter().map(|of| of.recorded)),
        groups: groups.into_iter().collect(),
    }
}

/// The what-if that each class of unnecessary contention calls for.
pub(super) fn fix_of(class: Class, lock: &str) -> String {
    let lock = quoted(lock);
    match class {
        Class::ReadRead => format!("rwlock {lock}"),
        Class::DisjointWrite => format!("{lock} / {SHARDS}"),
        _ => format!("remove {lock}"),
    }
}

/// Waits of all threads from which on something is worth asking about, nanoseconds.
fn least_wait_ns(study: &Study<'_>) -> f64 {
    let threads = study.extractions.iter().map(|e| e.opaque.thread_ns);
    MIN_WAIT_SHARE * threads.sum::<f64>()
}

/// Locks with waits that are worth asking about.
pub(super) fn waited<'r>(
    study: &Study<'_>,
    locks: &'r [(ObjectIx, LockRow)],
) -> impl Iterator<Item = &'r LockRow> {
    let least = least_wait_ns(study);
    let rows = locks.iter().map(|(_, row)| row);
    rows.filter(move |row| row.waited_ns >= least && row.threads > 1)
}

/// What is asked about the locks, barriers and pools that threads wait for.
pub(super) fn default_queries(study: &Study<'_>, locks: &[(ObjectIx, LockRow)]) -> Vec<String> {
    let mut queries = Vec::new();
    for row in waited(study, locks).take(MOST_ASKED) {
        let lock = quoted(&row.name);
        queries.push(format!("remove {lock}"));
        queries.push(format!("{lock} / {SHARDS}"));
        queries.push(format!("shorten {lock} 50%"));
        let reads = row
            .ulcp
            .map_or(0.0, |c| c.read_read as f64 / c.pairs().max(1) as f64);
        if reads >= READ_SHARE {
            queries.push(format!("rwlock {lock}"));
        }
    }
    let least = least_wait_ns(study);
    let waits = waits(study);
    let long = waits.iter().filter(|wait| wait.waited_ns >= least);
    queries.extend(long.take(MOST_ASKED).filter_map(|wait| {
        let name = quoted(&study.object_name(wait.object));
        match wait.at {
            Meeting::Barrier => Some(format!("balance {name}")),
            Meeting::Pool { permits } if wait.threads > permits => {
                Some(format!("permits {name}={}", wait.threads))
            }
            Meeting::Pool { .. } => None,
        }
    }));
    queries
}

/// Queries of the most waited for lock that differ in one number.
pub(super) fn dials(study: &Study<'_>, locks: &[(ObjectIx, LockRow)]) -> Vec<String> {
    const SHARDS: [u32; 4] = [2, 4, 8, 16];
    const SHORTER: [u32; 3] = [25, 50, 75];
    let Some(row) = waited(study, locks).next() else {
        return Vec::new();
    };
    let lock = quoted(&row.name);
    let shards = SHARDS.iter().map(|ways| format!("{lock} / {ways}"));
    let shorter = SHORTER
        .iter()
        .map(|share| format!("shorten {lock} {share}%"));
    shards.chain(shorter).collect()
}
