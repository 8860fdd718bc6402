//! Threads that hand over one small piece after the other: what the hand-over costs, and that they work in turns, is
//! then more than their work.

mod links;

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Evidence, Finding, Subject};
use convoy_model::words::{count, duration, percent};
use convoy_model::{FindingId, GroupId, OffReason, SchedThread, SiteFrame, ThreadId, Waker};

use crate::estimate::saving::{goes_with_larger_pieces, Saving, COLD_NS, NO_WORK, SWITCH_NS};
use crate::facts::concurrency::{at_least, low};
use crate::facts::lock_recognition::is_lock;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::facts::switch_cost::Switching;
use crate::tables::paths::most;
use crate::words::{cause, evidence};
use links::{links, same_places, Link};

/// Hand-overs that are a habit: fewer are a start or an end.
const WAITS: u64 = 200;
/// Share of its life that a thread of each side waits for the other, and that both do in the mean.
const WAITED: (f64, f64) = (0.1, 0.2);
/// Work between two waits, nanoseconds. Longer steps are phases, and whether those can overlap nobody knows: only two
/// threads that work at once for this share of the run can, and gain by it if at least one waits for as long.
const STEP_NS: f64 = 5.0 * SWITCH_NS.1;
const OVERLAP: f64 = 0.1;
/// The same where threads of one kind meet. Uneven steps that are longer than this are a matter of balance.
const MEETING_NS: f64 = 20.0 * SWITCH_NS.0;
/// Threads of one kind for each processor that may meet so, but no more: longer steps then wait for the others' turns.
const CROWD: f64 = 4.0;
/// They use the processors for this share of the run: else there may be nothing to do.
const USED: f64 = 0.5;
/// Buffers and larger steps let the sides overlap, but nobody knows whether they may. Steps that are not much longer
/// than the hand-over itself cost more than they do.
const EXPECTED: f64 = 0.5;
/// Share of its life that a side waits for requests from which on each piece is one: those of others nobody can gather.
const REQUESTS: f64 = 0.1;
/// To wake an idle processor and get to it, nanoseconds: twice that of a virtual machine.
const WAKE_NS: f64 = 2.0 * SWITCH_NS.1;
const METHOD: &str = "work of the busiest thread without waits and switches (asymptotic bound)";

/// Findings with the groups that they explain. `told`: groups of which another finding says why they wait.
pub(crate) fn findings(cx: &RunFacts, told: &BTreeSet<GroupId>) -> Vec<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let links = links(view);
    let mut found: Vec<Turns> = Vec::new();
    for (&(a, b), there) in &links {
        let Some(back) = links.get(&(b, a)).filter(|_| a <= b) else {
            continue;
        };
        let groups = BTreeSet::from([a, b]);
        if !groups.is_subset(told) {
            found.extend(Turns::of(view, groups, [there, back]));
        }
    }
    let chains = chained(view, found).into_iter();
    chains
        .filter_map(|turns| {
            let finding = turns.finding(view)?;
            Some((turns.groups.into_iter().collect(), finding))
        })
        .collect()
}

/// Those that share a side in one: each piece goes through all of them, and none gets faster as long as the next one waits. So do
/// threads of a side that wait for one another as well: for the queue's own lock, where that does not show.
fn chained<'a>(view: &RunView, found: Vec<Turns<'a>>) -> Vec<Turns<'a>> {
    let mut chains: Vec<Turns> = Vec::new();
    for turns in found {
        let shares_a_side = |chain: &Turns| {
            let within = |one: &Turns, other: &Turns| one.is_of_one_kind() && !other.meet;
            let goes_on = !turns.meet && !chain.meet;
            (goes_on || within(chain, &turns) || within(&turns, chain))
                && !chain.groups.is_disjoint(&turns.groups)
        };
        let (mut parts, others): (Vec<Turns>, Vec<Turns>) =
            chains.into_iter().partition(shares_a_side);
        chains = others;
        parts.push(turns);
        chains.extend(match parts.len() {
            1 => parts.pop(),
            _ => Some(Turns::joined(view, parts)),
        });
    }
    chains
}

/// Sides that hand over to each other in small steps.
struct Turns<'a> {
    groups: BTreeSet<GroupId>,
    /// Of each two sides both ways; the one of a group with itself once.
    links: Vec<&'a Link>,
    /// They all wait for one another: one kind of threads does, and so do those of two kinds that wait at the same places. The
    /// main thread of a team is one of it.
    meet: bool,
    threads: BTreeSet<ThreadId>,
    /// Waits that the other side ended.
    n: f64,
    /// CPU time that is work or switching, nanoseconds, of all threads and between two waits.
    running: f64,
    step: f64,
    /// What the hand-overs cost of it, by thread, nanoseconds.
    prices: BTreeMap<ThreadId, Price>,
}

/// CPU time, nanoseconds: expected and at most.
#[derive(Debug, Clone, Copy, Default)]
struct Price {
    expected: f64,
    most: f64,
}

impl<'a> Turns<'a> {
    /// If these links are such.
    fn of(view: &RunView, groups: BTreeSet<GroupId>, links: [&'a Link; 2]) -> Option<Self> {
        let waited = |link: &Link| link.ns / view.lives(&link.waiters).max(1.0);
        let habit = |link: &&Link| link.n >= WAITS && waited(link) >= WAITED.0;
        let mean = (waited(links[0]) + waited(links[1])) / 2.0;
        if !links.iter().all(habit) || mean < WAITED.1 {
            return None;
        }
        let meet = groups.len() == 1 || same_places(view, links);
        let links = links.into_iter().take(groups.len()).collect();
        let turns = Self::with(view, groups, links, meet);
        let n = turns.threads.len();
        if turns.meet && turns.gets_work(view) {
            return None;
        }
        // Of very many more than processors it is the number that matters first.
        if n < 2 || (turns.meet && n as f64 > CROWD * view.cpus) {
            return None;
        }
        turns.is_fine(view).then_some(turns)
    }

    /// Whether others end more of the waits at these places than they do themselves: a pool's threads wait for work there, and who
    /// gets some tells the next one that there is more.
    fn gets_work(&self, view: &RunView) -> bool {
        let at: BTreeSet<_> = self
            .links
            .iter()
            .flat_map(|link| link.sites.keys())
            .collect();
        let mut by = [0.0; 2];
        for (wake, off, waker, _) in view.sched.ended_by_threads() {
            if self.threads.contains(&off.thread) && off.site.is_some_and(|site| at.contains(&site))
            {
                by[usize::from(self.groups.contains(&view.role(waker)))] += wake.wait_ns as f64;
            }
        }
        by[0] > by[1]
    }

    fn joined(view: &RunView, parts: Vec<Self>) -> Self {
        let groups = parts.iter().flat_map(|part| part.groups.clone());
        let links = parts.iter().flat_map(|part| part.links.clone());
        Self::with(view, groups.collect(), links.collect(), false)
    }

    fn with(view: &RunView, groups: BTreeSet<GroupId>, links: Vec<&'a Link>, meet: bool) -> Self {
        let threads = links.iter().flat_map(|link| &link.waiters);
        let threads: BTreeSet<ThreadId> = threads
            .filter(|id| view.threads.contains_key(id))
            .copied()
            .collect();
        let mut turns = Self {
            groups,
            n: links.iter().map(|link| link.n as f64).sum(),
            links,
            meet,
            threads,
            running: 0.0,
            step: 0.0,
            prices: BTreeMap::new(),
        };
        let sum =
            |of: fn(&SchedThread) -> u64| turns.rows(view).map(|th| of(th) as f64).sum::<f64>();
        let (running, slices) = (sum(SchedThread::cpu_work_ns), sum(|th| th.slices));
        turns.running = running;
        turns.step = running / slices.max(1.0);
        turns.prices = turns.prices(view);
        turns
    }

    /// By what waits and their ends cost in the kernel, and by the samples in the functions that wait and wake, with their
    /// locks: as much of these as these hand-overs are of all.
    fn prices(&self, view: &RunView) -> BTreeMap<ThreadId, Price> {
        let switching = Switching::of(view, &self.threads, self.n);
        let offs = view.sched.offs.iter();
        let hand_overs = offs.filter(|off| {
            let waits = matches!(off.reason, OffReason::Futex | OffReason::Pipe);
            waits && self.threads.contains(&off.thread) && !is_lock(view, off.object)
        });
        let all: f64 = hand_overs.map(|off| off.n as f64).sum();
        let of_waits = (self.n / all.max(1.0)).min(1.0);
        let links = self.links.iter();
        let ends = links.flat_map(|link| link.sites.keys().chain(&link.enders));
        let at: BTreeSet<_> = ends
            .filter_map(|id| view.shown(*id))
            .map(SiteFrame::key)
            .collect();
        let shares = view.sync.shares(&self.threads, &at);
        let price = |th: &SchedThread| {
            let (there, any) = shares.get(&th.thread).copied().unwrap_or_default();
            let of_running = |ns: f64, sampled: f64| {
                let measured = of_waits * sampled;
                let counted = (ns / self.running.max(1.0)).min(NO_WORK);
                counted.max(measured).min(1.0)
            };
            let cpu = th.cpu_work_ns() as f64;
            Price {
                expected: cpu * of_running(switching.expected, there),
                most: cpu * of_running(switching.most, any),
            }
        };
        self.rows(view).map(|th| (th.thread, price(th))).collect()
    }

    fn is_of_one_kind(&self) -> bool {
        self.groups.len() == 1
    }

    fn price(&self, of: impl Fn(&Price) -> f64) -> f64 {
        self.prices.values().map(of).sum()
    }

    /// Share of what the threads run that hand-overs are expected to be.
    fn theirs(&self) -> f64 {
        self.price(|p| p.expected) / self.running.max(1.0)
    }

    /// Whether more of one kind meet than there are processors.
    fn crowded(&self, view: &RunView) -> bool {
        self.meet && self.threads.len() as f64 > view.cpus
    }

    fn rows<'v>(&'v self, view: &'v RunView) -> impl Iterator<Item = &'v SchedThread> {
        let rows = self.threads.iter().filter_map(|id| view.threads.get(id));
        rows.copied()
    }

    /// Whether the steps are so small that their hand-over matters, or may overlap.
    fn is_fine(&self, view: &RunView) -> bool {
        if self.meet {
            let used = self.running >= USED * view.wall * view.cpus;
            // Threads that share a runtime's tasks wake one another for those, and may have none.
            let shared = self.groups.iter().any(|&group| view.roles.is_shared(group));
            return match self.crowded(view) {
                true => self.step <= STEP_NS && used,
                false => self.step <= MEETING_NS && (used || !shared),
            };
        }
        let of_run = |ns: f64| ns >= OVERLAP * view.wall;
        let working = &view.sched.working;
        let overlap = of_run(at_least(working, 2.0)) && of_run(low(working, view.low_below));
        self.step <= STEP_NS || (overlap && self.rows(view).count() == 2)
    }

    /// Whether one of the sides waits for requests from outside.
    fn serves(&self, view: &RunView) -> bool {
        self.links.iter().any(|link| {
            let requests = view.sched.wakes.iter().filter(|wake| {
                let off = view.sched.off(wake.off);
                let poll = off.is_some_and(|off| {
                    let waits = matches!(off.reason, OffReason::Poll | OffReason::Socket);
                    waits && link.waiters.contains(&off.thread)
                });
                poll && !matches!(wake.waker, Waker::Thread(..))
            });
            let waited: f64 = requests.map(|wake| wake.wait_ns as f64).sum();
            waited >= REQUESTS * view.lives(&link.waiters)
        })
    }

    /// What is left is the work of the busiest, if the sides need not wait for each other. Being woken takes its time,
    /// but who waits for a processor for longer has none because others have it: that is expected to stay.
    fn saving(&self, view: &RunView) -> Saving {
        let largest =
            |of: &dyn Fn(&SchedThread) -> f64| self.rows(view).map(of).fold(0.0, f64::max);
        let price = |th: &SchedThread| self.prices.get(&th.thread).copied().unwrap_or_default();
        // More of one kind than there are processors meet late because they take turns, too: what they run is left.
        let in_turns = self.crowded(view);
        let floor = |price: f64| match in_turns {
            true => (self.running - price).max(0.0) / view.cpus,
            false => 0.0,
        };
        let left = largest(&|th| {
            let queued = th.delayed_ns as f64 - th.slices as f64 * WAKE_NS;
            let queued = queued.max(0.0) + th.preempted_ns as f64;
            let queued = if in_turns { 0.0 } else { queued };
            th.cpu_work_ns() as f64 - price(th).expected + queued
        });
        let left = left.max(floor(self.price(|p| p.expected)));
        let goes_at_best = |th: &SchedThread| {
            let (most, cold) = (price(th).most, th.slices as f64 * COLD_NS);
            most + cold.min((th.cpu_work_ns() as f64 - most) / 2.0)
        };
        let all_at_best: f64 = self.rows(view).map(goes_at_best).sum();
        let left_at_best = largest(&|th| th.cpu_work_ns() as f64 - goes_at_best(th));
        let left_at_best = left_at_best.max(floor(all_at_best));
        let longest = largest(&|th| th.life_ns() as f64);
        let expected = match self.step < STEP_NS {
            _ if self.serves(view) => 0.0,
            true => goes_with_larger_pieces(self.theirs()),
            false => EXPECTED,
        };
        Saving {
            expected: expected * (longest - left).max(0.0),
            most: (longest - left_at_best).max(0.0),
            sure: 0.0,
            cpu: (expected * self.price(|p| p.expected), all_at_best),
        }
    }

    /// What is seen, what is wrong with it, and what to do.
    fn words(&self, view: &RunView) -> (String, &'static str, String) {
        let place = |link: &Link| view.place(most(link.sites.clone()));
        let names: Vec<String> = self
            .groups
            .iter()
            .map(|&group| view.group_name(group))
            .collect();
        let who = listed(&names);
        let step = duration(self.step * (1.0 - self.theirs()));
        let a_second = |n: f64| count(n / view.wall * 1e9);
        if self.meet {
            let n = a_second(self.n / self.threads.len() as f64);
            let who = match self.groups.len() {
                1 => format!("threads of {who}"),
                _ => who,
            };
            let there = self
                .links
                .first()
                .map_or_else(String::new, |link| place(link));
            return (
                format!(
                    "{who} meet {n} times a second at {there}, after {step} of work each"
                ),
                "threads wait for one another after every small step",
                match self.threads.len() as f64 <= view.cpus {
                    true => format!(
                        "larger steps between two waits at {there}, or a wait there that looks again for a while before it sleeps"
                    ),
                    false => format!("larger steps between two waits at {there}"),
                },
            );
        }
        let mut places: Vec<String> = Vec::new();
        for place in self.links.iter().map(|link| place(link)) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let places = listed(&places);
        let n = self.threads.len();
        let fewer = match n as f64 > view.cpus && n > self.groups.len() {
            true => format!(", by fewer than {n} threads"),
            false => String::new(),
        };
        (
            format!(
                "{who} work in turns: they hand over {} times a second, after {step} of work each",
                a_second(self.n)
            ),
            "each side waits for the other after every small piece",
            format!(
                "hand over many pieces at once, or let more of them wait between {places}{fewer}; or do both steps in one thread"
            ),
        )
    }

    fn evidence(&self, waited: f64) -> Vec<Evidence> {
        let Self { n, step, .. } = self;
        let (expected, most) = (self.price(|p| p.expected), self.price(|p| p.most));
        let of_cpu = |ns: f64| percent(ns / self.running.max(1.0));
        vec![
            evidence(
                "hand_overs",
                *n,
                format!(
                    "{} waits that {} ended, {} together",
                    count(*n),
                    match self.groups.len() {
                        _ if self.meet => "another one",
                        1 | 2 => "the other side",
                        _ => "another side",
                    },
                    duration(waited)
                ),
            ),
            evidence(
                "step_ns",
                *step,
                format!(
                    "{} on a processor between two waits, the switch included",
                    duration(*step)
                ),
            ),
            evidence(
                "switch_cpu_ns",
                expected,
                match (of_cpu(expected), of_cpu(most)) {
                    (a, b) if a == b => {
                        format!("{a} of their CPU time are hand-overs and their switches")
                    }
                    (a, b) => format!(
                        "{a} of their CPU time are hand-overs and their switches, at most {b}"
                    ),
                },
            ),
        ]
    }

    fn finding(&self, view: &RunView) -> Option<Finding> {
        let saving = self.saving(view);
        if saving.bound(view) < view.t.gain_mid {
            return None;
        }
        let (title, text, fix) = self.words(view);
        let waited: f64 = self.links.iter().map(|link| link.ns).sum();
        let share = waited / view.lives(&self.threads).max(1.0);
        Some(Finding {
            id: FindingId::LockStep,
            subject: Subject::Groups(self.groups.iter().copied().collect()),
            title,
            evidence: self.evidence(waited),
            causes: vec![cause("lock-step", text, fix)],
            undecided: String::new(),
            gain: saving.gain(view, METHOD, "the work of the busiest of them"),
            share_of_thread_time: share.min(1.0),
            caveats: vec![match self.meet {
                true => "whether the steps can be larger is not known".into(),
                false => {
                    "whether a piece may be handed over later than it is ready is not known".into()
                }
            }],
        })
    }
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
