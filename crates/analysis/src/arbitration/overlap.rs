//! Whether a finding of the scheduler and one of the counters are about the same thing.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::{GroupId, Model, OffReason, Site, SiteId, SpinKind, SyncCode, ThreadId, Use};
use convoy_profile::ObjectKind;

use crate::detectors::busy_waiting::is_inside;
use crate::facts::subject::{groups, process};
use crate::tables::paths::most;
use crate::tables::scheduler::Analysis;

/// Share of serial code's time that waits for one lock must explain to be that lock's.
const MIN_EXPLAINED_SHARE: f64 = 0.5;
/// Share of their time that threads lose at cache lines, from which on the differences between
/// their ends may be due to that.
const MIN_CACHE_LINE_SHARE: f64 = 0.15;

/// How two findings can be about the same thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overlap {
    /// They share an object.
    Object,
    /// They share a thread group.
    Group,
    /// They are in one process.
    Process,
    /// In one process, whose threads lose much time at the cache line.
    UnevenByCacheLine,
    /// The groups of the one wait for the object of the other.
    WaitOfGroups,
    /// Threads that block at the code wait for the object.
    WaitOfBlockedThreads,
    /// The function that waits for the futex waits for the lock: the word may be another one than
    /// the lock's address (OpenMP's critical sections, locks of several words).
    WaitingFunction,
    /// The loop is in the function that takes the lock: threads spin before they sleep.
    LoopOfTheLock,
    /// The same, of a loop that is known to wait for a lock.
    LockLoopOfTheLock,
    /// A loop that is known to wait for a lock, in the same process.
    LockLoop,
    /// The same, and the object is a spin lock.
    SpinLockLoop,
    /// The code is what one of the stages works on.
    Stage,
    /// The code runs alone because it holds the lock that the others wait for.
    UnderTheLock,
    /// The same, where at most one thread waits.
    UnderALockOfOneWaiter,
}

/// A finding of the scheduler and one of the counters, of the same run.
pub(super) struct Pair<'a> {
    pub(super) model: &'a Model,
    pub(super) critical: &'a Analysis,
    pub(super) scheduler: &'a Finding,
    pub(super) counters: &'a Finding,
}

impl Pair<'_> {
    pub(super) fn overlaps(&self, how: Overlap) -> bool {
        let (model, ours, theirs) = (self.model, self.scheduler, self.counters);
        match how {
            Overlap::Object => {
                let ids = theirs.subject.objects();
                ours.subject.objects().iter().any(|id| ids.contains(id))
            }
            Overlap::Group => {
                let of_theirs = groups(model, &theirs.subject);
                let of_ours = groups(model, &ours.subject);
                of_ours.iter().any(|group| of_theirs.contains(group))
            }
            Overlap::Process => self.share_a_process(),
            Overlap::UnevenByCacheLine => {
                self.share_a_process() && ours.share_of_thread_time >= MIN_CACHE_LINE_SHARE
            }
            Overlap::WaitOfGroups => {
                self.share_a_process() && wait_at(model, theirs, &groups(model, &ours.subject))
            }
            Overlap::WaitOfBlockedThreads => {
                self.share_a_process() && wait_at(model, theirs, &blocked_at(model, ours))
            }
            Overlap::WaitingFunction => {
                self.share_a_process() && at_the_same_place(model, theirs, ours)
            }
            Overlap::LoopOfTheLock => self.share_a_process() && spins_inside(model, theirs, ours),
            Overlap::LockLoopOfTheLock => {
                self.overlaps(Overlap::LockLoop) && spins_inside(model, theirs, ours)
            }
            Overlap::LockLoop => self.share_a_process() && spins_for_a_lock(model, ours),
            Overlap::SpinLockLoop => {
                self.overlaps(Overlap::LockLoop) && is_spin_lock(model, theirs)
            }
            Overlap::Stage => is_the_stage(model, theirs, ours),
            Overlap::UnderTheLock => under_the_lock(model, self.critical, theirs, ours),
            Overlap::UnderALockOfOneWaiter => {
                self.overlaps(Overlap::UnderTheLock) && waiters(model, theirs) < 2
            }
        }
    }

    fn share_a_process(&self) -> bool {
        let of_theirs = process(self.model, &self.counters.subject);
        of_theirs.is_some() && of_theirs == process(self.model, &self.scheduler.subject)
    }
}

/// Whether threads of these groups wait for the objects of a finding.
fn wait_at(model: &Model, theirs: &Finding, groups: &[GroupId]) -> bool {
    let group = |id: ThreadId| model.threads.get(id.0 as usize).map(|th| th.group);
    waits(model, theirs).any(|u| group(u.thread).is_some_and(|g| groups.contains(&g)))
}

/// Groups of the threads that block where a finding is.
fn blocked_at(model: &Model, finding: &Finding) -> Vec<GroupId> {
    let Subject::Code(site) = finding.subject else {
        return Vec::new();
    };
    let offs = model.sched.iter().flat_map(|sched| &sched.offs);
    let here = offs.filter(|off| off.site == Some(site));
    let threads = here.filter_map(|off| model.threads.get(off.thread.0 as usize));
    threads.map(|th| th.group).collect()
}

/// Whether code is what one of the stages works on.
fn is_the_stage(model: &Model, theirs: &Finding, ours: &Finding) -> bool {
    let Subject::Code(site) = ours.subject else {
        return false;
    };
    let stages = groups(model, &theirs.subject);
    group_at(model, site).is_some_and(|group| stages.contains(&group))
}

/// Whether the futex is waited for in the function that waits for the lock.
fn at_the_same_place(model: &Model, theirs: &Finding, ours: &Finding) -> bool {
    let Subject::Code(site) = ours.subject else {
        return false;
    };
    function(model, site).is_some_and(|name| waiting_functions(model, theirs).contains(name))
}

/// Functions of the program that wait for the objects of a finding.
fn waiting_functions<'a>(model: &'a Model, finding: &Finding) -> BTreeSet<&'a str> {
    let sites = waits(model, finding).map(|u| u.site);
    sites.filter_map(|site| function(model, site)).collect()
}

/// Uses that waited for the objects of a finding.
pub(super) fn waits<'a>(model: &'a Model, finding: &Finding) -> impl Iterator<Item = &'a Use> {
    let ids: BTreeSet<_> = finding.subject.objects().iter().copied().collect();
    let waits = move |u: &&Use| u.waits > 0 && ids.contains(&u.object);
    model.uses.iter().filter(waits)
}

pub(super) fn function(model: &Model, site: SiteId) -> Option<&str> {
    shown(model.site(site)?)
}

fn shown(site: &Site) -> Option<&str> {
    let name = site.shown_frame()?.function.as_str();
    Some(name).filter(|name| !name.is_empty())
}

/// Whether the loop is in the lock's own code: threads spin there before they sleep.
fn spins_inside(model: &Model, theirs: &Finding, ours: &Finding) -> bool {
    let Subject::Loop(id) = ours.subject else {
        return false;
    };
    let takers = waiting_functions(model, theirs);
    let by_taker = |site: &Site| {
        site.sync == Some(SyncCode::Lock) && shown(site).is_some_and(|name| takers.contains(name))
    };
    !takers.is_empty() && is_inside(model, id, by_taker)
}

fn spins_for_a_lock(model: &Model, finding: &Finding) -> bool {
    let Subject::Loop(id) = finding.subject else {
        return false;
    };
    let loops = model.sched.as_ref().map(|s| &s.loops);
    let spin = loops.and_then(|loops| loops.get(id.0 as usize));
    spin.is_some_and(|spin| {
        matches!(
            spin.kind,
            SpinKind::Lock | SpinKind::Yield | SpinKind::KnownFunction
        )
    })
}

fn is_spin_lock(model: &Model, finding: &Finding) -> bool {
    finding
        .subject
        .objects()
        .iter()
        .filter_map(|id| model.objects.get(id.0 as usize))
        .any(|object| matches!(object.kind, ObjectKind::Spin | ObjectKind::OmpLock))
}

/// Code that runs alone because it holds a lock that the others wait for.
fn under_the_lock(model: &Model, critical: &Analysis, theirs: &Finding, ours: &Finding) -> bool {
    let (Some(sched), Subject::Code(site)) = (&model.sched, &ours.subject) else {
        return false;
    };
    let ids = theirs.subject.objects();
    let Some(group) = group_at(model, *site).filter(|_| !ids.is_empty()) else {
        return false;
    };
    let alone = ours
        .evidence
        .iter()
        .find(|e| e.key == "low_cmetric_ns")
        .map_or(f64::INFINITY, |e| e.value);
    let below = critical.parallelism.low_below;
    let mut waited: BTreeMap<_, f64> = BTreeMap::new();
    let takers = waiting_functions(model, theirs);
    for wake in &sched.wakes {
        let Some(off) = sched.off(wake.off) else {
            continue;
        };
        let by_group = matches!(wake.waker, convoy_model::Waker::Thread(id, _)
            if model.threads.get(id.0 as usize).is_some_and(|th| th.group == group));
        // The word may be another one than the lock's address, as of OpenMP's critical sections.
        let taker = || {
            off.site
                .and_then(|at| function(model, at))
                .is_some_and(|name| takers.contains(name))
        };
        let waits = off.reason == OffReason::Futex && off.object.is_none() && taker();
        if by_group && (waits || off.object.is_some_and(|id| ids.contains(&id))) {
            let histogram = crate::tables::waits::meanwhile(off);
            let low = crate::facts::concurrency::low_or_none(histogram, below)
                / (off.sum_ns as f64).max(1.0);
            *waited.entry(off.thread).or_default() += wake.wait_ns as f64 * low.min(1.0);
        }
    }
    explained(waited.values().copied()) >= MIN_EXPLAINED_SHARE * alone
}

/// Time in which one thread worked and another one waited, at least. `waited`: by thread,
/// meanwhile. Where they take turns nobody waits all of it; but of those that wait, one works at
/// any time.
fn explained(waited: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut most, mut threads) = (0.0, 0.0_f64, 0.0_f64);
    for of_thread in waited {
        sum += of_thread;
        most = most.max(of_thread);
        threads += 1.0;
    }
    most.max(sum / (threads - 1.0).max(1.0))
}

/// Threads that the scheduler saw waiting for the objects of a finding.
fn waiters(model: &Model, theirs: &Finding) -> usize {
    let ids = theirs.subject.objects();
    let offs = model.sched.iter().flat_map(|sched| &sched.offs);
    let waited = offs.filter(|off| off.object.is_some_and(|id| ids.contains(&id)));
    waited.map(|off| off.thread).collect::<BTreeSet<_>>().len()
}

/// The group that was active with this call stack most.
fn group_at(model: &Model, site: SiteId) -> Option<GroupId> {
    let mut groups: BTreeMap<GroupId, f64> = BTreeMap::new();
    for slice in &model.sched.as_ref()?.slices {
        if slice.site == Some(site) {
            let thread = model.threads.get(slice.thread.0 as usize)?;
            *groups.entry(thread.group).or_default() += slice.cm_ns;
        }
    }
    most(groups)
}

#[cfg(test)]
mod tests {
    use super::explained;

    #[test]
    fn threads_that_take_turns_explain_together_what_none_of_them_does() {
        assert_eq!(explained([90.0, 75.0].into_iter()), 165.0);
        assert_eq!(explained([100.0, 100.0, 100.0].into_iter()), 150.0);
        assert_eq!(explained([120.0, 1.0, 1.0].into_iter()), 120.0);
        assert_eq!(explained([40.0].into_iter()), 40.0);
        assert_eq!(explained([].into_iter()), 0.0);
    }
}
