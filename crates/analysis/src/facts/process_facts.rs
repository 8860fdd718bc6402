//! Facts about one process that the detectors of counters share.

use std::collections::BTreeMap;

use convoy_model::ObjectId;

use crate::estimate::queueing::Station;
use crate::facts::idle_wait::Links;
use crate::facts::lock_chain::Chains;
use crate::facts::operations::Role;
use crate::facts::process_view::ProcessView;
use crate::facts::wait_pairs::Pairs;
use crate::params::Params;
use crate::tables::counters::{EventClass, EventRow};
use crate::words::function;

/// What the findings of one process are made from.
pub(crate) struct ProcessFacts<'a> {
    pub(crate) view: &'a ProcessView<'a>,
    pub(crate) stations: &'a [Station],
    pub(crate) chains: Chains,
    pub(crate) links: &'a Links,
    pub(crate) pairs: &'a Pairs<'a>,
    /// Functions that wait for events.
    pub(crate) event_functions: Vec<&'a str>,
    pub(crate) t: &'a Params,
}

impl ProcessFacts<'_> {
    /// Threads that acquire one of the locks to speak of: local indices.
    pub(crate) fn users(&self, locks: &[ObjectId]) -> Vec<usize> {
        let mut calls = BTreeMap::new();
        for u in locks.iter().flat_map(|id| self.view.uses_of(*id)) {
            let lock_role = matches!(
                self.view.role(u),
                Some(Role::Acquire | Role::AcquireShared | Role::Try)
            );
            if let Some(i) = self.view.thread(u.thread).filter(|_| lock_role) {
                *calls.entry(i).or_insert(0) += u.calls.max(u.waits);
            }
        }
        let most = calls.values().copied().max().unwrap_or(0);
        calls
            .into_iter()
            .filter(|(_, n)| n * 100 >= most)
            .map(|(i, _)| i)
            .collect()
    }

    /// Sum of the life spans of those threads, nanoseconds.
    pub(crate) fn users_life(&self, locks: &[ObjectId]) -> f64 {
        self.users(locks)
            .into_iter()
            .map(|i| self.view.threads[i].life)
            .sum()
    }
}

pub(crate) fn event_functions<'a>(view: &ProcessView<'a>, events: &[EventRow]) -> Vec<&'a str> {
    let queues = events
        .iter()
        .filter(|e| !matches!(e.class, EventClass::Straggler | EventClass::Pool));
    let mut names: Vec<&str> = queues
        .flat_map(|e| e.sites.iter())
        .map(|s| function(view, s.site))
        .filter(|f| !f.is_empty())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}
