//! Threads of a pool that are all in calls which block (requests to another program, sleeps) while tasks wait for them: the
//! processors are idle, and nothing that waits shows why. A pool that never waits for work has too few threads for
//! what its tasks do, and one of an event loop should not block at all.

mod runners;

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, duration, percent};
use convoy_model::{CodeFrom, GroupId, OffCpu, OffReason, ProcessId, SiteId, ThreadId, Waker};

use self::runners::{awaits_result, blocks, runner, sends, Runner};
use super::Context;
use crate::gain::Saving;
use crate::tables::paths::most;
use crate::text::{cause, evidence};
use crate::view::View;

/// Calls of a thread that make a habit.
const CALLS: u64 = 20;
/// Share of its life that such a thread is in them at least...
const BLOCKED: f64 = 0.6;
/// ... and that it waits for work at most: where it never does, more work is always there.
const IDLE: f64 = 0.15;
/// Share of a thread's time in sockets that must be known to be its own requests; and that may be others'.
const REQUESTS: f64 = 0.3;
const SERVED: f64 = 0.1;
/// Share of the run that somebody waits for what they do.
const AWAITED: f64 = 0.3;
/// Wake-ups of others a call from which on what was received is handed on...
const HANDED_ON: f64 = 0.5;
/// ... by somebody who does not send much himself: samples, and their share.
const SENDS: (u64, f64) = (3, 0.1);
/// Results that somebody waits for, one by one, for each call: so many calls are tasks of their own.
const RESULTS: f64 = 0.25;
/// How much of it a larger pool overlaps is not known: what is called may have a limit of its own. Six programs that did little
/// else gained 4.8x to 12.6x.
const EXPECTED: f64 = 0.7;
const METHOD: &str = "calls that block, overlapped with one another";

/// What one thread does off the processors, nanoseconds.
#[derive(Debug, Default)]
struct Calls {
    n: u64,
    /// In calls that block, all together.
    blocked: f64,
    /// In sockets, of which as the one who asks, and as the one who is asked.
    socket: f64,
    asks: f64,
    asked: f64,
    /// Otherwise blocked in tasks of a pool; and, whatever for, of an event loop.
    in_pool: f64,
    in_loop: f64,
    /// Samples of its code, and those in calls that send.
    samples: u64,
    sends: u64,
    /// Waiting for work, for all that can be seen.
    idle: f64,
    sites: BTreeMap<SiteId, f64>,
}

impl Calls {
    fn add(&mut self, view: &View, off: &OffCpu) {
        let ns = off.sum_ns as f64;
        let task_of = || {
            off.site
                .and_then(|site| view.model.site(site))
                .and_then(runner)
        };
        match off.reason {
            OffReason::Preempted | OffReason::PageFault | OffReason::Memory => return,
            OffReason::Socket => {
                match view.file_name(off.name).map_or(End::Unknown, end) {
                    End::Asks => self.asks += ns,
                    End::Asked => self.asked += ns,
                    End::Unknown => {}
                }
                self.socket += ns;
                if task_of() == Some(Runner::Loop) {
                    self.in_loop += ns;
                }
            }
            _ => match task_of().filter(|_| blocks(view, off)) {
                Some(Runner::Loop) => self.in_loop += ns,
                Some(Runner::Pool) => self.in_pool += ns,
                // Whatever else it waits for may bring it work.
                None => {
                    self.idle += ns;
                    return;
                }
            },
        }
        self.n = self.n.saturating_add(off.n);
        self.blocked += ns;
        if let Some(site) = off.site {
            *self.sites.entry(site).or_default() += ns;
        }
    }

    /// Who serves others' requests waits for them in the same calls.
    fn is_habit(&self, life: f64) -> bool {
        self.n >= CALLS
            && self.blocked >= BLOCKED * life
            && self.idle <= IDLE * life
            && self.asks >= REQUESTS * self.socket
            && self.asked <= SERVED * self.socket
    }
}

/// Which end of a connection a socket is.
enum End {
    Asks,
    Asked,
    Unknown,
}

/// By what the recorder calls it: it knows what ports are listened at.
fn end(name: &str) -> End {
    match name
        .strip_prefix("socket: ")
        .and_then(|rest| rest.split_once(' '))
    {
        Some((_, rest)) if rest.starts_with("to port ") => End::Asks,
        Some((_, rest)) if rest.starts_with("port ") => End::Asked,
        _ => End::Unknown,
    }
}

/// With the groups whose threads are alone at work only because the others are in such calls.
pub(crate) fn finding(cx: &Context) -> Option<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let mut all: BTreeMap<ThreadId, Calls> = BTreeMap::new();
    let works = |off: &&OffCpu| !view.is_helper(off.thread) && view.workers.contains(&off.thread);
    for off in view.sched.offs.iter().filter(works) {
        all.entry(off.thread).or_default().add(view, off);
    }
    all.retain(|id, calls| calls.is_habit(view.life(*id)));
    for slice in view
        .sched
        .slices
        .iter()
        .filter(|slice| slice.from == CodeFrom::Sample)
    {
        if let Some(calls) = all.get_mut(&slice.thread) {
            let site = slice.site.and_then(|site| view.model.site(site));
            calls.samples += slice.n;
            calls.sends += slice.n * u64::from(site.is_some_and(sends));
        }
    }
    // The pool that is waited for most: others may have their own.
    let mut pools: BTreeMap<GroupId, BTreeMap<ThreadId, Calls>> = BTreeMap::new();
    for (id, calls) in all {
        pools.entry(view.role(id)).or_default().insert(id, calls);
    }
    // A pool with members to spare has threads enough.
    pools.retain(|role, members| 2 * members.len() > view.members(*role).len());
    let pools = pools
        .into_iter()
        .map(|(role, members)| (awaited(view, &members), role, members));
    let (waited, role, pool) = pools.max_by(|a, b| a.0.total_cmp(&b.0))?;
    if waited < AWAITED * view.wall {
        return None;
    }
    let kind = (view.group_name(role), view.members(role).len());
    let finding = said(view, kind, &pool, waited)?;
    Some((vec![role], finding))
}

/// How long one thread outside of the pool waited for it; all its life if the program's first thread is in it, with whose end all
/// ends, or if it is an event loop's: other events wait. What the first one waits for at the end of a recording, nobody has seen:
/// it may be this pool. One that is woken about once a call is handed what was received: that is a stream, and not a request,
/// unless the pool sends about as often. And if the pool only sleeps, a timer may pace it: then all waits are for its results.
fn awaited(view: &View, pool: &BTreeMap<ThreadId, Calls>) -> f64 {
    let sum = |f: &dyn Fn(&Calls) -> f64| pool.values().map(f).sum::<f64>();
    let blocked = sum(&|calls| calls.blocked);
    let n = sum(&|calls| calls.n as f64);
    let is_main = |id: ThreadId| view.thread(id).is_some_and(|th| th.main);
    let is_loop = 2.0 * sum(&|calls| calls.in_loop) > blocked;
    if let Some(id) = pool.keys().find(|id| is_loop || is_main(**id)) {
        return view.life(*id);
    }
    if 2.0 * sum(&|calls| calls.in_pool) > blocked {
        return results_awaited(view, pool, n);
    }
    let mut waiters: BTreeMap<ThreadId, f64> = BTreeMap::new();
    let processes: BTreeSet<ProcessId> = pool.keys().map(|id| view.process(*id)).collect();
    let mut woken = 0;
    for wake in &view.sched.wakes {
        let by_pool = matches!(wake.waker, Waker::Thread(id, _) if pool.contains_key(&id));
        let Some(off) = view.sched.off(wake.off).filter(|_| by_pool) else {
            continue;
        };
        if off.reason == OffReason::Futex && !pool.contains_key(&off.thread) {
            *waiters.entry(off.thread).or_default() += wake.wait_ns as f64;
            woken += wake.n;
        }
    }
    let (sends, samples) = (
        sum(&|calls| calls.sends as f64),
        sum(&|calls| calls.samples as f64),
    );
    let asks = sends >= SENDS.0 as f64 && sends >= SENDS.1 * samples;
    if woken as f64 >= HANDED_ON * n && !asks {
        return 0.0;
    }
    let first = |off: &&OffCpu| {
        let waits = off.reason == OffReason::Futex && off.unfinished_ns > 0;
        waits && is_main(off.thread) && processes.contains(&view.process(off.thread))
    };
    for off in view.sched.offs.iter().filter(first) {
        *waiters.entry(off.thread).or_default() += off.unfinished_ns as f64;
    }
    waiters.into_values().fold(0.0, f64::max)
}

/// How long one thread waits for results of tasks, which come one by one: as many as a part of the pool's calls, of which there are
/// so many.
fn results_awaited(view: &View, pool: &BTreeMap<ThreadId, Calls>, calls: f64) -> f64 {
    let mut waiters: BTreeMap<ThreadId, (f64, f64)> = BTreeMap::new();
    let awaits = |off: &&OffCpu| {
        let site = off.site.and_then(|site| view.model.site(site));
        off.reason == OffReason::Futex
            && !pool.contains_key(&off.thread)
            && site.is_some_and(awaits_result)
    };
    for off in view.sched.offs.iter().filter(awaits) {
        let waiter = waiters.entry(off.thread).or_default();
        waiter.0 += off.n as f64;
        waiter.1 += off.sum_ns as f64;
    }
    waiters.retain(|_, waiter| waiter.0 >= RESULTS * calls);
    waiters
        .into_values()
        .map(|waiter| waiter.1)
        .fold(0.0, f64::max)
}

/// Of threads of this kind, of which there are so many.
fn said(
    view: &View,
    (name, members): (String, usize),
    pool: &BTreeMap<ThreadId, Calls>,
    waited: f64,
) -> Option<Finding> {
    let sum = |f: &dyn Fn(&Calls) -> f64| pool.values().map(f).sum::<f64>();
    let threads = pool.len() as f64;
    let blocked = sum(&|calls| calls.blocked);
    let is_loop = 2.0 * sum(&|calls| calls.in_loop) > blocked;
    let what = if 2.0 * sum(&|calls| calls.socket) > blocked {
        "sending or receiving"
    } else {
        "in calls that block"
    };
    let nobody = view.sched.working.first().copied().unwrap_or(0) as f64;
    // What they run stays, and needs its processors.
    let most_saved = (blocked / threads).min(waited);
    let saving = Saving {
        expected: EXPECTED * most_saved,
        most: most_saved,
        sure: 0.0,
        ..Saving::default()
    };
    if saving.bound(view) < view.t.gain_mid {
        return None;
    }
    let mut sites: BTreeMap<SiteId, f64> = BTreeMap::new();
    for (site, ns) in pool.values().flat_map(|calls| &calls.sites) {
        *sites.entry(*site).or_default() += ns;
    }
    let site = most(sites)?;
    let place = view.place(Some(site));
    let life = view.lives(pool.keys());
    let share = (blocked / life.max(1.0)).min(1.0);
    let idle = sum(&|calls| calls.idle) / life.max(1.0);
    let n: u64 = pool.values().map(|calls| calls.n).sum();
    Some(Finding {
        id: "blocking-calls",
        subject: Subject::Code(site),
        title: format!(
            "{} {what} for {} of {} time and hardly ever without work: most at {place}",
            match (pool.len(), members) {
                (1, 1) => format!("{name} is"),
                (1, _) => format!("1 thread of {name} is"),
                (n, _) => format!("{n} threads of {name} are"),
            },
            percent(share),
            if pool.len() == 1 { "its" } else { "their" }
        ),
        evidence: vec![
            evidence(
                "calls_ns",
                blocked,
                format!("{} calls that block, {} each", count(n as f64), duration(blocked / n.max(1) as f64)),
            ),
            evidence(
                "waits_for_work_ratio",
                idle,
                format!("they wait for work {} of their time", percent(idle)),
            ),
            evidence(
                "nobody_ratio",
                nobody / view.wall,
                format!("no thread was at work for {} of the run", percent(nobody / view.wall)),
            ),
            evidence("awaited_ns", waited, format!("what they do is waited for {}", duration(waited))),
        ],
        causes: vec![if is_loop {
            cause(
                "blocking-calls",
                "all other tasks and events of the thread wait while one blocks it, and the processors are idle",
                format!("what blocks at {place} in a pool of threads of its own (tokio: spawn_blocking), or asynchronous calls"),
            )
        } else {
            cause(
                "blocking-calls",
                "as many calls can be under way as there are threads, and the processors are idle meanwhile",
                format!(
                    "more threads for what blocks at {place} (a pool of its own beside an event loop), or asynchronous calls"
                ),
            )
        }],
        undecided: String::new(),
        gain: saving.gain(view, METHOD, "what is called, where it does not serve several at once"),
        share_of_thread_time: share,
        caveats: vec!["whether what is called can serve more requests at once is not seen: the expected gain assumes that 70 % of the waits overlap".into()],
    })
}
