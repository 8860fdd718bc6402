//! Threads whose passing on of work is what the processors do: goroutines whose pieces are small, and workers of Node.js
//! whose messages are copied.
//!
//! It shows neither in waits (another goroutine takes the thread's place) nor in parallelism, but in the samples: in the
//! functions of channels, and in the scheduler that they call; in those that write messages down and read them again.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, percent};
use convoy_model::{ProcessId, Site, SiteId, ThreadId};

use super::Context;
use crate::gain::Saving;
use crate::tables::paths::most;
use crate::text::{cause, evidence};
use crate::view::View;

/// Samples of a program from which on shares of them mean something.
const SAMPLES: u64 = 100;
/// Share of its samples in both from which on that is worth saying...
const BOTH: f64 = 0.25;
/// ... and in the calls of goroutines alone: a scheduler that finds nothing to do looks for it on the processor, too.
const CALLS: f64 = 0.05;
/// With larger pieces so much of it goes; what is left is one hand-over a piece.
const EXPECTED: f64 = 0.8;
/// A fix that halves the number of hand-overs, and not more.
const SURE: f64 = 0.3;
const METHOD: &str = "samples in passing on work, gone";

/// Calls with which goroutines pass on work, or wait for it: channels, locks and groups of them, one goroutine a piece.
pub(super) const HAND_OVER: [&str; 6] = [
    "runtime.chansend",
    "runtime.chanrecv",
    "runtime.selectgo",
    "runtime.semacquire1",
    "runtime.semrelease1",
    "runtime.newproc",
];
/// Where a thread goes when its goroutine waits or has ended, to find another one, and what makes one ready.
pub(super) const SCHEDULER: [&str; 5] = [
    "runtime.schedule",
    "runtime.findRunnable",
    "runtime.park_m",
    "runtime.goexit0",
    "runtime.ready",
];

/// Where V8 writes an object down for another thread, and makes it of that again.
const MESSAGES: [&str; 2] = [
    "v8::internal::ValueSerializer::",
    "v8::internal::ValueDeserializer::",
];

/// Its caller, where the other thread is a worker: an object is written down for a file or a cache, too.
const WORKER: &str = "node::worker::";

/// How work is passed on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum How {
    /// Through channels and locks of goroutines.
    #[default]
    Channels,
    /// In messages that are copied.
    Messages,
}

/// Samples of one process.
#[derive(Default)]
struct Samples {
    how: How,
    all: u64,
    calls: u64,
    scheduler: u64,
    /// Places of the program's that call.
    places: BTreeMap<SiteId, f64>,
    threads: BTreeSet<ThreadId>,
}

pub(crate) fn findings(cx: &Context) -> Vec<Finding> {
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
        let message = is_message(site);
        if message {
            samples.how = How::Messages;
        }
        if message || is_in(site, &HAND_OVER) {
            samples.calls += slice.n;
            *samples.places.entry(id).or_default() += slice.n as f64;
        } else if is_in(site, &SCHEDULER) {
            samples.scheduler += slice.n;
        }
    }
    processes
        .into_values()
        .filter_map(|samples| samples.finding(view))
        .collect()
}

pub(super) fn is_in(site: &Site, functions: &[&str]) -> bool {
    site.has_function(|name| functions.contains(&name))
}

fn is_message(site: &Site) -> bool {
    site.has_function(|name| MESSAGES.iter().any(|of| name.contains(of)))
        && site.has_function(|name| name.contains(WORKER))
}

impl How {
    /// What is wrong, why, and what to do.
    fn words(self, place: &str, share: f64) -> (String, &'static str, String) {
        let share = percent(share);
        match self {
            Self::Channels => (
                format!(
                    "goroutines pass on work in small pieces, most at {place}: {share} of what the program runs is that"
                ),
                "a piece of work takes less than passing it on",
                format!(
                    "pass on batches (slices of some hundred items) at {place}, or do the next step in the same goroutine"
                ),
            ),
            Self::Messages => (
                format!("messages between threads are copied: {share} of what the program runs is that"),
                "an object is written down for another thread, and made of that again, value by value",
                "transfer buffers instead of copying objects (typed arrays in the transfer list of postMessage()), share them \
                 (SharedArrayBuffer), or pass on less"
                    .into(),
            ),
        }
    }
}

impl Samples {
    fn finding(self, view: &View) -> Option<Finding> {
        let n = self.all;
        let of_all = |part: u64| part as f64 / n.max(1) as f64;
        let share = of_all(self.calls + self.scheduler);
        if n < SAMPLES || of_all(self.calls) < CALLS || share < BOTH {
            return None;
        }
        let rows = self.threads.iter().filter_map(|id| view.threads.get(id));
        let running: f64 = rows.map(|th| th.running_ns as f64).sum();
        let cpu = share * running;
        // The processors are as busy as before with what is left, or at best all of them.
        let saving = Saving {
            expected: EXPECTED * view.wall * cpu / view.cpu_work.max(running),
            most: view.wall,
            sure: SURE,
            cpu: (EXPECTED * cpu, cpu),
        };
        let site = most(self.places)?;
        let (title, why, fix) = self.how.words(&view.place(Some(site)), share);
        let (all, calls) = (count(n as f64), percent(of_all(self.calls)));
        Some(Finding {
            id: "fine-grained-tasks",
            subject: Subject::Code(site),
            title,
            evidence: vec![evidence(
                "hand_over_ratio",
                share,
                match self.how {
                    How::Channels => format!(
                        "of {all} samples {calls} fell into channels and locks of goroutines, {} into the scheduler",
                        percent(of_all(self.scheduler))
                    ),
                    How::Messages => format!("of {all} samples {calls} fell into copying of messages"),
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
