//! A pool of processes whose work is mostly handing out pieces, or copying what goes with them: in a program of Python, threads of the
//! process that made the others write them to pipes and read what comes back.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{percent, plural};
use convoy_model::{FindingId, OffReason, ProcessId, Site, SiteId, ThreadId};

use crate::detectors::task_granularity::is_in;
use crate::estimate::saving::Saving;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::tables::paths::most;
use crate::words::{cause, evidence};

/// Samples of those threads from which on shares of them mean something.
const SAMPLES: u64 = 100;
/// Share of all CPU time that they use.
const HANDS_OUT: f64 = 0.3;
/// Share of their samples that are in reading and writing: threads that only compute hand out nothing.
const IN_PIPES: f64 = 0.05;
/// Waits for a pipe that they end for the other processes, or those for them: fewer are a start.
const PIECES: u64 = 50;
/// With larger pieces so much of it goes; and of what the others run, which take the pieces apart and put results together again: as
/// much as handing them out takes, but waiting for one another in one interpreter.
const EXPECTED: f64 = 0.9;
const OTHERS: f64 = 0.6;
const OTHERS_AT_MOST: f64 = 0.8;
/// Share of all samples in copying what goes with the pieces from which on it is no matter of their number, and that is worth saying
/// together with the pipes.
const COPIED: f64 = 0.1;
const PASSED: f64 = 0.25;
const SURE: f64 = 0.3;
const METHOD: &str = "CPU time of passing on pieces, gone";

/// How the interpreter reads and writes descriptors.
const PIPES: [&str; 4] = [
    "_Py_read",
    "_Py_write",
    "_Py_write_impl",
    "_Py_write_noraise",
];

/// Where it makes bytes of objects and objects of bytes, and functions that copy.
const PICKLES: [&str; 5] = [
    "_Unpickler_ReadInto",
    "_Pickler_Write",
    "_PyBytes_Resize",
    "_io_BytesIO_write",
    "_io_BytesIO_read",
];
const COPIES: [&str; 2] = ["memcpy", "memmove"];
/// The file that does so, or functions of it where it is part of the interpreter. Of pieces that take it so long each, nanoseconds, it is what goes with them that takes it, and not how many
/// there are.
const PICKLE: (&str, &str) = ("_pickle.", "_pickle_");
const MUCH_NS: f64 = 200_000.0;

/// Samples of a process that made others, and of those.
#[derive(Default)]
struct Samples {
    /// Of its threads without the first.
    handing_out: u64,
    in_pipes: u64,
    places: BTreeMap<SiteId, f64>,
    threads: BTreeSet<ThreadId>,
    /// Of all: in copying what goes with the pieces, in making bytes of it or objects of bytes, and in pipes.
    copying: u64,
    pickling: u64,
    passing: u64,
    passed_at: BTreeMap<SiteId, f64>,
}

/// Findings with the processes that belong together.
pub(crate) fn findings(cx: &RunFacts) -> Vec<(BTreeSet<ProcessId>, Finding)> {
    let view = cx.view;
    let parents = parents(view);
    let mut families: BTreeMap<ProcessId, Samples> = BTreeMap::new();
    let mut all = 0u64;
    for (slice, site) in view.model.samples() {
        all = all.saturating_add(slice.n);
        let process = view.process(slice.thread);
        let Some(&parent) = parents.get(&process) else {
            continue;
        };
        let samples = families.entry(parent).or_default();
        let hands_out = process == parent && !is_first(view, slice.thread);
        if hands_out {
            samples.handing_out = samples.handing_out.saturating_add(slice.n);
            samples.threads.insert(slice.thread);
        }
        let (Some(id), Some(site)) = (slice.site, site) else {
            continue;
        };
        let add = |n: &mut u64, at: &mut BTreeMap<SiteId, f64>| {
            *n = n.saturating_add(slice.n);
            *at.entry(id).or_default() += slice.n as f64;
        };
        let in_pipes = is_in(site, &PIPES);
        if in_pipes && hands_out {
            add(&mut samples.in_pipes, &mut samples.places);
        }
        if in_pipes {
            samples.passing = samples.passing.saturating_add(slice.n);
        } else if copies(site) {
            add(&mut samples.copying, &mut samples.passed_at);
        } else if pickles(site) {
            add(&mut samples.pickling, &mut samples.passed_at);
        }
    }
    let found = families.into_iter();
    found
        .filter_map(|(parent, samples)| {
            let finding = samples.finding(view, parent, all)?;
            let members = parents.iter().filter(|(_, of)| **of == parent);
            Some((members.map(|(id, _)| *id).collect(), finding))
        })
        .collect()
}

/// Processes whose threads hand out pieces to others that they made, however much of that there is.
pub(crate) fn that_hand_out(view: &RunView) -> BTreeSet<ProcessId> {
    let parents: BTreeSet<ProcessId> = parents(view).into_values().collect();
    // Where pieces are always there the others wait for none; but one thread of the parent waits for what they give back.
    let mut waits: BTreeMap<ProcessId, u64> = BTreeMap::new();
    let pipes = view.sched.offs.iter();
    for off in pipes.filter(|off| off.reason == OffReason::Pipe) {
        let process = view.process(off.thread);
        let seen = view.threads.contains_key(&off.thread);
        if seen && parents.contains(&process) && !is_first(view, off.thread) {
            let n = waits.entry(process).or_default();
            *n = n.saturating_add(off.n);
        }
    }
    waits.retain(|_, n| *n >= PIECES);
    waits.into_keys().collect()
}

fn is_first(view: &RunView, id: ThreadId) -> bool {
    view.thread(id).is_none_or(|th| th.main)
}

fn pickles(site: &Site) -> bool {
    let mut frames = site.frames.iter();
    frames.any(|of| of.module.starts_with(PICKLE.0) || of.function.starts_with(PICKLE.1))
}

fn copies(site: &Site) -> bool {
    let leaf = site.frames.first();
    let copies = leaf.is_some_and(|leaf| COPIES.iter().any(|part| leaf.function.contains(part)));
    copies && is_in(site, &PICKLES)
}

/// Processes that made at least two others of the same program, and those: by whom they belong to.
fn parents(view: &RunView) -> BTreeMap<ProcessId, ProcessId> {
    let processes = || (0..).map(ProcessId).zip(&view.model.processes);
    let mut children: BTreeMap<_, Vec<ProcessId>> = BTreeMap::new();
    for (id, child) in processes() {
        let of = children.entry((child.ppid, child.program())).or_default();
        of.push(id);
    }
    let mut parents = BTreeMap::new();
    for (id, parent) in processes() {
        let own = children.get(&(parent.pid, parent.program()));
        if let Some(own) = own.filter(|own| own.len() >= 2) {
            parents.extend(own.iter().chain([&id]).map(|member| (*member, id)));
        }
    }
    parents
}

/// Waits for pipes that these threads ended in other processes, or those for them: where pieces are always there, nobody waits for
/// them, but for what comes back.
fn handed_over(view: &RunView, threads: &BTreeSet<ThreadId>, process: ProcessId) -> u64 {
    let ended = view.sched.ended_by_threads();
    let pipes = ended.filter(|(_, off, ..)| off.reason == OffReason::Pipe);
    let between = pipes.filter(|&(_, off, waker, _)| {
        let given = threads.contains(&waker) && view.process(off.thread) != process;
        given || (threads.contains(&off.thread) && view.process(waker) != process)
    });
    between.map(|(wake, ..)| wake.n).sum()
}

/// Wall time that goes with this CPU time: between what it is with the processors as busy as before, and with all of them.
fn saved(view: &RunView, cpu: f64) -> f64 {
    let as_before = view.wall * cpu / view.cpu_work.max(1.0);
    let all_busy = view.wall - (view.cpu_work - cpu) / view.cpus;
    (as_before + all_busy.max(as_before)) / 2.0
}

impl Samples {
    fn finding(self, view: &RunView, parent: ProcessId, all: u64) -> Option<Finding> {
        let of_all = |n: u64| n as f64 / all.max(1) as f64;
        let handed = handed_over(view, &self.threads, parent);
        let pickled = of_all(self.copying + self.pickling);
        // What makes bytes of many small pieces is told with them, and files may be read in the same way.
        let much = handed >= PIECES && pickled * view.cpu_work >= MUCH_NS * handed as f64;
        let copied = match much {
            true => pickled,
            false => of_all(self.copying),
        };
        let passed = copied + of_all(self.passing);
        if all >= SAMPLES && copied >= COPIED && passed >= PASSED {
            return self.copied(view, parent, passed);
        }
        let share = of_all(self.handing_out);
        let in_pipes = self.in_pipes as f64 / self.handing_out.max(1) as f64;
        if self.handing_out < SAMPLES || share < HANDS_OUT || in_pipes < IN_PIPES {
            return None;
        }
        if handed < PIECES {
            return None;
        }
        let cpu = share * view.cpu_work;
        let others = OTHERS * cpu.min(view.cpu_work - cpu);
        let expected = EXPECTED * (cpu + others);
        let saving = Saving {
            expected: saved(view, expected),
            most: view.wall,
            sure: SURE,
            cpu: (
                expected,
                cpu + (OTHERS_AT_MOST * (view.cpu_work - cpu)).min(cpu),
            ),
        };
        let site = most(self.places)?;
        let name = view.process_at(parent)?;
        let threads = plural(self.threads.len(), "thread");
        Some(Finding {
            id: FindingId::FineGrainedTasks,
            subject: Subject::Code(site),
            title: format!(
                "a process pool gets its work in small pieces: {} of the CPU time is in {threads} of {} ({}) that hand it out",
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

    /// What goes with the pieces costs more than the pieces do.
    fn copied(self, view: &RunView, parent: ProcessId, share: f64) -> Option<Finding> {
        let cpu = share * view.cpu_work;
        let saving = Saving {
            expected: saved(view, EXPECTED * cpu),
            most: view.wall,
            sure: SURE,
            cpu: (EXPECTED * cpu, cpu),
        };
        let site = most(self.passed_at)?;
        let name = view.process_at(parent)?;
        Some(Finding {
            id: FindingId::FineGrainedTasks,
            subject: Subject::Code(site),
            title: format!(
                "processes of {} ({}) copy data to one another: {} of the CPU time",
                name.name,
                name.pid,
                percent(share)
            ),
            evidence: vec![evidence(
                "hand_over_ratio",
                share,
                format!(
                    "{} samples are in making bytes of objects and objects of bytes (pickle), {} in reading and writing of pipes",
                    self.copying + self.pickling,
                    self.passing
                ),
            )],
            causes: vec![cause(
                "copied-data",
                "arguments and results are copied several times on their way through a pipe",
                "keep the data where all processes see it (multiprocessing.shared_memory, a memory-mapped file, what they had before \
                 the fork) and pass on where it is, or pass on less; larger pieces (chunksize) help little",
            )],
            undecided: String::new(),
            gain: saving.gain(view, METHOD, "the work itself"),
            share_of_thread_time: share,
            caveats: Vec::new(),
        })
    }
}
