//! Threads that live for one small piece of work: making and ending them costs as much as what they do, or more.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::{bare, passes_on, FindingId, Group, GroupId, OffReason, Site, ThreadId};
use convoy_profile::Op;

use crate::estimate::queueing::Saving;
use crate::facts::life_spans;
use crate::facts::process_facts::ProcessFacts;
use crate::facts::process_view::{ProcessView, ThreadTime};
use crate::root_causes::cause;
use crate::words::{count, duration, evidence, percent, place};

/// Threads that are a habit: fewer are a start.
const THREADS: f64 = 200.0;
/// The same, per second of the run.
const THREADS_HZ: f64 = 100.0;
/// Share of the run that such a thread lives for at most.
const SHORT: f64 = 0.05;
/// CPU time of making and joining a thread, for whoever does, and of its own start and end. Nanoseconds. Measured on
/// a virtual machine: 13-15 and 5-8 us.
const MAKE_NS: f64 = 13_000.0;
const LIVE_NS: f64 = 7_000.0;
/// Share that these must have in the CPU time of such threads and their making.
const WORTH: f64 = 0.1;
/// Part of what is neither work nor waiting that goes with a fixed set of threads: to hand them their work takes some
/// microseconds a piece.
const EXPECTED: f64 = 0.9;
const SURE: f64 = 0.2;
/// In the names of functions that GCC makes of parallel regions of OpenMP. Its run time keeps the threads of outer regions.
const OUTLINED: &str = "._omp_fn.";
/// Samples of a thread from which on shares of them mean something.
const SAMPLES: u64 = 30;

/// The short lives of a process, taken together.
struct Churn<'a> {
    threads: Vec<&'a ThreadTime>,
    /// Threads, those included that shared a record with others.
    n: f64,
    /// While any of them lived, nanoseconds.
    stretch: f64,
    /// Most that lived together.
    at_once: f64,
    /// What the main thread runs to make them and to be rid of them, nanoseconds.
    makes: f64,
}

pub(crate) fn finding(cx: &ProcessFacts) -> Option<Finding> {
    let view = cx.view;
    let main = view.threads.iter().find(|t| t.main);
    let churn = Churn::of(view, main)?;
    let cpu: f64 = churn.threads.iter().map(|t| t.cpu).sum();
    let living = churn.living(view);
    let lives = living.map_or(churn.n * LIVE_NS, |share| share * cpu);
    let work = (cpu - lives).max(0.1 * cpu);
    let besides = main.map_or(0.0, |t| t.busy() * churn.stretch / t.life - churn.makes);
    let cost = lives + churn.makes;
    let share = cost / (cost + work);
    if share < WORTH {
        return None;
    }
    let left = churn.left(view, work, besides);
    let saving = Saving {
        stretch: churn.stretch,
        cpu: work,
        saved: EXPECTED * (churn.stretch - left).max(0.0),
        saved_max: (churn.stretch - left).max(0.0),
        sure: SURE,
    };
    let mut gain = saving.gain(
        view,
        "the work of these threads on as many as live at once today, and on the CPUs (asymptotic bound)",
        "the work itself",
    );
    if living.is_none() {
        // What making a thread is taken to cost is its least, on an idle machine: nothing bounds it.
        gain.high = f64::INFINITY;
    }
    let made = churn.made(view)?;
    let (name, at) = (view.group_name(made.group), &made.at);
    let (n, each) = (count(churn.n), duration((cpu / churn.n).max(1.0)));
    let hz = churn.n / view.wall() * 1e9;
    Some(Finding {
        id: FindingId::ShortLivedThreads,
        subject: Subject::Group(made.group),
        title: format!(
            "{n} threads are made for {each} of CPU time each, {} {name}",
            if made.most { "most of" } else { "some of them" }
        ),
        evidence: vec![
            evidence(
                "threads_hz",
                hz,
                format!("{} threads a second", count(hz)),
            ),
            evidence(
                "making_ratio",
                share,
                format!(
                    "making and ending a thread takes about {} of CPU time or waiting: {} of what these take",
                    duration(cost / churn.n),
                    percent(share)
                ),
            ),
            evidence(
                "stretch_ns",
                churn.stretch,
                format!(
                    "they, making them and waiting for their ends take {} of the run, {} at once at most",
                    percent(churn.stretch / view.wall()),
                    count(churn.at_once)
                ),
            ),
        ],
        causes: vec![cause(
            "short-lived-threads",
            "every small piece of work gets a thread of its own",
            match made.by_openmp {
                true => format!(
                    "no parallel region of OpenMP inside of another at {at} (OMP_MAX_ACTIVE_LEVELS=1), and teams of one size: \
                     the threads of others do not stay"
                ),
                false => format!("a fixed set of threads that take the pieces from a queue, or larger pieces, at {at}"),
            },
        )],
        undecided: String::new(),
        gain,
        share_of_thread_time: share,
        caveats: match living {
            Some(_) => Vec::new(),
            None => vec!["what making a thread costs here was not measured".into()],
        },
    })
}

impl<'a> Churn<'a> {
    fn of(view: &'a ProcessView, main: Option<&ThreadTime>) -> Option<Self> {
        let short = |t: &&ThreadTime| !t.main && t.life <= SHORT * view.wall();
        let threads: Vec<_> = view.threads.iter().filter(short).collect();
        let shared: u64 = threads.iter().map(|t| sharers(view, t)).sum();
        let n = shared.max(threads.len() as u64) as f64;
        if n < THREADS || n / view.wall() * 1e9 < THREADS_HZ {
            return None;
        }
        let lives = || threads.iter().map(|t| latest_life(view, t));
        let there = life_spans::length(&life_spans::union(lives()));
        let at_once = life_spans::most_at_once(lives()).max(1) as f64;
        // Of threads that shared a record one life is known, and each had to be made. To start one takes longer than
        // that; who waits for its end sees it.
        let known = n / threads.len().max(1) as f64;
        let (joins, least) = (joins(view), n * MAKE_NS);
        let makes = main.map_or(0.0, |t| making(view, t)).max(least);
        // Who makes them one after the other, and waits for their ends, has no time for anything else meanwhile.
        let stretch = ((there * known).max(joins) + least).max(makes + joins);
        Some(Self {
            stretch: stretch.min(view.wall()),
            at_once,
            makes,
            threads,
            n,
        })
    }

    /// What the stretch cannot fall below: the work on the CPUs, what each thread does or waits for, on as many threads
    /// as today, and what the main thread has to do besides making them.
    fn left(&self, view: &ProcessView, work: f64, besides: f64) -> f64 {
        let own: f64 = self
            .threads
            .iter()
            .map(|t| t.off + t.lock_wait + t.event_wait)
            .sum();
        (work / view.cpus)
            .max((work + own) / self.at_once)
            .max(besides)
            .min(self.stretch)
    }

    /// Share of what the threads run that is their start and their end, by the scheduler's samples: the C library's code, and
    /// the kernel's, with nothing of the program above it.
    fn living(&self, view: &ProcessView) -> Option<f64> {
        let ids: BTreeSet<ThreadId> = self.threads.iter().map(|t| t.id).collect();
        let (mut all, mut living) = (0, 0);
        for (slice, site) in view.model.samples() {
            let Some(frame) = site
                .and_then(Site::shown_frame)
                .filter(|_| ids.contains(&slice.thread))
            else {
                continue;
            };
            all += slice.n;
            if passes_on(frame) {
                living += slice.n;
            }
        }
        (all >= SAMPLES).then(|| living as f64 / all as f64)
    }

    /// The group with most of them, of those of which it is known where they are made. Threads that shared a record may be of
    /// several.
    fn made(&self, view: &ProcessView) -> Option<Made> {
        let mut counts = BTreeMap::new();
        for t in &self.threads {
            *counts.entry(t.group).or_insert(0) += sharers(view, t).max(1);
        }
        let all: u64 = counts.values().sum();
        let of = |id: GroupId| view.model.groups.get(id.0 as usize);
        let site = |id: GroupId| of(id)?.create_site;
        let known = |&(id, n): &(GroupId, u64)| (site(id).is_some(), n);
        let (group, n) = counts.into_iter().max_by_key(known)?;
        let runs_region = |of: &Group| {
            let start = of.start.iter().map(|frame| &frame.function);
            start.chain([&of.name]).any(|name| name.contains(OUTLINED))
        };
        Some(Made {
            group,
            most: 2 * n > all,
            by_openmp: of(group).is_some_and(runs_region),
            at: site(group).map_or_else(|| "the place that makes them".into(), |s| place(view, s)),
        })
    }
}

/// Who is made, and where.
struct Made {
    group: GroupId,
    most: bool,
    by_openmp: bool,
    at: String,
}

/// Time that the one thread that does so most waited for the ends of others.
fn joins(view: &ProcessView) -> f64 {
    let mut by_thread = BTreeMap::new();
    for u in view.uses().iter().filter(|u| u.op == Some(Op::Join)) {
        *by_thread.entry(u.thread).or_insert(0) += u.wait_ns;
    }
    by_thread.into_values().max().unwrap_or(0) as f64
}

/// What a thread runs to make others and to be rid of them, by the scheduler's samples, and waits for the lock of the address
/// space meanwhile, which stacks that come and go keep busy; 0 where that was not recorded.
fn making(view: &ProcessView, t: &ThreadTime) -> f64 {
    let model = view.model;
    let (mut all, mut makes) = (0, 0);
    for (slice, site) in model.samples().filter(|(slice, _)| slice.thread == t.id) {
        all += slice.n;
        if site.is_some_and(makes_threads) {
            makes += slice.n;
        }
    }
    if all < SAMPLES {
        return 0.0;
    }
    let offs = model.sched.iter().flat_map(|sched| &sched.offs);
    let memory = offs.filter(|off| {
        let site = off.site.and_then(|id| model.site(id));
        off.thread == t.id && off.reason == OffReason::Memory && site.is_some_and(makes_threads)
    });
    t.cpu * makes as f64 / all as f64 + memory.map(|off| off.sum_ns as f64).sum::<f64>()
}

/// Whether the C library makes a thread and its stack here, or gives them back.
fn makes_threads(site: &Site) -> bool {
    const FUNCTIONS: [&str; 7] = [
        "pthread_create",
        "clone3",
        "allocate_stack",
        "pthread_join",
        "pthread_clockjoin_ex",
        "nptl_free_stacks",
        "nptl_deallocate_stack",
    ];
    site.has_function(|name| FUNCTIONS.iter().any(|known| bare(name).starts_with(known)))
}

/// From the start to the end of the thread that had the record last: the record itself begins as long before its end as all of them
/// lived together.
fn latest_life(view: &ProcessView, t: &ThreadTime) -> (f64, f64) {
    let (start, end) = t.span();
    (end - (end - start) / sharers(view, t).max(1) as f64, end)
}

/// Threads that shared a record one after another; 0 of one that only the kernel saw, and that may be among these.
fn sharers(view: &ProcessView, t: &ThreadTime) -> u64 {
    let thread = view.model.threads.get(t.id.0 as usize);
    thread.map_or(0, |th| u64::from(th.lives))
}
