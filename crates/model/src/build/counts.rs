//! Exact counts per (object, call site, thread, operation), with those of unknown objects spread.
//!
//! The agent counts a call whose object found no room per call site only, and one in 64 of these,
//! drawn at random, on its object too. The draws say how to spread the others. What waited is known of
//! every object, however rare: none gets fewer calls than that.

use std::collections::BTreeMap;

use convoy_profile::{FrameIx, Op, Process, StackIx, ThreadIx, Unattributed};
use rustc_hash::FxHashMap;

use super::apportion::{apportion, apportion_above};
use super::objects::Objects;
use super::waits::Row;
use crate::kinds::kind_of;
use crate::{sum_by_key, Object, ObjectId};

/// Who called what from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) object: ObjectId,
    pub(super) frame: FrameIx,
    pub(super) thread: ThreadIx,
    pub(super) op: Op,
}

/// How often.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Calls {
    pub(super) n: u64,
    pub(super) failed: u64,
    /// Part of it was spread over objects.
    pub(super) estimated: bool,
}

/// A call site; without a thread, that of all threads.
type Place = (FrameIx, Option<ThreadIx>, Op);
/// How much speaks for each object at a place.
type Evidence = FxHashMap<Place, Vec<(ObjectId, u64)>>;

/// All counts, ordered by key.
pub(super) fn collect(
    process: &Process,
    waits: &[Row],
    objects: &mut Objects,
    all: &mut Vec<Object>,
) -> Vec<(Key, Calls)> {
    let mut rows = Vec::with_capacity(process.counts.len());
    for count in &process.counts {
        if let Some(object) = objects.id(count.object) {
            let key = Key {
                object,
                frame: count.frame,
                thread: count.thread,
                op: count.op,
            };
            rows.push((
                key,
                Calls {
                    n: count.n,
                    failed: count.failed,
                    estimated: false,
                },
            ));
        }
    }
    spread(process, waits, objects, all, &mut rows);
    join(rows)
}

fn join(mut rows: Vec<(Key, Calls)>) -> Vec<(Key, Calls)> {
    rows.sort_by_key(|&(key, _)| key);
    rows.dedup_by(|(later_key, later), (key, calls)| {
        let same = later_key == key;
        if same {
            calls.n = calls.n.saturating_add(later.n);
            calls.failed = calls.failed.saturating_add(later.failed);
            calls.estimated |= later.estimated;
        }
        same
    });
    rows.retain(|(_, calls)| calls.n > 0 || calls.failed > 0);
    rows
}

fn spread(
    process: &Process,
    waits: &[Row],
    objects: &mut Objects,
    all: &mut Vec<Object>,
    rows: &mut Vec<(Key, Calls)>,
) {
    if process.unattributed.is_empty() {
        return;
    }
    let levels = evidence(process, objects);
    let mut certain = certain(process, waits, rows);
    for row in &process.unattributed {
        let &Unattributed {
            frame,
            thread,
            op,
            n,
            failed,
        } = row;
        let places = [(frame, Some(thread), op), (frame, None, op)];
        let found = levels
            .iter()
            .flat_map(|level| places.iter().map(move |place| level.get(place)))
            .flatten()
            .find(|weights| !weights.is_empty());
        let mut known = certain
            .remove(&(frame, Some(thread), op))
            .unwrap_or_default();
        let (mut ids, mut weights): (Vec<_>, Vec<_>) = match found {
            Some(found) => found.iter().copied().unzip(),
            None if known.is_empty() => (vec![objects.unknown(kind_of(op), all)], vec![1]),
            None => Default::default(),
        };
        let mut floors = vec![0; ids.len()];
        for (&id, floor) in ids.iter().zip(&mut floors) {
            *floor = known.remove(&id).unwrap_or(0);
        }
        for (id, floor) in known {
            ids.push(id);
            weights.push(0);
            floors.push(floor);
        }
        let calls = at_least(n, &floors, &weights);
        // A call cannot fail where there was none.
        let failures = apportion(failed, if n == 0 { &weights } else { &calls });
        for ((object, n), failed) in ids.into_iter().zip(calls).zip(failures) {
            let key = Key {
                object,
                frame,
                thread,
                op,
            };
            rows.push((
                key,
                Calls {
                    n,
                    failed,
                    estimated: true,
                },
            ));
        }
    }
}

/// Shares of `n` by weight, but no less than the floors.
fn at_least(n: u64, floors: &[u64], weights: &[u64]) -> Vec<u64> {
    let shares = apportion(n, weights);
    let above = shares
        .iter()
        .zip(floors)
        .map(|(share, floor)| share.saturating_sub(*floor));
    let above: Vec<u64> = above.collect();
    apportion_above(n, floors, &above)
}

/// The innermost frame of a stack.
fn leaf(process: &Process, stack: StackIx) -> Option<FrameIx> {
    process.stacks.get(stack as usize)?.first().copied()
}

/// Calls of unknown objects that were certainly theirs: more of them waited than were counted on the object.
fn certain(
    process: &Process,
    waits: &[Row],
    rows: &[(Key, Calls)],
) -> FxHashMap<Place, BTreeMap<ObjectId, u64>> {
    let mut known: FxHashMap<Place, BTreeMap<ObjectId, u64>> = process
        .unattributed
        .iter()
        .map(|row| ((row.frame, Some(row.thread), row.op), BTreeMap::new()))
        .collect();
    for row in waits.iter().filter(|row| row.known_calls() > 0) {
        let leaf = leaf(process, row.stack);
        let (Some(frame), Some(op)) = (leaf, row.op) else {
            continue;
        };
        if let Some(at) = known.get_mut(&(frame, Some(row.thread), op)) {
            let calls = at.entry(row.object).or_default();
            *calls = calls.saturating_add(row.known_calls());
        }
    }
    for (key, calls) in rows {
        let at = known.get_mut(&(key.frame, Some(key.thread), key.op));
        if let Some(known) = at.and_then(|at| at.get_mut(&key.object)) {
            *known = known.saturating_sub(calls.n);
        }
    }
    for at in known.values_mut() {
        at.retain(|_, calls| *calls > 0);
    }
    known
}

/// What speaks for which object at the places to be spread, best evidence first: the draws made for
/// this purpose, then sampled stacks, then what was counted exactly.
fn evidence(process: &Process, objects: &Objects) -> [Evidence; 3] {
    let mut levels: [Evidence; 3] = Default::default();
    for row in &process.unattributed {
        for level in &mut levels {
            level
                .entry((row.frame, Some(row.thread), row.op))
                .or_default();
            level.entry((row.frame, None, row.op)).or_default();
        }
    }
    let add = |level: &mut Evidence, frame, thread, op, object, weight: u64| {
        if weight == 0 {
            return;
        }
        for place in [(frame, Some(thread), op), (frame, None, op)] {
            if let Some(weights) = level.get_mut(&place) {
                weights.push((object, weight));
            }
        }
    };
    let [draws, samples, counts] = &mut levels;
    for row in &process.counts {
        if let Some(object) = objects.id(row.object) {
            add(draws, row.frame, row.thread, row.op, object, row.sampled);
            add(counts, row.frame, row.thread, row.op, object, row.n);
        }
    }
    for row in &process.details {
        let leaf = leaf(process, row.stack);
        if let (Some(frame), Some(op), Some(object)) = (leaf, row.op, objects.id(row.object)) {
            add(
                samples,
                frame,
                row.thread,
                op,
                object,
                u64::from(row.samples),
            );
        }
    }
    levels
        .iter_mut()
        .flat_map(FxHashMap::values_mut)
        .for_each(sum_by_key);
    levels
}
