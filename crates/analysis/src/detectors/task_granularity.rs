//! Threads whose passing on of work is what the processors do: goroutines and tasks whose pieces are small, and workers of
//! Node.js whose messages are copied.
//!
//! It shows neither in waits (another goroutine takes the thread's place) nor in parallelism, but in the samples: in the
//! functions of channels, and in the scheduler that they call; in those that make and end tasks; in those that write messages
//! down and read them again.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, percent};
use convoy_model::{is_runtimes_own, FindingId, ProcessId, Site, SiteId, ThreadId};

use crate::detectors::goroutine_lock::may_be_idle;
use crate::estimate::saving::{goes_with_larger_pieces, Saving};
use crate::facts::concurrency::{levels, none};
use crate::facts::goroutines::{self, is_own, Kinds, Started};
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::facts::task_cost;
use crate::tables::paths::most;
use crate::words::{cause, evidence};

/// Samples of a program from which on shares of them mean something.
const SAMPLES: u64 = 100;
/// Share of its samples in both from which on that is worth saying...
const BOTH: f64 = 0.25;
/// ... and in the calls of goroutines alone: a scheduler that finds nothing to do looks for it on the processor, too. Less where
/// threads wait on for a processor that is idle.
const CALLS: (f64, f64) = (0.05, 0.03);
/// Work that nothing interrupts finds its caches warm, and the processor looks further ahead in it:
/// it is expected to take less by this part of the share that hand-overs were, which is the least
/// that was measured (a quarter to two thirds).
const WARMER: f64 = 0.25;
/// A fix that halves the number of hand-overs, and not more.
const SURE: f64 = 0.3;
/// Who is handed something has been woken, and is not yet on a processor that is idle: share of all processors' time from which on
/// that is much, and the part of it that goes. Of what else processors are idle, goroutines that wait for one another only may have
/// more to do as well: half.
const LATE: f64 = 0.2;
const GOES: f64 = 0.9;
const OVERLAPS: f64 = 0.5;
const METHOD: &str = "samples in passing on work, gone";

/// Calls with which goroutines pass on work, or wait for it: channels, locks and groups of them, one goroutine a piece.
const HAND_OVER: [&str; 6] = [
    "runtime.chansend",
    "runtime.chanrecv",
    "runtime.selectgo",
    "runtime.semacquire1",
    "runtime.semrelease1",
    "runtime.newproc",
];
/// Where a thread goes when its goroutine waits or has ended, to find another one, and what makes one ready.
pub(crate) const SCHEDULER: [&str; 6] = [
    "runtime.mcall",
    "runtime.schedule",
    "runtime.findRunnable",
    "runtime.park_m",
    "runtime.goexit0",
    "runtime.ready",
];

/// Where Node.js writes an object down for another thread, has that thread take it, and makes it of that again.
const WORKER: &str = "node::worker::";

/// How work is passed on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    /// Through channels and locks of goroutines.
    #[default]
    Channels,
    /// In messages that are copied.
    Messages,
    /// In tasks of a library's threads.
    Tasks,
    /// In iterations of a loop.
    Iterations,
    /// In futures, by a pool of the program's own.
    Futures,
}

/// Samples of one process.
#[derive(Default)]
struct Samples {
    /// Samples by how, of those that are calls or the scheduler.
    hows: BTreeMap<How, u64>,
    all: u64,
    calls: u64,
    scheduler: u64,
    /// Looking for more, which may be for want of it.
    seeking: u64,
    /// Other code of the runtime's: memory for the pieces is some of it, and collecting that.
    runtime: u64,
    /// In functions that wait, wake and lock. Where futures are passed on, that is how.
    syncing: u64,
    /// Places of the program's that call.
    places: BTreeMap<SiteId, f64>,
    threads: BTreeSet<ThreadId>,
}

pub(crate) fn findings(cx: &RunFacts) -> Vec<Finding> {
    let view = cx.view;
    let mut processes: BTreeMap<ProcessId, Samples> = BTreeMap::new();
    let samples = view.model.samples();
    for (slice, site) in samples.filter(|(slice, _)| slice.spin.is_none()) {
        let samples = processes.entry(view.process(slice.thread)).or_default();
        samples.all += slice.n;
        samples.threads.insert(slice.thread);
        let (Some(id), Some(site)) = (slice.site, site) else {
            continue;
        };
        let (how, calls) = match task_cost::handing(site) {
            Some(task_cost::Handing::Call(_)) => (How::Tasks, true),
            Some(task_cost::Handing::Iterations(_)) => (How::Iterations, true),
            Some(task_cost::Handing::Future(_)) => (How::Futures, true),
            Some(task_cost::Handing::Scheduler) => (How::Tasks, false),
            Some(task_cost::Handing::Seeking) => {
                samples.seeking += slice.n;
                continue;
            }
            Some(task_cost::Handing::Running) => {
                samples.runtime += slice.n;
                continue;
            }
            None if is_message(site) => (How::Messages, true),
            None if is_in(site, &HAND_OVER) => (How::Channels, true),
            None if is_in(site, &SCHEDULER) => (How::Channels, false),
            None if site.sync.is_some() => {
                samples.syncing += slice.n;
                continue;
            }
            None => {
                if is_of_go(site) || is_runtimes_own(&site.frames) {
                    samples.runtime += slice.n;
                }
                continue;
            }
        };
        *samples.hows.entry(how).or_default() += slice.n;
        if calls {
            samples.calls += slice.n;
            *samples.places.entry(id).or_default() += slice.n as f64;
        } else {
            samples.scheduler += slice.n;
        }
    }
    let none = Kinds::new();
    let kinds = |process| cx.goroutines.get(process).unwrap_or(&none);
    processes
        .iter()
        .filter_map(|(process, samples)| samples.finding(view, *process, kinds(process)))
        .collect()
}

pub(crate) fn is_in(site: &Site, functions: &[&str]) -> bool {
    site.has_function(|name| functions.contains(&name))
}

/// Whether a goroutine does so there, or Go for it.
pub(crate) fn passes_on_work(site: &Site) -> bool {
    is_in(site, &HAND_OVER) || is_in(site, &SCHEDULER)
}

/// Whether Go's runtime runs.
fn is_of_go(site: &Site) -> bool {
    let leaf = site.frames.first();
    leaf.is_some_and(|leaf| leaf.function.starts_with(goroutines::RUNTIME))
}

/// Whether it is inside of that: what a message is for is generated code, or called by that.
fn is_message(site: &Site) -> bool {
    let mut native = site
        .frames
        .iter()
        .take_while(|f| !f.is_unnamed_generated() && !f.function.starts_with("Builtins_"));
    native.any(|frame| frame.function.contains(WORKER))
}

impl How {
    /// What is wrong, why, and what to do.
    fn words(self, place: &str, share: f64) -> (String, &'static str, String) {
        let share = percent(share);
        match self {
            Self::Channels => (
                format!(
                    "goroutines pass on work in small pieces, most at {place}: {share} of the CPU time"
                ),
                "a piece of work takes less than passing it on",
                format!(
                    "pass on batches (slices of some hundred items) at {place}, or do the next step in the same goroutine"
                ),
            ),
            Self::Tasks | Self::Futures => (
                format!("tasks are too small, most at {place}: passing them on takes {share} of the CPU time"),
                "a piece of work takes less than making a task of it, having it run and taking its result",
                format!("give each task many pieces at {place} (some hundred), or do the piece there at once"),
            ),
            Self::Iterations => (
                format!(
                    "loop iterations are given to threads in small pieces, most at {place}: {share} of the CPU time"
                ),
                "a piece of the loop takes less than asking for it, and all threads write the same counter to do so",
                format!(
                    "larger chunks at {place}: schedule(dynamic, n) with n of some hundred iterations, schedule(guided), or, if all \
                     iterations take about as long, schedule(static)"
                ),
            ),
            Self::Messages => (
                format!("passing on messages between threads takes {share} of the CPU time"),
                "each message is serialized, posted and deserialized",
                "fewer, larger messages (arrays of some hundred items); transfer buffers instead of copying objects (typed arrays in \
                 the transfer list of postMessage()), or share them (SharedArrayBuffer)"
                    .into(),
            ),
        }
    }
}

/// Processors that are idle although threads could run: those were woken, and are not yet on a processor. What other programs run
/// is neither.
#[derive(Clone, Copy)]
struct Late {
    /// Shares of all processors' time, and of what is idle of it.
    of_all: f64,
    of_idle: f64,
}

impl Late {
    fn of(view: &RunView) -> Self {
        let busy = |histogram: &[u64]| {
            let levels = levels(histogram).map(|(n, ns)| n.min(view.cpus) * ns);
            levels.sum::<f64>() / (view.cpus * view.wall).max(1.0)
        };
        let running = busy(&view.sched.running) + view.others_share();
        let late = (busy(&view.sched.working) - running).max(0.0);
        let idle = (1.0 - running).max(late);
        Self {
            of_all: late,
            of_idle: late / idle.max(f64::MIN_POSITIVE),
        }
    }
}

/// The run without what no thread had anything to do: a server waits for requests then, however many pieces they are made of. Who is
/// woken by another thread has something to do.
fn at_work(view: &RunView) -> f64 {
    (view.wall - none(&view.sched.working)).max(0.0)
}

/// Wall time that goes with this CPU time of a process that runs for so long: while some thread is at work the processors are as busy as
/// before with what is left.
pub(crate) fn as_before(view: &RunView, running: f64, cpu: f64) -> f64 {
    at_work(view) * cpu / view.cpu_work.max(running)
}

impl Samples {
    /// How most of it is passed on.
    fn how(&self) -> How {
        let most = self.hows.iter().max_by_key(|(_, n)| **n);
        most.map(|(how, _)| *how).unwrap_or_default()
    }

    /// CPU time of the process, nanoseconds.
    fn running(&self, view: &RunView) -> f64 {
        let rows = self.threads.iter().filter_map(|id| view.threads.get(id));
        rows.map(|th| th.running_ns as f64).sum()
    }

    /// Wall time that goes with this CPU time. While some thread is at work the processors are as busy as before with what is left; or, if
    /// only goroutines or tasks wait for one another, those that are late get busy as well, unless one goroutine has more to do.
    fn saved(&self, view: &RunView, late: Option<Late>, kinds: &Kinds, cpu: f64) -> f64 {
        let running = self.running(view);
        let as_before = as_before(view, running, cpu);
        let Some(late) = late else {
            return as_before;
        };
        let at_once = goroutines::at_once(view, kinds);
        let of_one = |kind: &Started| kind.works() as f64 / at_once(kind);
        let own = kinds.iter().filter(|(name, _)| is_own(name));
        let works = own.map(|(_, kind)| running * of_one(kind) / self.all.max(1) as f64);
        let left = works.fold((running - cpu) / view.cpus, f64::max);
        let gets_busy = match self.how() {
            How::Channels => OVERLAPS.max(GOES * late.of_idle),
            _ => GOES * late.of_idle,
        };
        as_before + gets_busy * (view.wall - as_before - left).max(0.0)
    }

    fn finding(&self, view: &RunView, process: ProcessId, kinds: &Kinds) -> Option<Finding> {
        let n = self.all;
        let of_all = |part: u64| part as f64 / n.max(1) as f64;
        let how = self.how();
        let others = match how {
            How::Futures => self.syncing,
            _ => self.scheduler,
        };
        let (calls, share) = (of_all(self.calls), of_all(self.calls + others));
        if n < SAMPLES || calls < CALLS.1 {
            return None;
        }
        let among_themselves = how != How::Messages && !may_be_idle(view, process);
        let late = among_themselves.then(|| Late::of(view));
        let of_channels = late.filter(|_| how == How::Channels);
        let late_of_all = of_channels.map_or(0.0, |late| late.of_all);
        let is_late = late_of_all >= LATE;
        if (!is_late && calls < CALLS.0) || share + late_of_all < BOTH {
            return None;
        }
        let running = self.running(view);
        let cpu = share * running;
        // Samples of goroutines' runtime whose goroutine is not known may be of any.
        let cut_off = kinds.get("").map_or(0, Started::works);
        let perhaps = of_all(self.seeking.saturating_add(cut_off)) * running;
        let expected = goes_with_larger_pieces(share) * (cpu + perhaps / 2.0);
        let expected = expected + WARMER * share * (running - expected).max(0.0);
        let locks = if how == How::Tasks { self.syncing } else { 0 };
        let besides = [self.seeking, self.runtime, locks].map(of_all);
        let besides = besides.iter().sum::<f64>() * running;
        let at_most = (cpu + perhaps.max(besides)).min(running);
        let saving = Saving {
            expected: self.saved(view, late, kinds, expected),
            most: of_channels.map_or_else(|| at_work(view), |_| view.wall),
            sure: SURE,
            cpu: (expected, at_most),
        };
        let site = most(self.places.clone())?;
        let task = view.model.site(site).and_then(task_cost::place);
        let place = task.unwrap_or_else(|| view.place(Some(site)));
        let (title, why, fix) = how.words(&place, share);
        let (all, calls) = (count(n as f64), percent(calls));
        Some(Finding {
            id: FindingId::FineGrainedTasks,
            subject: Subject::Code(site),
            title,
            evidence: vec![evidence(
                "hand_over_ratio",
                share,
                match how {
                    How::Channels => format!(
                        "of {all} samples {calls} fell into channels and locks of goroutines, {} into the scheduler",
                        percent(of_all(others))
                    ),
                    How::Messages => format!("of {all} samples {calls} fell into copying messages and telling of them"),
                    How::Iterations => format!(
                        "of {all} samples {calls} fell into giving threads the next iterations of a loop"
                    ),
                    How::Tasks => format!(
                        "of {all} samples {calls} fell into making tasks and taking their results, {} into running and ending them",
                        percent(of_all(others))
                    ),
                    How::Futures => format!(
                        "of {all} samples {calls} fell into making tasks and taking their results, {} into waking, waiting and locking",
                        percent(of_all(others))
                    ),
                },
            )],
            causes: vec![cause("fine-grained-tasks", why, fix)],
            undecided: String::new(),
            gain: saving.gain(view, METHOD, "the work itself"),
            share_of_thread_time: share,
            caveats: Vec::new(),
        })
    }
}
