//! Threads wait for one that is itself off the processors: I/O, sleep or a page fault under a lock, or with what a pool has
//! too few of.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{
    bare, FindingId, NameId, ObjectId, OffCpu, OffId, OffReason, ProcessId, SiteId, ThreadId, Wake,
    Waker,
};

use crate::detectors::write_through::{WriteThrough, LOST};
use crate::estimate::saving::Saving;
use crate::facts::call_path::{CallPaths, PathId};
use crate::facts::lock_recognition::{awaits_a_token, is_lock, sign_of_a_lock, waited_at};
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::{is_any_event, is_file_io, RunView};
use crate::tables::paths::most;
use crate::tables::waits::low_ns;
use crate::words::{cause, evidence, in_what, time};

/// The section can nearly always be left before the wait; whether the device can do several at a time is not known.
const EXPECTED: f64 = 0.8;
const METHOD_OF_TOKENS: &str = "waits for one of them, gone";
const METHOD: &str = "waits for the lock while its holder was off the processors, gone; at most, what it was in as well";

/// More tokens (connections, permits) need no change of what is done with one, but may themselves be limited.
const EXPECTED_OF_TOKENS: f64 = 0.95;
const SURE_OF_TOKENS: f64 = 0.2;
/// Waits for tokens that are no chance, and share of the run that is worth a word.
const TOKEN_WAITS: u64 = 20;
const TOKEN_SHARE: f64 = 0.2;

/// What a thread waits for that another one has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    /// A lock.
    Lock,
    /// What is concluded to be a lock.
    Concluded,
    /// One of several, or the only one, that threads of one group take and give back, and wait for at a condition: they wait
    /// in one function and are woken, one at a time, in another.
    Token,
}

/// What holders of one lock did at one place.
#[derive(Default)]
struct Case {
    /// Waited for it while parallelism was low.
    waited: f64,
    all: f64,
    /// How often threads waited.
    n: u64,
    waiters: BTreeMap<ThreadId, Waited>,
    waiter_sites: BTreeMap<SiteId, f64>,
    /// Of the threads that wait, their time off the processors for this reason.
    holder_offs: BTreeSet<OffId>,
    holder_sites: BTreeMap<SiteId, f64>,
}

/// Waits of one thread.
#[derive(Default)]
struct Waited {
    /// Nanoseconds; and if all delays are because somebody waits.
    ns: f64,
    most: f64,
    /// After so many of them it had to get back on a processor.
    n: f64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    held: Held,
    object: Option<ObjectId>,
    /// The place of the waiters, where the lock is not known; of threads that park, any.
    waiters: PathId,
    /// The place of the holders, of a lock.
    holder: PathId,
    reason: OffReason,
}

/// A finding, where its waiters wait, and how long.
pub(crate) struct Found {
    pub(crate) finding: Finding,
    pub(crate) waiters: Vec<SiteId>,
    pub(crate) waited_ns: f64,
}

pub(crate) fn findings(cx: &RunFacts) -> Vec<Found> {
    let view = cx.view;
    let mut places = CallPaths::new(view.model, true);
    let mut cases: BTreeMap<Key, Case> = BTreeMap::new();
    for wake in &view.sched.wakes {
        let (Some(off), Some(held_is)) = (view.sched.off(wake.off), awaited(view, wake)) else {
            continue;
        };
        let low = (low_ns(view, off) / (off.sum_ns as f64).max(1.0)).min(1.0);
        let waits = cx.passed_on.holders_waits(view, wake);
        // With more tokens all that is done with one passes at the same time, not only what its holders wait for, if that is
        // most of it: work needs processors.
        let whole = |part: f64| match held_is {
            Held::Token if 2.0 * part >= wake.wait_ns as f64 => {
                (wake.wait_ns as f64 / part.max(1.0)).max(1.0)
            }
            _ => 1.0,
        };
        let of_all = whole(waits.iter().map(|(_, ns, _)| ns).sum());
        let of_most = whole(waits.iter().map(|(_, _, most)| most).sum());
        for (id, ns, most) in waits {
            let Some(held) = view.sched.off(id).filter(|o| tells(view, o, held_is)) else {
                continue;
            };
            let ns = ns * of_all;
            let key = Key {
                held: held_is,
                object: waited_at(view, off),
                // Of threads that park: what a virtual machine compiles anew is the same place by another path.
                waiters: if off.object.is_some() {
                    PathId::default()
                } else {
                    places.of(off.site)
                },
                holder: match held_is {
                    // Whatever is done with one, more of them end all the waits.
                    Held::Token => PathId::default(),
                    _ => places.of(held.site),
                },
                reason: held.reason,
            };
            let case = cases.entry(key).or_default();
            case.n += wake.n;
            case.all += ns;
            case.waited += ns * low;
            let waiter = case.waiters.entry(off.thread).or_default();
            waiter.ns += ns;
            waiter.most += most * of_most;
            waiter.n += wake.n as f64 * ns / (wake.wait_ns as f64).max(1.0);
            if let Some(site) = off.site {
                *case.waiter_sites.entry(site).or_default() += ns;
            }
            if let Some(site) = held.site {
                *case.holder_sites.entry(site).or_default() += ns;
            }
            case.holder_offs.insert(id);
        }
    }
    // What a program writes through is one cost: it is said of the lock that is waited for most.
    let mut of_program: BTreeMap<ProcessId, (f64, &Key)> = BTreeMap::new();
    for (key, case) in &cases {
        if let Some(process) = case.written_through(cx, key) {
            let most = of_program.entry(process).or_insert((case.all, key));
            if case.all > most.0 {
                *most = (case.all, key);
            }
        }
    }
    let written_through = |key: &Key| {
        let mut of = of_program.iter().filter(|(_, (_, first))| *first == key);
        of.find_map(|(process, _)| cx.written_through.by(*process))
            .map(|(_, of)| of)
    };
    cases
        .iter()
        .filter_map(|(key, case)| {
            Some(Found {
                finding: case.finding(cx, key, written_through(key))?,
                waiters: case.waiter_sites.keys().copied().collect(),
                waited_ns: case.all,
            })
        })
        .collect()
}

/// What a thread waited for that another one gave up then.
pub(crate) fn awaited(view: &RunView, wake: &Wake) -> Option<Held> {
    let off = view.sched.off(wake.off)?;
    let Waker::Thread(waker, site) = wake.waker else {
        return None;
    };
    if off.reason != OffReason::Futex || waker == off.thread {
        return None;
    }
    if is_lock(view, off.object) {
        return Some(Held::Lock);
    }
    if view.role(off.thread) != view.role(waker) {
        return None;
    }
    if awaits_a_token(view, off, site) {
        return Some(Held::Token);
    }
    let concluded = off.object.is_none() && sign_of_a_lock(view, off.site, site).is_some();
    concluded.then_some(Held::Concluded)
}

/// Whether a wait of a holder is one that says something: not that it was taken off, nor another lock. Waits for
/// what others send only count where what is held is known.
fn tells(view: &RunView, off: &OffCpu, held: Held) -> bool {
    let answers = matches!(
        off.reason,
        OffReason::Socket | OffReason::Pipe | OffReason::Poll
    );
    match held {
        // Who leads a group of threads that flush together, or that serve what comes, has nothing that there could be more of.
        Held::Token => match off.reason {
            OffReason::Sleep | OffReason::Child => true,
            _ => answers && !is_any_event(view.sched, off) && !accepts(view, off),
        },
        _ => {
            is_file_io(off.reason)
                || matches!(
                    off.reason,
                    OffReason::Sleep | OffReason::PageFault | OffReason::Memory
                )
                || (held == Held::Lock && answers)
        }
    }
}

/// Whether a thread waits for somebody to connect.
fn accepts(view: &RunView, off: &OffCpu) -> bool {
    let site = off.site.and_then(|site| view.model.site(site));
    site.is_some_and(|site| site.has_function(|name| matches!(bare(name), "accept" | "accept4")))
}

impl Case {
    /// `written_through`: what the process of the holders writes through, if that is said of this lock.
    fn finding(
        &self,
        cx: &RunFacts,
        key: &Key,
        written_through: Option<&WriteThrough>,
    ) -> Option<Finding> {
        let view = cx.view;
        let n = self.waiters.len().max(1) as f64;
        let offs = || self.holder_offs.iter().filter_map(|&id| view.sched.off(id));
        let held: f64 = offs().map(|off| off.sum_ns as f64).sum();
        let waiters = || self.waiters.iter();
        let back = |id: &ThreadId, of: &Waited| view.back_on_cpu(*id, of.n);
        let all_back: f64 = waiters().map(|(id, of)| back(id, of)).sum();
        // Each thread has so much less to wait for. What the holders wait for passes at the same time then; a file
        // need not be waited for at all, if several writes are one.
        let each = ((self.all + all_back) / n).min(view.wall);
        // Threads that end early wait less than those that the run is as long as: at most, it is the
        // one that waits longest.
        let longest = waiters().map(|(id, of)| of.most + back(id, of));
        let most = longest.fold(each, f64::max).min(view.wall);
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
        let (expected, sure) = match key.held {
            Held::Token if key.reason == OffReason::Sleep => (EXPECTED_OF_TOKENS, SURE_OF_TOKENS),
            // Who answers may be what is scarce.
            Held::Token => (EXPECTED_OF_TOKENS, 0.0),
            _ if any_event => (0.0, 0.0),
            _ => (EXPECTED, 0.0),
        };
        let mut saving = Saving {
            expected: expected * each,
            most: (most + not_needed).min(view.wall),
            sure,
            cpu: (0.0, self.call_cpu(cx)),
        };
        let site = most_of(&self.holder_sites)?;
        if saving.bound(view) < view.t.gain_mid {
            return None;
        }
        // One write through for several sections is the other way, and what it saves can be more.
        let of_waits = saving.expected_ratio(view);
        let more = written_through.filter(|_| of_waits >= view.t.gain_mid);
        let more = more.and_then(WriteThrough::saving);
        if let Some(more) = more {
            saving = saving.or(more);
        }
        let waits_alone = more.map(|_| {
            let text = format!(
                "the waits for the lock alone would buy {of_waits:.2} times the throughput"
            );
            evidence("waits_gain", of_waits, text)
        });
        let waiter_site = most_of(&self.waiter_sites);
        let place = view.place(Some(site));
        let share = each / view.wall;
        let too_little = self.n < TOKEN_WAITS || n < 2.0 || share < TOKEN_SHARE;
        if key.held == Held::Token && too_little {
            return None;
        }
        let lock = key.object.and_then(|id| view.object_name(id));
        let lock = lock.map_or_else(
            || format!("the lock at {}", view.place(waiter_site)),
            str::to_owned,
        );
        let file_ns: f64 = files.values().sum();
        let file = name.map(|name| {
            let text = format!("the holder is {}: {name}", in_what(key.reason));
            let of = match is_file_io(key.reason) {
                true => "file_wait_ns",
                false => "peer_wait_ns",
            };
            evidence(of, file_ns, text)
        });
        let of = name.map_or_else(String::new, |name| {
            format!(" ({})", name.rsplit('/').next().unwrap_or(name))
        });
        let (is_in, of_run) = (in_what(key.reason), percent(share));
        let (id, title, cause) = match key.held {
            Held::Token => (
                FindingId::SmallPool,
                format!(
                    "threads wait at {} for a pool whose members are all taken, by threads that are {is_in}{of} at {place}: {of_run} of the run",
                    view.place(waiter_site)
                ),
                cause(
                    "pool-too-small",
                    "more threads want one than there are",
                    format!(
                        "more of what they wait for (connections, permits), or have one for a shorter time than until after {place}"
                    ),
                ),
            ),
            _ => (
                FindingId::HolderOffCpu,
                format!(
                    "threads wait for {lock} while its holder is {is_in}{of} at {place}: {of_run} of the run"
                ),
                cause(
                    "blocking-inside-section",
                    format!("the holder is {is_in} while it holds the lock"),
                    match key.reason {
                        OffReason::Sync => format!(
                            "one fsync for several transactions at {place} (group commit: who comes meanwhile waits for the next one), or \
                             a setting that writes through less often; else do it outside the section: under the lock only take what \
                             it needs"
                        ),
                        _ => format!("do it outside the section at {place}: under the lock only take what it needs"),
                    },
                ),
            ),
        };
        Some(Finding {
            id,
            subject: match key.object {
                Some(object) => Subject::Site(object, site),
                None => Subject::Code(site),
            },
            title,
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
            .chain(waits_alone)
            .collect(),
            causes: vec![cause],
            undecided: String::new(),
            gain: match key.held {
                Held::Token => saving.gain(view, METHOD_OF_TOKENS, "whether there can be more of them"),
                _ => saving.gain(view, METHOD, "whether the holders' waits can pass side by side"),
            },
            share_of_thread_time: share,
            caveats: [
                (key.held == Held::Token, "what they wait for may itself be limited; that it is a pool is inferred from who wakes whom where"),
                (key.held == Held::Concluded, "that it is a lock is inferred from who wakes whom where"),
                (key.reason == OffReason::Sync, LOST),
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
    /// The program of the holders, by its first process, if it writes through again and again and that is what they are in.
    fn written_through(&self, cx: &RunFacts, key: &Key) -> Option<ProcessId> {
        let mut offs = self.holder_offs.iter();
        let first = offs.next().filter(|_| key.reason == OffReason::Sync)?;
        let process = cx.view.process(cx.view.sched.off(*first)?.thread);
        cx.written_through.by(process).map(|(first, _)| first)
    }

    /// CPU time inside of the calls that the holders wait in.
    fn call_cpu(&self, cx: &RunFacts) -> f64 {
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
