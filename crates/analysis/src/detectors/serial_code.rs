//! Code that runs while few threads work, and that the others wait for (GAPP's critical code; Amdahl).

mod phase;

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{duration, percent, plural};
use convoy_model::{
    CodeFrom, FindingId, GroupId, OffCpu, OffReason, SchedSource, SiteFrame, SiteId, Slice,
};

use self::phase::{outermost_first, split, Phase, Piece, DOMINANT};
use crate::detectors::goroutine_lock::may_be_idle;
use crate::detectors::one_thread::{self, is_alone_there};
use crate::detectors::sleep_polling::rate;
use crate::estimate::saving::{spread, Saving, NO_WORK, SWITCH_NS};
use crate::facts::concurrency::{all, at_least, low, low_cm};
use crate::facts::request_queue::{self, Queue};
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::facts::uneven_tasks;
use crate::knowledge::programs::with_threads;
use crate::words::{cause, evidence, time};

/// Nobody knows whether code can be spread or overlapped: half of it is expected to be.
const EXPECTED: f64 = 0.5;
/// Of a garbage collector that is known to exist in parallel.
const COLLECTOR_EXPECTED: f64 = 0.8;
/// Code that is not low for this share of its time runs in parallel: that its last thread ends alone is a matter
/// of balance.
const SERIAL: f64 = 0.5;
/// The same of a thread that is the only one of its kind: threads of other kinds have other work, which may be less.
const SERIAL_OF_ONE: f64 = 0.3;
/// Time that threads of a kind lived over the run, up to which there was one of them at a time.
const ONE_AT_A_TIME: f64 = 1.1;
/// Share of the run that goroutines work at once in a program that is parallel at all.
const PARALLEL: f64 = 0.1;
/// Share of a phase of which nothing is known but the wait for a message that it ended in, if that is what it is told by.
const BETWEEN_MESSAGES: f64 = 0.5;
/// Threads that wait for the answers of who does one request at a time, from which on it could do several.
const ASKERS: usize = 2;
/// Share of the time of that for which such a thread waits.
const ASKS: f64 = 0.01;
/// Turns of a pool and of who gives it work from which on they are a habit.
const MANY_TURNS: f64 = 200.0;
/// Places that are named as evidence.
const PLACES: usize = 3;
const METHOD: &str =
    "Amdahl's law: its time at low parallelism spread over the threads, or beside their work";

/// The cause of code that is known only as what is done about a message.
const SERVES: &str = "one-request-at-a-time";
const COLLECTOR: &str = "a garbage collector that works in several threads (-XX:+UseParallelGC, -XX:+UseG1GC), a larger young \
                         generation (-Xmn), or fewer objects that are soon garbage";

/// One finding per group and phase.
pub(crate) fn findings(cx: &RunFacts, explained: &BTreeSet<GroupId>) -> Vec<Finding> {
    let mut by_group: BTreeMap<GroupId, Vec<Piece>> = BTreeMap::new();
    let below = cx.view.low_below;
    let messages = for_messages(cx.view);
    for slice in code(cx) {
        let cm = low_cm(&slice.by_working, below);
        let group = cx.view.role(slice.thread);
        by_group.entry(group).or_default().push(Piece {
            cm,
            time: low(&slice.by_working, below),
            all: all(&slice.by_working),
            site: slice.site,
            from: slice.from,
            until_message: slice.from == CodeFrom::StackTop
                && slice.site.is_some_and(|site| messages.contains(&site)),
            frames: slice
                .site
                .map_or_else(Vec::new, |site| outermost_first(cx.view, site)),
        });
    }
    let mut findings = Vec::new();
    let said = |group| !explained.contains(&group) && !keeps_a_rate(cx.view, group);
    for (group, pieces) in by_group.into_iter().filter(|(group, _)| said(*group)) {
        let low: f64 = pieces.iter().map(|p| p.cm).sum();
        let counts = counts(cx, group, low);
        let serial = match is_one_of_a_kind(cx.view, group) {
            true => SERIAL_OF_ONE,
            false => SERIAL,
        };
        let mut phases = Vec::new();
        split(pieces.clone(), 0, low, true, &mut phases);
        // One work, told once: where most of it is.
        let is_left_over = |phase: &&Phase| {
            phases.iter().any(|other| {
                let is_one = phase.is_unsampled_above(other) || other.is_unsampled_above(phase);
                is_one && other.cm() > phase.cm()
            })
        };
        let found = phases
            .iter()
            .filter(|phase| !is_left_over(phase))
            .filter_map(|phase| phase.finding(cx, group, counts, serial));
        let mut found: Vec<Finding> = found.collect();
        if found.is_empty() {
            // No function has enough of it, but all together may: an interpreter, or stacks that were cut off.
            let all = Phase { pieces, depth: 0 };
            found.extend(all.finding(cx, group, counts, serial));
        }
        findings.extend(found);
    }
    uneven_tasks::told_once(cx.view, one_of_those_that_serve(findings))
}

/// What threads do that is neither waiting in a loop, nor told as a call.
pub(crate) fn code<'a>(cx: &'a RunFacts) -> impl Iterator<Item = &'a Slice> {
    let is_code = |s: &&Slice| {
        s.spin.is_none() && cx.in_call.reason(s).is_none() && !cx.view.is_helper(s.thread)
    };
    cx.view.sched.slices.iter().filter(is_code)
}

/// Whether its threads sleep for what is left of a period: with less to do they would sleep for longer.
pub(crate) fn keeps_a_rate(view: &RunView, group: GroupId) -> bool {
    let members = view.members(group);
    members.iter().all(|th| rate::keeps_a_rate(view, th.thread))
}

/// Processes that serve one request after the other wait for one another: more of them at a time is one fix.
fn one_of_those_that_serve(findings: Vec<Finding>) -> Vec<Finding> {
    let (serve, mut others): (Vec<_>, Vec<_>) = findings.into_iter().partition(serves);
    let most = |a: &Finding, b: &Finding| a.gain.mid.total_cmp(&b.gain.mid);
    others.extend(serve.into_iter().max_by(most));
    others
}

fn serves(finding: &Finding) -> bool {
    finding.causes.iter().any(|cause| cause.id == SERVES)
}

/// Where threads wait for messages. What runs before such a wait is not the function that waits.
fn for_messages(view: &RunView) -> BTreeSet<SiteId> {
    let offs = view.sched.offs.iter().filter(|off| {
        matches!(
            off.reason,
            OffReason::Poll | OffReason::Socket | OffReason::Pipe
        )
    });
    offs.filter_map(|off| off.site).collect()
}

/// Share of the group's low-parallelism time (CMetric) in which somebody waited for it, or nobody else was there.
pub(crate) fn counts(cx: &RunFacts, group: GroupId, all: f64) -> f64 {
    let view = cx.view;
    if view.sched.source == SchedSource::Perf {
        return 1.0;
    }
    // Goroutines that wait are no threads that do.
    if view.roles.is_go(group) {
        let group = view.model.groups.get(group.0 as usize);
        let process = group.map(|group| group.process).unwrap_or_default();
        let parallel = at_least(&view.sched.working, 2.0) >= PARALLEL * view.wall;
        return f64::from(parallel && !may_be_idle(view, process));
    }
    let spun = view
        .threads
        .values()
        .filter(|th| view.role(th.thread) != group)
        .map(|th| th.spinning_ns as f64)
        .fold(0.0, f64::max);
    let members: Vec<_> = view.members(group).iter().map(|th| th.thread).collect();
    let waited = cx.waited_for.group(group);
    let waited = waited.max(cx.waited_for.one_another(group, &members));
    let reasons = waited + without_others(view) + spun;
    (reasons / all.max(1.0)).min(1.0)
}

/// Time in which there were too few workers for more.
fn without_others(view: &RunView) -> f64 {
    let mut edges: Vec<(u64, bool)> = view
        .workers
        .iter()
        .filter_map(|id| view.threads.get(id))
        .flat_map(|th| [(th.start_ns, true), (th.end_ns.max(th.start_ns), false)])
        .collect();
    edges.sort_unstable();
    let (mut alone, mut now, mut since) = (0.0, 0usize, view.sched.start_ns);
    for (at, begins) in edges {
        if now > 0 && (now as f64) < view.low_below {
            alone += at.saturating_sub(since) as f64;
        }
        now = if begins {
            now + 1
        } else {
            now.saturating_sub(1)
        };
        since = at;
    }
    alone
}

/// What threads of a pool do in turns, because who gives it to them waits for each piece.
#[derive(Default)]
struct Turns {
    /// Waits of either side that the other one ended.
    n: f64,
    /// How long the other side waited, nanoseconds.
    waited: f64,
}

impl Turns {
    /// None of a group of one thread, and of goroutines: their turns are the work's order.
    fn of(view: &RunView, group: GroupId) -> Self {
        if view.roles.is_go(group) || view.members(group).len() < 2 {
            return Self::default();
        }
        // Without wakers, each wait may be one for the other side.
        if view.sched.source == SchedSource::Perf {
            let offs = view.sched.offs.iter();
            let is_wait = |off: &&OffCpu| {
                off.reason != OffReason::Preempted && view.role(off.thread) == group
            };
            let offs = offs.filter(is_wait);
            return Self {
                n: 2.0 * offs.map(|off| off.n as f64).sum::<f64>(),
                waited: view.wall,
            };
        }
        let ended = view.sched.ended_by_threads();
        let turns = ended.filter(|(_, off, waker, _)| {
            let of_group = view.role(off.thread) == group;
            off.reason == OffReason::Futex && of_group != (view.role(*waker) == group)
        });
        turns.fold(Self::default(), |sum, (wake, off, ..)| Self {
            n: sum.n + wake.n as f64,
            waited: match view.role(off.thread) == group {
                true => sum.waited,
                false => sum.waited + wake.wait_ns as f64,
            },
        })
    }

    /// CPU time of these waits at most, nanoseconds.
    fn cost(&self, view: &RunView) -> f64 {
        match self.pass_on_all(view) {
            true => (self.n * SWITCH_NS.1).min(NO_WORK * view.cpu_work),
            false => 0.0,
        }
    }

    /// Whether the other side waits for them most of the run, piece after piece.
    fn pass_on_all(&self, view: &RunView) -> bool {
        self.n >= MANY_TURNS && self.waited >= SERIAL * view.wall
    }
}

/// Whether there is one thread of the group at a time, and no other process of the program that may have another.
fn is_one_of_a_kind(view: &RunView, group: GroupId) -> bool {
    let lived = view.lives(view.members(group).iter().map(|th| &th.thread));
    let mut processes = view.workers.iter().map(|&id| view.process(id));
    let first = processes.next();
    lived <= ONE_AT_A_TIME * view.wall && processes.all(|id| Some(id) == first)
}

impl Phase<'_> {
    /// If it is low for a share of `serial` of its time.
    fn finding(&self, cx: &RunFacts, group: GroupId, counts: f64, serial: f64) -> Option<Finding> {
        let view = cx.view;
        let sum = |of: fn(&Piece) -> f64| self.pieces.iter().map(of).sum::<f64>();
        if sum(|p| p.time) < serial * sum(|p| p.all) {
            return None;
        }
        let cm = counts * self.cm();
        let time_low = counts * self.pieces.iter().map(|p| p.time).sum::<f64>();
        let split = spread(cm, time_low, view.useful);
        // What one thread does while workers of another kind wait for it, and leave processors unused, may go on beside them as
        // well. Of several like it that is a matter of balance; goroutines have no kinds.
        let unused = (view.wall - view.cpu_work / view.useful.max(1.0)).max(0.0);
        let waited = match view.roles.is_go(group) {
            true => 1.0,
            false if view.members(group).len() > 1 => 0.0,
            false => (cx.waited_for.by_other_workers(view, group) / cm.max(1.0)).min(1.0),
        };
        let most = split + waited * (cm.min(unused) - split).max(0.0);
        let perhaps = (view.perhaps_low() * most).min(spread(view.wall, view.wall, view.useful));
        let collector = self.is_collector();
        let uneven = self.is_uneven_tasks(view);
        let queue = Queue::of(cx, group, cm).or_else(|| Queue::of_several(cx, group));
        let of_several = queue.as_ref().is_some_and(Queue::is_of_several);
        let listens = view.process_of(group).is_some_and(|of| of.listens);
        let serves_others = listens && cx.askers.are_seen(view, group);
        let serves = self.is_between_messages();
        let instead = match view.members(group).as_slice() {
            [only] if !serves && queue.is_none() && is_alone_there(view, only.thread) => {
                view.process_of(group).and_then(with_threads)
            }
            _ => None,
        };
        // Whoever asks alone, and waits for the answer, has nothing more to ask meanwhile, as far as can be seen.
        let one = || cx.waited_for.waiters(group, ASKS * cm) < ASKERS;
        let asked_by_one = serves && (one() || cx.askers.take_turns(view, group));
        // A program that is alone at work is not told that either, and servers that it asks are no part of it.
        if cx.waited_for.only_by_servers(view, group, ASKS * cm) {
            return None;
        }
        // What else its wait is for, several at a time may do meanwhile, and what one of several does that serve, the others: only the
        // processors limit that.
        let turns = Turns::of(view, group);
        let perhaps = match serves || of_several || turns.pass_on_all(view) {
            true => perhaps.max(unused + turns.cost(view) / view.useful.max(1.0)),
            false => perhaps,
        };
        let saving = Saving {
            expected: match (asked_by_one, collector, queue) {
                (true, ..) => 0.0,
                (_, true, _) => COLLECTOR_EXPECTED * most,
                _ if uneven => uneven_tasks::EXPECTED * most,
                _ if instead.is_some() => one_thread::EXPECTED * most,
                // Those who ask are ahead of it as it is.
                (.., Some(queue)) => {
                    request_queue::EXPECTED * queue.divided(view, group).max(split)
                }
                // What a server does for those who ask it does not go on beside what they do with the answer.
                _ if serves_others => EXPECTED * split,
                _ => EXPECTED * most,
            },
            most: most.max(perhaps),
            sure: 0.0,
            // Pieces that are given to several threads at once need no wait for each.
            cpu: (0.0, turns.cost(view)),
        };
        let first = self
            .pieces
            .iter()
            .filter(|p| p.site.is_some())
            .max_by(|a, b| a.cm.total_cmp(&b.cm))?;
        let sure = Saving { most, ..saving };
        if sure.bound(view) < view.t.gain_mid {
            return None;
        }
        let limited_by = match instead {
            Some(_) => "CPUs",
            None => "whether that work can be split or overlapped at all",
        };
        let gain = saving.gain(view, METHOD, limited_by);
        let share = cm / view.wall;
        let name = match view.group_name(group) {
            name if name.starts_with("other threads") => format!("one of the {name}"),
            name => name,
        };
        let place = self.place(first);
        let parallelism = time_low / cm.max(1.0);
        let with = if parallelism < 1.1 {
            "works alone".to_owned()
        } else {
            format!("works while {parallelism:.1} threads work")
        };
        let at = match serves {
            true => format!("between two waits for a message at {place}"),
            false => format!("in {place}"),
        };
        Some(Finding {
            id: FindingId::SerialCode,
            subject: Subject::Code(first.site?),
            title: format!("{name} {with} {at} for {} of the run", percent(share)),
            evidence: self.evidence(cx, group, (cm, time_low), gain.high, queue),
            causes: vec![match ((queue, view.process_of(group)), serves) {
                ((Some(queue), Some(process)), _) => cause(SERVES, request_queue::WHY, queue.fix(process, view.cpus)),
                (_, true) => cause(
                    SERVES,
                    "it does what one message asks for, and waits for the next one, while the others wait for its answer",
                    "more of it (threads, processes, connections of a pool), so that several requests are served at a time; or ask for \
                     several things in one message",
                ),
                _ if uneven => uneven_tasks::why(),
                (_, false) => cause(
                    "serial-code",
                    "this code runs on one thread while the others wait for it",
                    match (collector, instead) {
                        (true, _) => COLLECTOR.into(),
                        (_, Some(instead)) => instead.into(),
                        _ => format!("give part of the work of {place} to the threads that wait, or let them go on meanwhile"),
                    },
                ),
            }],
            undecided: String::new(),
            gain,
            share_of_thread_time: share,
            caveats: match collector {
                true => Vec::new(),
                false => self.caveats(cx, first, queue, instead.is_some() || uneven),
            },
        })
    }

    /// Whether little more is known of it than the waits for messages that it ended in.
    fn is_between_messages(&self) -> bool {
        self.has(BETWEEN_MESSAGES, |piece| piece.until_message)
    }

    /// Whether it is Java's serial garbage collector.
    fn is_collector(&self) -> bool {
        let collects = |frame: &SiteFrame| {
            frame.module.starts_with("libjvm.so") && frame.function.contains("Generation::collect")
        };
        self.has(0.5, |piece| {
            piece.frames.iter().any(|frame| collects(frame))
        })
    }

    fn is_uneven_tasks(&self, view: &RunView) -> bool {
        let is_one = |piece: &Piece| {
            piece
                .site
                .is_some_and(|site| uneven_tasks::is_one(view, site))
        };
        self.has(DOMINANT, is_one)
    }

    fn evidence(
        &self,
        cx: &RunFacts,
        group: GroupId,
        (cm, time_low): (f64, f64),
        most: f64,
        queue: Option<Queue>,
    ) -> Vec<convoy_model::finding::Evidence> {
        let view = cx.view;
        let mut list = vec![evidence(
            "low_cmetric_ns",
            cm,
            format!(
                "{} of the run while fewer than {} of {} threads worked",
                duration(cm),
                view.low_below.ceil(),
                view.workers_at_once
            ),
        )];
        let waited = cx.waited_for.group(group);
        let waiters = cx.waited_for.waiters(group, 0.1 * cm);
        if waiters > 0 {
            list.push(time(
                "waited_for_ns",
                waited,
                &format!(
                    "is what one of {} waited for it meanwhile",
                    plural(waiters, "thread")
                ),
            ));
        }
        list.extend(queue.map(|queue| queue.evidence()));
        if queue.is_none() && !self.is_between_messages() {
            let gone = Saving {
                most: cm,
                cpu: (0.0, time_low),
                ..Saving::default()
            };
            let gain = gone.bound(view);
            let text = format!(
                "removing this work (for example by caching its result) would gain {gain:.2}x"
            );
            list.extend((gain > most).then(|| evidence("gain_without_ratio", gain, text)));
        }
        let alone = without_others(view).min(cm);
        if alone > 0.1 * cm {
            list.push(time(
                "without_others_ns",
                alone,
                "passed while no other worker was there",
            ));
        }
        let mut places: BTreeMap<String, f64> = BTreeMap::new();
        for piece in &self.pieces {
            *places.entry(view.place(piece.site)).or_default() += piece.cm;
        }
        let all: f64 = places.values().sum();
        let mut places: Vec<(String, f64)> = places.into_iter().collect();
        places.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        list.extend(places.into_iter().take(PLACES).map(|(place, cm)| {
            let share = cm / all.max(1.0);
            evidence(
                "place_ratio",
                share,
                format!("{} of it at {place}", percent(share)),
            )
        }));
        list
    }

    /// `splits`: it is known that the work can be.
    fn caveats(
        &self,
        cx: &RunFacts,
        first: &Piece,
        queue: Option<Queue>,
        splits: bool,
    ) -> Vec<String> {
        let not_known = match (queue, self.is_between_messages()) {
            (Some(_), _) => Some(request_queue::CAVEAT),
            (None, true) => Some("whether others ask meanwhile is not seen: if one asks, and waits for the answer, there is nothing to gain"),
            (None, false) if splits => None,
            (None, false) => Some("whether it can be split is not known: the expected gain assumes half of it"),
        };
        let mut list: Vec<String> = not_known.into_iter().map(str::to_owned).collect();
        if first.from == CodeFrom::StackTop && !first.until_message {
            list.push(
                "from stack top: no sample fell into it, so this is where the thread blocked next"
                    .into(),
            );
        }
        if cx.view.sched.source == SchedSource::Perf {
            list.push("who waits for it is not known without eBPF: it may be that there was nothing else to do".into());
        }
        list
    }
}
