//! Goroutines that exclude one another. Who waits for a `sync.Mutex` gives up its thread, which then has nothing to run: no wait
//! is anybody's for the lock. But who lets the lock go makes a goroutine ready, and wakes an idle thread for it.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, percent};
use convoy_model::{
    FindingId, GroupId, LoopId, OffReason, ProcessId, Site, SiteId, ThreadId, Wake, Waker,
};

use crate::detectors::busy_waiting::is_inside;
use crate::detectors::task_granularity::passes_on_work;
use crate::estimate::saving::{Saving, NO_WORK, SWITCH_NS};
use crate::facts::concurrency::{low_cm, unused};
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::tables::paths::most;
use crate::words::{cause, evidence};

/// Idle threads that were woken for who waited for a lock: fewer are a start.
const WOKEN: u64 = 200;
/// Share of all wake-ups by goroutines that make others ready from which on locks are what they wait for.
const LOCKS: f64 = 0.5;
/// A lock can be split, or its section made shorter; the scheduler's part goes with the waits.
const EXPECTED: f64 = 0.8;
const SURE: f64 = 0.2;
const METHOD: &str =
    "time that few threads had a goroutine to run, and what the scheduler ran for it, gone";
/// Share of what runs, scheduler, locking and waiting, from which on the rest does not bound the gain.
const MOSTLY: f64 = 0.5;
/// Samples in a lock's functions that say which one it is.
const SAMPLES: u64 = 3;
/// Share of the run that threads wait for the network or a timer from which on there may be nothing else to do, and waits that
/// are for more than the runtime's own timers.
const IDLE: f64 = 0.1;
const POLLS: u64 = 20;
/// Waits for locks that one event may bring.
const OF_AN_EVENT: u64 = 50;

/// Locks of goroutines.
const LOCK: [&str; 2] = ["sync.(*Mutex).", "sync.(*RWMutex)."];

/// A goroutine is made ready on the scheduler's own stack, where its callers do not show: this is how semaphores do it,
/// of which locks are made...
const BY_SEMAPHORE: &str = "runtime.readyWithTime.";
/// ... and this how all do, channels with names of their own before it.
const READY: &str = "goready.func1";
/// Others for whom idle threads are woken: new goroutines, and those that the network has something for.
const NEW: [&str; 2] = ["runtime.newproc", "runtime.injectglist"];
/// Where a lock is fought for, and where others wait that are made ready in the same way.
const FIGHTS: [&str; 3] = ["lockSlow", "unlockSlow", "UnlockSlow"];
const CONDITIONS: [&str; 3] = [
    "sync.(*Cond).",
    "sync.runtime_notifyList",
    "sync.(*WaitGroup).",
];

#[derive(Default)]
struct Woken {
    by_locks: u64,
    others: u64,
    /// Samples in locks' functions.
    places: BTreeMap<SiteId, u64>,
    /// Samples where others wait that look the same.
    conditions: u64,
}

/// For whom a goroutine's thread wakes another one that has nothing to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WokenFor {
    /// Who waited for a lock, or at another thing that is made of a semaphore.
    Lock,
    /// Who was handed something.
    Channel,
    /// A new goroutine, or one that the network has something for.
    Work,
    Unknown,
}

/// Of wake-ups of a thread by one of the same process.
pub(crate) fn woken_for(view: &RunView, wake: &Wake) -> Option<(ProcessId, WokenFor)> {
    let Waker::Thread(waker, Some(at)) = wake.waker else {
        return None;
    };
    let (off, site) = (view.sched.off(wake.off)?, view.model.site(at)?);
    let process = view.process(waker);
    if off.reason != OffReason::Futex || process != view.process(off.thread) {
        return None;
    }
    let is_new = |name: &str| NEW.iter().any(|new| name.starts_with(new));
    let what = if site.has_function(|name| name.starts_with(BY_SEMAPHORE)) {
        WokenFor::Lock
    } else if site.has_function(|name| name.ends_with(READY)) {
        WokenFor::Channel
    } else if site.has_function(is_new) {
        WokenFor::Work
    } else {
        WokenFor::Unknown
    };
    Some((process, what))
}

pub(crate) fn findings(cx: &RunFacts) -> Vec<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let mut processes: BTreeMap<ProcessId, Woken> = BTreeMap::new();
    for wake in &view.sched.wakes {
        let Some((process, what)) = woken_for(view, wake) else {
            continue;
        };
        let woken = processes.entry(process).or_default();
        match what {
            WokenFor::Lock => woken.by_locks = woken.by_locks.saturating_add(wake.n),
            WokenFor::Channel | WokenFor::Work => {
                woken.others = woken.others.saturating_add(wake.n)
            }
            WokenFor::Unknown => {}
        }
    }
    for (slice, site) in view.model.samples() {
        let (Some(id), Some(site)) = (slice.site, site) else {
            continue;
        };
        let Some(woken) = processes.get_mut(&view.process(slice.thread)) else {
            continue;
        };
        let is_in =
            |parts: &[&str]| site.has_function(|name| parts.iter().any(|part| name.contains(part)));
        if is_in(&LOCK) && is_in(&FIGHTS) {
            *woken.places.entry(id).or_default() += slice.n;
        } else if is_in(&CONDITIONS) {
            woken.conditions += slice.n;
        }
    }
    let processes = processes.into_iter();
    processes
        .filter_map(|(id, woken)| woken.finding(view, id))
        .collect()
}

impl Woken {
    fn finding(self, view: &RunView, process: ProcessId) -> Option<(Vec<GroupId>, Finding)> {
        let share = self.by_locks as f64 / (self.by_locks + self.others).max(1) as f64;
        let fights: u64 = self.places.values().sum();
        if self.by_locks < WOKEN || share < LOCKS || self.conditions > fights {
            return None;
        }
        let CpuTime {
            in_scheduler,
            spinning,
            running,
        } = CpuTime::of(view, process);
        let alone = share * spare(view) * (running / view.cpu_work.max(1.0)).min(1.0);
        // A thread that is woken for who waits goes to sleep before, and finds its caches cold.
        let switches = 2.0 * self.by_locks as f64;
        let of_all = NO_WORK * (running - spinning);
        let cpu = |each: f64| (in_scheduler + switches * each).min(of_all);
        let no_work = (in_scheduler + spinning) / running.max(1.0);
        let expected = match may_have_no_work(view, process, self.by_locks) {
            true => 0.0,
            false => EXPECTED,
        };
        let saving = Saving {
            expected: expected * (alone + (cpu(0.0) + spinning) / view.useful.max(1.0)),
            most: alone + cpu(SWITCH_NS.1) + spinning,
            sure: SURE,
            cpu: (expected * cpu(0.0), cpu(SWITCH_NS.1)),
        };
        if saving.bound(view) < view.t.gain_mid {
            return None;
        }
        let mut gain = saving.gain(view, METHOD, "the section itself");
        if no_work > MOSTLY {
            // What little is left are sections whose data move from one processor to the next: how
            // long they take without that was not seen.
            gain.high = f64::INFINITY;
        }
        // A lock that is held for long is hardly ever met in its own functions: what runs alone has it.
        let known = fights >= SAMPLES;
        let places = match known {
            true => self
                .places
                .into_iter()
                .map(|(site, n)| (site, n as f64))
                .collect(),
            false => runs_alone(view, process),
        };
        let site = most(places)?;
        let place = view.place(Some(site));
        let (title, lock) = match known {
            true => (
                format!("goroutines wait for one another at the lock of {place}"),
                format!("the lock of {place}"),
            ),
            false => (
                format!("goroutines wait for one another at a lock, mostly while {place} runs"),
                format!("the lock that {place} runs under"),
            ),
        };
        let threads = view.of_process(process);
        let groups: BTreeSet<GroupId> = threads.map(|th| view.role(th.thread)).collect();
        let finding = Finding {
            id: FindingId::ContendedFutex,
            subject: Subject::Code(site),
            title,
            evidence: vec![
                evidence(
                    "woken",
                    self.by_locks as f64,
                    format!(
                        "{} times a thread without work was woken for who waited for a lock, {} of all that goroutines woke",
                        count(self.by_locks as f64),
                        percent(share)
                    ),
                ),
                evidence(
                    "scheduler_ratio",
                    no_work,
                    format!(
                        "the scheduler, locking, waiting and waking take {} of the CPU time (samples)",
                        percent(no_work)
                    ),
                ),
            ],
            causes: vec![cause(
                "contended-futex",
                "goroutines exclude one another",
                format!("less work under {lock}, or one lock per part of the data"),
            )],
            undecided: String::new(),
            gain,
            share_of_thread_time: share,
            caveats: vec![
                "goroutines that wait are not seen: that they wait for this lock is inferred from who wakes threads".into(),
            ],
        };
        Some((groups.into_iter().collect(), finding))
    }
}

fn is_in_a_lock(site: &Site) -> bool {
    site.has_function(|name| LOCK.iter().any(|lock| name.contains(lock)))
}

/// Whether a loop is a lock's: who wants it looks again for a while before it sleeps.
pub(crate) fn is_its_loop(view: &RunView, id: LoopId) -> bool {
    is_inside(view.model, id, is_in_a_lock)
}

/// Whether a thread of the process waits for the network or a timer for so long that there may be nothing else to do.
pub(crate) fn may_be_idle(view: &RunView, process: ProcessId) -> bool {
    events_of_who_may_be_idle(view, process).is_some()
}

/// The same of what fights for locks: what is done about an event is not that much, so that few of them are timers beside work
/// that goes on.
fn may_have_no_work(view: &RunView, process: ProcessId, waits: u64) -> bool {
    let events = events_of_who_may_be_idle(view, process);
    events.is_some_and(|n| n.saturating_mul(OF_AN_EVENT) >= waits)
}

/// How often the network or a timer ended a wait of a thread for them, if there may be nothing else to do. A thread without anything to
/// run waits there as well, until another one wakes it.
fn events_of_who_may_be_idle(view: &RunView, process: ProcessId) -> Option<u64> {
    let (mut threads, mut n): (BTreeMap<ThreadId, f64>, u64) = Default::default();
    for wake in &view.sched.wakes {
        let Some(off) = view.sched.off(wake.off) else {
            continue;
        };
        let by_itself =
            matches!(wake.waker, Waker::Thread(waker, _) if view.process(waker) == process);
        if off.reason == OffReason::Poll && view.process(off.thread) == process && !by_itself {
            *threads.entry(off.thread).or_default() += wake.wait_ns as f64;
            n = n.saturating_add(wake.n);
        }
    }
    let idle = n >= POLLS && threads.values().any(|ns| *ns >= IDLE * view.wall);
    idle.then_some(n)
}

/// Wall time that goes if as many as can work always do. Threads that wake one another queue for one processor while another
/// is idle, so that those on processors count.
fn spare(view: &RunView) -> f64 {
    unused(&view.sched.running, view.useful, f64::INFINITY)
}

/// CPU time of a process, nanoseconds.
pub(crate) struct CpuTime {
    /// In the scheduler, in making goroutines wait and wake, and in the functions of locks.
    pub(crate) in_scheduler: f64,
    /// In those of locks, waiting in a loop.
    spinning: f64,
    running: f64,
}

impl CpuTime {
    pub(crate) fn of(view: &RunView, process: ProcessId) -> Self {
        let (mut all, mut there, mut spun) = (0.0, 0.0, 0.0);
        for (slice, site) in view.model.samples() {
            if view.process(slice.thread) != process {
                continue;
            }
            let n = slice.n as f64;
            all += n;
            let of_a_lock = site.is_some_and(is_in_a_lock);
            match slice.spin {
                Some(_) if of_a_lock => spun += n,
                None if of_a_lock => there += n,
                _ if site.is_some_and(passes_on_work) => there += n,
                _ => {}
            }
        }
        let running = view.ran(process);
        let share = |n: f64| running * n / all.max(1.0);
        Self {
            in_scheduler: share(there),
            spinning: share(spun),
            running,
        }
    }
}

/// What runs while few threads have anything to run.
fn runs_alone(view: &RunView, process: ProcessId) -> BTreeMap<SiteId, f64> {
    let mut places = BTreeMap::new();
    for slice in &view.sched.slices {
        if let Some(site) = slice.site.filter(|_| view.process(slice.thread) == process) {
            *places.entry(site).or_default() += low_cm(&slice.by_working, view.useful);
        }
    }
    places
}
