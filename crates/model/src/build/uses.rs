//! Brings counts (known by call site) and waits (known by call stack) together.
//!
//! The count of a call site is spread over the stacks that were seen there: every stack gets the calls
//! that certainly were its own, because they waited; the others go in proportion to what the sampler
//! drew. A call site that the sampler never met borrows a stack from its like.

use convoy_profile::{FrameIx, Op, Process, StackIx, ThreadIx};
use rustc_hash::FxHashMap;

use super::apportion::apportion_above;
use super::counts::{Calls, Key};
use super::sites::Sites;
use super::threads::Threads;
use super::waits::Row;
use crate::{ObjectId, Site, Use};

/// All uses of one process's objects, ordered by (object, site, thread, op).
pub(super) fn join(
    process: &Process,
    sample_period: u32,
    counts: &[(Key, Calls)],
    mut rows: Vec<Row>,
    sites: &mut Sites<'_>,
    all_sites: &mut Vec<Site>,
    threads: &Threads,
) -> Vec<Use> {
    let period = u64::from(sample_period.max(1));
    let mut own: Vec<(Key, usize)> = Vec::with_capacity(rows.len());
    let mut borrowed = Borrowed::default();
    for (at, row) in rows.iter().enumerate() {
        let (Some(&frame), Some(op)) = (sites.frames_of(row.stack).first(), row.op) else {
            continue;
        };
        let key = Key {
            object: row.object,
            frame,
            thread: row.thread,
            op,
        };
        own.push((key, at));
        borrowed.add(key, row.stack, estimate(row, period));
    }

    // Both are in the order of their keys: one walk finds what belongs together.
    own.sort_unstable();
    let mut own = own.as_slice();
    let mut uses = Vec::with_capacity(rows.len() + counts.len());
    for (key, calls) in counts {
        let earlier = own.iter().take_while(|(other, _)| other < key).count();
        own = &own[earlier..];
        let stacks = own.iter().take_while(|(other, _)| other == key).count();
        if stacks > 0 {
            spread(*calls, &own[..stacks], &mut rows, period);
            continue;
        }
        let Some(thread) = threads.id(key.thread) else {
            continue;
        };
        let site = match borrowed.pick(*key, calls.n.max(1)) {
            Some(stack) => sites.of_stack(stack, all_sites),
            None if (key.frame as usize) < process.frames.len() => {
                sites.of_frames(&[key.frame], all_sites)
            }
            None => sites.of_frames(&[], all_sites),
        };
        uses.push(Use {
            object: key.object,
            site,
            thread,
            op: Some(key.op),
            calls: calls.n,
            failed: calls.failed,
            estimated: true,
            ..Use::default()
        });
    }
    for row in rows {
        let Some(thread) = threads.id(row.thread) else {
            continue;
        };
        let site = sites.of_stack(row.stack, all_sites);
        uses.push(Use {
            object: row.object,
            site,
            thread,
            ..row.figures
        });
    }
    // A use is large: sort keys, then move each row once.
    uses.sort_by_cached_key(|row| (row.object, row.site, row.thread, row.op));
    uses
}

/// How many calls a stack made, as far as samples and waits tell.
fn estimate(row: &Row, period: u64) -> u64 {
    row.samples.saturating_mul(period).max(row.known_calls())
}

fn spread(calls: Calls, stacks: &[(Key, usize)], rows: &mut [Row], period: u64) {
    let known: Vec<u64> = stacks
        .iter()
        .map(|&(_, at)| rows[at].known_calls())
        .collect();
    let timeouts: Vec<u64> = stacks
        .iter()
        .map(|&(_, at)| rows[at].figures.timeouts)
        .collect();
    let more = stacks.iter().zip(&known);
    let more: Vec<u64> = more
        .map(|(&(_, at), known)| estimate(&rows[at], period) - known)
        .collect();
    // Where the sampler drew nothing, those that waited more also called more.
    let weights = if more.iter().all(|&weight| weight == 0) {
        &known
    } else {
        &more
    };
    let shares = apportion_above(calls.n, &known, weights);
    let failures = apportion_above(calls.failed, &timeouts, &shares);
    for ((&(_, at), share), failed) in stacks.iter().zip(shares).zip(failures) {
        let figures = &mut rows[at].figures;
        figures.calls = share;
        figures.failed = failed;
        figures.estimated = calls.estimated || stacks.len() > 1;
    }
}

/// Stacks that may stand in for one that is not known.
#[derive(Default)]
struct Borrowed {
    pools: FxHashMap<Like, Pool>,
}

/// In what respect a call site is like another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Like {
    Object(ObjectId, FrameIx, Op),
    Thread(FrameIx, ThreadIx, Op),
    Frame(FrameIx, Op),
}

/// Stacks of one leaf frame, how often each was met, and how many calls it was lent for.
#[derive(Default)]
struct Pool {
    stacks: Vec<(StackIx, u64, u64)>,
    weight: u64,
    lent: u64,
}

impl Borrowed {
    fn likes(key: Key) -> [Like; 3] {
        [
            Like::Object(key.object, key.frame, key.op),
            Like::Thread(key.frame, key.thread, key.op),
            Like::Frame(key.frame, key.op),
        ]
    }

    fn add(&mut self, key: Key, stack: StackIx, weight: u64) {
        for like in Self::likes(key) {
            let pool = self.pools.entry(like).or_default();
            pool.weight = pool.weight.saturating_add(weight);
            match pool.stacks.iter_mut().find(|entry| entry.0 == stack) {
                Some(entry) => entry.1 = entry.1.saturating_add(weight),
                None => pool.stacks.push((stack, weight, 0)),
            }
        }
    }

    /// A stack for `calls` calls. A row that was never sampled is small, so it goes to one stack as a
    /// whole: the one that is furthest behind its share, so that many such rows come out in
    /// proportion.
    fn pick(&mut self, key: Key, calls: u64) -> Option<StackIx> {
        for like in Self::likes(key) {
            if let Some(pool) = self.pools.get_mut(&like) {
                return pool.pick(calls);
            }
        }
        None
    }
}

impl Pool {
    fn pick(&mut self, calls: u64) -> Option<StackIx> {
        self.lent = self.lent.saturating_add(calls);
        let due = |&(_, weight, lent): &(StackIx, u64, u64)| {
            let share = u128::from(self.lent) * u128::from(weight) / u128::from(self.weight.max(1));
            share as i128 - i128::from(lent)
        };
        let most = (0..self.stacks.len())
            .rev()
            .max_by_key(|&at| due(&self.stacks[at]))?;
        let entry = &mut self.stacks[most];
        entry.2 = entry.2.saturating_add(calls);
        Some(entry.0)
    }
}
