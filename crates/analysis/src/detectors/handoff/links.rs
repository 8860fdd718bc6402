//! Who waits for whom to hand something over.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{GroupId, OffReason, SiteId, ThreadId};
use convoy_profile::ObjectKind;

use crate::detectors::limiting_stage::is_team;
use crate::facts::lock_recognition::{is_lock, sign_of_a_lock};
use crate::facts::run_view::RunView;

/// Share of their waits that two kinds of threads have at the same places if they meet there.
const SAME: f64 = 0.5;

/// Waits of one group that threads of another, or of itself, ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Link {
    pub(super) n: u64,
    pub(super) ns: f64,
    pub(super) waiters: BTreeSet<ThreadId>,
    pub(super) sites: BTreeMap<SiteId, f64>,
    /// Where the others woke them.
    pub(super) enders: BTreeSet<SiteId>,
}

/// By who waits and for whom: for locks, for the end of threads and for requests nobody does.
pub(super) fn links(view: &RunView) -> BTreeMap<(GroupId, GroupId), Link> {
    let mut links: BTreeMap<(GroupId, GroupId), Link> = BTreeMap::new();
    for (wake, off, waker, at) in view.sched.ended_by_threads() {
        let same_group = view.role(off.thread) == view.role(waker);
        let lock = match view.object_kind(off.object) {
            Some(ObjectKind::Thread) => true,
            Some(ObjectKind::Barrier | ObjectKind::OmpBarrier | ObjectKind::OmpRegion) => false,
            _ => {
                is_lock(view, off.object)
                    || (same_group && sign_of_a_lock(view, off.site, at).is_some())
            }
        };
        let hands_over = matches!(off.reason, OffReason::Futex | OffReason::Pipe);
        // The main thread of an OpenMP program is one of its team.
        let team = !same_group && is_team(view, off);
        if !hands_over || lock || team || waker == off.thread {
            continue;
        }
        let link = links
            .entry((view.role(off.thread), view.role(waker)))
            .or_default();
        link.n = link.n.saturating_add(wake.n);
        // Woken, it may queue for the processor that the other one is on: that is still its turn.
        link.ns += wake.wait_ns as f64 + view.back_on_cpu(off.thread, wake.n as f64);
        link.waiters.insert(off.thread);
        link.enders.extend(at);
        if let Some(site) = off.site {
            *link.sites.entry(site).or_default() += wake.wait_ns as f64;
        }
    }
    links
}

/// Whether the sides wait at the same places, for the same share of their waits.
pub(super) fn same_places(view: &RunView, links: [&Link; 2]) -> bool {
    let shares = links.map(|link| {
        let all: f64 = link.sites.values().sum();
        let mut shares: BTreeMap<_, f64> = BTreeMap::new();
        for (id, ns) in &link.sites {
            // Nobody knows which of it generated code without names is.
            let told = view.shown(*id).filter(|frame| frame.is_told());
            let place = told.map(|frame| (frame.key(), frame.line));
            *shares.entry(place).or_default() += ns / all.max(1.0);
        }
        shares
    });
    let [there, back] = &shares;
    let both = there.iter().filter_map(|(place, share)| {
        let other = back.get(place).filter(|_| place.is_some())?;
        Some(share.min(*other))
    });
    both.sum::<f64>() >= SAME
}
