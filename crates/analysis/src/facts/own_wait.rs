//! Waits that are somebody's own: how much of the run they are answerable for.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::Evidence;
use convoy_model::words::{count, duration};
use convoy_model::{NameId, OffCpu, OffId, ProcessId, SiteId, Slice, ThreadId};

use crate::facts::concurrency::{answerable, low, low_cm};
use crate::facts::run_facts::RunFacts;
use crate::tables::paths::most;
use crate::tables::waits::{low_ns, meanwhile};
use crate::words::{evidence, time};

/// Share of the wait that others must have waited for it, to be on the critical path.
const WAITED_FOR: f64 = 0.2;
/// Or this share of the threads that can work at once is in such waits itself.
const THEMSELVES: f64 = 0.5;

/// Pages of itself and of its libraries that a process waits for until it has begun, if they are not in memory yet. (Two ranks of
/// an MPI program with their launcher: 10 to 25 each.)
const OF_A_START: u64 = 50;

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
    /// Each thread's time in it altogether, delays between two waits of one call included.
    pub(crate) in_it: BTreeMap<ThreadId, f64>,
    /// CPU time of those calls.
    pub(crate) cpu: f64,
}

impl Blocked {
    pub(crate) fn add(&mut self, cx: &RunFacts, id: OffId, off: &OffCpu) {
        let low = low_ns(cx.view, off);
        self.n = self.n.saturating_add(off.n);
        self.sum += off.sum_ns as f64;
        self.low += low;
        self.longest = self.longest.max(off.max_ns);
        let part = answerable(meanwhile(off), cx.view.low_below);
        *self.threads.entry(off.thread).or_default() += part;
        *self.in_it.entry(off.thread).or_default() += off.sum_ns as f64;
        if let Some(site) = off.site {
            *self.sites.entry(site).or_default() += low;
        }
        if let Some(name) = off.name {
            *self.names.entry(name).or_default() += low;
        }
        self.ids.push(id);
    }

    /// Activity inside of such a call: between two waits of it, or waiting for a processor after one.
    pub(crate) fn add_call(&mut self, cx: &RunFacts, slice: &Slice) {
        let below = cx.view.low_below;
        self.low += low(&slice.by_working, below);
        *self.threads.entry(slice.thread).or_default() += low_cm(&slice.by_working, below);
        *self.in_it.entry(slice.thread).or_default() += slice.active_ns as f64;
        self.cpu += slice.running_ns as f64;
    }

    /// How many they are, and how long; the keys of that and of the part at low parallelism.
    pub(crate) fn evidence(&self, key: &'static str, low_key: &'static str) -> Vec<Evidence> {
        let all = format!(
            "{} waits, {} together, the longest {}",
            count(self.n as f64),
            duration(self.sum),
            duration(self.longest as f64)
        );
        let low = "of it at low parallelism or with no working thread";
        vec![evidence(key, self.sum, all), time(low_key, self.low, low)]
    }

    /// Workers that are in such waits for a time to speak of.
    pub(crate) fn workers(&self, cx: &RunFacts) -> BTreeSet<ThreadId> {
        let most = self.in_it.values().copied().fold(0.0, f64::max);
        self.in_it
            .iter()
            .filter(|(id, ns)| cx.view.workers.contains(id) && **ns > 0.1 * most)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Whether all of it is in threads that are there for a small part of the run only, or no more than it takes for their
    /// processes to begin.
    pub(crate) fn is_a_start(&self, cx: &RunFacts) -> bool {
        let processes: BTreeSet<ProcessId> =
            self.in_it.keys().map(|id| cx.view.process(*id)).collect();
        self.n < OF_A_START * processes.len() as u64 || self.is_of_short_lives(cx)
    }

    /// Whether those who are in it live for a short part of the run, most of them.
    pub(crate) fn is_of_short_lives(&self, cx: &RunFacts) -> bool {
        const SHORT: f64 = 0.3;
        let lives = self.in_it.iter().map(|(id, ns)| cx.view.life(*id) * ns);
        let lives: f64 = lives.sum();
        let all: f64 = self.in_it.values().sum();
        lives < SHORT * cx.view.wall * all
    }

    /// Whether most threads that could work are in such waits themselves.
    pub(crate) fn themselves(&self, cx: &RunFacts) -> bool {
        let least = (THEMSELVES * cx.view.workers_at_once as f64).max(2.0);
        self.workers(cx).len() as f64 >= least
    }

    /// Wall time that they are answerable for: expected (that of the thread that has most, or the mean
    /// of those that are in it themselves), and at most
    /// (the sum, as if no two waited at once).
    pub(crate) fn wall(&self, cx: &RunFacts) -> (f64, f64) {
        let one = self.threads.values().copied().fold(0.0, f64::max);
        let all: f64 = self.threads.values().sum();
        // Where all are in it, each one's part of the run is shorter by all of its own.
        let workers = self.workers(cx);
        let own: f64 = workers.iter().filter_map(|id| self.in_it.get(id)).sum();
        // Of many short-lived ones (a build), only so many are there at once.
        let at_once = workers.len().min(cx.view.workers_at_once).max(1);
        let own = if self.themselves(cx) {
            own / at_once as f64
        } else {
            0.0
        };
        (
            one.max(own).min(cx.view.wall),
            all.max(own).min(cx.view.wall),
        )
    }

    /// Others waited for those that were in these waits, or most threads were in them themselves. Else it is
    /// somebody in the background, and nobody's loss.
    pub(crate) fn on_the_critical_path(&self, cx: &RunFacts) -> bool {
        let (one, _) = self.wall(cx);
        self.waited_for(cx) >= WAITED_FOR * one || self.themselves(cx)
    }

    /// Most time that one thread waited for somebody in these waits.
    pub(crate) fn waited_for(&self, cx: &RunFacts) -> f64 {
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
