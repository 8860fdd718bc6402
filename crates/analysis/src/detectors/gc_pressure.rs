//! Programs of Go whose processors mostly collect garbage: memory that is made anew for each item, and is let go after it. All threads
//! stop for each collection, and help with it while they make more.

use std::collections::BTreeMap;

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, percent};
use convoy_model::{FindingId, ProcessId, SiteId};

use crate::detectors::task_granularity::{as_before, is_in, SCHEDULER};
use crate::estimate::saving::Saving;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::tables::paths;
use crate::words::{cause, evidence};

/// Samples of a program from which on shares of them mean something.
const SAMPLES: u64 = 100;
/// Share of them in the collector from which on it is more than the price of memory that nobody frees.
const COLLECTS: f64 = 0.25;
/// Part of that, and of making memory, that goes if most of it is kept: four times as much memory between two collections takes three
/// quarters of them along, as keeping three of four pieces does.
const EXPECTED: f64 = 0.75;
/// Of what else the scheduler does: stopping and starting goroutines for it is some of that.
const OF_THE_REST: f64 = 0.5;
const METHOD: &str = "CPU time of collecting garbage and making memory, gone";

/// What collects: marking and sweeping, giving memory back to the system, stopping all goroutines for that, and what goroutines that
/// make memory do for it.
const COLLECTOR: [&str; 16] = [
    "runtime.gcDrain",
    "runtime.gcDrainN",
    "runtime.gcAssistAlloc",
    "runtime.gcBgMarkWorker",
    "runtime.gcMarkDone",
    "runtime.gcMarkTermination",
    "runtime.gcStart",
    "runtime.sweepone",
    "runtime.bgsweep",
    "runtime.(*mspan).sweep",
    "runtime.(*sweepLocked).sweep",
    "runtime.(*pageAlloc).scavenge",
    "runtime.bgscavenge",
    "runtime.stopTheWorldWithSema",
    "runtime.forEachPInternal",
    "runtime.runSafePointFn",
];
/// What marks while a processor has nothing else to do takes nobody's time.
const IDLE: [&str; 1] = ["runtime.gcDrainMarkWorkerIdle"];
const MAKES: [&str; 1] = ["runtime.mallocgc"];

/// Samples of one process.
#[derive(Default)]
struct Samples {
    all: u64,
    collects: u64,
    makes: u64,
    /// In the scheduler.
    rest: u64,
    /// Places that make memory.
    places: BTreeMap<SiteId, f64>,
}

pub(crate) fn findings(cx: &RunFacts) -> Vec<Finding> {
    let view = cx.view;
    if cx.nobody_asks {
        return Vec::new();
    }
    let mut processes: BTreeMap<ProcessId, Samples> = BTreeMap::new();
    for (slice, site) in view.model.samples() {
        let process = view.process(slice.thread);
        if !cx.goroutines.contains_key(&process) {
            continue;
        }
        let samples = processes.entry(process).or_default();
        samples.all += slice.n;
        let (Some(id), Some(site)) = (slice.site, site) else {
            continue;
        };
        if is_in(site, &IDLE) {
            continue;
        }
        let makes = is_in(site, &MAKES);
        if makes {
            *samples.places.entry(id).or_default() += slice.n as f64;
        }
        if is_in(site, &COLLECTOR) {
            samples.collects += slice.n;
        } else if makes {
            samples.makes += slice.n;
        } else if is_in(site, &SCHEDULER) {
            samples.rest += slice.n;
        }
    }
    let found = processes.into_iter();
    found
        .filter_map(|(process, samples)| samples.finding(view, process))
        .collect()
}

impl Samples {
    fn finding(self, view: &RunView, process: ProcessId) -> Option<Finding> {
        let of_all = |n: u64| n as f64 / self.all.max(1) as f64;
        let (collects, makes) = (of_all(self.collects), of_all(self.makes));
        if self.all < SAMPLES || collects < COLLECTS {
            return None;
        }
        let running = view.ran(process);
        let (of_it, rest) = (collects + makes, of_all(self.rest));
        let expected = (EXPECTED * of_it + OF_THE_REST * rest) * running;
        let most = (of_it + rest) * running;
        // Where processors are idle, it may be beside the work.
        let busy = view.share_busy();
        let saving = Saving {
            expected: as_before(view, running, expected) * busy,
            most: as_before(view, running, most),
            sure: 0.0,
            cpu: (expected * busy, most),
        };
        if saving.bound(view) < view.t.gain_mid {
            return None;
        }
        let gain = saving.gain(view, METHOD, "the work itself");
        let site = paths::most(self.places)?;
        let place = view.place(Some(site));
        let name = view.process_at(process)?.title();
        Some(Finding {
            id: FindingId::GarbageCollection,
            subject: Subject::Code(site),
            title: format!(
                "garbage collection takes {} of the CPU time of {name}, allocation {}: most memory is allocated at {place}",
                percent(collects),
                percent(makes)
            ),
            evidence: vec![
                evidence(
                    "collector_ratio",
                    collects,
                    format!("of {} samples {} fell into the collector", count(self.all as f64), count(self.collects as f64)),
                ),
                evidence(
                    "allocation_ratio",
                    makes,
                    format!("{} more fell into allocation", count(self.makes as f64)),
                ),
            ],
            causes: vec![cause(
                "garbage-collection",
                "memory is made anew for each item; collecting it stops all goroutines and takes processors from them",
                format!(
                    "keep what is made at {place} for the next item (sync.Pool, a buffer for each worker, Reset(), slices with room), or collect \
                     less often (GOGC=400, GOMEMLIMIT)"
                ),
            )],
            undecided: String::new(),
            gain,
            share_of_thread_time: collects,
            caveats: Vec::new(),
        })
    }
}
