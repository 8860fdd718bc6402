//! Waits that are somebody's own: how much of the run they are answerable for.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{NameId, OffCpu, OffId, SiteId, ThreadId};

use super::Context;
use crate::levels::answerable;
use crate::tables::paths::most;
use crate::tables::waits::{low_ns, meanwhile};

/// Share of the wait that others must have waited for it, to be on the critical path.
const WAITED_FOR: f64 = 0.2;
/// Or this share of the threads that can work at once is in such waits itself.
const THEMSELVES: f64 = 0.5;

/// Waits of one kind, summed.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    pub(crate) n: u64,
    pub(crate) sum: f64,
    /// While parallelism was low or nobody worked.
    pub(crate) low: f64,
    pub(crate) longest: u64,
    /// What each thread's waits are answerable for.
    pub(crate) threads: BTreeMap<ThreadId, f64>,
    pub(crate) sites: BTreeMap<SiteId, f64>,
    pub(crate) names: BTreeMap<NameId, f64>,
    pub(crate) ids: Vec<OffId>,
}

impl Blocked {
    pub(crate) fn add(&mut self, cx: &Context, id: OffId, off: &OffCpu) {
        let low = low_ns(cx.view, off);
        self.n = self.n.saturating_add(off.n);
        self.sum += off.sum_ns as f64;
        self.low += low;
        self.longest = self.longest.max(off.max_ns);
        let part = answerable(meanwhile(off), cx.view.low_below);
        *self.threads.entry(off.thread).or_default() += part;
        if let Some(site) = off.site {
            *self.sites.entry(site).or_default() += low;
        }
        if let Some(name) = off.name {
            *self.names.entry(name).or_default() += low;
        }
        self.ids.push(id);
    }

    /// Wall time that they are answerable for: expected (that of the thread that has most), and at most
    /// (the sum, as if no two waited at once).
    pub(crate) fn wall(&self, cx: &Context) -> (f64, f64) {
        let one = self.threads.values().copied().fold(0.0, f64::max);
        let all: f64 = self.threads.values().sum();
        (one.min(cx.view.wall), all.min(cx.view.wall))
    }

    /// Others waited for those that were in these waits, or most threads were in them themselves. Else it is
    /// somebody in the background, and nobody's loss.
    pub(crate) fn on_the_critical_path(&self, cx: &Context) -> bool {
        let (one, _) = self.wall(cx);
        let workers: BTreeSet<ThreadId> = self
            .threads
            .iter()
            .filter(|(id, ns)| cx.view.workers.contains(id) && **ns > 0.1 * one)
            .map(|(id, _)| *id)
            .collect();
        self.waited_for(cx) >= WAITED_FOR * one
            || workers.len() as f64 >= (THEMSELVES * cx.view.workers_at_once as f64).max(2.0)
    }

    /// Most time that one thread waited for somebody in these waits.
    pub(crate) fn waited_for(&self, cx: &Context) -> f64 {
        cx.waited_for.offs(&self.ids)
    }

    pub(crate) fn site(&self) -> Option<SiteId> {
        most(self.sites.clone())
    }

    /// The file that has at least half of it.
    pub(crate) fn main_name(&self) -> Option<NameId> {
        let name = most(self.names.clone())?;
        (self.names.get(&name).copied()? >= 0.5 * self.low).then_some(name)
    }
}
