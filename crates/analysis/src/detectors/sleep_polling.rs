//! Threads that look for work, sleep for a while, and look again: what happens meanwhile waits for the clock.

mod looks;
pub(crate) mod rate;

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, duration, percent, plural};
use convoy_model::{passes_on, FindingId, GroupId, OffCpu, OffReason, SiteId, ThreadId};

use self::looks::{leave_awaited, waited, Looks};
use self::rate::keeps_a_rate;
use crate::estimate::saving::Saving;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::tables::paths::most;
use crate::words::{cause, evidence};

/// Sleeps longer than this are a schedule, not a poll, unless the code says so. Nanoseconds.
const POLL_NS: f64 = 10e6;
/// Sleeps that make a loop.
const SLEEPS: u64 = 20;
/// A thread that polls is asleep for this share of its life...
const ASLEEP: f64 = 0.3;
/// ... and at least one of them is on a processor for this share of it: else there is no work that waits.
const RUNNING: f64 = 0.15;
/// Or all that there are run for so long between two sleeps, which is work, and no mere look. Nanoseconds.
pub(crate) const WORK_NS: f64 = 30_000.0;
/// Some of it will be waited for in any case: a queue is empty at times. Those that run for little of the time may keep
/// a rate.
const EXPECTED: (f64, f64) = (0.8, 0.4);
/// Share of the sleep from which on it is at another place.
const ANOTHER_PLACE: f64 = 0.1;
const METHOD: &str = "sleep of the busiest of them, and getting back on a processor, gone";

/// What one thread sleeps.
#[derive(Default)]
struct Sleeper {
    n: u64,
    ns: f64,
    /// In a loop that only looks, by its code.
    looks: bool,
    sites: BTreeMap<SiteId, f64>,
}

/// With the kinds of threads of which all sleep so: that one of them works alone is because the others are asleep.
pub(crate) fn finding(cx: &RunFacts) -> Option<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let mut sleepers: BTreeMap<ThreadId, Sleeper> = BTreeMap::new();
    let looks = Looks::of(view);
    let polls = |off: &&OffCpu| {
        let short = || off.sum_ns as f64 <= POLL_NS * off.n as f64;
        let works = || view.workers.contains(&off.thread);
        off.reason == OffReason::Sleep
            && (looks.has(off) || (short() && works()))
            && off
                .site
                .and_then(|site| view.shown(site))
                .is_some_and(|frame| !passes_on(frame))
            && in_company(view, off.thread)
    };
    for off in view.sched.offs.iter().filter(polls) {
        let sleeper = sleepers.entry(off.thread).or_default();
        sleeper.n = sleeper.n.saturating_add(off.n);
        sleeper.ns += off.sum_ns as f64;
        sleeper.looks |= looks.has(off);
        if let Some(site) = off.site {
            *sleeper.sites.entry(site).or_default() += off.sum_ns as f64;
        }
    }
    sleepers.retain(|id, s| {
        s.n >= SLEEPS && s.ns >= ASLEEP * life(view, *id) && (s.looks || !keeps_a_rate(view, *id))
    });
    let waited = waited(view, &sleepers);
    leave_awaited(view, &mut sleepers, &waited);
    let mut sites: BTreeMap<SiteId, f64> = BTreeMap::new();
    for (site, ns) in sleepers.values().flat_map(|sleeper| &sleeper.sites) {
        *sites.entry(*site).or_default() += ns;
    }
    let running = |id: &ThreadId| {
        let th = view.threads.get(id);
        th.map_or(0.0, |th| th.running_ns as f64 / life(view, *id))
    };
    let busy = sleepers.keys().map(running).fold(0.0, f64::max) >= RUNNING;
    let in_turns = || in_turns(view, &sleepers) && !of_one_kind(view, &sleepers, &sites);
    let awaited = !waited.is_empty();
    if sleepers.is_empty() || !(busy || awaited || in_turns()) {
        return None;
    }
    // The busiest thread limits what is left: its sleep is what can go, and only where workers all poll or wait.
    let least = |of_others: &dyn Fn(&ThreadId) -> f64| {
        let of = |id: &ThreadId| match sleepers.get(id) {
            Some(s) => s.ns + view.back_on_cpu(*id, s.n as f64),
            None => of_others(id),
        };
        view.workers.iter().map(of).fold(f64::INFINITY, f64::min)
    };
    let busiest = least(&|id| waited.get(id).copied().unwrap_or(waits(view, *id)));
    // At most, all that delays a thread is because another one sleeps: what it waits for at locks on
    // the way, and for a CPU after each wait.
    let at_most = least(&|id| waits(view, *id) + delays(view, *id));
    let idle = view.sched.working.first().copied().unwrap_or(0) as f64;
    let all: f64 = sleepers.values().map(|s| s.ns).sum();
    let most_saved = busiest.min(view.wall).max(idle.min(all));
    let saving = Saving {
        expected: most_saved
            * match busy || awaited {
                true => EXPECTED.0,
                false => EXPECTED.1,
            },
        most: most_saved.max(at_most.min(view.wall)),
        sure: 0.0,
        ..Saving::default()
    };
    // What others wait for besides is no reason to say it.
    let of_sleep = Saving {
        most: most_saved,
        ..saving
    };
    if of_sleep.bound(view) < view.t.gain_mid {
        return None;
    }
    let n: u64 = sleepers.values().map(|s| s.n).sum();
    let lives: f64 = sleepers.keys().map(|id| life(view, *id)).sum();
    let share = (all / lives.max(1.0)).min(1.0);
    let site = most(sites.clone())?;
    let place = view.place(Some(site));
    let mut places: Vec<(String, f64)> = sites
        .iter()
        .map(|(site, ns)| (view.place(Some(*site)), *ns))
        .collect();
    places.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    places.dedup_by(|a, b| a.0 == b.0);
    let mut list = vec![
        evidence(
            "sleep_ns",
            all,
            format!(
                "{} sleeps of {} on average, {} together",
                count(n as f64),
                duration(all / n.max(1) as f64),
                duration(all)
            ),
        ),
        evidence(
            "idle_ratio",
            idle / view.wall,
            format!(
                "no thread was working for {} of the run",
                percent(idle / view.wall)
            ),
        ),
    ];
    list.extend(places.into_iter().skip(1).take(2).map(|(place, ns)| {
        evidence(
            "place_ratio",
            ns / all,
            format!("{} of it at {place}", percent(ns / all)),
        )
    }));
    let found = Finding {
        id: FindingId::SleepPolling,
        subject: Subject::Code(site),
        title: format!(
            "{} asleep between two looks for work for {} of {} time, most at {place}",
            match sleepers.len() {
                1 => "1 thread is".into(),
                n => format!("{} are", plural(n, "thread")),
            },
            percent(share),
            if sleepers.len() == 1 { "its" } else { "their" }
        ),
        evidence: list,
        causes: vec![cause(
            "sleep-polling",
            "a loop sleeps, looks whether there is something to do, and sleeps again: work waits until it looks",
            format!("wait for the event itself at {place}: a condition variable, a semaphore, poll() on a descriptor"),
        )],
        undecided: String::new(),
        gain: saving.gain(view, METHOD, "the work of the busiest thread"),
        share_of_thread_time: share,
        caveats: vec![
            "if it sleeps to keep a rate (frames, a limit, a retry), there is nothing to gain".into(),
        ],
    };
    Some((asleep_together(view, &sleepers), found))
}

/// Kinds of two threads or more that all are sleepers.
fn asleep_together(view: &RunView, sleepers: &BTreeMap<ThreadId, Sleeper>) -> Vec<GroupId> {
    let groups: BTreeSet<GroupId> = sleepers.keys().map(|&id| view.role(id)).collect();
    let all_sleep = |group: &GroupId| {
        let members = view.members(*group);
        members.len() > 1 && members.iter().all(|th| sleepers.contains_key(&th.thread))
    };
    groups.into_iter().filter(all_sleep).collect()
}

/// Whether nobody does anything but look for work, find some, and sleep: each then sleeps while another one has it.
fn in_turns(view: &RunView, sleepers: &BTreeMap<ThreadId, Sleeper>) -> bool {
    let works = |id: &ThreadId| {
        let (th, sleeper) = (view.threads.get(id), sleepers.get(id));
        th.zip(sleeper)
            .is_some_and(|(th, s)| th.running_ns as f64 >= WORK_NS * s.n as f64)
    };
    sleepers.len() > 1 && view.workers.iter().all(works)
}

/// Whether all sleepers are threads of one kind, at one place: a rate limit, a retry, or what stands for a call looks the same as
/// a look for work. Those of several kinds have something for one another.
fn of_one_kind(
    view: &RunView,
    sleepers: &BTreeMap<ThreadId, Sleeper>,
    sites: &BTreeMap<SiteId, f64>,
) -> bool {
    let groups: BTreeSet<_> = sleepers.keys().map(|id| view.role(*id)).collect();
    let all: f64 = sites.values().sum();
    let most = sites.iter().filter(|(_, ns)| **ns >= ANOTHER_PLACE * all);
    let places: BTreeSet<_> = most.map(|(site, _)| view.place(Some(*site))).collect();
    groups.len() == 1 && places.len() == 1
}

/// Whether the process has another worker: one to wait for.
fn in_company(view: &RunView, id: ThreadId) -> bool {
    let process = view.process(id);
    view.workers
        .iter()
        .any(|&other| other != id && view.process(other) == process)
}

fn life(view: &RunView, id: ThreadId) -> f64 {
    view.life(id).max(1.0)
}

/// What a thread waits for a CPU after its waits.
fn delays(view: &RunView, id: ThreadId) -> f64 {
    let th = view.threads.get(&id);
    th.map_or(0.0, |th| th.delayed_ns as f64)
}

/// What a thread that does not poll waits for others.
fn waits(view: &RunView, id: ThreadId) -> f64 {
    let th = view.threads.get(&id);
    th.map_or(0.0, |th| th.blocked_ns as f64)
}
