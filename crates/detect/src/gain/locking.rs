//! What threads run in a lock's own functions, by the scheduler's samples: taking and letting go a word that other
//! processors write, too, and the system calls to wait and wake. The agent times acquires alone, and with a
//! reader-writer lock most of it is in the release.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{
    FunctionKey, Model, ObjectId, Site, SiteFrame, SiteId, SyncCode, ThreadId, Use,
};

use convoy_profile::{ObjectKind, Op};

use crate::ops::{role, Locks, Role};
use crate::view::View;

/// Samples of a lock's users from which on a share of them means something.
const SAMPLES: u64 = 100;

/// Samples of one thread.
#[derive(Debug, Default)]
struct Samples<'a> {
    all: u64,
    /// In functions of locks, by who called them.
    locking: BTreeMap<FunctionKey<'a>, u64>,
    /// In those that wait and wake: of semaphores, where these are used as locks.
    handing_over: BTreeMap<FunctionKey<'a>, u64>,
}

/// Samples of threads that use locks, and in the functions of these. Empty where the scheduler was not listened to.
#[derive(Debug, Default)]
pub(crate) struct LockCode<'a> {
    threads: BTreeMap<ThreadId, Samples<'a>>,
    /// Calls of any lock, by the function that calls.
    calls: BTreeMap<FunctionKey<'a>, f64>,
    /// Those of semaphores, of whatever use.
    of_semaphores: BTreeMap<FunctionKey<'a>, f64>,
}

impl<'a> LockCode<'a> {
    /// Of the process whose uses these are.
    pub(crate) fn of(model: &'a Model, uses: &[&Use], locks: &Locks) -> Self {
        let mut this = Self::default();
        if model.sched.is_none() {
            return this;
        }
        for u in uses {
            let (is_lock, is_semaphore) = (locks.contains(u.object), is_semaphore(model, u.object));
            if is_lock {
                this.threads.entry(u.thread).or_default();
            }
            let all = match is_semaphore {
                true => &mut this.of_semaphores,
                false if is_lock => &mut this.calls,
                false => continue,
            };
            if let Some(caller) = function(model, u.site) {
                *all.entry(caller).or_default() += calls(u);
            }
        }
        if this.threads.is_empty() {
            return this;
        }
        for (slice, site) in model.samples() {
            let Some(samples) = this.threads.get_mut(&slice.thread) else {
                continue;
            };
            samples.all += slice.n;
            let by_caller = match site.and_then(|site| site.sync) {
                Some(SyncCode::Lock) => &mut samples.locking,
                Some(SyncCode::HandOver) => &mut samples.handing_over,
                None => continue,
            };
            if let Some(caller) = site.and_then(shown_function) {
                *by_caller.entry(caller).or_default() += slice.n;
            }
        }
        this
    }

    /// Share of what the users of these locks run that is in the functions of locks, 0..1: those called where these
    /// locks are taken, divided among all locks that are taken there. `None` without samples, or with too few.
    pub(crate) fn share(&self, view: &View, locks: &[ObjectId]) -> Option<f64> {
        let mut users = BTreeSet::new();
        // Of locks, and of semaphores.
        let mut callers: [BTreeMap<FunctionKey, f64>; 2] = Default::default();
        for u in locks.iter().flat_map(|id| view.uses_of(*id)) {
            let role = view.role(u);
            if matches!(role, Some(Role::Acquire | Role::AcquireShared | Role::Try)) {
                users.insert(u.thread);
            } else if u.op != Some(Op::SemPost) {
                continue;
            }
            if let Some(caller) = function(view.model, u.site) {
                let of = usize::from(is_semaphore(view.model, u.object));
                *callers[of].entry(caller).or_default() += taken(u);
            }
        }
        let ours = |samples: &BTreeMap<FunctionKey, u64>, of: usize| {
            let all = [&self.calls, &self.of_semaphores][of];
            let part = |caller: &FunctionKey| {
                let all = all.get(caller).copied().unwrap_or(0.0);
                let theirs = callers[of].get(caller);
                theirs.map_or(0.0, |calls| (calls / all.max(1.0)).min(1.0))
            };
            let ours = samples.iter().map(|(caller, n)| *n as f64 * part(caller));
            ours.sum::<f64>()
        };
        let (mut all, mut locking) = (0, 0.0);
        for samples in users.iter().filter_map(|id| self.threads.get(id)) {
            all += samples.all;
            locking += ours(&samples.locking, 0) + ours(&samples.handing_over, 1);
        }
        (all >= SAMPLES).then(|| locking / all as f64)
    }
}

fn is_semaphore(model: &Model, id: ObjectId) -> bool {
    let object = model.objects.get(id.0 as usize);
    object.is_some_and(|object| object.kind == ObjectKind::Sem)
}

/// Calls that are known: of locks that are made of futexes only those that waited.
fn calls(u: &Use) -> f64 {
    u.calls.max(u.waits) as f64
}

/// Of these, without tries in vain: what spinning on a trylock costs is not the price of having a lock. The futex call of a lock
/// that fails has found it free, and was no try.
pub(super) fn taken(u: &Use) -> f64 {
    let tries = u.op.is_some_and(|op| role(op, true) == Role::Try);
    let in_vain = if tries { u.failed.min(u.calls) } else { 0 };
    calls(u) - in_vain as f64
}

fn function(model: &Model, site: SiteId) -> Option<FunctionKey<'_>> {
    shown_function(model.site(site)?)
}

fn shown_function(site: &Site) -> Option<FunctionKey<'_>> {
    site.shown_frame().map(SiteFrame::key)
}
