//! Processes that are started for pieces so small that most of what they take is their start: a program for each file, or for each line
//! that a script reads.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::finding::{Finding, Subject};
use convoy_model::words::{count, duration, percent};
use convoy_model::{FindingId, GroupId, Process, ProcessId};

use crate::detectors::serial_jobs::GENERATIONS;
use crate::detectors::task_granularity::{as_before, is_in};
use crate::estimate::saving::Saving;
use crate::facts::run_facts::RunFacts;
use crate::facts::run_view::RunView;
use crate::knowledge::programs::{build_tool, configures, is_shell, starts_each};
use crate::words::{cause, evidence, time};

/// So many from which on they are a habit, and so many a second.
const MANY: usize = 200;
const RATE_HZ: f64 = 50.0;
/// One that is short takes no more CPU time, and lives for no more of the run: others serve, or wait to.
const SHORT_NS: f64 = 10e6;
const LIVES: f64 = 0.05;
/// CPU time of starting a program: mapping it and its libraries, resolving their names, taking all of it apart in the end. With the agent,
/// and without; and of a copy of a process that runs on as it is. Measured with programs that do nothing, on a virtual machine.
const PROGRAM_NS: (f64, f64) = (900_000.0, 600_000.0);
const COPY_NS: f64 = 400_000.0;
/// Share of the CPU time that their starts take, and that with what starts them.
const STARTS_WORTH: f64 = 0.15;
const WORTH: f64 = 0.25;
/// Of the programs started so many are one: a script that starts all sorts of them has no list of pieces.
const ALIKE: f64 = 0.5;
/// With many pieces for each process so much of it goes.
const EXPECTED: f64 = 0.9;
const SURE: f64 = 0.2;
/// How processes are started, and their ends waited for.
const STARTS: [&str; 14] = [
    "fork",
    "__fork",
    "_Fork",
    "__libc_fork",
    "vfork",
    "__vfork",
    "clone",
    "__clone",
    "posix_spawn",
    "__spawni",
    "do_fork_exec",
    "child_exec",
    "wait4",
    "waitpid",
];
const METHOD: &str = "CPU time of starting processes, gone";

/// A program that a process ran.
#[derive(Clone, Copy)]
struct Ran {
    id: ProcessId,
    running_ns: f64,
    from_ns: u64,
    to_ns: u64,
}

/// A process from its start to its end: the programs that it ran, in their order. All but the last were only on the way.
struct Life(Vec<Ran>);

impl Life {
    fn first(&self) -> Option<&Ran> {
        self.0.first()
    }

    fn last(&self) -> Option<&Ran> {
        self.0.last()
    }

    /// Whether it did little. Who was there before the recording, or still is, was not started for a piece.
    fn is_short(&self, view: &RunView) -> bool {
        let running: f64 = self.0.iter().map(|ran| ran.running_ns).sum();
        let (Some(first), Some(last)) = (self.first(), self.last()) else {
            return false;
        };
        let lived = last.to_ns.saturating_sub(first.from_ns) as f64;
        let is_whole = first.from_ns > view.sched.start_ns && last.to_ns < view.sched.end_ns;
        is_whole && running <= SHORT_NS && lived <= LIVES * view.wall
    }

    /// The program that it was started for; `None`: a copy of the process that made it.
    fn program<'a>(&self, view: &RunView<'a>, parent: &Process) -> Option<&'a Process> {
        let process = view.process_at(self.last()?.id)?;
        // Of a child that shares its parent's memory until then, nothing is left of what it was before.
        let other = process.name != parent.name || process.args != parent.args;
        (other || self.0.len() > 1).then_some(process)
    }

    /// CPU time of its start: expected and at most. What the agent takes there is no gain.
    fn start(&self, program: Option<&Process>) -> (f64, f64) {
        let Some((last, before)) = self.0.split_last() else {
            return (0.0, 0.0);
        };
        let own = match program {
            None => (COPY_NS, COPY_NS),
            Some(program) if program.without_agent => (PROGRAM_NS.1, PROGRAM_NS.1),
            Some(_) => (PROGRAM_NS.1, PROGRAM_NS.0),
        };
        let before: f64 = before.iter().map(|ran| ran.running_ns).sum();
        let with = |own: f64| before + last.running_ns.min(own);
        (with(own.0), with(own.1))
    }
}

/// All processes by their numbers, which several may have had one after the other.
struct Lives(BTreeMap<u32, Vec<Life>>);

impl Lives {
    fn of(view: &RunView) -> Self {
        let mut programs: BTreeMap<ProcessId, Ran> = BTreeMap::new();
        for (&id, th) in &view.threads {
            let id = view.process(id);
            let ran = programs.entry(id).or_insert(Ran {
                id,
                running_ns: 0.0,
                from_ns: th.start_ns,
                to_ns: th.end_ns,
            });
            ran.running_ns += th.running_ns as f64;
            ran.from_ns = ran.from_ns.min(th.start_ns);
            ran.to_ns = ran.to_ns.max(th.end_ns);
        }
        let mut programs: Vec<Ran> = programs.into_values().collect();
        programs.sort_by_key(|ran| (ran.from_ns, ran.to_ns));
        let mut lives: BTreeMap<u32, Vec<Life>> = BTreeMap::new();
        for ran in programs {
            let Some(process) = view.process_at(ran.id) else {
                continue;
            };
            let of = lives.entry(process.pid).or_default();
            match of.last_mut() {
                Some(Life(before)) if before.last().is_some_and(|b| ran.from_ns <= b.to_ns) => {
                    before.push(ran);
                }
                _ => of.push(Life(vec![ran])),
            }
        }
        Self(lives)
    }

    fn all(&self) -> impl Iterator<Item = &Life> {
        self.0.values().flatten()
    }

    /// The process that started this one: of all that had its number the last that was there by then.
    fn parent(&self, view: &RunView, life: &Life) -> Option<&Life> {
        let first = life.first()?;
        let pid = view.process_at(first.id)?.ppid;
        let mut of = self.0.get(&pid)?.iter().rev();
        of.find(|of| of.first().is_some_and(|ran| ran.from_ns <= first.from_ns))
    }

    /// All above it, the nearest first.
    fn above(&self, view: &RunView, life: &Life) -> Vec<&Life> {
        let parent = self.parent(view, life);
        std::iter::successors(parent, |of| self.parent(view, of))
            .take(GENERATIONS)
            .collect()
    }
}

/// Short processes that one starts, or that those do.
#[derive(Default)]
struct Started {
    n: usize,
    start_ns: (f64, f64),
    programs: BTreeMap<String, usize>,
}

/// What is said, and the groups whose low parallelism it explains.
pub(crate) fn findings(cx: &RunFacts) -> Vec<(Vec<GroupId>, Finding)> {
    let view = cx.view;
    let lives = Lives::of(view);
    let mut starters: BTreeMap<ProcessId, Started> = BTreeMap::new();
    for life in lives.all().filter(|life| life.is_short(view)) {
        let above = lives.above(view, life);
        let Some((starter, parent)) = starter(view, &above) else {
            continue;
        };
        let program = life.program(view, parent);
        let start = life.start(program);
        let started = starters.entry(starter).or_default();
        started.n += 1;
        started.start_ns.0 += start.0;
        started.start_ns.1 += start.1;
        if let Some(program) = program {
            *started.programs.entry(program.title()).or_default() += 1;
        }
    }
    let found = starters.iter();
    found
        .filter_map(|(id, started)| finding(view, *id, started))
        .collect()
}

/// The nearest of them that is not short itself, and the nearest of all, if none is a tool for builds: what that starts is
/// what is to be done.
fn starter<'a>(view: &RunView<'a>, above: &[&Life]) -> Option<(ProcessId, &'a Process)> {
    let programs = above.iter().flat_map(|life| &life.0);
    let mut programs = programs.filter_map(|ran| view.process_at(ran.id));
    if programs.any(|process| build_tool(process).is_some() || configures(process)) {
        return None;
    }
    let program = |life: &&Life| life.last().map(|ran| ran.id);
    let nearest = above.iter().find(|life| !life.is_short(view));
    let parent = above.first().and_then(program)?;
    Some((nearest.and_then(program)?, view.process_at(parent)?))
}

/// CPU time of a process that it takes to start others, nanoseconds, and the groups that do.
fn of_starter(view: &RunView, id: ProcessId, process: &Process) -> (f64, BTreeSet<GroupId>) {
    let running = view.ran(id);
    if starts_each(process).is_some_and(|of| of.does_nothing_else) {
        let groups = view.of_process(id).map(|th| view.role(th.thread));
        return (running, groups.collect());
    }
    let (mut starts, mut all, mut groups) = (0.0, 0.0, BTreeSet::new());
    for (slice, site) in view.model.samples() {
        if view.process(slice.thread) != id {
            continue;
        }
        all += slice.n as f64;
        if site.is_some_and(|site| is_in(site, &STARTS)) {
            starts += slice.n as f64;
            groups.insert(view.role(slice.thread));
        }
    }
    (running * starts / f64::max(all, 1.0), groups)
}

fn finding(view: &RunView, id: ProcessId, started: &Started) -> Option<(Vec<GroupId>, Finding)> {
    let process = view.process_at(id)?;
    let rate = started.n as f64 / (view.wall / 1e9);
    if started.n < MANY || rate < RATE_HZ {
        return None;
    }
    let of_all = |ns: f64| (ns / view.cpu_work.max(1.0)).min(1.0);
    let named: usize = started.programs.values().sum();
    let program = started.programs.iter().max_by_key(|(_, n)| **n);
    let program = program.filter(|(_, n)| **n as f64 >= ALIKE * named as f64);
    let program = match program {
        Some((program, _)) => Some(program.as_str()),
        None if named > 0 => return None,
        None => None,
    };
    let (own, groups) = of_starter(view, id, process);
    let expected = EXPECTED * (started.start_ns.0 + own);
    let most = started.start_ns.1 + own;
    let (starts, share) = (of_all(started.start_ns.1), of_all(most));
    if starts < STARTS_WORTH || share < WORTH {
        return None;
    }
    let saving = Saving {
        expected: as_before(view, expected, expected),
        most: view.wall,
        sure: SURE,
        cpu: (expected, most),
    };
    let finding = Finding {
        id: FindingId::FineGrainedTasks,
        subject: Subject::Processes(vec![id]),
        title: format!(
            "{} ({}) starts {} processes, {} a second, most {}: starting them takes {} of the CPU time",
            process.title(),
            process.pid,
            count(started.n as f64),
            count(rate),
            program.unwrap_or("copies of itself"),
            percent(share),
        ),
        evidence: vec![
            evidence(
                "start_ratio",
                starts,
                format!(
                    "{} of the CPU time are their starts, {} each",
                    percent(starts),
                    duration(started.start_ns.1 / started.n as f64),
                ),
            ),
            time(
                "starter_ns",
                own,
                &format!("of CPU time {} takes to start them", process.title()),
            ),
        ],
        causes: vec![cause(
            "process-per-piece",
            "a process is made, its program and libraries are mapped and taken apart again, for each small piece of work",
            fix(process, program),
        )],
        undecided: String::new(),
        gain: saving.gain(view, METHOD, "the work itself"),
        share_of_thread_time: share,
        caveats: vec![
            "how long a start takes was not measured here: up to 0.9 ms of each process (0.3 ms of which are Convoy's agent) count as start; \
             on a fast machine work is among them"
                .into(),
        ],
    };
    Some((groups.into_iter().collect(), finding))
}

fn fix(starter: &Process, program: Option<&str>) -> String {
    match (program, starts_each(starter)) {
        (Some(program), Some(of)) => format!("many pieces for each {program}: {}", of.how),
        (Some(program), None) if is_shell(starter) => format!(
            "one {program} for all lines or files (awk, a list of files), or what the shell can do itself, instead of one for each"
        ),
        (Some(program), None) => format!(
            "one {program} for many pieces, one that stays and is fed through a pipe, or a library that does the same"
        ),
        (None, _) => "processes that stay: a pool of workers that take one piece after the other; of a server, workers made beforehand, or a \
                      pool of connections"
            .into(),
    }
}
