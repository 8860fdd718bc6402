//! Waits of threads that exclude one another, at a lock of whatever kind.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::Evidence;
use convoy_model::words::{count, duration};
use convoy_model::{GroupId, OffCpu, ProcessId, SiteId, ThreadId};

use crate::facts::concurrency::add;
use crate::facts::run_view::RunView;
use crate::tables::waits::{low_ns, meanwhile};
use crate::words::{evidence, time};

/// Waits that make a convoy: fewer are a start or an end.
const WAITS: u64 = 20;

/// Waits for one lock, or for those of one place, summed.
#[derive(Default)]
pub(crate) struct Excluded {
    pub(crate) n: u64,
    pub(crate) sum: f64,
    /// While parallelism was low or nobody worked.
    low: f64,
    pub(crate) threads: BTreeSet<ThreadId>,
    /// Waited, by how many worked meanwhile.
    pub(crate) meanwhile: Vec<u64>,
    pub(crate) sites: BTreeMap<SiteId, f64>,
}

impl Excluded {
    pub(crate) fn add(&mut self, view: &RunView, off: &OffCpu) {
        self.n = self.n.saturating_add(off.n);
        self.sum += off.sum_ns as f64;
        self.low += low_ns(view, off);
        self.threads.insert(off.thread);
        add(&mut self.meanwhile, meanwhile(off));
        if let Some(site) = off.site {
            *self.sites.entry(site).or_default() += off.sum_ns as f64;
        }
    }

    /// Those of another place for the same lock.
    pub(crate) fn join(&mut self, other: Self) {
        self.n = self.n.saturating_add(other.n);
        self.sum += other.sum;
        self.low += other.low;
        self.threads.extend(other.threads);
        add(&mut self.meanwhile, &other.meanwhile);
        for (site, ns) in other.sites {
            *self.sites.entry(site).or_default() += ns;
        }
    }

    /// Several threads wait, and again and again.
    pub(crate) fn is_a_convoy(&self) -> bool {
        self.n >= WAITS && self.threads.len() > 1
    }

    pub(crate) fn roles(&self, view: &RunView) -> Vec<GroupId> {
        let roles: BTreeSet<GroupId> = self.threads.iter().map(|&id| view.role(id)).collect();
        roles.into_iter().collect()
    }

    pub(crate) fn processes(&self, view: &RunView) -> BTreeSet<ProcessId> {
        self.threads.iter().map(|&id| view.process(id)).collect()
    }

    /// Share of their lives that these threads wait.
    pub(crate) fn share(&self, view: &RunView) -> f64 {
        let lives = view.lives(&self.threads);
        (self.sum / lives.max(1.0)).min(1.0)
    }

    pub(crate) fn evidence(&self) -> Vec<Evidence> {
        let (n, sum) = (count(self.n as f64), duration(self.sum));
        let low = "of it at low parallelism or with no working thread";
        vec![
            evidence("wait_ns", self.sum, format!("{n} waits, {sum} together")),
            time("wait_low_ns", self.low, low),
        ]
    }
}
