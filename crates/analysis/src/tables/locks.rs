//! Counts of locks, of acquire sites and of families of locks, from the uses of a process.

use std::collections::BTreeMap;

use convoy_model::{ObjectId, Pair, SiteId, Use};

use crate::facts::lock_family::Families;
use crate::facts::operations::Role;
use crate::facts::process_view::{try_spin_ns, ProcessView};
use crate::facts::quadrant::quadrant;
use crate::facts::wait_pairs::{waits_for, Pairs};
use crate::params::Params;
use crate::tables::counters::{LockRow, LockStats, SiteRow, SiteShare};

/// Adds uses up to a [`LockStats`].
#[derive(Debug, Default)]
pub(crate) struct Sum {
    stats: LockStats,
    hold_contended: (u64, u64),
    hold_sampled: (u64, u64),
    acquire: (u64, u64),
    /// Acquisitions (or waits, where those are all that is seen) per local thread index.
    threads: BTreeMap<usize, u64>,
    /// All uses are of objects whose acquisitions are seen.
    observable: bool,
    any: bool,
}

impl Sum {
    /// Adds a use of a lock; other uses are ignored.
    pub(crate) fn add(&mut self, view: &ProcessView, u: &Use) {
        let Some(role) = view.role(u) else { return };
        let futex = matches!(u.op, Some(convoy_profile::Op::FutexWait));
        let s = &mut self.stats;
        match role {
            Role::Acquire | Role::AcquireShared => {
                if !self.any {
                    self.observable = true;
                    self.any = true;
                }
                self.observable &= !futex;
                s.acquisitions += if futex { 0 } else { u.calls };
                s.contended += u.waits;
                s.wait_ns += u.wait_ns;
                s.wait_max_ns = s.wait_max_ns.max(u.wait_max_ns);
                add_hist(&mut s.wait_hist, &u.hist);
                s.timeouts += u.failed.max(u.timeouts);
            }
            Role::Try => {
                s.try_calls += u.calls;
                s.try_failed += u.failed;
                s.try_busy_ns += try_spin_ns(u) as u64;
            }
            Role::Wait | Role::Wake => return,
        }
        s.hold_max_ns = s.hold_max_ns.max(u.hold_max_ns);
        s.hold_total_ns += u.hold_total_ns();
        s.estimated |= u.estimated;
        self.hold_contended.0 += u.hold_contended_n;
        self.hold_contended.1 += u.hold_contended_ns;
        self.hold_sampled.0 += u.hold_sampled_n;
        self.hold_sampled.1 += u.hold_sampled_ns;
        self.acquire.0 += u.acquire_n;
        self.acquire.1 += u.acquire_ns;
        if let Some(i) = view.thread(u.thread) {
            *self.threads.entry(i).or_default() += u.calls.max(u.waits);
        }
    }

    /// The finished numbers.
    pub(crate) fn finish(mut self, view: &ProcessView, t: &Params) -> LockStats {
        let mean = |(n, ns): (u64, u64)| (n > 0).then(|| ns as f64 / n as f64);
        let s = &mut self.stats;
        s.hold_contended_ns = mean(self.hold_contended);
        s.hold_sampled_ns = mean(self.hold_sampled);
        s.acquire_ns = mean(self.acquire);
        s.contention_ratio = (self.observable && s.acquisitions > 0)
            .then(|| (s.contended as f64 / s.acquisitions as f64).min(1.0));
        let seconds = view.wall() / 1e9;
        s.frequency_hz = if seconds > 0.0 {
            s.taken() as f64 / seconds
        } else {
            0.0
        };
        // A thread that initialised or tore down the lock does not dilute the share of its users.
        let most = self.threads.values().copied().max().unwrap_or(0);
        let users = self.threads.iter().filter(|(_, n)| **n * 100 >= most);
        let life: f64 = users.map(|(i, _)| view.threads[*i].life).sum();
        s.waited_ratio = if life > 0.0 {
            (s.wait_ns as f64 / life).min(1.0)
        } else {
            0.0
        };
        s.threads = self.threads.len();
        let unseen = self.any && !self.observable;
        s.quadrant = quadrant(
            if unseen {
                None
            } else {
                Some(s.contention_ratio.unwrap_or(0.0))
            },
            s.frequency_hz,
            t,
        );
        self.stats
    }
}

/// Adds a histogram to another.
pub(crate) fn add_hist(to: &mut Vec<u64>, from: &[u64]) {
    if to.len() < from.len() {
        to.resize(from.len(), 0);
    }
    for (a, b) in to.iter_mut().zip(from) {
        *a += b;
    }
}

/// The parts of an object's use that its sites make, most waited first.
pub(crate) fn site_shares(view: &ProcessView, uses: &[&Use]) -> Vec<SiteShare> {
    let mut by_site: BTreeMap<SiteId, SiteShare> = BTreeMap::new();
    for u in uses {
        if !matches!(
            view.role(u),
            Some(Role::Acquire | Role::AcquireShared | Role::Try | Role::Wait)
        ) {
            continue;
        }
        let share = by_site.entry(u.site).or_insert(SiteShare {
            site: u.site,
            ..Default::default()
        });
        share.acquisitions += u.calls;
        share.contended += u.waits;
        share.wait_ns += u.wait_ns;
    }
    let mut shares: Vec<SiteShare> = by_site.into_values().collect();
    shares.sort_by(|a, b| {
        (b.wait_ns, b.acquisitions, a.site).cmp(&(a.wait_ns, a.acquisitions, b.site))
    });
    shares
}

/// One row per lock, most waited for first.
pub(crate) fn lock_rows(
    view: &ProcessView,
    pairs: &Pairs,
    families: &Families,
    t: &Params,
) -> Vec<LockRow> {
    let mut rows = Vec::new();
    for uses in view.uses().chunk_by(|a, b| a.object == b.object) {
        let object = uses[0].object;
        if !view.locks.contains(object) {
            continue;
        }
        let mut sum = Sum::default();
        uses.iter().for_each(|u| sum.add(view, u));
        let stats = sum.finish(view, t);
        if stats.acquisitions + stats.contended + stats.try_calls == 0 {
            continue;
        }
        rows.push(LockRow {
            object,
            sites: site_shares(view, uses),
            waits_for: if stats.wait_ns > 0 {
                waits_for(own_pairs(view, pairs, object))
            } else {
                Vec::new()
            },
            family: families.of(object),
            stats,
        });
    }
    sort_by_wait(&mut rows, |r| (&r.stats, r.object.0));
    rows
}

/// One row per acquire site, most waited first.
pub(crate) fn site_rows(view: &ProcessView, t: &Params) -> Vec<SiteRow> {
    let mut by_site: BTreeMap<SiteId, (Sum, BTreeMap<ObjectId, u64>)> = BTreeMap::new();
    for u in view.uses().iter().filter(|u| view.locks.contains(u.object)) {
        if matches!(view.role(u), Some(Role::Wake | Role::Wait) | None) {
            continue;
        }
        let (sum, locks) = by_site.entry(u.site).or_default();
        sum.add(view, u);
        *locks.entry(u.object).or_default() += u.wait_ns;
    }
    let mut rows: Vec<SiteRow> = by_site
        .into_iter()
        .map(|(site, (sum, locks))| SiteRow {
            site,
            stats: sum.finish(view, t),
            locks: locks.len(),
            top_lock: locks
                .iter()
                .max_by_key(|(_, ns)| **ns)
                .map(|(id, _)| *id)
                .unwrap_or_default(),
        })
        .collect();
    sort_by_wait(&mut rows, |r| (&r.stats, r.site.0));
    rows
}

/// Pairs of an object whose waiter is a thread of this process.
pub(crate) fn own_pairs<'a>(
    view: &'a ProcessView,
    pairs: &'a Pairs<'a>,
    id: ObjectId,
) -> impl Iterator<Item = &'a Pair> + 'a {
    pairs
        .get(id)
        .iter()
        .copied()
        .filter(|p| view.thread(p.thread).is_some())
}

pub(crate) fn sort_by_wait<T>(rows: &mut [T], key: impl Fn(&T) -> (&LockStats, u32)) {
    rows.sort_by(|a, b| {
        let ((a, a_id), (b, b_id)) = (key(a), key(b));
        (b.wait_ns, b.try_busy_ns, b.acquisitions)
            .cmp(&(a.wait_ns, a.try_busy_ns, a.acquisitions))
            .then(a_id.cmp(&b_id))
    });
}
