//! Threads wait for one that is itself off the processors: I/O, sleep or a page fault under a lock.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{NameId, ObjectId, OffCpu, OffId, OffReason, SiteId, ThreadId, Wake, Waker};

use super::lock_places::{is_lock, sign_of_a_lock};
use super::Context;
use crate::call_path::{CallPaths, PathId};
use crate::gain::Saving;
use crate::tables::paths::most;
use crate::tables::waits::low_ns;
use crate::text::{cause, evidence, in_what, time};
use crate::view::{is_any_event, is_file_io, View};

/// The section can nearly always be left before the wait; whether the device can do several at a time is not known.
const EXPECTED: f64 = 0.8;
const METHOD: &str = "waits for the lock while its holder was off the processors, gone; at most, what it was in as well";

/// What holders of one lock did at one place.
#[derive(Default)]
struct Case {
    /// Waited for it while parallelism was low.
    waited: f64,
    all: f64,
    /// The same, if all delays are because somebody waits.
    most: f64,
    /// Who waited how long, and after how many of its waits it had to get back on a processor.
    waiters: BTreeMap<ThreadId, (f64, f64)>,
    waiter_sites: BTreeMap<SiteId, f64>,
    /// Of the threads that wait, their time off the processors for this reason.
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

/// A finding, where its waiters wait, and how long.
pub(crate) struct Found {
    pub(crate) finding: Finding,
    pub(crate) waiters: Vec<SiteId>,
    pub(crate) waited_ns: f64,
}

pub(crate) fn findings(cx: &Context) -> Vec<Found> {
    let view = cx.view;
    let mut places = CallPaths::new(view.model, true);
    let mut cases: BTreeMap<Key, Case> = BTreeMap::new();
    for wake in &view.sched.wakes {
        let (Some(off), Some(known_lock)) = (view.sched.off(wake.off), lock_wait(view, wake))
        else {
            continue;
        };
        let low = (low_ns(view, off) / (off.sum_ns as f64).max(1.0)).min(1.0);
        for (id, ns, most) in cx.passed_on.holders_waits(view, wake) {
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
            case.all += ns;
            case.most += most;
            case.waited += ns * low;
            let waiter = case.waiters.entry(off.thread).or_default();
            waiter.0 += ns;
            waiter.1 += wake.n as f64 * ns / (wake.wait_ns as f64).max(1.0);
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
        .filter_map(|(key, case)| {
            Some(Found {
                finding: case.finding(cx, &key)?,
                waiters: case.waiter_sites.keys().copied().collect(),
                waited_ns: case.all,
            })
        })
        .collect()
}

/// Whether a thread waited for a lock that another one let go then: `Some(true)` if it is known to be one,
/// `Some(false)` if that is concluded.
pub(crate) fn lock_wait(view: &View, wake: &Wake) -> Option<bool> {
    let off = view.sched.off(wake.off)?;
    let Waker::Thread(waker, site) = wake.waker else {
        return None;
    };
    let known = is_lock(view, off.object);
    let concluded = off.object.is_none()
        && view.role(off.thread) == view.role(waker)
        && sign_of_a_lock(view, off.site, site).is_some();
    let is = off.reason == OffReason::Futex && waker != off.thread && (known || concluded);
    is.then_some(known)
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

impl Case {
    fn finding(&self, cx: &Context, key: &Key) -> Option<Finding> {
        let view = cx.view;
        let n = self.waiters.len().max(1) as f64;
        let offs = || self.holder_offs.iter().filter_map(|&id| view.sched.off(id));
        let held: f64 = offs().map(|off| off.sum_ns as f64).sum();
        let back: f64 = self
            .waiters
            .iter()
            .map(|(&id, &(_, n))| view.back_on_cpu(id, n))
            .sum();
        // Each thread has so much less to wait for. What the holders wait for passes at the same time then; a file
        // need not be waited for at all, if several writes are one.
        let each = ((self.all + back) / n).min(view.wall);
        let most = ((self.most + back) / n).min(view.wall);
        let again: f64 = offs()
            .map(|off| view.back_on_cpu(off.thread, off.n as f64))
            .sum();
        let not_needed = if is_file_io(key.reason) {
            (held + again) / n
        } else {
            0.0
        };
        let mut files: BTreeMap<NameId, f64> = BTreeMap::new();
        for off in offs() {
            if let Some(name) = off.name {
                *files.entry(name).or_default() += off.sum_ns as f64;
            }
        }
        let name = view.file_name(most_of(&files));
        let events = offs().filter(|off| is_any_event(view.sched, off));
        let any_event = 2.0 * events.map(|off| off.sum_ns as f64).sum::<f64>() >= held;
        let saving = Saving {
            expected: if any_event { 0.0 } else { EXPECTED * each },
            most: (most + not_needed).min(view.wall),
            sure: 0.0,
            cpu: (0.0, self.call_cpu(cx)),
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
        let share = each / view.wall;
        let file_ns: f64 = files.values().sum();
        let file = name.map(|name| {
            let text = format!("the holder is {}: {name}", in_what(key.reason));
            evidence("file_wait_ns", file_ns, text)
        });
        let of = name.map_or_else(String::new, |name| {
            format!(" ({})", name.rsplit('/').next().unwrap_or(name))
        });
        Some(Finding {
            id: "holder-off-cpu",
            subject: match key.object {
                Some(object) => Subject::Site(object, site),
                None => Subject::Code(site),
            },
            title: format!(
                "threads wait for {lock} while its holder is {}{of} at {place}: {} of the run",
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
                    format!("{} waited", plural(self.waiters.len(), "thread")),
                ),
                time("holder_off_ns", held, "is what the holders were in it"),
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
            caveats: [
                (key.object.is_none(), "that it is a lock is concluded from who wakes whom where"),
                (any_event, "the holder waits for whatever comes next: the others may be kept waiting until then on purpose"),
            ]
            .into_iter()
            .filter(|(holds, _)| *holds)
            .map(|(_, text)| text.into())
            .collect(),
        })
    }
}

impl Case {
    /// CPU time inside of the calls that the holders wait in.
    fn call_cpu(&self, cx: &Context) -> f64 {
        let calls = cx.view.sched.slices.iter().filter(|slice| {
            let here = slice
                .site
                .is_some_and(|site| self.holder_sites.contains_key(&site));
            here && cx.in_call.reason(slice).is_some()
        });
        calls.map(|slice| slice.running_ns as f64).sum()
    }
}

fn most_of<K: Ord + Copy>(weights: &BTreeMap<K, f64>) -> Option<K> {
    most(weights.clone())
}
