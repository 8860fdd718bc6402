//! Threads of a pool that are all in calls which block (requests to another program, sleeps) while tasks wait for them: the
//! processors are idle, and nothing that waits shows why. A pool that never waits for work has too few threads for
//! what its tasks do, and one of an event loop should not block at all.

mod awaited;
mod directions;
pub(crate) mod ends;
mod kinds;
mod runners;

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, duration, percent};
use convoy_model::{FindingId, GroupId, OffCpu, OffReason, ProcessId, SiteId, ThreadId};

use self::directions::Directions;
use self::ends::{end, End, Ends};
use self::kinds::Kinds;
use self::runners::{blocks, looks_for_events, runner, Runner};
use crate::estimate::saving::Saving;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::{is_any_event, RunView};
use crate::tables::paths::most;
use crate::words::{cause, evidence};

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
/// How much of it a larger pool overlaps is not known: what is called may have a limit of its own. Of six programs, which gained 4.8x to
/// 12.6x, 0.8 of it went at least.
const EXPECTED: f64 = 0.85;
/// Of a pool of processes nobody sees who waits for it. Its queue is never empty; so many more requests are expected there.
const QUEUED: f64 = 8.0;
/// What a program expects that asks on its own account: whether it needs an answer for its next question is not known.
const OF_A_CLIENT: f64 = 0.5;
/// Waits for one of several descriptors from which on a thread that has no epoll serves others.
const POLLS: f64 = 20.0;
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
    /// Of the rest, outside of event loops; and of all, in tasks of those.
    slept: f64,
    in_loop: f64,
    /// Samples of its code, those in calls that look for events, and what those in calls that send or receive tell.
    samples: u64,
    looks: u64,
    directions: Directions,
    /// Waiting for work, for all that can be seen.
    idle: f64,
    sites: BTreeMap<SiteId, f64>,
}

impl Calls {
    fn add(&mut self, view: &RunView, ends: &Ends, off: &OffCpu) {
        let ns = off.sum_ns as f64;
        let task_of = || {
            off.site
                .and_then(|site| view.model.site(site))
                .and_then(runner)
        };
        match off.reason {
            OffReason::Preempted | OffReason::PageFault | OffReason::Memory => return,
            OffReason::Socket => {
                match end(view, off) {
                    End::Listens => {
                        self.idle += ns;
                        return;
                    }
                    End::Asks => self.asks += ns,
                    End::Asked => self.asked += ns,
                    End::Unknown => {
                        let (asks, asked) = ends.like(off.site);
                        self.asks += asks * ns;
                        self.asked += asked * ns;
                    }
                }
                self.socket += ns;
                self.directions.waits(view, off);
                if task_of() == Some(Runner::Loop) {
                    self.in_loop += ns;
                }
            }
            _ if blocks(view, off) => match task_of() {
                Some(Runner::Loop) => self.in_loop += ns,
                // Where else a virtual machine's thread sleeps may be anything of its own.
                None if off.reason == OffReason::Futex => {
                    self.idle += ns;
                    return;
                }
                Some(Runner::Pool) | None => self.slept += ns,
            },
            // Whatever else it waits for may bring it work.
            _ => {
                self.idle += ns;
                return;
            }
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

    /// Whether it waits for what others send of their own accord.
    fn only_receives(&self) -> bool {
        2.0 * self.socket > self.blocked && self.directions.only_receives()
    }
}

/// Threads of one kind that are all in such calls.
#[derive(Debug, Default)]
struct Pool(BTreeMap<ThreadId, Calls>);

impl Pool {
    fn sum(&self, of: impl Fn(&Calls) -> f64) -> f64 {
        self.0.values().map(of).sum()
    }

    /// How long each of them is in calls.
    fn in_calls(&self) -> BTreeMap<ThreadId, f64> {
        let each = self.0.iter().map(|(id, calls)| (*id, calls.blocked));
        each.collect()
    }

    /// Whether this is most of what blocks them.
    fn is_mostly(&self, part: impl Fn(&Calls) -> f64) -> bool {
        2.0 * self.sum(part) > self.sum(|calls| calls.blocked)
    }

    fn is_of_a_loop(&self) -> bool {
        self.is_mostly(|calls| calls.in_loop)
    }

    fn has(&self, id: ThreadId) -> bool {
        self.0.contains_key(&id)
    }

    fn processes(&self, view: &RunView) -> BTreeSet<ProcessId> {
        self.0.keys().map(|id| view.process(*id)).collect()
    }

    /// Whether it is the one thread of a program that serves nobody, as far as can be seen, and has no other tasks meanwhile.
    fn is_a_client(&self, view: &RunView) -> bool {
        let processes = self.processes(view);
        let listens = |id: &ProcessId| {
            let process = view.process_at(*id);
            process.is_some_and(|process| process.listens)
        };
        let offs = || {
            let of = |off: &&OffCpu| processes.contains(&view.process(off.thread));
            view.sched.offs.iter().filter(of)
        };
        let is_asked = |off: &OffCpu| {
            off.reason == OffReason::Socket && matches!(end(view, off), End::Listens | End::Asked)
        };
        let polls = offs().filter(|off| off.reason == OffReason::Poll);
        let polls: f64 = polls.map(|off| off.n as f64).sum();
        // Whoever has a connection may wait with a time limit until it is there.
        let serves = offs().any(|off| is_asked(off) || is_any_event(view.sched, off));
        let is_one = self
            .0
            .keys()
            .all(|id| view.thread(*id).is_some_and(|th| th.main));
        is_one
            && self.0.len() == 1
            && !self.is_of_a_loop()
            && self.sum(|calls| calls.looks as f64) == 0.0
            && !processes.iter().any(listens)
            && !(serves || polls >= POLLS)
    }

    /// What samples tell of all its threads.
    fn directions(&self) -> Directions {
        let mut all = Directions::default();
        self.0.values().for_each(|calls| all += calls.directions);
        all
    }

    /// Whether it may be such a client only in name: nothing shows that it asks for what it gets.
    fn is_only_told(&self, view: &RunView) -> bool {
        self.is_mostly(|calls| calls.socket)
            && !self.directions().is_seen_to_ask()
            && self.is_a_client(view)
    }

    /// Whether they are processes that one made to serve.
    fn is_of_processes(&self, view: &RunView) -> bool {
        let processes = self.processes(view);
        processes.iter().all(|id| view.maker(*id).is_some())
    }

    /// Share of its waits that a larger one is expected to overlap.
    fn overlaps(&self, view: &RunView) -> f64 {
        let processes = self.processes(view).len();
        if self.is_a_client(view) {
            OF_A_CLIENT
        } else if processes > 1 {
            EXPECTED.min(QUEUED / (QUEUED + processes as f64))
        } else {
            EXPECTED
        }
    }
}

/// With the groups whose threads are alone at work only because the others are in such calls.
pub(crate) fn finding(cx: &RunFacts) -> Option<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let ends = Ends::of(view);
    let mut all: BTreeMap<ThreadId, Calls> = BTreeMap::new();
    // Whoever is in calls all the time works little, beside others that do what comes of it.
    let may = |off: &&OffCpu| !view.is_helper(off.thread);
    for off in view.sched.offs.iter().filter(may) {
        all.entry(off.thread).or_default().add(view, &ends, off);
    }
    all.retain(|id, calls| calls.is_habit(view.life(*id)));
    for (slice, site) in view.model.samples() {
        if let Some(calls) = all.get_mut(&slice.thread) {
            calls.samples += slice.n;
            calls.directions.add(site, slice.n);
            calls.looks += slice.n * u64::from(site.is_some_and(looks_for_events));
        }
    }
    all.retain(|_, calls| !calls.only_receives());
    let kinds = Kinds::of(view);
    // The pool that is waited for most: others may have their own.
    let mut pools: BTreeMap<GroupId, Pool> = BTreeMap::new();
    for (id, calls) in all {
        pools
            .entry(kinds.of_thread(id))
            .or_default()
            .0
            .insert(id, calls);
    }
    // A pool with members to spare has threads enough.
    pools.retain(|kind, members| {
        2 * members.0.len() > kinds.members(*kind)
            && !members.is_only_told(view)
            && !cx.askers.queue(view, &members.in_calls())
    });
    let pools = pools
        .into_iter()
        .map(|(kind, members)| (members.awaited(view), kind, members));
    let (waited, kind, pool) = pools.max_by(|a, b| a.0.total_cmp(&b.0))?;
    if waited < AWAITED * view.wall || cx.nobody_asks {
        return None;
    }
    let roles: BTreeSet<GroupId> = pool.0.keys().map(|id| view.role(*id)).collect();
    let kind = (view.group_name(kind), kinds.members(kind));
    let finding = said(view, kind, &pool, waited)?;
    Some((roles.into_iter().collect(), finding))
}

/// What they are, and are doing.
fn subject(view: &RunView, (name, members): (String, usize), pool: &Pool) -> String {
    let threads = pool.0.len();
    let processes = pool.processes(view);
    let program = processes.first().and_then(|id| view.process_at(*id));
    match (threads, members, program) {
        (1, 1, _) => format!("{name} is"),
        (1, ..) => format!("1 thread of {name} is"),
        (n, _, Some(program)) if processes.len() == n => {
            format!("{n} processes of {} are", program.name)
        }
        (n, ..) => format!("{n} threads of {name} are"),
    }
}

/// Of threads of this kind, of which there are so many.
fn said(view: &RunView, kind: (String, usize), pool: &Pool, waited: f64) -> Option<Finding> {
    let threads = pool.0.len();
    let blocked = pool.sum(|calls| calls.blocked);
    let what = match pool.is_mostly(|calls| calls.socket) {
        true => "sending or receiving",
        false => "in calls that block",
    };
    let nobody = view.sched.working.first().copied().unwrap_or(0) as f64;
    // What they run stays, and needs its processors.
    let most_saved = (blocked / threads as f64).min(waited);
    let overlaps = pool.overlaps(view);
    let saving = Saving {
        expected: overlaps * most_saved,
        most: most_saved,
        sure: 0.0,
        ..Saving::default()
    };
    if saving.bound(view) < view.t.gain_mid {
        return None;
    }
    let mut sites: BTreeMap<SiteId, f64> = BTreeMap::new();
    for (site, ns) in pool.0.values().flat_map(|calls| &calls.sites) {
        *sites.entry(*site).or_default() += ns;
    }
    let site = most(sites)?;
    let place = view.place(Some(site));
    let life = view.lives(pool.0.keys());
    let share = (blocked / life.max(1.0)).min(1.0);
    let idle = pool.sum(|calls| calls.idle) / life.max(1.0);
    let n = pool.sum(|calls| calls.n as f64);
    Some(Finding {
        id: FindingId::BlockingCalls,
        subject: Subject::Code(site),
        title: format!(
            "{} {what} for {} of {} time and hardly ever without work: most at {place}",
            subject(view, kind, pool),
            percent(share),
            if threads == 1 { "its" } else { "their" }
        ),
        evidence: vec![
            evidence(
                "calls_ns",
                blocked,
                format!("{} calls that block, {} each", count(n), duration(blocked / n.max(1.0))),
            ),
            evidence(
                "waits_for_work_ratio",
                idle,
                format!("they wait for work {} of their time", percent(idle)),
            ),
            evidence(
                "nobody_ratio",
                nobody / view.wall,
                format!("no thread was working for {} of the run", percent(nobody / view.wall)),
            ),
            evidence("awaited_ns", waited, format!("what they do is waited for {}", duration(waited))),
        ],
        causes: vec![if pool.is_of_a_loop() {
            cause(
                "blocking-calls",
                "all other tasks and events of the thread wait while one blocks it, and the processors are idle",
                format!("what blocks at {place} in a pool of threads of its own (tokio: spawn_blocking), or asynchronous calls"),
            )
        } else if pool.is_of_processes(view) {
            cause(
                "blocking-calls",
                "as many requests can be under way as there are processes and threads of them, and the processors are idle meanwhile",
                format!(
                    "more processes, or threads of each, for what blocks at {place} (pm.max_children of PHP-FPM, --workers and --threads \
                     of gunicorn), or asynchronous calls"
                ),
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
        caveats: vec![format!(
            "whether what is called can serve more requests at once is not seen, nor whether there are more: the expected gain assumes that \
             {} of the waits overlap",
            percent(overlaps)
        )],
    })
}
