//! Requests of other programs that queue for the one thread of a server, or for several of which one at a time works: that there are
//! several requests shows in who waits for it.

use std::collections::BTreeMap;

use convoy_model::finding::Evidence;
use convoy_model::words::plural;
use convoy_model::{GroupId, OffReason, Process, ThreadId};

use crate::estimate::saving::spread;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::words::{evidence, how_many};

/// Threads that wait for its answers for a time to speak of, and the share of the run that is one.
const ASKERS: (usize, f64) = (2, 0.05);
/// Requests that wait on average beside the one that is served, from which on there are enough for a second server.
const WAITING: f64 = 0.5;
/// So often, of the times that it is waited for, does a server wait itself that is asked in turns. With one connection it was 0.6 of
/// them, with eight none.
const IN_TURNS: f64 = 0.3;
/// Of so many waits for answers, as many as at the beginning and the end, or hardly any. An answer may take many waits, so that a server
/// that is asked in turns waits less often, but not that seldom (nginx with one connection: once for 20 waits; with eight 1 of 1032).
const AHEAD: f64 = 20.0;
const SELDOM: (f64, f64) = (2.0, 0.002);
/// What threads can do at most, of which they do this part if they are busy all the time.
const BUSY: f64 = 0.85;
/// Several that do as much as one that is busy all the time, and up to this, work one at a time: as shares of the run.
const WORK_OF_ONE: f64 = 1.1;
/// Part of the work that is expected to be divided among servers: with two instead of one, three servers on two processors
/// were 1.6 to 2 times as fast, of the 1.9 to 2 that their processors allowed.
pub(crate) const EXPECTED: f64 = 0.8;
pub(crate) const WHY: &str = "it serves one request after the other, and others wait meanwhile";
pub(crate) const CAVEAT: &str =
    "whether requests can be served beside one another is not known: they may need the same data";

/// Waits of a thread for a group of another program, and of the group for the thread.
#[derive(Default)]
struct Turns {
    /// How long the thread waited, nanoseconds.
    ns: f64,
    n: u64,
    awaited: u64,
}

/// Threads that waited for a group of another program, or the group for them.
#[derive(Default)]
pub(crate) struct Askers(BTreeMap<GroupId, BTreeMap<ThreadId, Turns>>);

impl Askers {
    pub(crate) fn of(view: &RunView) -> Self {
        let mut this = Self::default();
        for (wake, off, waker, _) in view.sched.ended_by_threads() {
            let others = view.run_other_code(view.process(off.thread), view.process(waker));
            // Who started a process and waits for its end asks for nothing; nor does a pipeline's next or previous stage.
            let asks = !matches!(off.reason, OffReason::Child | OffReason::Pipe);
            if asks && others {
                let turns = this.between(view.role(waker), off.thread);
                turns.ns += wake.wait_ns as f64;
                turns.n += wake.n;
                this.between(view.role(off.thread), waker).awaited += wake.n;
            }
        }
        this
    }

    fn between(&mut self, group: GroupId, thread: ThreadId) -> &mut Turns {
        self.0.entry(group).or_default().entry(thread).or_default()
    }

    /// Those that wait for a group for a time to speak of.
    fn for_long(&self, view: &RunView, group: GroupId) -> Vec<&Turns> {
        let threads = self.0.get(&group).into_iter().flat_map(BTreeMap::values);
        let long = threads.filter(|turns| turns.ns >= ASKERS.1 * view.wall);
        long.collect()
    }

    /// How a group is asked, as far as is seen.
    fn asked(&self, view: &RunView, group: GroupId) -> Asked {
        let asks = self.for_long(view, group);
        let sum = |of: fn(&Turns) -> u64| asks.iter().map(|turns| of(turns)).sum::<u64>() as f64;
        let (answers, awaited) = (sum(|turns| turns.n), sum(|turns| turns.awaited));
        match awaited / answers {
            _ if asks.is_empty() => Asked::Unseen,
            share if share >= IN_TURNS => Asked::InTurns,
            share if answers >= AHEAD && (awaited <= SELDOM.0 || share <= SELDOM.1) => Asked::Ahead,
            _ => Asked::Unseen,
        }
    }

    /// Whether threads of other programs are seen to wait for a group for long.
    pub(crate) fn are_seen(&self, view: &RunView, group: GroupId) -> bool {
        !self.for_long(view, group).is_empty()
    }

    /// Whether a group and those who ask it wait for each other in turns: nothing is asked before the last answer is there, which keeps a
    /// server busy that has nothing else to do.
    pub(crate) fn take_turns(&self, view: &RunView, group: GroupId) -> bool {
        self.asked(view, group) == Asked::InTurns
    }

    /// Requests to a group that wait on average, one for each that is served.
    fn length(&self, view: &RunView, group: GroupId) -> f64 {
        let waits = self.0.get(&group).into_iter().flat_map(BTreeMap::values);
        waits.map(|turns| turns.ns).sum::<f64>() / view.wall
    }

    /// Whether these threads, each of which is in calls for so long, mostly wait for a server of another program that does as much as it
    /// can: more of them would only wait with them.
    pub(crate) fn queue(&self, view: &RunView, calls: &BTreeMap<ThreadId, f64>) -> bool {
        let in_calls: f64 = calls.values().sum();
        self.0.iter().any(|(&group, waits)| {
            let for_it = calls.keys().filter_map(|id| waits.get(id));
            let for_it: f64 = for_it.map(|turns| turns.ns).sum();
            2.0 * for_it > in_calls && self.is_full(view, group)
        })
    }

    /// Whether a group has more requests than it works on, and cannot do more.
    fn is_full(&self, view: &RunView, group: GroupId) -> bool {
        let (work, threads) = (work(view, group), view.members(group).len() as f64);
        let all_work = work >= BUSY * threads.min(view.cpus);
        let waiting = self.length(view, group) - work;
        waiting >= WAITING && (all_work || self.lets_one_through(view, group))
    }

    /// Whether one thread of several works at a time, all the time, though each of them could have a request.
    fn lets_one_through(&self, view: &RunView, group: GroupId) -> bool {
        let threads = view.members(group).len();
        threads > 1
            && (BUSY..=WORK_OF_ONE).contains(&work(view, group))
            && self.length(view, group) >= threads as f64 + WAITING
    }
}

/// What all threads of a group do, as a share of the run.
fn work(view: &RunView, group: GroupId) -> f64 {
    let members = view.members(group).into_iter();
    members.map(|th| th.working_ns() as f64).sum::<f64>() / view.wall
}

/// How a server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// By nobody who was recorded, or nothing can be said.
    Unseen,
    /// It waits for who asks it about as often as these wait for it.
    InTurns,
    /// It hardly ever waits for who waits for it: when it has answered, the next request is there.
    Ahead,
}

/// Requests that wait for a thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    threads: usize,
    /// Threads that wait on average, one for the request that is served; each may have asked for several things.
    length: f64,
    several: bool,
    /// Threads that could serve them.
    servers: usize,
}

impl Queue {
    /// Of a group of one thread that works for so long; `None` if those who wait are no other programs', or too few.
    pub(crate) fn of(cx: &RunFacts, group: GroupId, works: f64) -> Option<Self> {
        let view = cx.view;
        let threads = cx.askers.for_long(view, group).len();
        let length = cx.askers.length(view, group);
        let several = threads >= ASKERS.0 && length - works / view.wall >= WAITING;
        // Who starts a program and polls for what it writes waits in the same way, but cannot connect to it.
        let serves = view.process_of(group).is_some_and(|of| of.listens);
        let ahead = || serves && cx.askers.asked(view, group) == Asked::Ahead;
        let waits = (several || ahead()) && view.members(group).len() == 1;
        waits.then_some(Self {
            threads,
            length,
            several,
            servers: 1,
        })
    }

    /// Of a group of several threads that others can connect to, of which one at a time works.
    pub(crate) fn of_several(cx: &RunFacts, group: GroupId) -> Option<Self> {
        let view = cx.view;
        let threads = cx.askers.for_long(view, group).len();
        let serves = view.process_of(group).is_some_and(|of| of.listens);
        let waits = serves && threads >= ASKERS.0 && cx.askers.lets_one_through(view, group);
        waits.then(|| Self {
            threads,
            length: cx.askers.length(view, group),
            several: true,
            servers: view.members(group).len(),
        })
    }

    /// Whether they wait for one of several threads.
    pub(crate) fn is_of_several(&self) -> bool {
        self.servers > 1
    }

    pub(crate) fn evidence(&self) -> Evidence {
        evidence("requests_waiting", self.length, self.seen())
    }

    pub(crate) fn seen(&self) -> String {
        match (self.several, self.threads) {
            (true, n) => format!(
                "{} of other programs ask it, and {:.1} wait for its answer at a time",
                plural(n, "thread"),
                self.length
            ),
            (false, 1) => "a thread of another program asks it, and the next request is there when it has answered".into(),
            (false, n) => format!("{n} threads of other programs ask it, and the next request is there when it has answered"),
        }
    }

    /// What goes if those of several threads that have nothing to do serve what waits, nanoseconds: all that the group does, whatever
    /// part of it is told.
    pub(crate) fn divided(&self, view: &RunView, group: GroupId) -> f64 {
        let works = work(view, group).min(1.0) * view.wall;
        match self.servers {
            1 => 0.0,
            n => spread(works, works, view.useful.min(n as f64)),
        }
    }

    /// What to do about it, on so many processors.
    pub(crate) fn fix(&self, process: &Process, cpus: f64) -> String {
        match self.servers {
            1 => fix(process, cpus),
            n => format!(
                "find what lets one of the {n} threads of {} at a time serve a request (a strand, a lock, a queue), and have one for each \
                 connection, or for a part of the data",
                process.name
            ),
        }
    }
}

/// What to do about one thread that serves, with so many of them.
pub(crate) fn fix(process: &Process, n: f64) -> String {
    format!(
        "{} processes or threads of {} that serve requests (worker_processes of nginx, --workers of gunicorn, several instances with \
         a part of the data each), or less work for a request",
        how_many(n),
        process.name
    )
}
