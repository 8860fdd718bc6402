//! What threads run in a lock's own functions, by the scheduler's samples: taking and letting go a word that other
//! processors write, too, and the system calls to wait and wake. The agent times acquires alone, and with a
//! reader-writer lock most of it is in the release.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{
    BesideSync, FunctionKey, Model, ObjectId, Site, SiteFrame, SyncCode, ThreadId, Use,
};
use convoy_profile::Op;

use crate::facts::operations::{is_semaphore, role, Locks, Role};
use crate::facts::process_view::ProcessView;

/// Samples of a lock's users from which on a share of them means something.
const SAMPLES: u64 = 100;

/// Samples of one thread.
#[derive(Debug, Default)]
struct Samples<'a> {
    all: u64,
    /// In code for the sake of other threads.
    there: BTreeMap<Place<'a>, u64>,
    /// In the fast path of locks, by the function that takes them.
    fast: BTreeMap<FunctionKey<'a>, u64>,
    /// Right beside that, or beside calls of a lock's functions.
    beside: BTreeMap<FunctionKey<'a>, u64>,
}

/// What code is called, and the function that calls it. Semaphores have that of hand-overs, also where they are used as locks.
type Place<'a> = (SyncCode, FunctionKey<'a>);

/// Samples of threads that use locks, and in the functions of these. Empty where the scheduler was not listened to.
#[derive(Debug, Default)]
pub(crate) struct LockCode<'a> {
    threads: BTreeMap<ThreadId, Samples<'a>>,
    /// Calls of any lock, and of semaphores of whatever use.
    calls: BTreeMap<Place<'a>, f64>,
}

/// Shares of what the users of locks run, 0..1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shares {
    /// In the functions of the locks.
    pub(crate) locking: f64,
    /// There, and right beside the places where they are called.
    pub(crate) with_section: f64,
}

impl<'a> LockCode<'a> {
    /// Of the process whose uses these are.
    pub(crate) fn of(model: &'a Model, uses: &[&Use], locks: &Locks) -> Self {
        let mut this = Self::default();
        if model.sched.is_none() {
            return this;
        }
        for u in uses {
            let is_lock = locks.contains(u.object);
            if is_lock {
                this.threads.entry(u.thread).or_default();
            }
            if !is_lock && !is_semaphore(model, u.object) {
                continue;
            }
            if let Some(place) = place(model, u) {
                *this.calls.entry(place).or_default() += calls(u);
            }
        }
        if this.threads.is_empty() {
            return this;
        }
        let beside = BesideSync::of(model.samples().filter_map(|(_, site)| site));
        for (slice, site) in model.samples() {
            let Some(samples) = this.threads.get_mut(&slice.thread) else {
                continue;
            };
            samples.all += slice.n;
            let Some((site, function)) = site.and_then(|site| Some((site, shown_function(site)?)))
            else {
                continue;
            };
            if let Some(code) = site.sync {
                *samples.there.entry((code, function)).or_default() += slice.n;
            } else if site.fast_path {
                *samples.fast.entry(function).or_default() += slice.n;
            } else if beside.has(site) {
                *samples.beside.entry(function).or_default() += slice.n;
            }
        }
        this
    }

    /// What the users of these locks run in the functions of locks: those called where these locks are taken, divided among all
    /// locks that are seen to be taken there. `None` without samples, or with too few.
    pub(crate) fn shares(&self, view: &ProcessView, locks: &[ObjectId]) -> Option<Shares> {
        let mut users = BTreeSet::new();
        let mut places: BTreeMap<Place, f64> = BTreeMap::new();
        for u in locks.iter().flat_map(|id| view.uses_of(*id)) {
            let role = view.role(u);
            if matches!(role, Some(Role::Acquire | Role::AcquireShared | Role::Try)) {
                users.insert(u.thread);
            } else if u.op != Some(Op::SemPost) {
                continue;
            }
            if let Some(place) = place(view.model, u) {
                *places.entry(place).or_default() += taken(u);
            }
        }
        let part = |place: &Place| {
            let all = self.calls.get(place).copied().unwrap_or(0.0);
            places
                .get(place)
                .map_or(0.0, |calls| (calls / all.max(1.0)).min(1.0))
        };
        let (mut all, mut locking, mut fast, mut beside) = (0, 0.0, 0.0, 0.0);
        for samples in users.iter().filter_map(|id| self.threads.get(id)) {
            all += samples.all;
            let sum = |n: u64, place: &Place| n as f64 * part(place);
            let there = samples.there.iter();
            locking += there.map(|(place, n)| sum(*n, place)).sum::<f64>();
            let of_a_lock =
                |(&function, n): (&FunctionKey<'a>, &u64)| sum(*n, &(SyncCode::Lock, function));
            fast += samples.fast.iter().map(of_a_lock).sum::<f64>();
            beside += samples.beside.iter().map(of_a_lock).sum::<f64>();
        }
        let of_all = |samples: f64| samples / all as f64;
        (all >= SAMPLES).then(|| Shares {
            locking: of_all(SyncCode::price_of_fights(locking, fast)),
            with_section: of_all(SyncCode::price_with_guarded(locking, fast, beside)),
        })
    }
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

fn place<'a>(model: &'a Model, u: &Use) -> Option<Place<'a>> {
    let code = match is_semaphore(model, u.object) {
        true => SyncCode::HandOver,
        false => SyncCode::Lock,
    };
    Some((code, shown_function(model.site(u.site)?)?))
}

fn shown_function(site: &Site) -> Option<FunctionKey<'_>> {
    site.shown_frame().map(SiteFrame::key)
}
