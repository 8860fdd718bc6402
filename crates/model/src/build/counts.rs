//! Exact counts per (object, call site, thread, operation), with those of unknown objects spread.
//!
//! The agent counts a call whose object found no room per call site only, and one in 64 of these,
//! drawn at random, on its object too. The draws say how to spread the others.

use convoy_profile::{FrameIx, Op, Process, ThreadIx, Unattributed};
use rustc_hash::FxHashMap;

use super::apportion::apportion;
use super::objects::Objects;
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
    spread(process, objects, all, &mut rows);
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
    objects: &mut Objects,
    all: &mut Vec<Object>,
    rows: &mut Vec<(Key, Calls)>,
) {
    if process.unattributed.is_empty() {
        return;
    }
    let levels = evidence(process, objects);
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
        let (ids, weights): (Vec<_>, Vec<_>) = match found {
            Some(found) => found.iter().copied().unzip(),
            None => (vec![objects.unknown(kind_of(op), all)], vec![1]),
        };
        let calls = apportion(n, &weights);
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
        let leaf = process
            .stacks
            .get(row.stack as usize)
            .and_then(|stack| stack.first());
        if let (Some(&frame), Some(op), Some(object)) = (leaf, row.op, objects.id(row.object)) {
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
