//! A stage of a pipeline that is at work all the time while those before and after it wait for it.

use std::collections::BTreeMap;

use convoy_model::finding::{Evidence, Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{is_lock_kind, runs, FindingId, GroupId, OffCpu, OffReason, Runs, ThreadId};
use convoy_profile::ObjectKind;

use crate::detectors::one_thread::{self, event_loop};
use crate::estimate::saving::Saving;
use crate::facts::request_queue::{self, Queue};
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::knowledge::programs::{is_openmp, with_threads};
use crate::words::{cause, evidence};

/// A stage without capacity left works for this share of its life.
const ALWAYS: f64 = 0.8;
/// One that waits for it has this much to spare.
const SPARE: f64 = 0.6;
/// Waits that one stage ended for another: a few at start or end are not a pipeline.
const WAKES: u64 = 20;
/// Share of a stage's life that it waits for the limiting one.
const WAITS: f64 = 0.1;
/// Those that wait do less than this share of the work: they only ask for it, and it is a pool, no stage. If it is the main
/// thread, it is the program.
const ASKS: f64 = 0.1;
/// A stage can have more threads, and one that has several already surely; the main thread perhaps not.
const EXPECTED: (f64, f64) = (0.8, 0.5);
const SURE: (f64, f64) = (0.4, 0.0);
/// What a stage runs for each wait that it ends: below the first much of it is passing the piece on, which more threads only
/// do more of, and above the second hardly any. Nanoseconds.
const PIECE_NS: (f64, f64) = (10_000.0, 50_000.0);
const METHOD: &str = "work of each stage over its threads, bounded by CPUs (asymptotic bound)";

/// A group with its load.
struct Stage {
    group: GroupId,
    threads: usize,
    life: f64,
    /// At work, delays included.
    work: f64,
    /// At work on a processor.
    ran: f64,
}

impl Stage {
    fn of(view: &RunView, group: GroupId) -> Self {
        let members = view.members(group);
        Self {
            group,
            threads: members.len(),
            life: members
                .iter()
                .map(|th| th.life_ns() as f64)
                .sum::<f64>()
                .max(1.0),
            work: members.iter().map(|th| th.working_ns() as f64).sum(),
            ran: members.iter().map(|th| th.cpu_work_ns() as f64).sum(),
        }
    }

    fn load(&self) -> f64 {
        self.work / self.life
    }

    /// The least time that its work takes.
    fn needs(&self) -> f64 {
        self.work / self.threads.max(1) as f64
    }
}

pub(crate) fn findings(cx: &RunFacts) -> Vec<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    // Helpers start the program; threads that share their tasks with others are no stage.
    let helps = |group: GroupId| {
        let of = view.model.groups.get(group.0 as usize);
        of.is_some_and(|g| view.roles.is_helper(g.process))
    };
    let stages: BTreeMap<GroupId, Stage> = view
        .groups()
        .into_iter()
        .filter(|&group| {
            let roles = &view.roles;
            !roles.is_shared(group) && !roles.is_service(group) && !helps(group)
        })
        .map(|group| (group, Stage::of(view, group)))
        .collect();
    let links = links(view);
    let mut all = Vec::new();
    for slow in stages.values().filter(|stage| stage.load() >= ALWAYS) {
        let waits_for_it = |stage: &&Stage| {
            let (n, ns) = links
                .get(&(stage.group, slow.group))
                .copied()
                .unwrap_or_default();
            n >= WAKES && ns >= WAITS * stage.life && stage.load() <= SPARE
        };
        let waiters: Vec<&Stage> = stages.values().filter(waits_for_it).collect();
        let ended = |stage: &&Stage| {
            links
                .get(&(stage.group, slow.group))
                .map_or(0, |link| link.0)
        };
        let pieces = waiters.iter().map(ended).max().unwrap_or(0);
        if !waiters.is_empty() {
            all.extend(finding(cx, slow, &waiters, &stages, pieces));
        }
    }
    all
}

/// Waits of one group that another one ended: (waits, nanoseconds). Waits for locks, for threads to end and
/// for child processes make no pipeline.
fn links(view: &RunView) -> BTreeMap<(GroupId, GroupId), (u64, f64)> {
    let mut links: BTreeMap<(GroupId, GroupId), (u64, f64)> = BTreeMap::new();
    for (wake, off, waker, _) in view.sched.ended_by_threads() {
        let kind = view.object_kind(off.object);
        let other = kind.is_some_and(is_lock_kind)
            || matches!(
                kind,
                Some(
                    ObjectKind::Thread
                        | ObjectKind::Barrier
                        | ObjectKind::OmpBarrier
                        | ObjectKind::OmpRegion
                )
            )
            || is_team(view, off);
        let (from, to) = (view.role(off.thread), view.role(waker));
        if from == to || other || off.reason == OffReason::Child {
            continue;
        }
        let link = links.entry((from, to)).or_default();
        link.0 = link.0.saturating_add(wake.n);
        link.1 += wake.wait_ns as f64;
    }
    links
}

/// Whether a thread of an OpenMP team waits for the others: they meet, and hand nothing over.
pub(crate) fn is_team(view: &RunView, off: &OffCpu) -> bool {
    let site = off.site.and_then(|id| view.model.site(id));
    site.is_some_and(|site| {
        let mut innermost = site.frames.iter().take(4);
        innermost.any(|frame| is_openmp(&frame.module))
    })
}

fn finding(
    cx: &RunFacts,
    slow: &Stage,
    waiters: &[&Stage],
    stages: &BTreeMap<GroupId, Stage>,
    pieces: u64,
) -> Option<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let others = stages.values().filter(|stage| stage.group != slow.group);
    let next = others.map(Stage::needs).fold(0.0, f64::max);
    // So many threads that it is no slower than what limits next, but not more than there are CPUs for.
    let cpus = view.cpus.min(1e6);
    let enough = slow.work / next.max(view.cpu_floor()).max(1.0);
    let needed = enough.ceil().clamp(1.0, cpus.max(1.0));
    // What else the CPUs run may be run beside it or in the pauses that it makes today: that bounds the run, not the stage.
    let most = (slow.needs() - next.max(slow.work / needed)).max(0.0);
    let several = slow.threads > 1;
    let pick = |(many, one): (f64, f64)| if several { many } else { one };
    let name = view.group_name(slow.group);
    let way = Way::of(cx, slow, &name, needed);
    let piece = slow.ran / pieces.max(1) as f64;
    let large = ((piece - PIECE_NS.0) / (PIECE_NS.1 - PIECE_NS.0)).clamp(0.0, 1.0);
    let saving = Saving {
        expected: way.expected * large * most.min((view.wall - view.cpu_floor()).max(0.0)),
        most,
        sure: pick(SURE) * large,
        ..Saving::default()
    };
    if needed <= slow.threads as f64 || saving.bound(view) < view.t.gain_mid {
        return None;
    }
    // Who asks may wait for a processor each time.
    let asked: f64 = waiters.iter().map(|stage| stage.ran).sum();
    let only_asked = asked < ASKS * slow.ran;
    // The program with a helper (a logger, a runtime's progress thread): what it does may depend on what it did before, and
    // nothing that is seen tells.
    if main(view, slow.group).is_some() && only_asked {
        return None;
    }
    let idle = waiters.iter().map(|s| s.load()).fold(1.0, f64::min);
    let row = |stage: &Stage| {
        evidence(
            "busy_ratio",
            stage.load(),
            format!(
                "{}: {} x {} working",
                view.group_name(stage.group),
                stage.threads,
                percent(stage.load().min(1.0))
            ),
        )
    };
    let mut list = vec![row(slow)];
    list.extend(waiters.iter().map(|stage| row(stage)));
    let used = view.cpus_used() / view.cpus;
    list.extend(way.seen);
    if view.cpus.is_finite() {
        list.push(evidence(
            "cpu_ratio",
            used,
            format!("{} of the CPUs' time is used", percent(used.min(1.0))),
        ));
    }
    list.push(evidence(
        "threads_needed",
        needed,
        format!("{needed:.0} threads are enough: after that the next stage limits"),
    ));
    let pool = only_asked;
    // One thread that does it all has not shown that its work can be divided.
    let alone = pool && slow.threads == 1 && slow.ran >= (1.0 - ASKS) * view.cpu_work;
    let waiting: usize = waiters.iter().map(|stage| stage.threads).sum();
    let wait = match waiting {
        1 => "a thread waits".to_owned(),
        n => format!("{n} threads wait"),
    };
    let mut groups = vec![slow.group];
    groups.extend(waiters.iter().map(|stage| stage.group));
    Some((
        groups.clone(),
        Finding {
            id: if pool {
                FindingId::TooFewThreads
            } else {
                FindingId::LimitingStage
            },
            subject: Subject::Groups(groups),
            title: if alone {
                format!(
                    "1 thread of {} does all the work, {} of its time, and {wait} for it: there are {cpus:.0} CPUs",
                    program(view, slow.group),
                    percent(slow.load().min(1.0))
                )
            } else if pool {
                format!(
                    "{name} has {}, busy {} of the time, and {wait} for it",
                    plural(slow.threads, "thread"),
                    percent(slow.load().min(1.0))
                )
            } else {
                format!(
                    "{name} is the pipeline's bottleneck: busy {} of its time; the stages that wait for it {} at least",
                    percent(slow.load().min(1.0)),
                    percent(idle)
                )
            },
            evidence: list,
            causes: vec![cause(
                if pool {
                    "too-few-threads"
                } else {
                    "limiting-stage"
                },
                if pool {
                    "requests queue for threads while CPUs are idle"
                } else {
                    "one stage works all the time while those before and after it wait for it"
                },
                way.fix,
            )],
            undecided: String::new(),
            gain: saving.gain(view, METHOD, "the next stage"),
            share_of_thread_time: slow.load().min(1.0),
            caveats: way.caveat.into_iter().map(Into::into).collect(),
        },
    ))
}

/// How a stage can have more threads.
struct Way {
    /// Part of what that can save.
    expected: f64,
    seen: Option<Evidence>,
    fix: String,
    caveat: Option<&'static str>,
}

impl Way {
    fn of(cx: &RunFacts, slow: &Stage, name: &str, needed: f64) -> Self {
        let view = cx.view;
        let process = view.process_of(slow.group);
        let runs = process.and_then(|process| runs(&process.name));
        let queue = Queue::of(cx, slow.group, slow.work);
        let main = main(view, slow.group);
        if let Some((Runs::EventLoop, (process, main))) = runs.zip(process.zip(main)) {
            if let Some(more) = event_loop::more(cx, main, process, queue) {
                return Self {
                    expected: more.expected.max(EXPECTED.1),
                    seen: Some(match queue {
                        Some(queue) => queue.evidence(),
                        None => evidence("divisible_ratio", more.expected, more.seen),
                    }),
                    fix: more.fix,
                    caveat: Some(more.caveat),
                };
            }
        }
        if let Some((queue, process)) = queue.zip(process) {
            return Self {
                expected: request_queue::EXPECTED,
                seen: Some(queue.evidence()),
                fix: request_queue::fix(process, needed),
                caveat: Some(request_queue::CAVEAT),
            };
        }
        // Who asks for one thing at a time has nothing more to ask.
        let in_turns = match cx.askers.take_turns(view, slow.group) {
            true => 0.0,
            false => 1.0,
        };
        if main.is_none() {
            return Self {
                expected: EXPECTED.0 * in_turns,
                seen: None,
                fix: format!(
                    "{needed:.0} threads for {name} instead of {}, or less work in it",
                    slow.threads
                ),
                caveat: None,
            };
        }
        if let Some(instead) = process.and_then(with_threads) {
            return Self {
                expected: one_thread::EXPECTED,
                seen: None,
                fix: instead.into(),
                caveat: None,
            };
        }
        // Of a main thread there is one in each process.
        let others = match runs {
            Some(Runs::OneAtATime) => {
                "more processes (its threads would take turns on the interpreter's lock)"
            }
            _ => "other threads or more processes",
        };
        Self {
            expected: EXPECTED.1 * in_turns,
            seen: None,
            fix: format!("part of what {name} does for {others}, or less work in it"),
            caveat: Some("it is the main thread: whether its work can move to others is not known"),
        }
    }
}

/// `zstd (compressor)`: the program, and which of its threads.
fn program(view: &RunView, group: GroupId) -> String {
    let Some(of) = view.model.groups.get(group.0 as usize) else {
        return view.group_name(group);
    };
    let process = view.process_of(group);
    let program = process.map_or("the program", |process| process.name.as_str());
    format!("{program} ({})", of.name)
}

/// The main thread, if it is in the group.
fn main(view: &RunView, group: GroupId) -> Option<ThreadId> {
    let mut members = view.members(group).into_iter().map(|th| th.thread);
    members.find(|id| view.thread(*id).is_some_and(|th| th.main))
}
