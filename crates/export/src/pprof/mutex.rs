//! Waits for locks at the stack of who made others wait: where the holder released the lock, as in
//! Go since 1.22; where that is not known, where it had acquired it.

use std::collections::BTreeMap;

use convoy_model::{
    Model, ObjectId, OffId, OffReason, Pair, Sched, SiteFrame, SiteId, SyncCode, ThreadId, Waker,
};
use convoy_report::Report;

use super::rows::{text, Rows, Sum};
use super::{lock_labels, pseudo, thread_labels};
use crate::moments;
use crate::stacks::frames;
use crate::waits::without_agent;

/// The stack of waits whose holder is not known.
const UNKNOWN: &str = "[holder not known]";

/// All rows, and remarks for people.
pub(super) fn rows(report: &Report<'_>) -> (Rows, Vec<String>) {
    let model = report.model;
    let mut rows = Rows::default();
    let (mut all, mut unknown) = (0, 0);
    let mut count = |sums: (u64, u64)| {
        all += sums.0;
        unknown += sums.1;
    };
    count(of_agent(report, &mut rows));
    if let Some(sched) = &model.sched {
        count(of_scheduler(model, sched, &mut rows));
    }
    let mut remarks = Vec::new();
    if all == 0 {
        let empty = "no thread waited for a lock: the profile is empty";
        remarks.extend(moments::nothing(model, empty));
    } else if unknown * 10 > all {
        let percent = unknown * 100 / all;
        remarks.push(format!(
            "{percent} % of the waits have no known holder: they are at {UNKNOWN}"
        ));
    }
    (rows, remarks)
}

/// Waits that the agent counted; in all, and without a holder, nanoseconds.
fn of_agent(report: &Report<'_>, rows: &mut Rows) -> (u64, u64) {
    let model = report.model;
    let mut pairs: BTreeMap<ObjectId, Vec<&Pair>> = BTreeMap::new();
    for pair in &model.pairs {
        pairs.entry(pair.object).or_default().push(pair);
    }
    let (mut all, mut unknown) = (0, 0);
    for row in &report.analysis.locks {
        let (mut count, mut ns) = (row.stats.contended, row.stats.wait_ns);
        all += ns;
        for (holder, sum) in holders(pairs.get(&row.object).map_or(&[], Vec::as_slice)) {
            // The waits of the lock are exact; its pairs are at most as many.
            let sum = Sum {
                count: sum.count.min(count),
                ns: sum.ns.min(ns),
            };
            (count, ns) = (count - sum.count, ns - sum.ns);
            let mut labels = lock_labels(model, row.object);
            if let Some(id) = holder.thread {
                labels.extend(thread_labels(model, id));
            }
            rows.add(holder.frames(model), labels, sum);
        }
        unknown += ns;
        if count > 0 || ns > 0 {
            let labels = lock_labels(model, row.object);
            rows.add(&[pseudo(UNKNOWN)], labels, Sum { count, ns });
        }
    }
    (all, unknown)
}

/// Waits that the scheduler saw in processes without an agent: in a lock's code, by where the
/// thread was that ended them.
fn of_scheduler(model: &Model, sched: &Sched, rows: &mut Rows) -> (u64, u64) {
    let is_lock = |site: Option<SiteId>| {
        let site = site.and_then(|id| model.site(id));
        site.and_then(|site| site.sync) == Some(SyncCode::Lock)
    };
    // Of each wait, what no waker accounts for.
    let mut waits: BTreeMap<OffId, Sum> = BTreeMap::new();
    for (ix, off) in (0u32..).zip(&sched.offs) {
        let is_futex = off.reason == OffReason::Futex;
        if is_futex && without_agent(model, off.thread) && is_lock(off.site) {
            let sum = Sum {
                count: off.n,
                ns: off.sum_ns,
            };
            waits.insert(OffId(ix), sum);
        }
    }
    let all = waits.values().map(|sum| sum.ns).sum();
    let kind = || text("kind", "futex");
    for wake in &sched.wakes {
        let Some(left) = waits.get_mut(&wake.off) else {
            continue;
        };
        let Waker::Thread(holder, Some(site)) = wake.waker else {
            continue;
        };
        if frames(model, site).is_empty() {
            continue;
        }
        let sum = Sum {
            count: wake.n.min(left.count),
            ns: wake.wait_ns.min(left.ns),
        };
        (left.count, left.ns) = (left.count - sum.count, left.ns - sum.ns);
        let mut labels = vec![kind()];
        labels.extend(thread_labels(model, holder));
        rows.add(frames(model, site), labels, sum);
    }
    let mut unknown = 0;
    for left in waits.into_values().filter(|sum| *sum != Sum::default()) {
        unknown += left.ns;
        rows.add(&[pseudo(UNKNOWN)], vec![kind()], left);
    }
    (all, unknown)
}

/// Who made others wait, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Holder<'a> {
    thread: Option<ThreadId>,
    released_at: Option<SiteId>,
    acquired_at: &'a [SiteFrame],
}

impl<'a> Holder<'a> {
    fn frames(&self, model: &'a Model) -> &'a [SiteFrame] {
        match self.released_at.map(|site| frames(model, site)) {
            Some(known) if !known.is_empty() => known,
            _ => self.acquired_at,
        }
    }
}

fn holders<'a>(pairs: &[&'a Pair]) -> Vec<(Holder<'a>, Sum)> {
    let mut all: BTreeMap<Holder<'_>, Sum> = BTreeMap::new();
    for pair in pairs {
        let holder = Holder {
            thread: pair.peer,
            released_at: pair.peer_site,
            acquired_at: &pair.peer_acquired_at,
        };
        // Nobody's stack is the same as no pair at all.
        if holder.released_at.is_some() || !holder.acquired_at.is_empty() {
            let sum = all.entry(holder).or_default();
            sum.count += pair.waits;
            sum.ns += pair.wait_ns;
        }
    }
    all.into_iter().collect()
}
