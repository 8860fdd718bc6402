//! Sleeps in loops that do nothing else but to look: their code says so, however long the sleeps are.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use convoy_model::{OffCpu, OffReason, Site, SiteFrame, SiteId, SpinKind, ThreadId};

use super::life;
use super::Sleeper;
use super::ASLEEP;
use crate::facts::run_view::RunView;

/// Sleeps longer than this are for what nobody is in a hurry about. Nanoseconds.
const LONGEST_NS: f64 = 1e9;

/// Where threads sleep in such loops.
pub(super) struct Looks(HashSet<SiteId>);

impl Looks {
    pub(super) fn of(view: &RunView) -> Self {
        let loops = || {
            let loops = view.sched.loops.iter();
            loops.filter(|spin| spin.kind == SpinKind::Sleep)
        };
        let is_in = |site: &Site, frame: &SiteFrame| {
            loops().any(|spin| {
                let module = spin.frames.first().map(|innermost| &innermost.module);
                spin.process == site.process
                    && module == Some(&frame.module)
                    && (spin.lo..=spin.hi).contains(&frame.offset)
            })
        };
        let sleeps = view.sched.offs.iter();
        let sleeps = sleeps.filter(|off| off.reason == OffReason::Sleep);
        let sites: HashSet<SiteId> = sleeps.filter_map(|off| off.site).collect();
        let looks = |id: &SiteId| {
            let site = view.model.site(*id);
            site.is_some_and(|site| site.frames.iter().any(|frame| is_in(site, frame)))
        };
        Self(sites.into_iter().filter(looks).collect())
    }

    pub(super) fn has(&self, off: &OffCpu) -> bool {
        let sleeps = off.sum_ns as f64 <= LONGEST_NS * off.n as f64;
        sleeps && off.site.is_some_and(|site| self.0.contains(&site))
    }
}

/// How long each worker that does not look itself waited for one that does.
pub(super) fn waited(
    view: &RunView,
    sleepers: &BTreeMap<ThreadId, Sleeper>,
) -> BTreeMap<ThreadId, f64> {
    let mut waited = BTreeMap::new();
    for (wake, off, waker, _) in view.sched.ended_by_threads() {
        let waits = off.reason == OffReason::Futex && view.workers.contains(&off.thread);
        let looks = |id| sleepers.get(&id).is_some_and(|s| s.looks);
        if waits && !sleepers.contains_key(&off.thread) && looks(waker) {
            *waited.entry(off.thread).or_default() += wake.wait_ns as f64;
        }
    }
    waited.retain(|id, ns| *ns >= ASLEEP * life(view, *id));
    waited
}

/// Leaves of the sleepers that are no workers those of processes in which somebody waits.
pub(super) fn leave_awaited(
    view: &RunView,
    sleepers: &mut BTreeMap<ThreadId, Sleeper>,
    waited: &BTreeMap<ThreadId, f64>,
) {
    let processes: BTreeSet<_> = waited.keys().map(|id| view.process(*id)).collect();
    sleepers.retain(|id, _| view.workers.contains(id) || processes.contains(&view.process(*id)));
}
