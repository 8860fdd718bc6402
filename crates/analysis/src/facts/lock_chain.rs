//! Chains: a thread that holds lock X and waits for lock Y makes everybody who waits for X wait for Y.
//!
//! Counts do not record what a waiter holds, but call stacks tell: the wait for Y happened inside the
//! function that had acquired X, after that call. Two sections one after the other look the same;
//! but then X is not held while Y is waited for, and its holds are too short to contain the waits.

use std::collections::BTreeMap;

use convoy_model::{ObjectId, SiteFrame, SiteId};

use crate::facts::operations::Role;
use crate::facts::process_view::ProcessView;
use crate::tables::counters::LockRow;

/// Only locks that matter are linked: the search is quadratic in them.
const LOCKS_MAX: usize = 32;
const DEPTH_MAX: usize = 4;

/// For each lock, the share of its hold time that its holders spend waiting for another one.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    share: BTreeMap<ObjectId, Vec<(ObjectId, f64)>>,
}

impl Chains {
    /// `locks`: most waited for first.
    pub(crate) fn of(view: &ProcessView, locks: &[LockRow]) -> Self {
        let top: Vec<&LockRow> = locks
            .iter()
            .filter(|r| r.stats.wait_ns > 0)
            .take(LOCKS_MAX)
            .collect();
        let mut share: BTreeMap<ObjectId, Vec<(ObjectId, f64)>> = BTreeMap::new();
        for held in &top {
            for awaited in top.iter().filter(|r| r.object != held.object) {
                let inside = waited_inside(view, held.object, awaited.object);
                let hold = held_at_least(held);
                if hold > 0.0
                    && inside > 0.05 * hold
                    && inside <= tolerance(view, held.object) * hold
                {
                    share
                        .entry(held.object)
                        .or_default()
                        .push((awaited.object, (inside / hold).min(1.0)));
                }
            }
        }
        Self { share }
    }

    /// Share of the waits for `lock` that is really for locks its holders wait for.
    pub(crate) fn passed_on(&self, lock: ObjectId) -> f64 {
        self.share
            .get(&lock)
            .map_or(0.0, |v| v.iter().map(|(_, s)| s).sum::<f64>().min(1.0))
    }

    /// Share of the waits for `from` that is really for `to`.
    pub(crate) fn reaches(&self, from: ObjectId, to: ObjectId) -> f64 {
        self.walk(from, to, DEPTH_MAX).min(1.0)
    }

    /// Locks whose waits are partly for `to`.
    pub(crate) fn waiting_for(&self, to: ObjectId) -> Vec<(ObjectId, f64)> {
        let reach = self
            .share
            .keys()
            .filter(|from| **from != to)
            .map(|from| (*from, self.reaches(*from, to)));
        reach.filter(|(_, s)| *s > 0.05).collect()
    }

    fn walk(&self, from: ObjectId, to: ObjectId, depth: usize) -> f64 {
        let Some(next) = self.share.get(&from).filter(|_| depth > 0) else {
            return 0.0;
        };
        next.iter()
            .map(|(id, s)| {
                if *id == to {
                    *s
                } else {
                    s * self.walk(*id, to, depth - 1)
                }
            })
            .sum()
    }
}

/// Time that the lock was held, nanoseconds. A few samples may have missed its long holds; but all of its threads but one
/// can wait at a time, and while they did so it was held.
fn held_at_least(lock: &LockRow) -> f64 {
    let others = lock.stats.threads.saturating_sub(1).max(1) as f64;
    lock.stats
        .hold_total_ns
        .max(lock.stats.wait_ns as f64 / others)
}

/// Holds are sampled and vary widely where some of them contain a wait: their sum may be this many
/// times what the samples say (three standard errors of a mean whose deviation is the mean).
fn tolerance(view: &ProcessView, lock: ObjectId) -> f64 {
    let sampled: u64 = view.uses_of(lock).iter().map(|u| u.hold_sampled_n).sum();
    1.2 + 3.0 / (sampled.max(1) as f64).sqrt()
}

/// Time that threads waited for `awaited` inside of sections of `held`, nanoseconds.
fn waited_inside(view: &ProcessView, held: ObjectId, awaited: ObjectId) -> f64 {
    let mut sites: Vec<SiteId> = Vec::new();
    for u in view
        .uses_of(held)
        .iter()
        .filter(|u| matches!(view.role(u), Some(Role::Acquire)))
    {
        if !sites.contains(&u.site) {
            sites.push(u.site);
        }
    }
    let mut sum = 0.0;
    for u in view.uses_of(awaited).iter().filter(|u| u.wait_ns > 0) {
        let threads_held = || view.uses_of(held).iter().any(|h| h.thread == u.thread);
        if matches!(view.role(u), Some(Role::Acquire | Role::AcquireShared))
            && sites.iter().any(|s| is_inside(view, *s, u.site))
            && threads_held()
        {
            sum += u.wait_ns as f64;
        }
    }
    sum
}

/// The stack of `inner` goes through the function of `outer`, past its call.
fn is_inside(view: &ProcessView, outer: SiteId, inner: SiteId) -> bool {
    let frames = |s: SiteId| {
        view.model
            .sites
            .get(s.0 as usize)
            .map(|s| (s.frames.as_slice(), s.shown))
    };
    let (Some((outer, shown)), Some((inner, _))) = (frames(outer), frames(inner)) else {
        return false;
    };
    let Some(caller) = outer.get(shown) else {
        return false;
    };
    let outside: &[SiteFrame] = outer.get(shown + 1..).unwrap_or(&[]);
    inner.iter().enumerate().any(|(i, f)| {
        !f.function.is_empty()
            && f.function == caller.function
            && f.module == caller.module
            && f.offset > caller.offset
            // The same activation as far as can be seen: called from the same places.
            && inner[i + 1..].iter().zip(outside).all(|(a, b)| a == b)
    })
}
