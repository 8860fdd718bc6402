//! Threads wait for one that is itself off the processors: I/O, sleep or a page fault under a lock.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::percent;
use convoy_model::{NameId, ObjectId, OffCpu, OffId, OffReason, SiteId, ThreadId, Waker};
use convoy_profile::ObjectKind;

use super::contended_futex::looks_like_a_lock;
use super::Context;
use crate::call_path::{CallPaths, PathId};
use crate::gain::Saving;
use crate::levels::answerable;
use crate::tables::paths::most;
use crate::tables::waits::{low_ns, meanwhile};
use crate::text::{cause, evidence, in_what, time};
use crate::view::{is_file_io, View};

/// The section can be left before the wait for half of the cases.
const EXPECTED: f64 = 0.5;
const METHOD: &str =
    "time that the holder was off the processors, passed beside the waiters instead of before them";

/// What holders of one lock did at one place.
#[derive(Default)]
struct Case {
    /// Waited for it while parallelism was low.
    waited: f64,
    all: f64,
    waiters: BTreeMap<ThreadId, f64>,
    waiter_sites: BTreeMap<SiteId, f64>,
    holder_offs: BTreeSet<OffId>,
    holder_sites: BTreeMap<SiteId, f64>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    object: Option<ObjectId>,
    /// The place of the waiters, where the lock is not known.
    waiters: PathId,
    holder: PathId,
    reason: OffReason,
}

pub(crate) fn findings(cx: &Context) -> Vec<Finding> {
    let view = cx.view;
    let mut places = CallPaths::new(view.model, true);
    let mut cases: BTreeMap<Key, Case> = BTreeMap::new();
    for wake in &view.sched.wakes {
        let (Some(off), Waker::Thread(waker, site)) = (view.sched.off(wake.off), wake.waker) else {
            continue;
        };
        let known_lock = is_lock(view, off.object);
        let guessed = off.object.is_none()
            && view.group(off.thread) == view.group(waker)
            && looks_like_a_lock(view, off.site, site);
        if off.reason != OffReason::Futex || waker == off.thread || !(known_lock || guessed) {
            continue;
        }
        let low = (low_ns(view, off) / (off.sum_ns as f64).max(1.0)).min(1.0);
        for &(id, ns) in &wake.waker_off {
            let Some(held) = view.sched.off(id).filter(|o| tells(o, known_lock)) else {
                continue;
            };
            let key = Key {
                object: off.object,
                waiters: if known_lock {
                    PathId::default()
                } else {
                    places.of(off.site)
                },
                holder: places.of(held.site),
                reason: held.reason,
            };
            let case = cases.entry(key).or_default();
            let ns = ns as f64;
            case.all += ns;
            case.waited += ns * low;
            *case.waiters.entry(off.thread).or_default() += ns * low;
            if let Some(site) = off.site {
                *case.waiter_sites.entry(site).or_default() += ns;
            }
            if let Some(site) = held.site {
                *case.holder_sites.entry(site).or_default() += ns;
            }
            case.holder_offs.insert(id);
        }
    }
    cases
        .into_iter()
        .filter_map(|(key, case)| case.finding(cx, &key))
        .collect()
}

/// Whether a wait of a holder is one that says something: not that it was taken off, nor another lock. Waits for
/// work only count where the lock is known to be one.
fn tells(off: &OffCpu, known_lock: bool) -> bool {
    is_file_io(off.reason)
        || matches!(
            off.reason,
            OffReason::Sleep | OffReason::PageFault | OffReason::Memory
        )
        || (known_lock
            && matches!(
                off.reason,
                OffReason::Socket | OffReason::Pipe | OffReason::Poll
            ))
}

/// Whether the object is a lock, and not something that threads meet or wait for work at.
pub(crate) fn is_lock(view: &View, id: Option<ObjectId>) -> bool {
    let object = id.and_then(|id| view.model.objects.get(id.0 as usize));
    object.is_some_and(|o| {
        matches!(
            o.kind,
            ObjectKind::Mutex
                | ObjectKind::RwLock
                | ObjectKind::Spin
                | ObjectKind::OmpLock
                | ObjectKind::OmpCritical
        )
    })
}

impl Case {
    fn finding(&self, cx: &Context, key: &Key) -> Option<Finding> {
        let view = cx.view;
        let held: f64 = self
            .holder_offs
            .iter()
            .filter_map(|&id| view.sched.off(id))
            .map(|off| answerable(meanwhile(off), view.low_below))
            .sum();
        let c = self.waited.min(held).min(view.wall);
        // The holders' waits do not go away: they pass at the same time.
        let side_by_side = 1.0 + self.waiters.len() as f64;
        let most = c - c / side_by_side;
        let saving = Saving {
            expected: EXPECTED * most,
            most,
            sure: 0.0,
        };
        let site = most_of(&self.holder_sites)?;
        if saving.bound(view) < view.t.gain_mid {
            return None;
        }
        let waiter_site = most_of(&self.waiter_sites);
        let lock = key.object.and_then(|id| view.object_name(id));
        let lock = lock.map_or_else(
            || format!("the lock at {}", view.place(waiter_site)),
            str::to_owned,
        );
        let place = view.place(Some(site));
        let share = c / view.wall;
        let mut files: BTreeMap<NameId, f64> = BTreeMap::new();
        for off in self.holder_offs.iter().filter_map(|&id| view.sched.off(id)) {
            if let Some(name) = off.name {
                *files.entry(name).or_default() += off.sum_ns as f64;
            }
        }
        let file_ns: f64 = files.values().sum();
        let file = view.file_name(most_of(&files)).map(|name| {
            let text = format!("the holder is {}: {name}", in_what(key.reason));
            evidence("file_wait_ns", file_ns, text)
        });
        Some(Finding {
            id: "holder-off-cpu",
            subject: match key.object {
                Some(object) => Subject::Site(object, site),
                None => Subject::Code(site),
            },
            title: format!(
                "threads wait for {lock} while its holder is {} at {place}: {} of the run",
                in_what(key.reason),
                percent(share)
            ),
            evidence: vec![
                time(
                    "waited_for_ns",
                    self.all,
                    &format!(
                        "is what threads waited for it, at {}",
                        view.place(waiter_site)
                    ),
                ),
                evidence(
                    "waiters",
                    self.waiters.len() as f64,
                    format!("{} threads waited", self.waiters.len()),
                ),
                time(
                    "holder_off_ns",
                    held,
                    "is what the holder's waits are answerable for while few threads worked",
                ),
            ]
            .into_iter()
            .chain(file)
            .collect(),
            causes: vec![cause(
                "blocking-inside-section",
                format!(
                    "the holder is {} while it holds the lock",
                    in_what(key.reason)
                ),
                format!(
                    "do it outside the section at {place}: under the lock only take what it needs"
                ),
            )],
            undecided: String::new(),
            gain: saving.gain(
                view,
                METHOD,
                "whether the holders' waits can pass side by side",
            ),
            share_of_thread_time: share,
            caveats: if key.object.is_none() {
                vec!["that it is a lock is concluded from who wakes whom where".into()]
            } else {
                Vec::new()
            },
        })
    }
}

fn most_of<K: Ord + Copy>(weights: &BTreeMap<K, f64>) -> Option<K> {
    most(weights.clone())
}
