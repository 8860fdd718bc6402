//! A pool of processes whose work is mostly handing out pieces: in a program of Python, threads of the process that made the others
//! write them to pipes and read what comes back.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{OffReason, Process, ProcessId, SiteId, ThreadId, Wake, Waker};

use super::hand_over::is_in;
use super::Context;
use crate::gain::Saving;
use crate::tables::paths::most;
use crate::text::{cause, evidence};
use crate::view::View;

/// Samples of those threads from which on shares of them mean something.
const SAMPLES: u64 = 100;
/// Share of all CPU time that they use.
const HANDS_OUT: f64 = 0.3;
/// Share of their samples that are in reading and writing: threads that only compute hand out nothing.
const IN_PIPES: f64 = 0.1;
/// Waits of the other processes for a pipe that they end: fewer are a start.
const PIECES: u64 = 50;
/// With larger pieces so much of it goes; and of what the others run, which take the pieces apart.
const EXPECTED: f64 = 0.8;
const OTHERS: f64 = 0.6;
const SURE: f64 = 0.3;
const METHOD: &str = "CPU time of the threads that hand out pieces, gone";

/// How the interpreter reads and writes descriptors.
const PIPES: [&str; 4] = [
    "_Py_read",
    "_Py_write",
    "_Py_write_impl",
    "_Py_write_noraise",
];

/// Samples of the threads of one process, without its first.
#[derive(Default)]
struct Samples {
    all: u64,
    in_pipes: u64,
    places: BTreeMap<SiteId, f64>,
    threads: BTreeSet<ThreadId>,
}

pub(crate) fn findings(cx: &Context) -> Vec<Finding> {
    let view = cx.view;
    let parents = parents(view);
    let mut processes: BTreeMap<ProcessId, Samples> = BTreeMap::new();
    let mut all = 0;
    for (slice, site) in view.model.samples() {
        all += slice.n;
        let process = view.process(slice.thread);
        let first = view.thread(slice.thread).is_none_or(|th| th.main);
        if first || !parents.contains(&process) {
            continue;
        }
        let samples = processes.entry(process).or_default();
        samples.all += slice.n;
        samples.threads.insert(slice.thread);
        if site.is_some_and(|site| is_in(site, &PIPES)) {
            samples.in_pipes += slice.n;
            if let Some(id) = slice.site {
                *samples.places.entry(id).or_default() += slice.n as f64;
            }
        }
    }
    let found = processes.into_iter();
    found
        .filter_map(|(process, samples)| samples.finding(view, process, all))
        .collect()
}

/// Processes that made at least two others of the same program.
fn parents(view: &View) -> BTreeSet<ProcessId> {
    let processes = &view.model.processes;
    let mut children: BTreeMap<_, usize> = BTreeMap::new();
    for child in processes {
        *children.entry((child.ppid, child.program())).or_default() += 1;
    }
    let is_parent = |parent: &Process| {
        children
            .get(&(parent.pid, parent.program()))
            .is_some_and(|n| *n >= 2)
    };
    let ids = (0..).map(ProcessId).zip(processes);
    ids.filter(|(_, parent)| is_parent(parent))
        .map(|(id, _)| id)
        .collect()
}

/// Waits for pipes that these threads ended in other processes.
fn handed_out(view: &View, threads: &BTreeSet<ThreadId>, process: ProcessId) -> u64 {
    let by_them =
        |wake: &&Wake| matches!(wake.waker, Waker::Thread(id, _) if threads.contains(&id));
    let wakes = view.sched.wakes.iter().filter(by_them);
    wakes
        .filter(|wake| {
            let off = view.sched.off(wake.off);
            off.is_some_and(|off| {
                off.reason == OffReason::Pipe && view.process(off.thread) != process
            })
        })
        .map(|wake| wake.n)
        .sum()
}

impl Samples {
    fn finding(self, view: &View, process: ProcessId, all: u64) -> Option<Finding> {
        let share = self.all as f64 / all.max(1) as f64;
        let in_pipes = self.in_pipes as f64 / self.all.max(1) as f64;
        if self.all < SAMPLES || share < HANDS_OUT || in_pipes < IN_PIPES {
            return None;
        }
        if handed_out(view, &self.threads, process) < PIECES {
            return None;
        }
        let cpu = share * view.cpu_work;
        let saving = Saving {
            expected: EXPECTED * share * view.wall,
            most: view.wall,
            sure: SURE,
            cpu: (EXPECTED * cpu, cpu + OTHERS * (view.cpu_work - cpu)),
        };
        let site = most(self.places)?;
        let name = view.model.processes.get(process.0 as usize)?;
        let threads = plural(self.threads.len(), "thread");
        Some(Finding {
            id: "fine-grained-tasks",
            subject: Subject::Code(site),
            title: format!(
                "processes pass on work in small pieces: {} of what the program runs is in {threads} of {} ({}) that hand it out",
                percent(share),
                name.name,
                name.pid
            ),
            evidence: vec![evidence(
                "hand_over_ratio",
                share,
                format!(
                    "{} of their samples are in reading and writing of pipes",
                    percent(in_pipes)
                ),
            )],
            causes: vec![cause(
                "fine-grained-tasks",
                "a piece of work takes less than passing it on, or much data goes with it",
                "hand out larger pieces (chunksize of Pool.map, imap and ProcessPoolExecutor.map), and less data with each (indices, \
                 shared memory)",
            )],
            undecided: String::new(),
            gain: saving.gain(view, METHOD, "the work itself"),
            share_of_thread_time: share,
            caveats: Vec::new(),
        })
    }
}
