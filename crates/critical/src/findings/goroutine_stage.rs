//! A goroutine that is at work all the time while others wait for what it hands over. Which thread runs it changes all the
//! time, so that no thread is a stage: its samples are told by the function that it began in.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, percent};
use convoy_model::{GroupId, ProcessId, Site, SiteFrame, SiteId};

use super::goroutine_lock::{may_be_idle, woken_for, WokenFor};
use super::Context;
use crate::gain::Saving;
use crate::levels::{add, all, at_least};
use crate::tables::paths::most;
use crate::text::{cause, evidence};
use crate::view::View;

/// Share of the run that it works; more where threads wait for the network, which it may do as well.
const ALWAYS: (f64, f64) = (0.85, 0.9);
/// Two goroutines that began in one function would at times be at work together, and then have twice as much time as passed.
/// It must pass often enough to tell.
const TOGETHER: f64 = 0.05;
const ONE: (f64, f64) = (0.8, 1.2);
/// Share of what it runs that others run: less is no stage before or after it.
const OTHERS: f64 = 0.03;
/// Idle threads that were woken for who was handed something: fewer are a start or an end.
const WOKEN: u64 = 10;
/// Samples from which on shares of them mean something.
const SAMPLES: u64 = 50;
/// What it does may be divided; what the first goroutine does perhaps not. As for threads.
const EXPECTED: (f64, f64) = (0.8, 0.5);
const METHOD: &str = "work of each goroutine, bounded by CPUs (asymptotic bound)";

/// Where each goroutine ends up, where the first one begins, and what belongs to Go itself.
const ENDS: &str = "runtime.goexit";
const FIRST: &str = "runtime.main";
const RUNTIME: &str = "runtime.";
/// What the compiler makes of a call in a `go` statement, and of a function without a name: what they call says more, if
/// that is nearly all that they do.
const NAMELESS: [&str; 2] = [".gowrap", ".func"];
const NEARLY_ALL: f64 = 0.8;

/// Goroutines of one process that began in the same function.
#[derive(Default)]
struct Started<'a> {
    first: Option<&'a SiteFrame>,
    samples: u64,
    /// Time at work by the number of threads at work meanwhile.
    by_working: Vec<u64>,
    sites: BTreeMap<SiteId, f64>,
}

pub(crate) fn findings(cx: &Context) -> Vec<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let mut processes: BTreeMap<ProcessId, BTreeMap<&str, Started>> = BTreeMap::new();
    for (slice, site) in view.model.samples() {
        if !view.roles.is_go(view.role(slice.thread)) {
            continue;
        }
        let first = site.and_then(|site| own_frames(site)?.next());
        let name = first.map_or("", |frame| frame.function.as_str());
        let process = processes.entry(view.process(slice.thread)).or_default();
        let started = process.entry(name).or_default();
        started.first = started.first.or(first);
        started.samples = started.samples.saturating_add(slice.n);
        add(&mut started.by_working, &slice.by_working);
        if let Some(site) = slice.site {
            *started.sites.entry(site).or_default() += slice.cm_ns;
        }
    }
    let mut found = Vec::new();
    for (process, all) in &processes {
        let busiest = all.values().max_by_key(|started| started.samples);
        found.extend(busiest.and_then(|one| one.finding(view, *process, all)));
    }
    found
}

/// What a goroutine is in, from the function that it began in inwards. Without its end the stack was cut off.
fn own_frames(site: &Site) -> Option<impl Iterator<Item = &SiteFrame>> {
    let mut inwards = site.frames.iter().rev();
    inwards
        .next()
        .filter(|frame| frame.function.starts_with(ENDS))?;
    Some(inwards.skip_while(|frame| frame.function.starts_with(FIRST)))
}

impl Started<'_> {
    fn is_first(&self) -> bool {
        self.first
            .is_some_and(|frame| frame.function == "main.main")
    }

    /// The function that it is known by.
    fn name(&self, view: &View) -> String {
        let all: f64 = self.sites.values().sum();
        let mut shown = self.first;
        for depth in 1.. {
            let nameless = |frame: &&SiteFrame| NAMELESS.iter().any(|n| frame.function.contains(n));
            if !shown.as_ref().is_some_and(nameless) {
                break;
            }
            let mut inner: BTreeMap<&str, (f64, &SiteFrame)> = BTreeMap::new();
            for (site, weight) in &self.sites {
                let frames = view.model.site(*site).and_then(own_frames);
                if let Some(frame) = frames.and_then(|mut frames| frames.nth(depth)) {
                    inner.entry(&frame.function).or_insert((0.0, frame)).0 += weight;
                }
            }
            let most = inner.values().max_by(|a, b| a.0.total_cmp(&b.0));
            match most.filter(|(weight, _)| *weight >= NEARLY_ALL * all) {
                Some((_, frame)) => shown = Some(frame),
                None => break,
            }
        }
        shown.map_or_else(String::new, |frame| frame.whole().label())
    }

    /// Whether these are one goroutine that is at work all the time.
    fn is_one(&self, view: &View, process: ProcessId) -> bool {
        let always = match may_be_idle(view, process) {
            true => ALWAYS.1,
            false => ALWAYS.0,
        };
        let at_work = all(&self.by_working) / view.wall;
        let (passed, worked) = (two(&view.sched.working), two(&self.by_working));
        at_work >= always
            && passed >= TOGETHER * view.wall
            && (ONE.0..ONE.1).contains(&(worked / passed))
    }

    fn finding(
        &self,
        view: &View,
        process: ProcessId,
        all_of_it: &BTreeMap<&str, Self>,
    ) -> Option<(Vec<GroupId>, Finding)> {
        let first = self.first?;
        let sum = |all: &mut dyn Iterator<Item = u64>| all.fold(0u64, u64::saturating_add);
        let runs = sum(&mut all_of_it.values().map(|started| started.samples));
        let others = all_of_it.iter().filter(|(name, _)| {
            !name.is_empty() && !name.starts_with(RUNTIME) && **name != first.function
        });
        let others: Vec<u64> = others.map(|(_, started)| started.samples).collect();
        let of_runs = |n: u64| n as f64 / runs.max(1) as f64;
        let of_others = of_runs(sum(&mut others.iter().copied()));
        if self.samples < SAMPLES || of_others < OTHERS || !self.is_one(view, process) {
            return None;
        }
        let handed = handed_over(view, process);
        if handed < WOKEN {
            return None;
        }
        let threads = || view.of_process(process);
        let running: f64 = threads().map(|th| th.running_ns as f64).sum();
        // Of the others nobody knows how many share their work: one, at most.
        let next = others.iter().map(|n| running * of_runs(*n));
        let next = next.fold(view.cpu_floor(), f64::max);
        let at_work = all(&self.by_working).min(view.wall);
        let bound = (at_work - next).max(0.0);
        let expected = match self.is_first() {
            true => EXPECTED.1,
            false => EXPECTED.0,
        };
        let saving = Saving {
            expected: expected * bound,
            most: bound,
            ..Saving::default()
        };
        if saving.bound(view) < view.t.gain_mid {
            return None;
        }
        let name = self.name(view);
        let share = percent(at_work / view.wall);
        let site = most(self.sites.clone())?;
        let finding = Finding {
            id: "limiting-stage",
            subject: Subject::Code(site),
            title: format!("one goroutine, of {name}, is at work {share} of the run, and others wait for it"),
            evidence: vec![
                evidence(
                    "busy_ratio",
                    at_work / view.wall,
                    format!(
                        "{name}: at work {share} of the run, once at a time in the mean; {} of what the program runs (samples)",
                        percent(of_runs(self.samples))
                    ),
                ),
                evidence(
                    "others_ratio",
                    of_others,
                    format!("all other goroutines: {} of what the program runs", percent(of_others)),
                ),
                evidence(
                    "woken",
                    handed as f64,
                    format!("{} times a thread without work was woken for who was handed something", count(handed as f64)),
                ),
                evidence(
                    "place_ratio",
                    1.0,
                    format!("most of its time at {}", view.place(Some(site))),
                ),
            ],
            causes: vec![cause(
                "limiting-stage",
                "one stage works all the time while those before and after it wait for it",
                format!("more goroutines for {name}, part of what it does for those that wait, or less work in it"),
            )],
            undecided: String::new(),
            gain: saving.gain(view, METHOD, "the next stage"),
            share_of_thread_time: at_work / view.wall,
            caveats: vec![
                "that it is one goroutine is concluded from that it works once at a time in the mean (or several take turns, or phases); whether its work can be divided is not known".into(),
            ],
        };
        let groups: BTreeSet<GroupId> = threads().map(|th| view.role(th.thread)).collect();
        Some((groups.into_iter().collect(), finding))
    }
}

/// Time at which two threads or more are at work.
fn two(by_working: &[u64]) -> f64 {
    at_least(by_working, 2.0)
}

/// Idle threads of a process that were woken for who was handed something through a channel; none where most of them were
/// woken for who waited for a lock.
fn handed_over(view: &View, process: ProcessId) -> u64 {
    let (mut handed, mut locks) = (0u64, 0u64);
    for wake in &view.sched.wakes {
        match woken_for(view, wake) {
            Some((of, WokenFor::Channel)) if of == process => {
                handed = handed.saturating_add(wake.n)
            }
            Some((of, WokenFor::Lock)) if of == process => locks = locks.saturating_add(wake.n),
            _ => {}
        }
    }
    if handed >= locks {
        handed
    } else {
        0
    }
}
